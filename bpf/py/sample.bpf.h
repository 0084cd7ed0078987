/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The stack of the current thread for a sample. Runs where nothing may sleep and no page may be
 * faulted in (a clock's interrupt, the scheduler), in the thread's own context: its frames cannot
 * change meanwhile. Nothing is looked up by name and no map is changed: a frame is two words, its code
 * object and its instruction, and user space finds the rest.
 *
 * From 3.11 on the frames of a thread lie one behind the other, callers below: one read from the
 * start of the page gets most of those that come next.
 */
#ifndef PYEBPF_PY_SAMPLE_BPF_H
#define PYEBPF_PY_SAMPLE_BPF_H

#include "abi/sample.h"
#include "abi/wait.h"
#include "lib/core.bpf.h"
#include "lib/loop.bpf.h"

#define SAMPLE_PAGE	    4096
#define SAMPLE_FRAME	    152 /* bytes of a frame (to 3.10 an object, perhaps with debugging links) */
#define SAMPLE_TSTATE	    192 /* first bytes of a thread state: every field used of it */
#define SAMPLE_HOLDER_TRIES 3
#define SAMPLE_ROUND	    4 /* frames looked at in a round of the loop */
#define SAMPLE_GONE	    1 /* no address: `from` when a part holds nothing */
#define SAMPLE_PARTS	    4 /* of the target's memory that are kept, a power of two */

#define SAMPLE_HALF	    (PYE_SAMPLE_FRAMES / 2)
#define SAMPLE_ADDR	    0xffffffffffffULL
#define SAMPLE_STATUS_BOUND 8 /* in the status of a thread state, 3.12 on: its thread runs in it */

/* Working memory, one for each kind of context: one can interrupt the other. */
struct sample_scratch {
	u8 page[SAMPLE_PAGE];
	u8 tstate[512];
	u64 top; /* address of the innermost frame */
	u64 last; /* slot of the frame that came last */
	struct pye_sample_rec rec;
	struct pye_native_rec native;
};

/* The target's memory between two addresses. */
struct sample_part {
	u64 from, to;
	u8 bytes[SAMPLE_PAGE + 512]; /* verifier: room behind for a frame that begins at its end */
};

/*
 * What a walk has read, by the number of the page. To 3.10 the frames of one function lie in a few pages, and
 * functions that call each other by turns go from one page to the other and back.
 */
struct sample_parts {
	struct sample_part part[SAMPLE_PARTS];
};

/* Elements stand for rounds of a loop: every kernel from 5.13 on has that. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYE_SAMPLE_WALK / SAMPLE_ROUND);
	__type(key, u32);
	__type(value, u8);
} sample_rounds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYE_SAMPLE_THREADS);
	__type(key, u32);
	__type(value, u8);
} search_rounds SEC(".maps");

static __always_inline u64 tstate_word(struct sample_scratch *s, u32 offset)
{
	return *(u64 *)(s->tstate + (offset & 0xf8));
}

static __always_inline long tstate_load(struct sample_scratch *s, u64 tstate)
{
	return bpf_probe_read_user(s->tstate, SAMPLE_TSTATE, (void *)tstate);
}

/* Is what was loaded the state that this thread runs in? A freed one is bound no more. */
static __always_inline bool tstate_is_mine(struct sample_scratch *s, const struct pye_pylayout *l,
					   u64 self)
{
	if (tstate_word(s, l->ts_thread_id) != self || !tstate_word(s, l->ts_interp))
		return false;
	return l->ts_status == PYE_NO_FIELD ||
	       *(u32 *)(s->tstate + (l->ts_status & 0xfc)) & SAMPLE_STATUS_BOUND;
}

struct search {
	struct sample_scratch *s;
	const struct pye_pylayout *l;
	u64 self; /* pthread_self() of the thread */
	u64 interp, tstate, found;
};

static __always_inline long search_round(void *ctx)
{
	struct search *w = ctx;
	struct sample_scratch *s = w->s;
	const struct pye_pylayout *l = w->l;
	u64 next = 0;

	if (!w->tstate) { /* the threads of this interpreter are through */
		if (bpf_probe_read_user(&next, 8, (void *)(w->interp + l->is_next)) || !next)
			return 1;
		w->interp = next;
		return bpf_probe_read_user(&w->tstate, 8, (void *)(next + l->is_threads)) != 0;
	}
	if (tstate_load(s, w->tstate))
		return 1;
	if (tstate_is_mine(s, l, w->self)) {
		w->found = w->tstate;
		return 1;
	}
	w->tstate = tstate_word(s, l->ts_next) & SAMPLE_ADDR;
	return 0;
}

LOOP_ROUND(search_round)

/*
 * tstate_search - look through the lists of thread states, newest threads first
 *
 * Return: the one of this thread, its first bytes in s->tstate; or 0.
 */
static __noinline u64 tstate_search(struct sample_scratch *s, const struct pye_pylayout *l,
				    u64 interpreters, u64 self)
{
	struct search w = { .s = s, .l = l, .self = self };

	if (!interpreters || bpf_probe_read_user(&w.interp, 8, (void *)interpreters) || !w.interp)
		return 0;
	if (bpf_probe_read_user(&w.tstate, 8, (void *)(w.interp + l->is_threads)))
		return 0;
	LOOP(search_round, PYE_SAMPLE_THREADS, &search_rounds, &w);
	return w.found;
}

/* What is known of a thread between two samples. */
struct sample_thread {
	u64 self; /* pthread_self() */
	u64 interpreters, tstate_current; /* addresses of pointers; 0 = none */
	u64 tstate; /* as found before, checked again; 0 = not known */
};

/*
 * sample_tstate - find the thread state, whoever holds the GIL
 *
 * To 3.11 the holder's state is right if it is this thread's: in a subinterpreter no other says so.
 *
 * Return: its address, its first bytes in s->tstate; 0: none.
 */
static __always_inline u64 sample_tstate(struct sample_scratch *s, const struct pye_pylayout *l,
					 struct sample_thread *t)
{
	u64 current = 0;

	if (t->tstate_current && !bpf_probe_read_user(&current, 8, (void *)t->tstate_current) &&
	    current && !tstate_load(s, current) && tstate_is_mine(s, l, t->self))
		return current;
	if (t->tstate && !tstate_load(s, t->tstate) && tstate_is_mine(s, l, t->self))
		return t->tstate;
	count(CNT_SAMPLE_SEARCH);
	return tstate_search(s, l, t->interpreters, t->self);
}

struct sample_walk {
	struct sample_scratch *s;
	struct sample_parts *parts;
	const struct pye_pylayout *l;
	u64 frame;
	u32 status;
	u32 near; /* frame objects: the one before lies in the page of its callee */
};

static __always_inline u64 page_of(u64 addr)
{
	return addr & ~(u64)(SAMPLE_PAGE - 1);
}

/*
 * How much of the target's memory to read for a frame that @part, the one of its page, does not hold. To 3.10 frames are objects of their
 * own, but those of one size lie in one page if they were made one after the other, as in a recursion: where two
 * did, and for the first one, the rest of the page is read at once: each read costs more than what it brings (83 ns for
 * 8 bytes, 106 for a page, where this was measured; more than a page did not pay, it is not in the nearest cache).
 */
static __always_inline u32 part_to_read(struct sample_walk *w, const struct sample_part *part,
					u64 *start)
{
	u64 frame = w->frame;
	u32 in_page = frame & (SAMPLE_PAGE - 1);
	bool same;

	if (!(w->l->flags & PYE_LAYOUT_FRAME_OBJECT)) {
		*start = page_of(frame);
		return in_page + PYE_FRAME_READ;
	}
	same = page_of(frame) == page_of(part->from);
	if (!same && !w->near) {
		*start = frame;
		return SAMPLE_FRAME;
	}
	w->near = same;
	*start = page_of(frame);
	return in_page + SAMPLE_FRAME > SAMPLE_PAGE ? in_page + SAMPLE_FRAME : SAMPLE_PAGE;
}

/* The frame at w->frame, read if it was not before; NULL: it cannot be. */
static __always_inline const u8 *frame_at(struct sample_walk *w)
{
	u64 start, frame = w->frame;
	u32 size = w->l->flags & PYE_LAYOUT_FRAME_OBJECT ? SAMPLE_FRAME : PYE_FRAME_READ;
	struct sample_part *part = &w->parts->part[frame / SAMPLE_PAGE & (SAMPLE_PARTS - 1)];

	if (frame >= part->from && frame + size <= part->to) {
		w->near = 1;
	} else {
		size = part_to_read(w, part, &start);
		part->from = SAMPLE_GONE;
		part->to = 0;
		if (size > SAMPLE_PAGE + SAMPLE_FRAME) /* verifier */
			return NULL;
		if (bpf_probe_read_user(part->bytes, size, (void *)start))
			return NULL;
		part->from = start;
		part->to = start + size;
	}
	start = frame - part->from;
	if (start > SAMPLE_PAGE) /* verifier */
		return NULL;
	return part->bytes + start;
}

static __always_inline long sample_round(void *ctx)
{
	struct sample_walk *w = ctx;
	struct sample_scratch *s = w->s;
	const struct pye_pylayout *l = w->l;
	struct pye_sample_frame *out;
	u64 frame = w->frame;
	/* verifier: a number that lies in a map has no value to follow from round to round */
	u32 n = s->rec.cnt;
	const u8 *data;

	if (!frame) {
		w->status = PYE_SAMPLE_OK;
		return 1;
	}
	data = frame_at(w);
	if (!data) {
		w->status = PYE_SAMPLE_FAULT;
		return 1;
	}
	w->frame = *(u64 *)(data + (l->f_previous & 0xf8)) & SAMPLE_ADDR;
	if (l->f_owner != PYE_NO_FIELD && data[l->f_owner & 0xff] >= PYE_OWNER_ENTRY) {
		/* an entry on top: the slot is written anew */
		s->rec.frames[s->last & (PYE_SAMPLE_FRAMES - 1)].code |= PYE_FRAME_ENTRY;
		return 0;
	}
	if (!n)
		s->top = frame;
	s->last = n < SAMPLE_HALF ? n : SAMPLE_HALF + (n & (SAMPLE_HALF - 1));
	out = &s->rec.frames[s->last & (PYE_SAMPLE_FRAMES - 1)];
	out->code = *(u64 *)(data + (l->f_code & 0xf8)) & SAMPLE_ADDR & ~7ULL;
	if (l->f_entry && data[l->f_entry & 0xff])
		out->code |= PYE_FRAME_ENTRY;
	if (l->flags & PYE_LAYOUT_FRAME_OBJECT)
		out->instr = *(s32 *)(data + (l->f_instr & 0xfc));
	else
		out->instr = *(u64 *)(data + (l->f_instr & 0xf8));
	s->rec.cnt = n + 1;
	return 0;
}

static __always_inline long sample_some(void *ctx)
{
	for (int i = 0; i < SAMPLE_ROUND; i++)
		if (sample_round(ctx))
			return 1;
	return 0;
}

LOOP_ROUND(sample_some)

/*
 * sample_frames - walk the stack of the thread state in s->tstate into s->rec
 *
 * @parts: working memory; what it holds does not matter
 *
 * Fills cnt and frames. Return: enum pye_sample_status.
 */
static __noinline u32 sample_frames(struct sample_scratch *s, struct sample_parts *parts,
				    const struct pye_pylayout *l)
{
	struct sample_walk w = {
		.s = s, .parts = parts, .l = l, .status = PYE_SAMPLE_DEEP, .near = 1
	};

	for (int i = 0; i < SAMPLE_PARTS; i++) {
		parts->part[i].from = SAMPLE_GONE;
		parts->part[i].to = 0;
	}
	s->last = 0;
	s->rec.cnt = 0;
	s->top = 0;
	w.frame = tstate_word(s, l->ts_frame) & SAMPLE_ADDR;
	if (w.frame && l->flags & PYE_LAYOUT_CFRAME &&
	    bpf_probe_read_user(&w.frame, 8, (void *)(w.frame + l->cframe_frame)))
		return PYE_SAMPLE_FAULT;
	if (!w.frame)
		return PYE_SAMPLE_NO_FRAMES;
	LOOP(sample_some, PYE_SAMPLE_WALK / SAMPLE_ROUND, &sample_rounds, &w);
	if (!s->rec.cnt && w.status == PYE_SAMPLE_OK)
		return PYE_SAMPLE_NO_FRAMES;
	return w.status;
}

/* What is used of the interpreter's lock, 3.7 on. */
struct sample_gil {
	u64 interval, holder;
	s32 locked, pad;
};

/* Does a thread that waits for this word wait for the lock? To a lock belong several words. */
static __always_inline bool gil_has(const struct pye_pylayout *l, u64 gil, u64 futex)
{
	u64 bytes = l->gil_behind ? l->gil_before + (u64)l->gil_behind : PYE_GIL_BYTES;

	return gil && futex - (gil - l->gil_before) < bytes;
}

/* musl: the one that a condition points to, of those that wait for it with whom waits for this word; 0: it is no such word. */
static __noinline u64 first_waiter(u64 futex)
{
	u64 at = futex - __builtin_offsetof(struct pye_musl_waiter, barrier), older;
	struct pye_musl_waiter w;

	if (bpf_probe_read_user(&w, sizeof(w), (void *)at))
		return 0;
	for (int i = 0; i < PYE_MUSL_WAITERS && w.newer; i++) {
		older = at;
		at = w.newer;
		if (bpf_probe_read_user(&w, sizeof(w), (void *)at) || w.older != older)
			return 0;
	}
	return w.newer ? 0 : at;
}

/* Does a lock point there, one of its conditions that is? Changes s->page. */
static __always_inline bool gil_points_to(struct sample_scratch *s, const struct pye_pylayout *l,
					  u64 gil, u64 waiter)
{
	const u64 *words = (const u64 *)s->page;

	if (bpf_probe_read_user(s->page, PYE_GIL_BYTES, (void *)(gil - l->gil_before)))
		return false;
	for (int i = 0; i < PYE_GIL_BYTES / 8; i++)
		if (words[i] == waiter)
			return true;
	return false;
}

/* Does a thread wait for this lock? As gil__is_word() of user space. */
static __always_inline bool waits_for_gil(struct sample_scratch *s, const struct pye_pylayout *l,
					  u64 gil)
{
	u64 waiter;

	if (!gil || s->rec.reason != PYE_OFF_LOCK)
		return false;
	if (gil_has(l, gil, s->rec.futex))
		return true;
	waiter = first_waiter(s->rec.futex);
	return waiter && gil_points_to(s, l, gil, waiter);
}

/*
 * gil_holder - the thread state that holds a lock; 0: none, or not readable
 *
 * Where the lock is apart its place is that of the pointer to this state, which is NULL while nobody has it.
 */
static __always_inline u64 gil_holder(const struct pye_pylayout *l, u64 gil)
{
	struct sample_gil g;
	u64 holder;

	if (l->gil_behind)
		return bpf_probe_read_user(&holder, 8, (void *)gil) ? 0 : holder & SAMPLE_ADDR;
	if (bpf_probe_read_user(&g, sizeof(g), (void *)gil) || g.locked <= 0)
		return 0;
	return g.holder & SAMPLE_ADDR;
}

/* The current frame of a thread state, an entry from C or not; 0: none. */
static __always_inline u64 current_frame(const struct pye_pylayout *l, u64 tstate)
{
	u64 frame = 0;

	bpf_probe_read_user(&frame, 8, (void *)(tstate + l->ts_frame));
	if (frame && l->flags & PYE_LAYOUT_CFRAME)
		bpf_probe_read_user(&frame, 8, (void *)((frame & SAMPLE_ADDR) + l->cframe_frame));
	return frame & SAMPLE_ADDR;
}

/*
 * holder_take - the innermost frame of who holds a lock, into s->rec.holder
 *
 * That thread runs while this one looks. Its frame counts if it is still the current one after it was
 * read; user space sees whether its code object is one.
 */
static __noinline void holder_take(struct sample_scratch *s, const struct pye_pylayout *l, u64 gil)
{
	u64 tstate = gil_holder(l, gil), frame;
	u32 size = l->flags & PYE_LAYOUT_FRAME_OBJECT ? SAMPLE_FRAME : PYE_FRAME_READ;

	if (!tstate)
		return;
	for (int i = 0; i < SAMPLE_HOLDER_TRIES; i++) {
		frame = current_frame(l, tstate);
		if (!frame || bpf_probe_read_user(s->page, size, (void *)frame))
			return;
		if (current_frame(l, tstate) != frame || gil_holder(l, gil) != tstate)
			continue;
		if (l->f_owner != PYE_NO_FIELD && s->page[l->f_owner & 0xff] >= PYE_OWNER_ENTRY)
			return;
		s->rec.holder.code = *(u64 *)(s->page + (l->f_code & 0xf8)) & SAMPLE_ADDR & ~7ULL;
		if (l->flags & PYE_LAYOUT_FRAME_OBJECT)
			s->rec.holder.instr = *(s32 *)(s->page + (l->f_instr & 0xfc));
		else
			s->rec.holder.instr = *(u64 *)(s->page + (l->f_instr & 0xf8));
		return;
	}
}

#endif
