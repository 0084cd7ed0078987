/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code page of the inline engine. What the stubs are made of is known to *_x86_64.c and emit_x86_64.h alone;
 * docs/adding.md has what else here is bound to the machine.
 */
#ifndef PYEBPF_INLINE_STUB_H
#define PYEBPF_INLINE_STUB_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/pylayout.h"
#include "base/err.h"
#include "cpython/inline_plan.h"
#include "inline/region.h"

enum stub_opcode {
	STUB_LEAVE_ALONE,
	STUB_OPCODE, /* it is recorded */
	STUB_OPCODE_FIRST, /* the same, and a frame can begin with it, before its RESUME */
	STUB_OPCODE_END, /* it ends the time of one that is */
};

struct stub_how {
	bool count; /* calls, instead of events */
	bool time; /* with durations */
	bool locked; /* every event takes the slow path; counters are added to in one instruction */
	bool turns; /* so it does while an interpreter may have a GIL of its own */
	uint64_t interpreters; /* with turns: il_private.interpreters, where that is known already, else 0 */
	bool versions; /* with count alone: code whose version is not the interpreter's takes the slow path */
	bool switches; /* stacks are exchanged under the interpreter: what is not known is told */
	bool quiet; /* with switches: code can be left out */
	const uint8_t
		*opcodes; /* 256 enum stub_opcode, with events; NULL: no instruction is recorded */
};

/**
 * stub_image - make the contents of the code page
 * @plan: what is redirected
 * @bias: run-time address = vaddr + bias
 * @base: where the region will lie; within 2 GiB of every redirected call
 * @how:  what the stubs do; NULL: they write events
 * @out:  IL_CODE_BYTES; begins with struct il_header, whose patches are filled in
 *
 * Return: 0; -PYE_EPLAN when the plan cannot be served.
 */
int stub_image(const struct inline_plan *plan, const struct pye_pylayout *layout, uint64_t bias,
	       uint64_t base, const struct stub_how *how, uint8_t *out, struct err *e);

/**
 * stub_opcode_cost - what it takes from one instruction's time stamp to the next one's when there is nothing between them
 * @all: the second one is recorded, too
 * @locked: as in struct stub_how
 * @vdso: their clock is the kernel's (inline/stub_clock.h)
 * @ticks: average of the middle half of many, of the real stubs, run here
 *
 * Return: 0; -PYE_EPLAN; a negative errno.
 */
int stub_opcode_cost(const struct inline_plan *plan, const struct pye_pylayout *layout, bool all,
		     bool locked, bool vdso, double *ticks, struct err *e);

#endif
