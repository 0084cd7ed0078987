/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what cProfile knows, the sums of each function and of each pair of caller and function, to stacks.
 * What a function calls is shared out among its own callers as the time spent for them is, as
 * gprof and snakeviz do. The calls and the self time of each function stay exactly what they were;
 * so do totals, where functions do not call each other in a circle.
 */
#ifndef PYEBPF_IMPORT_PSTATS_TREE_H
#define PYEBPF_IMPORT_PSTATS_TREE_H

#include "import/sink.h"

struct pstats_sums {
	double calls, self_s, total_s;
};

struct pstats_edge {
	uint32_t func, caller;
	uint32_t next; /* of the same function */
	uint32_t next_called; /* of the same caller */
	bool is_back; /* leads to a function that is among the caller's own callers */
	struct pstats_sums sums;
};

struct pstats_func {
	uint32_t name, file, line; /* texts of the sink */
	uint32_t callers, called; /* first edge; UINT32_MAX: none */
	uint8_t seen; /* while looking for circles */
	bool has_caller; /* one that is not back */
	double weight; /* of all callers, by which it is shared out */
	double root_share; /* of the function: called from outside of all that the file knows */
	uint64_t calls_left, self_left; /* of what was not pushed */
	uint32_t heaviest; /* node with the largest share; UINT32_MAX: none */
	double heaviest_share;
	struct pstats_sums sums, rest; /* rest: of what no edge has that is not back */
};

/* A function on a stack. */
struct pstats_node {
	uint32_t parent, func;
	double share; /* of the function */
	uint32_t depth; /* 0: nobody called it */
	uint64_t calls, self_ns;
};

struct pstats_graph {
	struct strpool keys;
	struct pstats_func *funcs;
	struct pstats_edge *edges;
	struct pstats_node *nodes;
	uint32_t func_cnt, func_cap, edge_cnt, edge_cap, node_cnt, node_cap;
	uint32_t *ids; /* of the sink, by function */
	struct trace_frame *frames;
	uint32_t frame_cap, thread;
	double least_s; /* what takes less is not followed */
	bool has_circles_left; /* they took too long: totals lack what comes back in them */
};

int pstats_graph__init(struct pstats_graph *g);

/* pstats_graph__done - a zeroed @g is fine. */
void pstats_graph__done(struct pstats_graph *g);

/* Return of these: 0 or a negative number. */
int pstats_graph__func(struct pstats_graph *g, uint32_t file, uint32_t name, uint32_t line,
		       uint32_t *func);
int pstats_graph__sums(struct pstats_graph *g, uint32_t func, const struct pstats_sums *sums);
int pstats_graph__edge(struct pstats_graph *g, uint32_t func, uint32_t caller,
		       const struct pstats_sums *sums);

/* pstats_graph__node - a new one at the end of nodes; NULL: no memory, or too many. */
struct pstats_node *pstats_graph__node(struct pstats_graph *g);

/* pstats_graph__open_circles - when the tree is there. 0 or -ENOMEM. */
int pstats_graph__open_circles(struct pstats_graph *g);

/* pstats_graph__push - to a sink that has begun. */
int pstats_graph__push(struct pstats_graph *g, struct sink *k);

#endif
