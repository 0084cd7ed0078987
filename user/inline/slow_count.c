// SPDX-License-Identifier: Apache-2.0
/*
 * What the stubs of --count do, where there is more to do than to add one: a code object that is new is
 * defined in the ring and gets its place in the tables that pyebpf shares; with --time every event comes
 * here. As slow.c it runs in the target, and stands alone.
 */
#include "inline/region_count.h"
#include "inline/slow.h"
#include "inline/slow_ring.h"
#include "inline/slow_turns.h"

#define FUNC_PROBES   32u
#define NODE_PROBES   16u
#define ACTIVE_PROBES 4u
#define DEPTH_MAX \
	128u /* deeper calls begin a new stack, or the table would be full of recursions */
#define CALLERS_MAX 5 /* frames that are looked at for the caller: some are the interpreter's own */
#define FURTHER_MAX 32 /* while some have no place: which stack is it? */

PART struct il_func *func_at(const struct il_private *p, uint64_t i)
{
	return (struct il_func *)(uintptr_t)p->funcs + (i & (IL_FUNC_CNT - 1));
}

PART struct il_node *node_at(const struct il_private *p, uint64_t i)
{
	return (struct il_node *)(uintptr_t)p->nodes + (i & (IL_NODE_CNT - 1));
}

PART struct il_active *active_at(const struct il_private *p, uint64_t i)
{
	return (struct il_active *)(uintptr_t)p->active_frames + (i & (IL_ACTIVE_CNT - 1));
}

PART struct il_func *find_func(const struct il_private *p, uint64_t code)
{
	for (uint32_t i = 0; i < FUNC_PROBES; i++) {
		struct il_func *f = func_at(p, IL_CODE_HASH(code) + i);

		if (f->code == code)
			return f;
	}
	return 0;
}

/* 0: no room in the table, or in the ring for its name; it is tried again at the next call. */
PART struct il_func *new_func(struct il_private *p, struct il_shared *h, uint64_t code)
{
	for (uint32_t i = 0; i < FUNC_PROBES; i++) {
		struct il_func *f = func_at(p, IL_CODE_HASH(code) + i);

		if (f->code)
			continue;
		if (!has_room(p) && !wait_for_room(p, h))
			return 0;
		p->func_last += p->func_last == UINT32_MAX; /* 0 is nobody's */
		f->id = ++p->func_last;
		if (p->spans && !f->span && p->span_last < IL_SPAN_CNT)
			f->span = ++p->span_last;
		put_definition(p, code, (IL_CODE_HASH(code) + i) & (IL_FUNC_CNT - 1), f->id);
		__atomic_store_n(&h->head, p->head, __ATOMIC_RELEASE);
		__atomic_store_n(&f->code, code, __ATOMIC_RELEASE);
		return f;
	}
	return 0;
}

/* Its counts go through the ring, and the slot is free at once: the next code object will have the same address. Whoever finds 0 in
 * the slot finds the record, too. */
PART void put_retired(struct il_private *p, struct il_shared *h, struct il_func *f)
{
	struct il_retired *r = (void *)(uintptr_t)(p->ring + (p->head & p->mask));
	/* the program can have written there */
	uint32_t span = f->span,
		 spans = p->spans && span && span <= IL_SPAN_CNT ? IL_SPAN_BUCKETS : 0;
	uint64_t *from = (uint64_t *)(uintptr_t)p->spans + IL_SPAN_BUCKETS * (span - 1ull);

	r->head.time = 0;
	r->head.what = IL_MORE | (uint64_t)IL_RETIRE << 48;
	r->slot = (uint32_t)(f - func_at(p, 0));
	r->total = (uint32_t)(sizeof(*r) + 8ul * spans + 15) & ~15u;
	r->calls = f->calls;
	r->resumes = f->resumes;
	for (uint32_t i = 0; i < spans; i++)
		r->spans[i] = from[i];
	p->head += r->total;
	__atomic_store_n(&h->head, p->head, __ATOMIC_RELEASE);
	__atomic_store_n(&f->calls, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&f->resumes, 0, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < spans; i++)
		__atomic_store_n(&from[i], 0, __ATOMIC_RELAXED);
}

PART void free_func(struct il_private *p, struct il_shared *h, uint64_t code)
{
	struct il_func *f = find_func(p, code);

	if (!f)
		return;
	if (has_room(p) || wait_for_room(p, h)) {
		put_retired(p, h, f);
		__atomic_store_n(&f->code, 0, __ATOMIC_RELEASE);
	} else {
		__atomic_store_n(&f->code, IL_FREED, __ATOMIC_RELEASE);
		h->retire_lost = 1;
	}
}

/* That of a caller and a function; 0: the table is full. */
PART uint32_t find_node(const struct il_private *p, uint32_t caller, uint32_t func)
{
	uint64_t key = (uint64_t)caller << 32 | func;
	uint64_t hash = (key * 0x9e3779b97f4a7c15ull) >> 40;
	struct il_node *room = 0, *none = node_at(p, 0); /* stands for no caller */

	for (uint32_t i = 0; i < NODE_PROBES; i++) {
		struct il_node *n = node_at(p, hash + i);
		uint64_t taken = __atomic_load_n(&n->key, __ATOMIC_ACQUIRE);

		if (taken == key)
			return (uint32_t)(n - none);
		if (!taken && !room && n != none) /* pyebpf gives some back */
			room = n;
	}
	if (!room)
		return 0;
	room->key = key;
	return (uint32_t)(room - none);
}

/* What a frame's place, or one of the next ones, is taken by: itself, or nothing. */
PART struct il_active *find_active_at(const struct il_private *p, uint64_t frame, uint64_t taken)
{
	for (uint32_t i = 0; i < ACTIVE_PROBES; i++) {
		struct il_active *a = active_at(p, IL_ACTIVE_PLACE(frame) + i);

		if (a->frame == taken)
			return a;
	}
	return 0;
}

PART struct il_active *find_active(const struct il_private *p, uint64_t frame)
{
	return find_active_at(p, frame, frame);
}

/* A place for one more, or 0: then its time is its caller's, and so is that of what it calls when nothing else is in sight. */
PART struct il_active *new_active(const struct il_private *p, uint64_t frame)
{
	struct il_active *a = find_active(p, frame); /* one that ended unseen */

	return a ? a : find_active_at(p, frame, 0);
}

/* The innermost one, from this frame outwards, that began in sight: a generator that an exception was thrown through did not.
 * @outermost: there is none */
PART struct il_active *running_at(const struct il_private *p, uint64_t frame, uint32_t max,
				  int *outermost)
{
	for (uint32_t i = 0; frame && i < max; i++) {
		struct il_active *a = is_hidden(p, frame) ? 0 : find_active(p, frame);

		if (a)
			return a;
		frame = AT(uint64_t, frame + p->f_previous);
	}
	*outermost = !frame;
	return 0;
}

PART void enter(struct il_private *p, struct il_shared *h, struct il_func *f, uint64_t frame,
		const struct il_active *from, int outermost, int resumed)
{
	struct il_active *a;
	uint32_t slot = (uint32_t)(f - func_at(p, 0)), depth = from ? from->depth + 1u : 0, node;
	int again = from && from->func == slot;

	if (again && from->again) /* one place for all depths of a recursion */
		node = from->node;
	else
		node = find_node(p, from && depth < DEPTH_MAX ? from->node : 0, f->id);
	if (!node)
		node = find_node(p, 0, f->id);
	a = new_active(p, frame);
	if (a)
		__atomic_store_n(&a->frame, 0, __ATOMIC_RELEASE);
	/* what is below one that has no place is time of the next one that has: or else below none, as in another thread */
	if (!node || (!from && !outermost && p->unplaced))
		a = 0;
	p->unplaced += !a;
	if (!node)
		h->lost_other++;
	else if (resumed)
		node_at(p, node)->resumes++;
	else
		node_at(p, node)->calls++;
	if (!a)
		return;
	a->caller = from ? from->frame : 0;
	a->caller_at = from ? (uint32_t)(from - active_at(p, 0)) : 0;
	a->inner = 0;
	a->node = node;
	a->func = slot;
	a->depth = (uint16_t)(depth < DEPTH_MAX ? depth : 0);
	a->again = (uint16_t)again;
	a->start = now(p);
	__atomic_store_n(&a->frame, frame, __ATOMIC_RELEASE);
}

PART void leave(struct il_private *p, uint64_t frame)
{
	struct il_active *a = find_active(p, frame), *caller;
	uint64_t ticks = now(p), inner;
	uint32_t span;

	if (!a) { /* or it began before the attach, or never */
		p->unplaced -= p->unplaced && !is_hidden(p, frame);
		return;
	}
	ticks -= a->start;
	inner = a->inner < ticks ? a->inner : ticks;
	node_at(p, a->node)->self += ticks - inner;
	span = func_at(p, a->func)->span;
	if (span && span <= IL_SPAN_CNT)
		AT(uint64_t,
		   p->spans + 8ull * (IL_SPAN_BUCKETS * (span - 1ull) + il_span_bucket(ticks)))
	++;
	caller = active_at(p, a->caller_at);
	if (a->caller && caller->frame == a->caller)
		caller->inner += ticks;
	__atomic_store_n(&a->frame, 0, __ATOMIC_RELEASE);
}

/* Who called or resumed it, or throws into it: then it is not linked to that yet. */
PART const struct il_active *caller_of(const struct il_private *p, uint64_t frame, uint64_t tstate,
				       uint32_t kind, int *outermost)
{
	if (kind == INLINE_THROW)
		return running_at(p, running_frame(p, tstate), DEPTH_MAX, outermost);
	return running_at(p, AT(uint64_t, frame + p->f_previous),
			  p->unplaced ? FURTHER_MAX : CALLERS_MAX, outermost);
}

PART int is_resumed(const struct il_private *p, uint64_t frame, uint64_t oparg, uint32_t kind)
{
	if (kind == INLINE_EVAL_ENTRY) /* what something is thrown into may not have begun */
		return AT(int32_t, frame + p->f_instr) >= 0 || is_thrown(p, frame);
	return kind == INLINE_THROW || (oparg & p->resume_mask);
}

/*
 * Without --time, which has is_again() for it, 3.12 on: will RESUME change its code, where something that monitors was switched on or
 * off, and be dispatched anew?
 */
PART int begins_anew(struct il_private *p, uint64_t code)
{
	const struct il_interpreters *all = (const void *)(uintptr_t)p->monitored;
	uint64_t is, tstate;

	if (!p->version_at)
		return 0;
	is = all->main;
	tstate = running_tstate(p, is);
	if (!tstate)
		return 0;
	if (all->newest != is)
		p->version_at = (uint64_t)(uintptr_t)&p->unlike_any;
	else
		p->version_at = is + p->is_version;
	if (p->ts_tracing && AT(uint32_t, tstate + p->ts_tracing))
		return 0;
	is = AT(uint64_t, tstate + p->ts_interp);
	return AT(uint64_t, code + p->co_version) != AT(uint64_t, is + p->is_version);
}

PART void count_entry(struct il_private *p, struct il_shared *h, uint64_t frame, uint64_t arg,
		      uint32_t kind)
{
	uint64_t code = code_of(p, frame);
	struct il_func *f = find_func(p, code);
	int resumed = is_resumed(p, frame, arg, kind), outermost = 0;
	const struct il_active *from;

	if (kind == INLINE_ENTRY && begins_anew(p, code))
		return;
	if (!f)
		f = new_func(p, h, code);
	if (!f) {
		h->lost_other++;
	} else if (p->nodes) {
		from = caller_of(p, frame, arg, kind, &outermost);
		enter(p, h, f, frame, from, outermost, resumed);
	} else if (resumed) {
		__atomic_fetch_add(&f->resumes, 1, __ATOMIC_RELAXED);
	} else {
		__atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
	}
}

/* Where monitoring was switched on or off, 3.12 on, the instruction that begins a frame changes its code, and is dispatched anew:
 * with --time, where ends are seen, too, the same frame begins twice in a row. Where threads run at once others' events can come
 * between the two, but none that this frame calls. */
PART int is_again(struct il_private *p, uint64_t frame, uint32_t kind)
{
	const struct il_active *a;
	uint64_t last = p->entered;

	p->entered = p->nodes && kind == INLINE_ENTRY ? frame : 0;
	if (!p->entered || (p->entered != last && !p->locked && !is_apart(p)))
		return 0;
	a = find_active(p, frame);
	return a && (p->entered == last ||
		     (!a->inner && func_at(p, a->func)->code == code_of(p, frame)));
}

STUB void pye_inline_count(struct il_private *p, uint64_t object, uint64_t arg, uint32_t kind)
{
	struct il_shared *h;

	if (!p->active)
		return; /* a forked child */
	h = (void *)(uintptr_t)p->shared;
	lock(p);
	h->slow++;
	if (is_again(p, object, kind)) {
		unlock(p);
		return;
	}
	if (kind == INLINE_DEALLOC)
		free_func(p, h, object);
	else if (kind == INLINE_ENTRY || kind == INLINE_EVAL_ENTRY || kind == INLINE_THROW)
		count_entry(p, h, object, arg, kind);
	else
		leave(p, object);
	unlock(p);
}
