/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls whom, with calls and times, from the tree of stacks of an aggregate. Functions come in
 * groups of the caller's choice, so that what an output takes for one function is one here.
 *
 * Recursion counts as in cProfile: a call of a group that is on the stack already is not a primitive
 * one, and only the time of primitive calls is in the total; the same for each pair of caller and
 * callee.
 */
#ifndef PYEBPF_PROFILE_CALLGRAPH_H
#define PYEBPF_PROFILE_CALLGRAPH_H

#include <stdint.h>

#include "profile/aggregate.h"

struct callgraph_sums {
	uint64_t calls, primitive_calls;
	uint64_t self_ns, total_ns;
};

struct callgraph_node {
	struct callgraph_sums sums;
	uint32_t stack_cnt; /* distinct stacks with it on top, with or without calls; 0: never seen */
	uint32_t callers; /* the first edge, or AGG_NONE */
};

struct callgraph_edge {
	struct callgraph_sums sums; /* of the callee, called by this caller */
	uint32_t caller; /* group */
	uint32_t next; /* of the same callee, or AGG_NONE */
};

struct callgraph {
	struct callgraph_node *nodes; /* by group; owned */
	struct callgraph_edge *edges; /* owned */
	uint32_t node_cnt, edge_cnt, edge_cap;
};

/**
 * callgraph__init - add up the stacks
 * @r:         complete; borrowed only for the call
 * @group_of:  the group of each of its functions, below @group_cnt
 *
 * Return: 0, -ENOMEM or -EOVERFLOW; callgraph__done() either way.
 */
int callgraph__init(struct callgraph *g, const struct agg_result *r, const uint32_t *group_of,
		    uint32_t group_cnt);

/* callgraph__done - release the memory. A zeroed @g is fine. */
void callgraph__done(struct callgraph *g);

#endif
