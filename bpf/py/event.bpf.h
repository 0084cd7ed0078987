/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a hit of a probe becomes: an entry or an exit, numbered, with the stack in front of it where user
 * space does not know that. Each way on which an event is not written goes through lost(), once.
 */
#ifndef PYEBPF_PY_EVENT_BPF_H
#define PYEBPF_PY_EVENT_BPF_H

#include "py/stack.bpf.h"

/* After a loss the stack is shown again, but only once the ring has room for it (as deep as it is known
 * to be, or the most that a walk sends): else each event would walk in vain. */
static __always_inline bool ring_has_room(struct thread *t)
{
	u64 records = cfg_walk_records, depth = (t->valid + t->below) / PYE_WALK_FRAMES + 1;
	void *ring = ring_of(t);

	if (!ring)
		return false;
	if ((t->flags & (T_KNOWN | T_CUT)) == T_KNOWN && depth < records)
		records = depth;
	return bpf_ringbuf_query(ring, 1 /* BPF_RB_RING_SIZE */) -
		       bpf_ringbuf_query(ring, 0 /* BPF_RB_AVAIL_DATA */) >=
	       cfg_ring_free_min + records * sizeof(struct pye_walk_rec);
}

/* n events that are not written. */
static __always_inline void lost_many(struct thread *t, u32 counter, u32 n)
{
	t->seq += n;
	t->flags |= T_NEED_WALK;
	count_many(counter, n);
}

static __always_inline void lost(struct thread *t, u32 counter)
{
	lost_many(t, counter, 1);
}

/* The rare start of an event: user space or we do not know the stack. `frame` is the caller of the
 * frame entered, or the frame left. false: the event is lost. */
static __always_inline bool resync(struct thread *t, u64 frame, u32 reason)
{
	if (!(t->flags & T_ANNOUNCED) || (t->flags & T_NEED_WALK && !ring_has_room(t)))
		return false;
	if (walk_all(frame, reason))
		return false;
	t->flags &= ~T_NEED_WALK;
	return true;
}

static __always_inline void *event_reserve(struct thread *t, u32 size)
{
	void *ring = ring_of(t);

	return ring ? bpf_ringbuf_reserve(ring, size, 0) : NULL;
}

static __always_inline void entry_send(struct thread *t, u64 ts, u64 frame, u64 caller, u32 id,
				       u32 sub)
{
	struct pye_entry_rec *rec = event_reserve(t, sizeof(*rec));

	if (!rec) {
		lost(t, CNT_LOST_RING);
		return;
	}
	rec->head.ts_ns = ts;
	*(u64 *)((void *)rec + 8) = frame | (u64)PYE_REC_ENTRY << 48 | (u64)sub << 56;
	rec->head.tix = t->tix;
	rec->head.seq = t->seq++;
	rec->code = id;
	rec->caller = caller >> 3;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
}

static __always_inline void exit_send(struct thread *t, u64 ts, u64 frame, u32 sub)
{
	struct pye_exit_rec *rec = event_reserve(t, sizeof(*rec));

	if (!rec) {
		lost(t, CNT_LOST_RING);
		return;
	}
	rec->head.ts_ns = ts;
	*(u64 *)((void *)rec + 8) = frame | (u64)PYE_REC_EXIT << 48 | (u64)sub << 56;
	rec->head.tix = t->tix;
	rec->head.seq = t->seq++;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
}

#define CALLER_LOST (1ULL << 63)

/*
 * above_top - the frames from one that runs down to the tracked top ran without an entry: they were thrown
 * into. They are pushed, and shown or lost.
 *
 * Return: NOT_NEAR, or the number of frames.
 */
static __always_inline int above_top(struct thread *t, u64 frame)
{
	int near = walk_near(frame);

	if (near >= NOT_NEAR)
		return near;
	near = NOT_NEAR - near;
	lost_many(t, CNT_LOST_RING, near);
	return near;
}

/* The caller is not the tracked top: an entry from C or a shim lies between, a frame was thrown
 * into, or this is another stack. Returns the caller, with CALLER_LOST when the event is lost. */
__noinline u64 entry_caller(u64 caller)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u64 real, top;
	int near;

	if (!t)
		return CALLER_LOST;
	/* from 3.11 on who makes a RESUME runs; to 3.10 a frame that is thrown into has its entry, too */
	real = frame_real(caller, l->flags & PYE_LAYOUT_FRAME_OBJECT ? 0 : SURE_CALLS);
	top = running_top(t);
	if (real == FRAME_CUT || real == FRAME_MORE)
		real = t->flags & T_KNOWN ? top : 0;
	if (!(t->flags & T_KNOWN)) {
		if (!real) { /* nothing below a thread's first frame: nothing to show */
			t->valid = t->below = t->root_at = 0;
			t->flags |= T_KNOWN;
			if (!(t->flags & T_NEED_WALK))
				return 0;
		}
		return resync(t, real, PYE_WALK_UNKNOWN) ? real : real | CALLER_LOST;
	}
	near = 0;
	if (real != top || (!real && t->below))
		near = above_top(t, real);
	if (!(t->flags & T_NEED_WALK) && near != NOT_NEAR)
		return real;
	if (resync(t, real, t->flags & T_NEED_WALK ? PYE_WALK_UNKNOWN : PYE_WALK_SWITCH))
		return real;
	if (near == NOT_NEAR)
		t->flags &= ~T_KNOWN; /* on another stack, and that was not walked */
	return real | CALLER_LOST;
}

struct entered {
	u64 code, caller, instr;
};

/*
 * What an entry needs of its frame. On the stack, not in t->frame: the kernel checks copies into slab
 * objects (30 ns).
 * verifier: a function of its own, so that these 128 bytes do not count while the stack is walked. To
 * Linux 6.7 a chain of calls may have 512 bytes, each function's rounded up to 32.
 */
static __noinline long entered_load(struct pye_pylayout *l, u64 frame, struct entered *e)
{
	u64 words[FRAME_WORDS];

	/* verifier: every word that the mask lets through must be written */
	__builtin_memset(words + PYE_FRAME_READ / 8, 0, sizeof(words) - PYE_FRAME_READ);
	if (read_user(words, PYE_FRAME_READ, frame))
		return -1;
	e->code = words[l->f_code >> 3 & (FRAME_WORDS - 1)] & ~7ULL & ADDR_MASK;
	e->caller = words[l->f_previous >> 3 & (FRAME_WORDS - 1)] & ADDR_MASK;
	e->instr = words[l->f_instr >> 3 & (FRAME_WORDS - 1)];
	return 0;
}

/* Before an event: has the stack to be shown, or found out, first? What is quiet needs the latter only. */
static __always_inline bool must_walk(struct thread *t, bool quiet)
{
	if (quiet)
		return !(t->flags & T_KNOWN);
	return (t->flags & (T_KNOWN | T_NEED_WALK)) != T_KNOWN;
}

static __always_inline void on_entry(struct thread *t, struct pye_pylayout *l, u64 ts, u64 frame,
				     bool thrown)
{
	struct entered e;
	u64 caller, top;
	u32 id, sub = PYE_ENTRY_CALL;

	top = SLOT_FRAME(stack_top(t));
	if (frame == top && t->flags & T_KNOWN) {
		count(CNT_DUPLICATE);
		return;
	}
	if (entered_load(l, frame, &e)) {
		t->flags &= ~T_KNOWN;
		lost(t, CNT_LOST_READ);
		return;
	}
	caller = e.caller;
	id = code_id(t, e.code);
	if (thrown) {
		sub = PYE_ENTRY_THROW;
	} else if (id & PYE_CODE_GENERATOR && l->flags & PYE_LAYOUT_FRAME_OBJECT) {
		s32 lasti = -1;

		read_user(&lasti, 4, frame + l->f_instr);
		sub = lasti < 0 ? PYE_ENTRY_CALL : PYE_ENTRY_RESUME;
	} else if (id & PYE_CODE_GENERATOR) {
		u16 word = 0;

		read_user(&word, 2, e.instr);
		word = word >> 8 & l->resume_mask;
		if (word == l->resume_skip)
			return;
		sub = word ? PYE_ENTRY_RESUME : PYE_ENTRY_CALL;
	}
	if (caller != top || must_walk(t, entry_is_quiet(t, id))) {
		hit_at(t, ts);
		caller = entry_caller(caller);
	}
	stack_push(t, slot_of(frame, id));
	root_pushed(t, id);
	if (top_is_quiet(t, slot_of(0, id))) {
		t->quiet++;
		if (caller & CALLER_LOST)
			t->flags |= T_NEED_WALK;
		return;
	}
	if (caller & CALLER_LOST || !id) {
		lost(t, CNT_LOST_RING);
		return;
	}
	entry_send(t, ts, frame, caller, id, sub);
}

/*
 * A generator leaves that we did not see running, and it is not (any more) linked to its caller. If we
 * know the stack, the generator ran on top of it: thrown into. Else nothing can be shown yet: the
 * thread's trace begins with its next event.
 */
static __always_inline int show_thrown(struct thread *t, struct pye_pylayout *l, u64 frame, u64 top)
{
	u32 id;

	if (!(t->flags & T_KNOWN)) {
		if (t->flags & T_NEED_WALK)
			lost(t, CNT_LOST_RING);
		return false;
	}
	id = quiet_id(t, l);
	if (entry_is_quiet(t, id)) {
		stack_push(t, slot_of(frame, id));
		return true;
	}
	t->walk_cnt = 0;
	if (t->flags & T_NEED_WALK || walk_add(t, l, frame, &id) ||
	    walk_flush(t, PYE_WALK_FIRST | PYE_WALK_ANCHORED, top, PYE_WALK_THROWN)) {
		lost_many(t, CNT_LOST_RING, 2);
		return false;
	}
	stack_push(t, slot_of(frame, id) | SLOT_GENERATOR);
	root_pushed(t, id);
	return true;
}

/* A frame is left and the stack could not be shown: was its entry recorded, as far as can be told? */
static __always_inline bool exit_is_quiet(struct thread *t, struct pye_pylayout *l, u64 frame)
{
	u64 slot = stack_top(t);

	if (!cfg_filter)
		return false;
	if (SLOT_FRAME(slot) == frame)
		return top_is_quiet(t, slot);
	return !frame_load(t, frame) && quiet_id(t, l) & PYE_CODE_QUIET;
}

/*
 * The frame left is not the tracked top. false: it is none of our business (a shim, or a frame whose
 * start failed) or the event is lost.
 */
__noinline int exit_unknown(u64 frame)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u32 owner;
	int near;
	u64 top;

	if (!t)
		return false;
	top = SLOT_FRAME(stack_top(t));
	if (frame_load(t, frame)) {
		t->flags &= ~T_KNOWN;
		lost(t, CNT_LOST_READ);
		return false;
	}
	owner = frame_owner(t, l);
	if (owner >= PYE_OWNER_ENTRY || frame_is_hidden(t, l))
		return false;
	if (!frame_previous(t, l) && owner == PYE_OWNER_GENERATOR) {
		if (!(t->flags & T_KNOWN) || frame != top)
			return show_thrown(t, l, frame, top);
		lost(t, CNT_LOST_RING); /* nothing can be shown from an unlinked frame on */
		return false;
	}
	near = 0;
	if (t->flags & T_KNOWN && frame != top) {
		frame_load(t, frame);
		if (owner == 0 && top && frame_real(frame_previous(t, l), 0) == top) {
			count(CNT_STRAY_EXIT);
			return false;
		}
		near = above_top(t, frame);
		if (near > 0 && !(t->flags & T_NEED_WALK))
			return true;
	}
	if (!resync(t, frame,
		    near == NOT_NEAR && !(t->flags & T_NEED_WALK) ? PYE_WALK_SWITCH
								  : PYE_WALK_UNKNOWN)) {
		/* the tracked stack is right only if the frame is on it */
		if (SLOT_FRAME(stack_top(t)) != frame)
			t->flags &= ~T_KNOWN;
		if (exit_is_quiet(t, l, frame))
			t->flags |= T_NEED_WALK;
		else
			lost(t, CNT_LOST_RING);
		return false;
	}
	return true;
}

static __always_inline void stack_pop(struct thread *t, u64 frame)
{
	if (!t->valid)
		return;
	root_pops(t);
	t->valid--;
	t->pos--;
	if (!t->valid && t->below) {
		stack_refill(frame);
		if (t->flags & T_CUT) /* what comes up now was not shown */
			t->flags |= T_NEED_WALK;
	}
}

static __always_inline void exit_of_top(struct thread *t, u64 ts, u64 frame, u64 slot, u32 sub)
{
	bool quiet = top_is_quiet(t, slot);

	stack_pop(t, frame);
	if (!quiet)
		exit_send(t, ts, frame, sub);
}

static __always_inline void on_exit(struct thread *t, u64 ts, u64 frame, u32 sub)
{
	u64 slot = stack_top(t), top = SLOT_FRAME(slot);

	if (frame != top || must_walk(t, top_is_quiet(t, slot))) {
		if (t->flags & T_NEED_WALK && t->flags & T_KNOWN && frame == top &&
		    !ring_has_room(t)) {
			stack_pop(t, frame);
			lost(t, CNT_LOST_RING);
			return;
		}
		hit_at(t, ts);
		if (!exit_unknown(frame)) {
			if (frame && SLOT_FRAME(stack_top(t)) == frame)
				stack_pop(t, frame);
			return;
		}
		slot = stack_top(t);
	}
	exit_of_top(t, ts, frame, slot, sub);
}

#endif
