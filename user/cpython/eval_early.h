/* SPDX-License-Identifier: Apache-2.0 */
/* Up to 3.10: what the interpreter loop's function does before it stores its frame into the thread state. */
#ifndef PYEBPF_CPYTHON_EVAL_EARLY_H
#define PYEBPF_CPYTHON_EVAL_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/eval_body.h"
#include "cpython/flow.h"

#define EARLY_MAX	 512
#define EARLY_STORES_MAX 3 /* more are not noted */

#define MAKER_CALLER	 SIZE_MAX
#define MAKER_NONE	 (SIZE_MAX - 1)

/* What gives a register its value: an instruction, or the function's caller. */
struct eval_maker {
	size_t insn;
	uint8_t reg;
};

/* Instructions, as the body numbers them. */
struct eval_early {
	size_t insns[EARLY_MAX];
	size_t insn_cnt;
	size_t stores[EARLY_STORES_MAX]; /* the first one on each way */
	size_t store_cnt;
	struct eval_maker tstate; /* of what the first of these store into */
};

/* eval_may_store_frame - a register into the word where a thread state has its frame? */
bool eval_may_store_frame(const struct planner *p, const struct insn *insn);

/**
 * eval_early__find - on all ways from the beginning, up to that store
 *
 * Return: 0; -E2BIG, -EILSEQ: @out has those that were found; -ENOMEM.
 */
int eval_early__find(const struct planner *p, const struct body *b, struct eval_early *out);

/* eval_early__has - is an instruction one of these? */
bool eval_early__has(const struct eval_early *e, size_t index);

#endif
