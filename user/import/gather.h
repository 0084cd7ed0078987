/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples and changes of stacks of several threads, collected in the order of a file and pushed in the
 * order of time. Stacks are a tree; node 0 is its root, an empty stack.
 */
#ifndef PYEBPF_IMPORT_GATHER_H
#define PYEBPF_IMPORT_GATHER_H

#include "base/idmap.h"
#include "import/sink.h"

#define GATHER_ROWS_MAX	 (1u << 30)
#define GATHER_NODES_MAX (64u << 20)

/* What a node is of; name and file are texts of the sink. */
struct gather_frame {
	uint32_t name, file;
	uint32_t first_line; /* of the function */
	uint32_t line; /* where it was */
};

struct gather_node {
	uint32_t parent, frame, depth;
};

struct gather_thread {
	uint32_t pid, tid;
	uint32_t comm, name; /* texts of the sink */
	uint32_t process, id; /* of the sink, when it is pushed */
	uint32_t at; /* node */
};

struct gather_row {
	uint64_t ts_ns, weight_ns;
	uint32_t thread; /* index */
	uint32_t node;
	uint32_t count;
	bool is_step; /* the stack is so from here on, whatever its weight; else a sample of it */
};

struct gather {
	struct sink *k;
	struct gather_frame *frames;
	struct gather_node *nodes;
	struct gather_thread *threads;
	struct gather_row *rows;
	uint32_t frame_cnt, frame_cap, node_cnt, node_cap, thread_cnt, thread_cap, row_cnt, row_cap;
	struct idmap children; /* parent, frame -> node */
	struct idmap funcs; /* process, frame -> id of the sink */
	uint32_t *way; /* scratch: nodes */
	struct trace_frame *stack; /* scratch */
	uint32_t way_cap, stack_cap;
};

int gather__init(struct gather *g, struct sink *k);

/* gather__done - a zeroed @g is fine. */
void gather__done(struct gather *g);

/* Return of these: 0 or a negative number. gather__frame: frames get numbers from 0 on. */
int gather__frame(struct gather *g, const struct gather_frame *frame);
int gather__thread(struct gather *g, const struct gather_thread *thread, uint32_t *index);
int gather__row(struct gather *g, const struct gather_row *row);

/* gather__node - the node of @frame, which may not be there yet, above @parent. */
int gather__node(struct gather *g, uint32_t parent, uint32_t frame, uint32_t *node);

/**
 * gather__push - everything to the sink, which has begun
 *
 * Return: 0; -PYE_EFORMAT where a node is of a frame that there is not; or a negative number.
 */
int gather__push(struct gather *g);

#endif
