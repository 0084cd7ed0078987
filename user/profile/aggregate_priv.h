/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the aggregate. */
#ifndef PYEBPF_PROFILE_AGGREGATE_PRIV_H
#define PYEBPF_PROFILE_AGGREGATE_PRIV_H

#include "base/idmap.h"
#include "profile/aggregate.h"

enum {
	MAX_ROOTS = 64
};

/* What is only needed while collecting. */
struct live_process {
	uint32_t roots[MAX_ROOTS]; /* import roots, longest first */
	uint32_t root_cnt;
};

struct live_thread {
	uint32_t *frames; /* stacks from the outermost frame on; [0] is the root */
	uint32_t depth, cap; /* depth counts the root */
	uint32_t root, cut; /* cut: the "[truncated]" below it, AGG_NONE until needed */
	uint32_t after_ns; /* cost that follows the last event */
	uint64_t last_ns;
	uint64_t end_ns; /* of the thread, 0: not known */
};

struct aggregate {
	struct agg_result r;
	struct agg_process *processes;
	struct live_process *live_processes; /* beside processes */
	struct agg_thread *threads;
	struct live_thread *live; /* beside threads */
	struct agg_func *funcs;
	struct agg_stack *stacks;
	uint32_t *lines; /* beside stacks, if by_line */
	bool by_line, part, merge_threads;
	uint32_t process_cap, live_process_cap, thread_cap, live_cap, func_cap, stack_cap, line_cap,
		frame_cnt;
	struct idmap process_ids, thread_ids, func_ids; /* ids of the capture -> index */
	struct idmap merged; /* process -> its thread, if merge_threads */
	struct idmap frames; /* func, line -> a number, if by_line */
	struct idmap children; /* parent, func or frame -> stack */
	struct strpool func_keys; /* id - 1 is the index of the function */
	struct strpool process_keys, thread_keys; /* the same, of a merge */
	uint32_t max_stacks;
	uint32_t cached_id, cached_thread; /* of the last event */
	uint32_t before_ns[TRACE_KIND_CNT], after_ns[TRACE_KIND_CNT];
};

/* agg_reserve - room for one more in an array of @size bytes each. Return: 0, -ENOMEM or -EOVERFLOW. */
int agg_reserve(void *array, uint32_t *cap, uint32_t cnt, size_t size);

/* agg_intern - id of a string; NULL is "". Return: 0 or an error, as all of these. */
int agg_intern(struct aggregate *a, const char *s, uint32_t *id);

/* agg_add_func - index of a function, a new one if it was not seen. */
int agg_add_func(struct aggregate *a, const struct agg_func *func, uint32_t *index);

/* agg_add_thread - a new thread with its root; @id: of the capture. */
int agg_add_thread(struct aggregate *a, uint32_t id, uint32_t *index);

/* agg_child_of - the stack of @func, at @line (0: anywhere), called from @parent, a new one if it was not
 * seen. */
int agg_child_of(struct aggregate *a, uint32_t parent, uint32_t func, uint32_t line,
		 uint32_t *child);

/* agg_find_child - the same for many in any order: it does not look first whether it is the one of the last time. */
int agg_find_child(struct aggregate *a, uint32_t parent, uint32_t func, uint32_t line,
		   uint32_t *child);

/**
 * agg_settle - take the profiler's own cost out and add up stacks and functions
 * @r:      its counts are read, its sums written
 * @stacks: total_ns is the own cost before and the total after; put into @r
 * @totals: add up those of the functions, too
 *
 * Return: 0 or -ENOMEM.
 */
int agg_settle(struct agg_result *r, struct agg_func *funcs, struct agg_stack *stacks, bool totals);

#endif
