/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A frame of the target, as it was read into t->frame: its fields, and whether it runs.
 */
#ifndef PYEBPF_PY_FRAME_BPF_H
#define PYEBPF_PY_FRAME_BPF_H

#include "py/quiet.bpf.h"

/* frame_load - read a frame into t->frame; 0 or an error. */
static __always_inline long frame_load(struct thread *t, u64 frame)
{
	return read_user(t->frame, PYE_FRAME_READ, frame);
}

static __always_inline u64 frame_word(struct thread *t, u32 offset)
{
	return t->frame[(offset >> 3) & (FRAME_WORDS - 1)];
}

static __always_inline u64 frame_code(struct thread *t, struct pye_pylayout *l)
{
	return frame_word(t, l->f_code) & ~7ULL & 0xffffffffffffULL;
}

static __always_inline u64 frame_previous(struct thread *t, struct pye_pylayout *l)
{
	return frame_word(t, l->f_previous) & 0xffffffffffffULL;
}

static __always_inline u32 frame_owner(struct thread *t, struct pye_pylayout *l)
{
	if (l->f_owner == PYE_NO_FIELD)
		return 0;
	return frame_word(t, l->f_owner) >> ((l->f_owner & 7) * 8) & 0xff;
}

/* The interpreter's own; or, in 3.15, that of a generator expression that gets its iterator before it has become a generator: it has
 * not begun, and its end is none if that fails. */
static __always_inline bool frame_is_hidden(struct thread *t, struct pye_pylayout *l)
{
	u32 flags = 0;

	if (!l->co_hidden || read_user(&flags, 4, frame_code(t, l) + l->co_flags))
		return false;
	if (flags & l->co_hidden)
		return true;
	return l->resume_skip != 0xff && !frame_owner(t, l) && flags & CO_SUSPENDS;
}

static __always_inline bool is_one_of(const u8 ops[4], u16 word)
{
	word &= 0xff;
	return word == ops[0] || word == ops[1] || word == ops[2] || word == ops[3];
}

/* What is known of a frame: it made a call, so it is not suspended; the event is its own. */
#define SURE_CALLS 1
#define SURE_RUNS  2

/*
 * 3.12 on: a generator that yields tells the function of sys.settrace() so behind the yield's probe, and is in the chain
 * until that returns. To 3.13 its state says that it is suspended; from 3.14 on it stands at its yield then, where one
 * that is thrown into stands behind it.
 */
static __always_inline bool is_told_of_yield(struct thread *t, struct pye_pylayout *l, u64 frame)
{
	s8 state = 0;
	u16 word = 0;

	if (l->f_state != PYE_NO_FIELD)
		return !read_user(&state, 1, frame + (s16)l->f_state) && state < 0;
	return !read_user(&word, 2, frame_word(t, l->f_instr)) &&
	       ((word & 0xff) == l->yield_ops[0] || (word & 0xff) == l->yield_ops[1]);
}

/*
 * A frame in the thread's chain that does not run: it shows no call.
 * - Throwing into a generator that delegates to another one (yield from, await) links its frame although
 *   it is still suspended.
 * - 3.11 calls the function of sys.settrace() for a frame that did not come to its RESUME handler yet, or
 *   has left its RETURN_VALUE or YIELD_VALUE handler's begin behind; and finalizers of its variables.
 *   All have their stack pointer saved there; a frame that was really thrown into stands at its yield,
 *   too, but has not.
 * - 3.11 runs the collector before RESUME, too: where a frame makes its cells, or its generator.
 */
static __always_inline bool frame_is_linked(struct thread *t, struct pye_pylayout *l, u64 frame,
					    u32 sure)
{
	u64 instr = frame_word(t, l->f_instr);
	s32 depth = -1;
	u16 word = 0;

	if (l->idle_ops[0])
		return sure < SURE_RUNS && !read_user(&word, 2, instr) &&
		       ((s32)frame_word(t, l->f_stack) >= 0 ? is_one_of(l->idle_ops, word)
							    : is_one_of(l->begin_ops, word));
	if (sure == SURE_RUNS)
		return false;
	if (l->flags & PYE_LAYOUT_FRAME_STATE) {
		read_user(&depth, 4, frame + l->f_stack);
		return depth >= 0;
	}
	if (l->flags & PYE_LAYOUT_FRAME_OBJECT)
		return frame_word(t, l->f_stack) != 0;
	if (frame_owner(t, l) != PYE_OWNER_GENERATOR)
		return false;
	if (is_told_of_yield(t, l, frame))
		return true;
	if (sure)
		return false;
	if (l->resume_ahead) {
		/* what follows another instruction can be its cache, with any value */
		if (read_user(&word, 2, instr))
			return false;
		word &= 0xff;
		if (word != l->yield_ops[0] && word != l->yield_ops[1])
			return false;
	}
	if (read_user(&word, 2, instr + l->resume_ahead))
		return false;
	return (word >> 8 & l->resume_mask & 3) >= 2 && is_one_of(l->resume_ops, word);
}

#endif
