/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Registers of the probed thread by number (enum probe_reg of user/cpython/plan.h). */
#ifndef PYEBPF_LIB_REGS_BPF_H
#define PYEBPF_LIB_REGS_BPF_H

#include "lib/core.bpf.h"

/* verifier: the context may only be read at constant offsets, so no computed one must come out of
 * the optimizer: one load instruction per register. */
#define REG_CASE(number, field)                                                           \
	case number:                                                                      \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                     \
			     : "=r"(value)                                                \
			     : "r"(ctx), "i"(__builtin_offsetof(struct pt_regs, field))); \
		break

static __always_inline u64 reg_read(struct pt_regs *ctx, u32 reg)
{
	u64 value = 0;

	switch (reg) {
		REG_CASE(0, ax);
		REG_CASE(1, bx);
		REG_CASE(2, cx);
		REG_CASE(3, dx);
		REG_CASE(4, si);
		REG_CASE(5, di);
		REG_CASE(6, bp);
		REG_CASE(7, sp);
		REG_CASE(8, r8);
		REG_CASE(9, r9);
		REG_CASE(10, r10);
		REG_CASE(11, r11);
		REG_CASE(12, r12);
		REG_CASE(13, r13);
		REG_CASE(14, r14);
		REG_CASE(15, r15);
	}
	return value;
}

/* cond_holds - does the conditional jump that was hit go the way that counts? (x86 flags) */
static __always_inline bool cond_holds(u64 flags, u32 cond)
{
	bool cf = flags & 1, pf = flags & 4, zf = flags & 0x40, sf = flags & 0x80,
	     of = flags & 0x800;
	bool holds = false;

	switch (cond >> 1 & 7) {
	case 0:
		holds = of;
		break;
	case 1:
		holds = cf;
		break;
	case 2:
		holds = zf;
		break;
	case 3:
		holds = cf || zf;
		break;
	case 4:
		holds = sf;
		break;
	case 5:
		holds = pf;
		break;
	case 6:
		holds = sf != of;
		break;
	case 7:
		holds = zf || sf != of;
		break;
	}
	return cond & 1 ? !holds : holds;
}

#endif
