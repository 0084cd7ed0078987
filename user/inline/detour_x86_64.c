// SPDX-License-Identifier: Apache-2.0
/*
 * Stubs of detours: a jump in the middle of a function, where every register is live, the flags are, too,
 * and there may be a red zone. All is saved, the slow path's function called, all restored; then the
 * instructions that gave way to the jump run here. A return, which is one in builds that hold copies of the
 * function that clears frames, is recorded without that function where that can be done.
 */
#include "cpython/inline_plan.h"
#include "inline/emit_x86_64.h"

#define RED_ZONE 128
#define WORD	 8

static const uint8_t saved[] = { PREG_RCX, PREG_RDX, PREG_RDI };
static const uint8_t saved_for_slow[] = { PREG_R8, PREG_R9, PREG_R10, PREG_R11 };

/* lahf and seto, for popf takes as long as all the rest */
static void save(struct out *o, const struct inline_detour *d)
{
	int32_t moved = d->frame_reg == PREG_RSP ? RED_ZONE + 2 * WORD : 0;

	LEA(o, PREG_RSP, PREG_RSP, -RED_ZONE);
	push(o, PREG_RAX);
	push(o, PREG_RSI);
	LEA(o, PREG_RSI, d->frame_reg, d->frame_disp + moved);
	B(o, "\x9f" /* lahf */
	     "\x0f\x90\xc0" /* seto al */);
	push(o, PREG_RAX);
	for (size_t i = 0; i < sizeof(saved); i++)
		push(o, saved[i]);
}

static void restore(struct out *o)
{
	for (size_t i = sizeof(saved); i-- > 0;)
		pop(o, saved[i]);
	pop(o, PREG_RAX);
	B(o, "\x04\x7f" /* add al, 127 */
	     "\x9e" /* sahf */);
	pop(o, PREG_RSI);
	pop(o, PREG_RAX);
	LEA(o, PREG_RSP, PREG_RSP, RED_ZONE);
}

static void displaced(struct out *o, const struct inline_detour *d, uint64_t bias, uint64_t base)
{
	bytes(o, (const char *)d->code, (size_t)d->size - d->jump);
	if (!d->jump)
		return;
	byte(o, 0x0f);
	byte(o, 0x80u | (d->cond & 15u));
	imm32(o, (uint32_t)(d->target + bias - (base + o->at + 4)));
}

static void slow_in_detour(struct out *o, const struct inline_detour *d)
{
	for (size_t i = 0; i < sizeof(saved_for_slow); i++)
		push(o, saved_for_slow[i]);
	if (d->kind == INLINE_THROW)
		MOVE(o, PREG_RDX, PREG_RDI); /* the thread state, the function's first argument */
	else
		B(o, "\x31\xd2" /* xor edx, edx */);
	region(o, "\x8d", 1, PREG_RDI, IL_PRIVATE); /* lea */
	byte(o, 0xb9); /* mov ecx, kind */
	imm32(o, d->kind);
	call(o, d->kind == INLINE_EVAL_ENTRY || d->kind == INLINE_EVAL_EXIT ? o->eval : o->slow);
	for (size_t i = sizeof(saved_for_slow); i-- > 0;)
		pop(o, saved_for_slow[i]);
}

uint32_t detour_stub(struct out *o, const struct pye_pylayout *l, const struct inline_detour *d,
		     uint64_t bias, uint64_t base, uint32_t n)
{
	bool fast = d->kind == INLINE_RETURN && !o->how.count;
	uint32_t start, thrown, done, slow[EMIT_SLOW_MAX], slow_cnt = 0;

	while (o->at % 16)
		byte(o, 0xcc);
	start = o->at;
	if (d->kind == INLINE_THROW) {
		/* the beginning of a function: no flags */
		B(o, "\x85\xd2" /* test edx, edx */);
		thrown = jump(o, JNE);
		displaced(o, d, bias, base);
		jump_original(o, n);
		land(o, thrown);
	}
	save(o, d);
	if (fast)
		slow_cnt = emit_leave(o, l, PREG_RSI, INLINE_RETURN, PREG_RCX, PREG_RDI, slow);
	else
		slow_in_detour(o, d);
	done = o->at;
	restore(o);
	displaced(o, d, bias, base);
	jump_original(o, n);
	if (!fast)
		return start;
	land_all(o, slow, slow_cnt);
	slow_in_detour(o, d);
	back(o, done);
	return start;
}
