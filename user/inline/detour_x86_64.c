// SPDX-License-Identifier: Apache-2.0
/*
 * Stubs of detours: a jump in the middle of a function, where every register is live and there may be a red zone. So
 * are the flags, unless the first instruction that gave way sets them all, as a comparison does. What the stub uses is
 * saved, the slow path's function called, all restored; then the instructions that gave way run here. A return, which is
 * one in builds that hold copies of the function that clears frames, is recorded without that function where that can be
 * done.
 */
#include "cpython/inline_plan.h"
#include "inline/emit_x86_64.h"

#define RED_ZONE  128
#define WORD	  8
#define SAVED_MAX 5

static const uint8_t may_change[] = { PREG_RAX, PREG_RCX, PREG_RDX, PREG_RSI, PREG_RDI,
				      PREG_R8,	PREG_R9,  PREG_R10, PREG_R11 };

struct use {
	uint8_t saved[SAVED_MAX]; /* registers, as they were pushed */
	unsigned int saved_cnt;
	uint8_t frame, head, other; /* registers */
};

static bool is_saved(const struct use *u, uint8_t reg)
{
	for (unsigned int i = 0; i < u->saved_cnt; i++)
		if (u->saved[i] == reg)
			return true;
	return false;
}

static void save(struct out *o, struct use *u, uint8_t reg)
{
	push(o, reg);
	u->saved[u->saved_cnt++] = reg;
}

/* One that does not hold the frame. */
static uint8_t take(struct out *o, struct use *u, const struct inline_detour *d)
{
	static const uint8_t usual[] = { PREG_RCX, PREG_RDI, PREG_RSI, PREG_R8 };
	size_t i = 0;

	while (usual[i] == d->frame_reg || is_saved(u, usual[i]))
		i++;
	save(o, u, usual[i]);
	return usual[i];
}

/* The frame's register where the stub can leave it, else a copy. Of the flags lahf and seto, for popf takes as long as all the rest. */
static void enter(struct out *o, struct use *u, const struct inline_detour *d, bool fast)
{
	bool stays = !d->frame_disp && d->frame_reg != PREG_RAX && d->frame_reg != PREG_RDX &&
		     d->frame_reg != PREG_RSP;

	LEA(o, PREG_RSP, PREG_RSP, -RED_ZONE);
	save(o, u, PREG_RAX);
	if (fast) {
		save(o, u, PREG_RDX);
		u->head = take(o, u, d);
		u->other = take(o, u, d);
	}
	u->frame = d->frame_reg;
	if (!stays) {
		int32_t pushed = RED_ZONE + WORD * ((int32_t)u->saved_cnt + 1);

		u->frame = take(o, u, d);
		LEA(o, u->frame, d->frame_reg,
		    d->frame_disp + (d->frame_reg == PREG_RSP ? pushed : 0));
	}
	if (!d->sets_flags) {
		B(o, "\x9f" /* lahf */
		     "\x0f\x90\xc0" /* seto al */);
		push(o, PREG_RAX);
	}
}

static void leave(struct out *o, const struct use *u, const struct inline_detour *d)
{
	if (!d->sets_flags) {
		pop(o, PREG_RAX);
		B(o, "\x04\x7f" /* add al, 127 */
		     "\x9e" /* sahf */);
	}
	for (unsigned int i = u->saved_cnt; i-- > 0;)
		pop(o, u->saved[i]);
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

static void slow_in_detour(struct out *o, const struct use *u, const struct inline_detour *d)
{
	for (size_t i = 0; i < sizeof(may_change); i++)
		if (!is_saved(u, may_change[i]))
			push(o, may_change[i]);
	if (d->kind == INLINE_THROW)
		MOVE(o, PREG_RDX, PREG_RDI); /* the thread state, the function's first argument */
	if (u->frame != PREG_RSI)
		MOVE(o, PREG_RSI, u->frame);
	if (d->kind != INLINE_THROW)
		B(o, "\x31\xd2" /* xor edx, edx */);
	region(o, "\x8d", 1, PREG_RDI, IL_PRIVATE); /* lea */
	byte(o, 0xb9); /* mov ecx, kind */
	imm32(o, d->kind);
	call(o, d->kind == INLINE_EVAL_ENTRY || d->kind == INLINE_EVAL_EXIT ? o->eval : o->slow);
	for (size_t i = sizeof(may_change); i-- > 0;)
		if (!is_saved(u, may_change[i]))
			pop(o, may_change[i]);
}

uint32_t detour_stub(struct out *o, const struct pye_pylayout *l, const struct inline_detour *d,
		     uint64_t bias, uint64_t base, uint32_t n)
{
	bool fast = d->kind == INLINE_RETURN && !o->how.count;
	uint32_t start, thrown, done, slow[EMIT_SLOW_MAX], slow_cnt = 0;
	struct use u = { 0 };

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
	enter(o, &u, d, fast);
	if (fast)
		slow_cnt = emit_leave(o, l, u.frame, INLINE_RETURN, u.head, u.other, slow);
	else
		slow_in_detour(o, &u, d);
	done = o->at;
	leave(o, &u, d);
	displaced(o, d, bias, base);
	jump_original(o, n);
	if (!fast)
		return start;
	land_all(o, slow, slow_cnt);
	slow_in_detour(o, &u, d);
	back(o, done);
	return start;
}
