/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of two runs in one tree: functions are the same by module and qualified name, as in diff.h,
 * processes and threads by their names. As an aggregate its times are, stack by stack, the larger of the two.
 */
#ifndef PYEBPF_PROFILE_DIFF_TREE_H
#define PYEBPF_PROFILE_DIFF_TREE_H

#include "profile/diff.h"

struct diff_tree {
	struct agg_result all; /* calls and gaps are left out */
	uint64_t *self_ns[2], *total_ns[2]; /* by stack of @all; owned, as all below */
	bool *is_noise; /* by function of @all: its change is no more than noise */
	struct agg_process *processes;
	struct agg_thread *threads;
	struct agg_func *funcs;
	struct agg_stack *stacks;
	uint32_t process_cap, thread_cap, func_cap, stack_cap;
	struct strpool process_keys, thread_keys, func_keys, stack_keys;
};

/**
 * diff_tree__init - from what was compared
 * @d: borrowed only for the call
 *
 * Return: 0, -ENOMEM or -EOVERFLOW; diff_tree__done() either way.
 */
int diff_tree__init(struct diff_tree *t, const struct diff *d);

void diff_tree__done(struct diff_tree *t);

#endif
