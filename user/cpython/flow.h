/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolic values along straight-line code: which register or stack slot holds what some place held
 * at the start, plus a constant. A value is a root (what a register held at the start, or the result of
 * something not followed further) and a distance; equal roots are equal values.
 */
#ifndef PYEBPF_CPYTHON_FLOW_H
#define PYEBPF_CPYTHON_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/disasm.h"
#include "cpython/plan.h"

#define FLOW_SLOT_MAX 32
#define FLOW_ZERO     UINT32_MAX /* root of the constant 0 */

struct flow_value {
	uint32_t root; /* < MACHINE_REG_CNT: that register's value at the start */
	int64_t disp;
};

/* A word of the stack, named by the value of its address. */
struct flow_slot {
	struct flow_value at, value;
};

struct flow {
	struct flow_value regs[MACHINE_REG_CNT];
	struct flow_slot slots[FLOW_SLOT_MAX];
	size_t slot_cnt;
	uint32_t next_root;
};

/* Where a value is. */
struct flow_place {
	enum probe_source source; /* PROBE_IN_REG or PROBE_IN_SLOT */
	uint8_t reg;
	int32_t disp;
};

bool flow_place__is_same(const struct flow_place *a, const struct flow_place *b);

/* flow__init - nothing is known but the names of the registers' values. */
void flow__init(struct flow *f);

/* flow__step - the effect of one instruction (of a conditional jump: none). */
void flow__step(struct flow *f, const struct insn *insn);

/* flow__at - the value of a place; a slot not seen before gets a root of its own. */
struct flow_value flow__at(struct flow *f, const struct flow_place *place);

/* flow__is_same - equal values. */
bool flow__is_same(struct flow_value a, struct flow_value b);

/**
 * flow__find - a place from which a value can be had
 * @prefer: register to take if it serves, or PREG_NONE
 *
 * A register may hold the value minus a constant, which comes out as the place's disp; a slot must
 * hold the value itself.
 */
bool flow__find(const struct flow *f, struct flow_value value, uint8_t prefer,
		struct flow_place *out);

/* flow__find_slot - the same, of the words of the stack alone */
bool flow__find_slot(const struct flow *f, struct flow_value value, struct flow_place *out);

#endif
