/* SPDX-License-Identifier: Apache-2.0 */
/* Where the jumps of the interpreter loop's function lead that have no target of their own. */
#ifndef PYEBPF_CPYTHON_EVAL_SWITCH_H
#define PYEBPF_CPYTHON_EVAL_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/eval_body.h"

#define SWITCHES_MAX	   64
#define SWITCH_TARGETS_MAX 8192 /* of all of them */

/* A jump whose table is known. Jumps and targets are instructions, as the body numbers them. */
struct eval_switch {
	size_t jump;
	uint64_t table;
	size_t first, cnt; /* of the targets; one too many may be among them */
};

struct eval_switches {
	struct eval_switch at[SWITCHES_MAX]; /* rising jumps */
	size_t cnt;
	uint32_t targets[SWITCH_TARGETS_MAX];
	size_t target_cnt;
	/* where all others may lead: to handlers, and to whatever nothing else leads to; owned */
	uint32_t *others;
	size_t other_cnt;
	bool *led_to; /* for each instruction: does any of all of these lead to it? owned */
};

/* eval_switches__find - 0; -ENOMEM; -E2BIG: more of them than we keep. @out: all 0; eval_switches__done() in any case */
int eval_switches__find(const struct planner *p, const struct body *b, struct eval_switches *out);
void eval_switches__done(struct eval_switches *s);

/* eval_switches__of - where an instruction leads, if it is a jump without a target of its own; else none */
const uint32_t *eval_switches__of(const struct eval_switches *s, const struct body *b, size_t jump,
				  size_t *cnt);

/* eval_switches__lead_to - do such jumps lead to an address? */
bool eval_switches__lead_to(const struct eval_switches *s, const struct body *b, uint64_t addr);

#endif
