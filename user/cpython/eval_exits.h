/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYEBPF_CPYTHON_EVAL_EXITS_H
#define PYEBPF_CPYTHON_EVAL_EXITS_H

#include <stddef.h>

#include "cpython/eval_body.h"

/* Why emulated instructions do not do, if they do not; else "". */
struct eval_exits {
	struct probe_site sites[PLAN_SITES_MAX];
	size_t cnt;
	char why[192];
};

/**
 * eval_exits__find - instructions, all emulated, of which each exit of the function runs exactly one
 *
 * Return: 0, also where it cannot be done: @out->why says so then. -ENOMEM.
 */
int eval_exits__find(struct planner *p, const struct body *b, struct eval_exits *out);

#endif
