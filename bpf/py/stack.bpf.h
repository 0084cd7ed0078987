/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The stack of a thread as the probes track it, and walks of the real one.
 *
 * Every entry pushes its frame and every exit pops it, so the probes know the top of the stack
 * without reading the target. Where that knowledge and the target disagree (the first event of a
 * thread that was running, a frame thrown into, a greenlet switch, an `__init__` shim), the frame
 * chain is walked in the thread's own context, where it cannot change, and what user space does not
 * know is sent as WALK records before the event.
 */
#ifndef PYEBPF_PY_STACK_BPF_H
#define PYEBPF_PY_STACK_BPF_H

#include "py/frame.bpf.h"

#define ADDR_MASK 0xffffffffffffULL

#define SLOT(pos) ((pos) & (PYE_STACK_SLOTS - 1))

/* Frames looked at to tell "thrown into" and shims from a switch to another stack. */
#define NEAR_FRAMES 16
#define NEAR_ROUNDS 64 /* looks at SKIP_FRAMES frames each */
#define NOT_NEAR    (-1)

#define CLOSING_MAX (PYE_STACK_SLOTS / 2) /* frames that are being closed, one within the other */

static __always_inline u64 stack_top(struct thread *t)
{
	return t->valid ? t->stack[SLOT(t->pos - 1)] : 0;
}

/* The innermost frame that runs: those above it are being closed. */
static __always_inline u64 running_top(struct thread *t)
{
	u64 slot = stack_top(t);
	u32 closing = slot & SLOT_CLOSING ? SLOT_CLOSING_NTH(slot) : 0;

	return closing < t->valid ? SLOT_FRAME(t->stack[SLOT(t->pos - 1 - closing)]) : 0;
}

/* What is on top is being closed, @sp: where the stack of whoever does it is. false: too many are. */
static __always_inline bool top_closes(struct thread *t, u32 sp)
{
	u64 below = t->valid > 1 ? t->stack[SLOT(t->pos - 2)] : 0;
	u64 nth = below & SLOT_CLOSING ? SLOT_CLOSING_NTH(below) + 1 : 1;

	if (nth > CLOSING_MAX)
		return false;
	t->stack[SLOT(t->pos - 1)] |= SLOT_CLOSING | nth << 48;
	t->sp[SLOT(t->pos - 1)] = sp;
	return true;
}

/* A slot filled from a walk: where its C frame lies is not known. */
static __always_inline void slot_set(struct thread *t, u32 pos, u64 frame)
{
	t->stack[SLOT(pos)] = frame;
	t->sp[SLOT(pos)] = 0;
}

static __always_inline void stack_push(struct thread *t, u64 frame)
{
	slot_set(t, t->pos, frame);
	t->pos++;
	if (t->valid < PYE_STACK_SLOTS)
		t->valid++;
	else
		t->below++;
}

/*
 * The functions below that are not static are verified each on its own: the cost of loading does not
 * multiply. They take numbers only and find their thread themselves.
 */
static __always_inline struct thread *self(struct pye_pylayout **l)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	*l = t ? layout_of(t) : NULL;
	return *l ? t : NULL;
}

/* The chain ends at a linked frame (3.9 does not link it to its caller) or at memory that cannot be read:
 * what is below is not known. */
#define FRAME_CUT 1
/* Nothing but what is skipped up to t->walk_more: go on from there. */
#define FRAME_MORE  2
#define FRAME_LAST  FRAME_MORE /* no frame up to this value */

#define SKIP_FRAMES 16

enum frame_kind {
	FRAME_RUNS,
	FRAME_SKIPPED,
	FRAME_LINKED,
	FRAME_UNREADABLE
};

/* Reads a frame into t->frame and says what it is; @sure as for frame_real(), in whose rounds the verifier would go
 * through all of it 16 times. */
__noinline u32 frame_look(u64 frame, u32 sure)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);

	if (!t || frame_load(t, frame))
		return FRAME_UNREADABLE;
	if (frame_owner(t, l) >= PYE_OWNER_ENTRY || frame_is_hidden(t, l))
		return FRAME_SKIPPED;
	return frame_is_linked(t, l, frame, sure) ? FRAME_LINKED : FRAME_RUNS;
}

/*
 * frame_real - the frame itself, or the next one below it that is a running Python frame: entries from
 * C, the interpreter's own shims and linked generators are skipped. It is left in t->frame.
 * @sure: what is known of the frame itself: 0, SURE_CALLS or SURE_RUNS
 *
 * Return: 0 at the root of the stack, FRAME_CUT, FRAME_MORE.
 */
__noinline u64 frame_real(u64 frame, u32 sure)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u64 end = 0;

	if (!t)
		return 0;
	for (int i = 0; i < SKIP_FRAMES; i++) {
		u32 kind;

		if (!frame)
			return end;
		kind = frame_look(frame, sure);
		if (kind == FRAME_RUNS)
			return frame;
		if (kind == FRAME_UNREADABLE) {
			count(CNT_WALK_FAULT);
			return FRAME_CUT;
		}
		end = kind == FRAME_LINKED ? FRAME_CUT : 0;
		sure = 0;
		frame = frame_previous(t, l);
	}
	t->walk_more = frame;
	return FRAME_MORE;
}

/* walk_flush - send the frames collected in t->walk; -1 if the ring is full. */
static __noinline int walk_flush(struct thread *t, u32 flags, u64 anchor, u32 reason)
{
	struct pye_walk_rec *rec;
	void *ring = ring_of(t);

	rec = ring ? bpf_ringbuf_reserve(ring, sizeof(*rec), 0) : NULL;
	if (!rec)
		return -1;
	head_fill(&rec->head, t, PYE_REC_WALK, flags, anchor);
	if (cfg_filter)
		rec->head.ts_ns = t->now_ns;
	rec->cnt = t->walk_cnt;
	rec->reason = reason;
	__builtin_memcpy(rec->frames, t->walk, sizeof(rec->frames));
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	t->walk_cnt = 0;
	return 0;
}

/* walk_add - one frame (in t->frame) of a walk; -1 if the ring is full. */
static __always_inline int walk_add(struct thread *t, struct pye_pylayout *l, u64 frame,
				    u32 *id_out)
{
	u32 id = code_id(t, frame_code(t, l)), at = t->walk_cnt;

	if (!id)
		return -1;
	if (at >= PYE_WALK_FRAMES)
		return -1;
	t->walk[at].frame = frame;
	t->walk[at].owner = frame_owner(t, l);
	if (cfg_filter && id & PYE_CODE_QUIET)
		t->walk[at].owner |= PYE_OWNER_QUIET;
	t->walk[at].code = id & PYE_CODE_ID;
	t->walk[at].pad = 0;
	t->walk_cnt = at + 1;
	*id_out = id;
	return 0;
}

/* The id of the frame in t->frame where it is not sent: who is quiet must be known all the same. */
static __always_inline u32 quiet_id(struct thread *t, struct pye_pylayout *l)
{
	return cfg_filter ? code_id(t, frame_code(t, l)) : 0;
}

struct walk_state {
	u64 frame;
	u32 reason;
	bool failed; /* the ring is full */
	bool cut; /* the chain ends: what is below cannot be read */
	bool deep; /* what is below was left out */
};

/* The array behind bpf_for_each_map_elem(), a loop that every kernel from 5.13 on has: each of its
 * elements stands for one round. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYE_WALK_MAX);
	__type(key, u32);
	__type(value, u8);
} rounds SEC(".maps");

static long walk_round(void *map, u32 *key, u8 *value, void *ctx)
{
	struct walk_state *w = ctx;
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u32 id = 0;

	if (!t)
		return 1;
	w->frame = frame_real(w->frame, t->walk_n ? 0 : SURE_RUNS);
	if (w->frame == FRAME_MORE) {
		w->frame = t->walk_more;
		return 0;
	}
	if (w->frame <= FRAME_LAST) {
		w->cut = w->frame;
		return 1;
	}
	if (w->failed)
		id = quiet_id(t, l);
	else if (walk_add(t, l, w->frame, &id))
		w->failed = true;
	if (cfg_filter & PYE_FILTER_ROOT && id & PYE_CODE_CHOSEN)
		t->root_n = t->walk_n + 1; /* the outermost comes last */
	if (t->walk_n < PYE_STACK_SLOTS)
		slot_set(t, t->pos - 1 - t->walk_n, slot_of(w->frame, id));
	else if (w->failed)
		w->deep = true;
	if (w->deep)
		return 1;
	t->walk_n++;
	if (t->walk_cnt == PYE_WALK_FRAMES && !w->failed) {
		if (t->walk_sent + 1 >= cfg_walk_records) {
			w->deep = true;
			return 1;
		}
		if (walk_flush(t, t->walk_sent ? 0 : PYE_WALK_FIRST, 0, w->reason))
			w->failed = true;
		t->walk_sent++;
	}
	frame_load(t, w->frame); /* code_id may have used the buffer's thread meanwhile */
	w->frame = frame_previous(t, l);
	return 0;
}

/*
 * walk_all - walk the stack from a frame to its root, send it and take it as the tracked stack
 *
 * Return: 0; -1 if the ring was full: the tracked stack is right all the same.
 */
__noinline int walk_all(u64 frame, u32 reason)
{
	struct walk_state w = { .frame = frame, .reason = reason };
	struct pye_pylayout *l;
	struct thread *t = self(&l);

	if (!t)
		return -1;
	count(CNT_WALKS);
	t->walk_cnt = t->walk_sent = t->walk_n = t->root_n = 0;
	bpf_for_each_map_elem(&rounds, walk_round, &w, 0);
	w.deep = w.deep || t->walk_n == PYE_WALK_MAX;
	t->valid = t->walk_n < PYE_STACK_SLOTS ? t->walk_n : PYE_STACK_SLOTS;
	t->below = t->walk_n - t->valid + w.deep;
	t->flags = (t->flags & ~T_CUT) | T_KNOWN | (w.deep ? T_CUT : 0);
	if (cfg_filter & PYE_FILTER_ROOT)
		t->root_at = t->root_n ? t->valid + t->below + 1 - t->root_n : 0;
	if (w.failed)
		return -1;
	return walk_flush(t,
			  (t->walk_sent ? 0 : PYE_WALK_FIRST) |
				  (w.cut || w.deep ? PYE_WALK_CUT : PYE_WALK_ROOT),
			  0, reason);
}

/* Pushes the i-th, from above, of n frames that walk_near() has found, and adds it to what is sent unless that has
 * @failed. Return: whether it has. */
__noinline u32 near_take(u32 i, u32 n, u32 failed)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u32 id = 0;
	u64 at;

	if (!t)
		return 1;
	at = t->walk[i & (NEAR_FRAMES - 1)].frame;
	if (failed && cfg_filter && !frame_load(t, at))
		id = quiet_id(t, l);
	if (!failed && (frame_load(t, at) || walk_add(t, l, at, &id)))
		failed = 1;
	slot_set(t, t->pos + n - 1 - i, slot_of(at, id));
	if (cfg_filter & PYE_FILTER_ROOT && id & PYE_CODE_CHOSEN)
		t->root_n = i + 1;
	if (!(cfg_filter & PYE_FILTER_ROOT) && is_quiet(t, slot_of(0, id), depth_of(t) + n - i))
		t->walk_n--; /* not lost */
	return failed;
}

/*
 * walk_near - frames between `frame` (included) and the tracked top, when the top lies at most
 * NEAR_FRAMES below: they were entered without an event (thrown into). They are pushed, and sent unless
 * events are being lost.
 *
 * Return: number n of frames; NOT_NEAR; or NOT_NEAR - n: so many events were not sent.
 */
__noinline int walk_near(u64 frame)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u64 running, at = frame;
	u32 n = 0, failed;

	if (!t)
		return NOT_NEAR;
	running = running_top(t);
	if (!running)
		return NOT_NEAR;
	t->walk_n = 0;
	for (int i = 0; i < NEAR_ROUNDS && t->walk_n < NEAR_FRAMES; i++) {
		at = frame_real(at, t->walk_n ? 0 : SURE_RUNS);
		if (at == running)
			break;
		if (at == FRAME_MORE) {
			at = t->walk_more;
			continue;
		}
		if (at <= FRAME_LAST)
			return NOT_NEAR;
		t->walk[t->walk_n & (NEAR_FRAMES - 1)].frame = at;
		at = frame_previous(t, l);
		t->walk_n++;
	}
	n = t->walk_n;
	if (at != running)
		return NOT_NEAR;
	count(CNT_WALKS);
	failed = !!(t->flags & T_NEED_WALK);
	t->walk_cnt = t->root_n = 0;
	for (u32 i = 0; i < NEAR_FRAMES && i < n; i++)
		failed = near_take(i, n, failed);
	if (!failed && walk_flush(t, PYE_WALK_FIRST | PYE_WALK_ANCHORED, SLOT_FRAME(stack_top(t)),
				  PYE_WALK_THROWN))
		failed = 1;
	if (cfg_filter & PYE_FILTER_ROOT && !t->root_at) {
		t->walk_n = t->root_n;
		t->root_at = t->root_n ? depth_of(t) + n + 1 - t->root_n : 0;
	}
	t->pos += n;
	t->valid += n;
	if (t->valid > PYE_STACK_SLOTS) {
		t->below += t->valid - PYE_STACK_SLOTS;
		t->valid = PYE_STACK_SLOTS;
	}
	return failed && t->walk_n ? NOT_NEAR - (int)t->walk_n : (int)n;
}

struct refill_state {
	u64 frame;
};

static long refill_round(void *map, u32 *key, u8 *value, void *ctx)
{
	struct refill_state *r = ctx;
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u32 flags = 0, id = 0;
	u64 previous;

	if (!t || t->walk_n >= PYE_STACK_SLOTS)
		return 1;
	r->frame = frame_real(r->frame, 0);
	if (r->frame == FRAME_MORE) {
		r->frame = t->walk_more;
		return 0;
	}
	if (r->frame <= FRAME_LAST)
		return 1;
	read_user(&flags, 4, frame_code(t, l) + l->co_flags);
	previous = frame_previous(t, l);
	id = quiet_id(t, l) & ~PYE_CODE_GENERATOR;
	slot_set(t, t->pos - 1 - t->walk_n,
		 slot_of(r->frame, id | (flags & CO_SUSPENDS ? PYE_CODE_GENERATOR : 0)));
	t->walk_n++;
	r->frame = previous;
	return 0;
}

/* stack_refill - the slots ran out under a deep stack: read the frames below `frame` again. */
__noinline int stack_refill(u64 frame)
{
	struct refill_state r = {};
	struct pye_pylayout *l;
	struct thread *t = self(&l);

	count(CNT_REFILLS);
	if (!t)
		return 0;
	if (frame_load(t, frame)) {
		t->flags &= ~T_KNOWN;
		return 0;
	}
	r.frame = frame_previous(t, l);
	t->walk_n = 0;
	bpf_for_each_map_elem(&rounds, refill_round, &r, 0);
	t->valid = t->walk_n;
	if (t->flags & T_CUT)
		t->below = t->walk_n == PYE_STACK_SLOTS;
	else
		t->below = t->below > t->walk_n ? t->below - t->walk_n : 0;
	return 0;
}

#endif
