/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Up to 3.10: which registers and words of its stack have the frame and the thread state, before each instruction of the interpreter
 * loop's function. What is told holds on all ways that lead there: each instruction keeps what all before it leave.
 */
#ifndef PYEBPF_CPYTHON_EVAL_HELD_H
#define PYEBPF_CPYTHON_EVAL_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/eval_body.h"
#include "cpython/eval_early.h"
#include "cpython/eval_switch.h"

#define HELD_SLOTS 12 /* more are not noted */

enum held_value {
	HELD_FRAME,
	HELD_TSTATE,
	HELD_VALUES,
};

struct eval_held {
	uint16_t regs[HELD_VALUES]; /* bit per enum probe_reg */
	bool reached; /* nothing is known where no way leads */
	uint8_t slot_cnt;
	uint8_t slot_values[HELD_SLOTS]; /* enum held_value */
	int32_t slots[HELD_SLOTS]; /* words, by their distance from where the stack was at the beginning */
	int32_t rsp,
		rbp; /* as such distances; HELD_NOWHERE: they have none, or not the same on all ways */
};

#define HELD_NOWHERE INT32_MIN

/**
 * eval_held__find - for all instructions of the body
 * @s:      of the body
 * @tstate: what makes the thread state
 * @out:    one for each, owned by the caller (free)
 *
 * Return: 0; -EILSEQ: the function does not begin with an instruction; -ENOMEM.
 */
int eval_held__find(const struct planner *p, const struct body *b, const struct eval_switches *s,
		    const struct eval_maker *tstate, struct eval_held **out);

/* eval_held__in - has a register (PREG_NONE: none) the value? */
bool eval_held__in(const struct eval_held *h, uint8_t reg, enum held_value value);

#endif
