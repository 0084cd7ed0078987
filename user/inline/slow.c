// SPDX-License-Identifier: Apache-2.0
/*
 * The slow path of the stubs. It runs in the target: compiled to stand alone (general registers only, no
 * data outside its own section and no call but that of the kernel's clock, tests/unit/test_inline.c looks), it is copied
 * into the code page. Everything that it reads is alive: it runs in the thread that holds the GIL. Where there is none, or
 * several, every event comes here. The first threads have a lane each, a region of their own; the others
 * take turns in the ring that would be everybody's.
 */
#include "inline/slow.h"

#include <stddef.h>

#include "inline/slow_quiet.h"
#include "inline/slow_turns.h"
#include "proc/self_tid.h"

#define STACKREF_TAGS 3 /* low bits of a reference in a frame */
#define TOLD_PART     4 /* of the ring at most: a loss would have it told anew, without end */

/* 0: it is the thread's first one. */
PART uint64_t caller_frame(const struct il_private *p, uint64_t frame)
{
	return python_frame(p, AT(uint64_t, frame + p->f_previous));
}

PART uint64_t caller_bits(const struct il_private *p, uint64_t frame)
{
	return il_frame_hash(caller_frame(p, frame));
}

/* With --opcodes: where its instructions' lines are. */
PART void put_lines(struct il_private *p, uint64_t code, uint64_t slot, uint64_t time)
{
	struct il_lines *l = (void *)(uintptr_t)(p->ring + (p->head & p->mask));
	uint64_t table = AT(uint64_t, code + p->co_linetable);
	uint64_t bytes = AT(uint64_t, table + p->bytes_size);

	if (bytes > IL_LINES_MAX)
		bytes = 0;
	l->head.time = time;
	l->head.what = IL_MORE | (uint64_t)IL_LINES << 48;
	l->slot = (uint32_t)slot;
	l->total = (uint32_t)(sizeof(*l) + bytes + 15) & ~15u;
	l->bytes = (uint32_t)bytes;
	copy(l->data, table + p->bytes_data, bytes);
	p->head += l->total;
}

/* The slot of a frame's code object, which is defined if it is not known. */
PART uint64_t define(struct il_private *p, uint64_t frame, uint64_t time)
{
	uint64_t code = code_of(p, frame), slot = IL_CODE_SLOT(code);
	uint64_t *known = cache_slot(p, code);

	if ((*known & ~IL_CODE_QUIET) != code) {
		/* between the end of what had its address before, and the next one's beginning */
		put_definition(p, code, slot, p->lane_ring ? now_behind(p) << 16 : time);
		if (p->co_linetable)
			put_lines(p, code, slot, time);
		*known = code;
	}
	return slot;
}

/* gen_close() clears frames that never started, too: no event. */
PART int is_closed_running(const struct il_private *p, uint64_t frame)
{
	uint64_t instr = AT(uint64_t, frame + p->f_instr);

	return (AT(uint8_t, instr + 1) & p->resume_depth1) != 0;
}

PART int is_no_object(uint64_t ref)
{
	return ref <= STACKREF_TAGS || (ref & STACKREF_TAGS) == STACKREF_TAGS;
}

/* Does it hold something on its stack that no local does? That ends before the frame does, where the exception is really
 * thrown; what its locals hold ends behind it. */
PART int has_own_stack(const struct il_private *p, uint64_t frame)
{
	uint64_t locals = frame + p->f_locals, at = AT(uint64_t, frame + p->f_stackpointer),
		 top = 0;
	uint32_t cnt = AT(uint32_t, code_of(p, frame) + p->co_firstlineno + 4);

	/* 3.15: a loop has the position in a list, or nothing, above what it iterates over */
	for (int i = 0; i < 2 && is_no_object(top); i++) {
		at -= 8;
		if (at < locals + 8ull * cnt)
			return 0;
		top = AT(uint64_t, at);
	}
	for (uint32_t i = 0; i < cnt; i++)
		if ((AT(uint64_t, locals + 8ull * i) ^ top) <= STACKREF_TAGS)
			return 0;
	return 1;
}

/* A suspended frame has kept its stack pointer, or says that it is suspended. */
PART int is_suspended(const struct il_private *p, uint64_t frame)
{
	if (p->state_is_byte)
		return AT(int8_t, frame + p->f_state) < 0;
	return AT(uint64_t, frame + p->f_state) != 0;
}

/* The record of a frame that begins or goes on, and of one that ends or waits, to 3.10. */
PART uint64_t eval_entry(const struct il_private *p, uint64_t frame, uint64_t slot)
{
	return slot << 48 | frame |
	       (AT(int32_t, frame + p->f_instr) < 0 ? (uint64_t)IL_CALL : (uint64_t)IL_RESUME);
}

PART uint64_t eval_exit(const struct il_private *p, uint64_t frame)
{
	return frame | (is_suspended(p, frame) ? (uint64_t)IL_YIELD : (uint64_t)IL_RETURN);
}

PART void put_eval_entry(struct il_private *p, uint64_t frame, uint64_t time)
{
	uint64_t slot = define(p, frame, time), bits = caller_bits(p, frame);

	if (is_thrown(p, frame))
		put_more(p, time | bits, frame | IL_MORE | (uint64_t)IL_THROW << 48, slot, 0);
	else
		put(p, time | bits, eval_entry(p, frame, slot));
}

PART void put_eval_exit(struct il_private *p, uint64_t frame, uint64_t time)
{
	if (is_raising(p))
		put_more(p, time, frame | IL_MORE | (uint64_t)IL_UNWIND << 48, 0, 0);
	else
		put(p, time, eval_exit(p, frame));
}

/* The one before has ended: what is waited for behind it, for want of room in the ring, is none of its time. */
PART void end_opcode(struct il_private *p, struct il_thread *t, uint64_t time)
{
	if (t->timed)
		put(p, time, IL_OPCODE_END);
	t->timed = 0;
}

/* What is no Python frame has no instruction of its own. */
PART void put_opcode(struct il_private *p, struct il_thread *t, uint64_t frame, uint64_t instr,
		     uint32_t kind, uint64_t time)
{
	uint64_t slot;

	if ((kind & 0xff) == INLINE_OPCODE_END || is_hidden(p, frame)) {
		end_opcode(p, t, time);
		return;
	}
	slot = define(p, frame, time);
	put(p, time | il_frame_hash(frame),
	    slot << 48 | (uint64_t)(kind >> 8 & 0xff) << IL_OPCODE_SHIFT |
		    (instr - code_of(p, frame)) << 3 | IL_OPCODE);
	t->timed = 1;
}

/* --- stacks that are exchanged under the interpreter --- */

PART uint64_t *root_at(const struct il_private *p, uint64_t frame)
{
	return (uint64_t *)(uintptr_t)p->roots + IL_ROOT(frame);
}

/* The next frame of a stack that events are of; 0: none. */
PART uint64_t shown_frame(const struct il_private *p, uint64_t frame)
{
	while (frame && is_hidden(p, frame))
		frame = AT(uint64_t, frame + p->f_previous);
	return frame;
}

/* The innermost frame that has shown itself, after the last event. */
PART uint64_t top_seen(const struct il_private *p)
{
	return p->top == p->unseen ? p->below : p->top;
}

/* Is it the stack of the last event? Between the two there can be frames that show no event: shims, and what is linked before it begins, or
 * while something is thrown into what it delegates to, however often that is passed on. */
PART int is_on_last(const struct il_private *p, uint64_t frame)
{
	uint64_t seen = top_seen(p);

	while (frame && frame != p->top && frame != seen)
		frame = caller_frame(p, frame);
	return frame != 0;
}

/* See frame_is_linked() in bpf/py/frame.bpf.h. */
PART int is_unseen(const struct il_private *p, uint64_t frame)
{
	const uint8_t *ops = p->idle_ops;
	uint8_t op;

	if (!ops[0])
		return 0;
	op = AT(uint8_t, AT(uint64_t, frame + p->f_instr));
	if (AT(int32_t, frame + p->f_stack) < 0)
		ops = p->begin_ops;
	return op && (op == ops[0] || op == ops[1] || op == ops[2] || op == ops[3]);
}

/* The next frame of a stack that runs, or has called what does. 3.11: one that C called is not called by a frame that is_unseen(), whose
 * trace function it is, or what that delegates to: that one is no more, or not yet. Other callers can have anything where the instruction is. */
PART uint64_t frame_below(const struct il_private *p, uint64_t frame)
{
	uint64_t by_c;

	do {
		by_c = p->f_entry && AT(uint8_t, frame + p->f_entry);
		frame = shown_frame(p, AT(uint64_t, frame + p->f_previous));
	} while (frame && by_c && is_unseen(p, frame));
	return frame;
}

/*
 * 0: it is too deep to be told, or the rest of it cannot be seen: what is thrown through generators that delegate, to 3.9,
 * runs on top of suspended ones, which are linked to nobody.
 */
PART uint64_t root_of(const struct il_private *p, uint64_t frame)
{
	uint64_t root = 0, bytes = 0;

	for (; frame; frame = frame_below(p, frame)) {
		bytes += sizeof(struct il_more_rec);
		if (bytes > p->size / TOLD_PART)
			return 0;
		root = frame;
	}
	return p->f_owner == PYE_NO_FIELD && root && is_suspended(p, root) ? 0 : root;
}

/* A frame of the running stack. */
PART void put_frame(struct il_private *p, struct il_shared *h, uint64_t time, uint64_t frame,
		    uint64_t flags)
{
	put_more(p, time, frame | IL_MORE | (uint64_t)IL_FRAME << 48, flags, 0);
	__atomic_store_n(&h->head, p->head, __ATOMIC_RELEASE);
}

/* Behind what another thread can have to do with. */
PART uint64_t time_behind(const struct il_private *p)
{
	return (p->lane_ring ? now_behind(p) : now(p)) << 16;
}

/* This one goes on, or 0: a stack of its own begins. */
PART void tell_frame(struct il_private *p, struct il_shared *h, uint64_t frame, uint64_t flags)
{
	if (make_room(p, h))
		put_frame(p, h, time_behind(p), frame, IL_FRAME_KNOWN | flags);
}

/* 3.11: is it at the RESUME of a call? Then it is not what has waited at its address. Or does it wait? */
PART uint64_t how_unseen(const struct il_private *p, uint64_t frame)
{
	uint64_t instr = AT(uint64_t, frame + p->f_instr);
	uint8_t op = AT(uint8_t, instr);

	if ((op == p->idle_ops[0] || op == p->idle_ops[1]) &&
	    !(AT(uint8_t, instr + 1) & p->resume_mask))
		return IL_FRAME_BEGINS;
	return op == p->idle_ops[3] && AT(int32_t, frame + p->f_stack) >= 0 ? IL_FRAME_WAITS : 0;
}

/* 3.11: the collector and trace functions can be called where a frame has not shown itself yet, or has ended. It is no event's,
 * and behind them the one below goes on. */
PART void tell_unseen(struct il_private *p, struct il_shared *h, uint64_t frame, uint64_t below)
{
	tell_frame(p, h, frame, how_unseen(p, frame));
	p->unseen = frame;
	p->below = below;
}

/* Another stack runs now. All of its frames, if pyebpf cannot know them: it stood still when the attach, or a loss, came. */
PART void tell_known(struct il_private *p, struct il_shared *h, uint64_t frame)
{
	uint64_t flags = IL_FRAME_FIRST, root = root_of(p, frame);

	if (!root)
		return;
	if (*root_at(p, root) == root) {
		tell_frame(p, h, frame, 0);
		return;
	}
	for (; frame; frame = frame_below(p, frame)) {
		uint64_t time = time_behind(p), slot;

		if (!make_room(p, h))
			return;
		slot = define(p, frame, time);
		if (frame == root)
			flags |= IL_FRAME_LAST;
		put_frame(p, h, time, frame, slot | flags);
		flags = 0;
	}
	*root_at(p, root) = root;
}

/* The stack of what runs now, if it may be another one than that of the last event. */
PART void tell_stack(struct il_private *p, struct il_shared *h, uint64_t frame)
{
	uint64_t seen = top_seen(p), unseen = 0;

	if (is_on_last(p, frame)) {
		if (p->idle_ops[0] && frame != p->top && frame != seen)
			tell_unseen(p, h, frame, seen);
		return;
	}
	frame = shown_frame(p, frame);
	if (frame && is_unseen(p, frame)) {
		unseen = frame;
		frame = frame_below(p, frame);
	}
	if (frame)
		tell_known(p, h, frame);
	else
		tell_frame(p, h, 0, 0);
	if (unseen)
		tell_unseen(p, h, unseen, frame);
}

/* --- what is not recorded --- */

/* Does it begin as a call? To 3.10 an entry can be anything. */
PART int is_call(const struct il_private *p, uint64_t frame, uint64_t arg, uint32_t kind)
{
	if (kind == INLINE_ENTRY)
		return !(arg & p->resume_mask);
	return kind == INLINE_EVAL_ENTRY && AT(int32_t, frame + p->f_instr) < 0 &&
	       !is_thrown(p, frame);
}

/* 1: of this event there is nothing to record. Else what was not recorded so far is, for it depends on that. */
PART int is_quiet(struct il_private *p, struct il_shared *h, uint64_t self, uint64_t object,
		  uint64_t arg, uint32_t kind)
{
	int inner = p->quiet_at && p->thread == self && object == p->run;

	take_verdicts(p, h);
	if (p->thread == self && is_call(p, object, arg, kind) &&
	    begin_quiet(p, h, object, shown_frame(p, AT(uint64_t, object + p->f_previous)),
			caller_bits(p, object)))
		return 1;
	if (inner && kind == INLINE_CAUGHT)
		return 1;
	if (inner && (kind == INLINE_RETURN || kind == INLINE_UNWIND || kind == INLINE_EVAL_EXIT)) {
		end_quiet(p);
		return 1;
	}
	if (p->quiet_at && (kind != INLINE_DEALLOC || p->thread != self || !has_room(p)))
		tell_quiet(p, h);
	return 0;
}

/* That of the running thread; 0: not known, or none. */
PART uint64_t frame_now(const struct il_private *p)
{
	const struct il_interpreters *all = (const void *)(uintptr_t)p->monitored;
	uint64_t tstate = all ? running_tstate(p, all->main) : 0;

	return tstate ? running_frame(p, tstate) : 0;
}

/* What an event needs to be known is told before it. */
PART void tell(struct il_private *p, struct il_shared *h, uint64_t object, uint64_t arg,
	       uint32_t kind)
{
	uint64_t at = object, top = object;
	int ends = 0, shown;

	switch (kind & 0xff) {
	case INLINE_ENTRY:
	case INLINE_EVAL_ENTRY:
		at = caller_frame(p, object);
		break;
	case INLINE_THROW:
		at = running_frame(p, arg);
		break;
	case INLINE_CAUGHT:
		break;
	case INLINE_CLOSE: /* nothing of it is linked to who closes it */
		at = frame_now(p);
		if (!at || is_on_last(p, at))
			return;
		top = shown_frame(p, at);
		break;
	case INLINE_YIELD:
	case INLINE_RETURN:
	case INLINE_UNWIND:
	case INLINE_EVAL_EXIT:
		top = caller_frame(p, object);
		ends = 1; /* as a root, if it is one, also where a frame that is no more has called it */
		break;
	default:
		return;
	}
	/* what called a trace function shows itself now, and nothing new at its address */
	shown = object == p->top && object == p->unseen && at == p->below;
	if (!at)
		*root_at(p, object) = object; /* a new one: all of it is seen */
	else if (!shown)
		tell_stack(p, h, at);
	if (ends && *root_at(p, object) == object)
		*root_at(p, object) = 0;
	p->top = top;
}

/* What another thread can have to do with: it comes behind what that has done. */
PART uint64_t time_of(const struct il_private *p, uint64_t arg, uint32_t kind)
{
	int own = kind == INLINE_RETURN || (kind == INLINE_ENTRY && !(arg & p->resume_mask));

	return own ? now(p) << 16 : time_behind(p);
}

PART void put_event(struct il_private *p, struct il_thread *t, uint64_t object, uint64_t arg,
		    uint32_t kind)
{
	uint64_t time = time_of(p, arg, kind), slot;

	switch (kind & 0xff) {
	case INLINE_OPCODE:
	case INLINE_OPCODE_END:
		put_opcode(p, t, object, arg, kind, time);
		break;
	case INLINE_ENTRY:
	case INLINE_CAUGHT:
		slot = define(p, object, time);
		put(p, time | caller_bits(p, object),
		    slot << 48 | object |
			    (kind == INLINE_CAUGHT  ? (uint64_t)IL_CAUGHT
			     : arg & p->resume_mask ? (uint64_t)IL_RESUME
						    : (uint64_t)IL_CALL));
		break;
	case INLINE_YIELD:
		put(p, time, object | IL_YIELD);
		break;
	case INLINE_RETURN:
		put(p, time, object | IL_RETURN);
		break;
	case INLINE_UNWIND:
		slot = define(p, object, time);
		if (AT(uint8_t, object + p->f_owner) == PYE_OWNER_GENERATOR)
			slot |= IL_GENERATOR;
		put_more(p, time | caller_bits(p, object),
			 object | IL_MORE | (uint64_t)IL_UNWIND << 48, slot,
			 AT(uint64_t, object + p->f_instr) - code_of(p, object));
		break;
	case INLINE_CLOSE:
		slot = define(p, object, time);
		put_more(p, time, object | IL_MORE | (uint64_t)IL_CLOSE << 48, slot,
			 has_own_stack(p, object) ? arg : 0);
		break;
	case INLINE_CLOSED:
		put_more(p, time, IL_MORE | (uint64_t)IL_CLOSED << 48, object, 0);
		break;
	case INLINE_EVAL_ENTRY:
		put_eval_entry(p, object, time);
		break;
	case INLINE_THROW:
		slot = define(p, object, time);
		put_more(p, time | il_frame_hash(running_frame(p, arg)),
			 object | IL_MORE | (uint64_t)IL_THROW << 48, slot, 0);
		break;
	case INLINE_EVAL_EXIT:
		put_eval_exit(p, object, time);
		break;
	case INLINE_DEALLOC:
		put_more(p, time, IL_MORE | (uint64_t)IL_RETIRE << 48, object, 0);
		break;
	}
}

PART void forget_in(uint64_t cache, uint64_t code)
{
	uint64_t *known = (uint64_t *)(uintptr_t)cache + IL_CODE_SLOT(code),
		 was = __atomic_load_n(known, __ATOMIC_RELAXED);

	if ((was & ~IL_CODE_QUIET) == code)
		__atomic_compare_exchange_n(known, &was, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* A thread can have the memory, and so the pthread_self(), of the one that wrote last: that shows in its first frame. */
PART int may_be_another(const struct il_private *p, uint64_t frame, uint32_t kind)
{
	return !p->tid_at &&
	       (kind == INLINE_ENTRY || kind == INLINE_EVAL_ENTRY || kind & INLINE_FIRST) &&
	       !caller_frame(p, frame);
}

/* What is lost where one of this kind finds no room. INLINE_CLOSE stands for its end, too, for not every INLINE_CLOSED is one. */
PART uint32_t events_of(uint32_t kind)
{
	switch (kind & 0xff) {
	case INLINE_DEALLOC:
	case INLINE_CAUGHT:
	case INLINE_OPCODE_END:
	case INLINE_CLOSED:
		return 0;
	case INLINE_CLOSE:
		return 2;
	default:
		return 1;
	}
}

PART int has_opcodes(const struct il_private *p)
{
	return p->slack > IL_SLACK;
}

PART void lose(const struct il_private *p, struct il_shared *h, struct il_thread *t, uint32_t kind)
{
	uint32_t cnt = events_of(kind);

	if (kind == INLINE_DEALLOC)
		h->retire_lost = 1;
	if (cnt && has_opcodes(p) && (kind & 0xff) != INLINE_OPCODE) {
		note_lost_frames(t);
		return;
	}
	for (; cnt; cnt--)
		count_lost(t);
}

PART void event(struct il_private *p, struct il_shared *h, uint64_t object, uint64_t arg,
		uint32_t kind)
{
	struct il_thread *t;
	uint64_t self, full_at;
	int room;

	p->head = h->head;
	full_at = has_opcodes(p) && !has_room(p) ? now(p) : 0;
	if (!p->lane_ring)
		h->slow++; /* else every event is one */
	if (may_be_another(p, object, kind))
		p->thread = p->slot_self = 0;
	self = own_self();
	if (p->quiet && is_quiet(p, h, self, object, arg, kind))
		return;
	room = make_room(p, h);
	t = thread_slot(p, self);
	if (room && full_at && p->thread == self)
		end_opcode(p, t, full_at << 16);
	if (room && p->thread != self) {
		put_more(p, now(p) << 16, IL_MORE | (uint64_t)IL_SWITCH << 48, self, t->tid);
		p->thread = self;
		p->turn = p->locked || is_apart(p) ? 0 : self;
		p->top = p->run = 0;
	}
	if (room && p->roots) {
		tell(p, h, object, arg, kind);
		room = make_room(p, h);
	}
	if (!room) {
		if (!is_over(h))
			lose(p, h, t, kind);
		return;
	}
	put_event(p, t, object, arg, kind);
	__atomic_store_n(&h->head, p->head, __ATOMIC_RELEASE);
	if (!p->quiet_at)
		p->run = p->top;
}

/* --- lanes --- */

PART struct il_private *lane_at(const struct il_private *p, uint32_t i)
{
	return (struct il_private *)(uintptr_t)(p->lanes + i * IL_LANE_BYTES(p->lane_ring));
}

PART uint32_t hash_of(uint64_t self)
{
	return (uint32_t)(self * 0x9e3779b97f4a7c15ull >> 32) & (IL_LANE_CNT - 1);
}

/* Its thread has ended, and what it lost is known. */
PART int is_free(const struct il_private *q, uint64_t self, uint64_t selves)
{
	if (!selves)
		return 1;
	return (selves == self || __atomic_load_n(&q->owner, __ATOMIC_ACQUIRE) & IL_OWNER_FREE) &&
	       !q->lost_mode && !AT(struct il_thread, q->threads).lost;
}

PART struct il_private *take(struct il_private *p, uint32_t i, uint64_t self, uint64_t tid)
{
	struct il_private *q = lane_at(p, i);
	uint64_t at = (uint64_t)(uintptr_t)q, head = q->head, wipe = q->wipe;

	copy(q, (uint64_t)(uintptr_t)p, offsetof(struct il_private, selves));
	q->head = head;
	q->wipe = wipe;
	q->limit = q->thread = q->turn = q->slot_self = q->top = 0;
	q->locked = q->lock = q->lanes = q->lost_mode = 0;
	q->size = p->lane_ring;
	q->mask = p->lane_ring - 1;
	q->ring = at + IL_LANE_RING;
	q->shared = at + IL_LANE_SHARED;
	q->threads = at + IL_LANE_THREAD;
	q->thread_mask = 0;
	q->cache = at + IL_LANE_CACHE;
	__atomic_store_n(&q->owner, tid, __ATOMIC_RELAXED);
	__atomic_store_n(&p->selves[i], self, __ATOMIC_RELEASE);
	return q;
}

/*
 * Where the C library has it. pthread_self() alone does not tell a thread from the one whose memory it
 * got; where its tid is not found, there are no lanes.
 */
PART void find_tid(struct il_private *p, uint64_t self, uint64_t tid)
{
	if (AT(uint32_t, self + MUSL_TID) == tid)
		p->tid_at = MUSL_TID;
	else if (AT(uint32_t, self + GLIBC_TID) == tid)
		p->tid_at = GLIBC_TID;
	else
		p->lanes = 0;
}

/* Under the lock. 0: none is free. */
PART struct il_private *claim(struct il_private *p, uint64_t self)
{
	const struct il_shared *h = (const void *)(uintptr_t)p->shared;
	uint64_t tid = own_tid(p, self);
	uint32_t found = IL_LANE_CNT;

	p->freed = __atomic_load_n(&h->freed, __ATOMIC_ACQUIRE);
	if (p->lanes && !p->tid_at)
		find_tid(p, self, tid);
	for (uint32_t i = 0; p->lanes && i < IL_LANE_CNT; i++) {
		uint32_t n = (hash_of(self) + i) & (IL_LANE_CNT - 1);

		if (p->selves[n] == self ||
		    (found == IL_LANE_CNT && is_free(lane_at(p, n), self, p->selves[n])))
			found = n;
		if (p->selves[n] == self || !p->selves[n])
			break;
	}
	if (found == IL_LANE_CNT || !is_free(lane_at(p, found), self, p->selves[found]))
		return 0;
	return take(p, found, self, tid);
}

/* That of the running thread, which is not that of one who has ended, and had its tid, too; 0: it has none. */
PART struct il_private *lane_of(struct il_private *p)
{
	const struct il_shared *h = (const void *)(uintptr_t)p->shared;
	const uint64_t self = own_self();
	struct il_private *q;

	for (uint32_t i = 0; i < IL_LANE_CNT; i++) {
		uint32_t n = (hash_of(self) + i) & (IL_LANE_CNT - 1);

		q = lane_at(p, n);
		if (p->selves[n] == self && q->owner == AT(uint32_t, self + p->tid_at))
			return q;
		if (p->selves[n] == self || !p->selves[n])
			break;
		if (i == IL_LANE_CNT - 1 && h->freed == p->freed)
			return 0;
	}
	lock(p);
	q = claim(p, self);
	unlock(p);
	return q;
}

/* Who comes now may have the memory of who was here last. */
PART void check_turn(struct il_private *p)
{
	const uint64_t self = own_self();
	uint64_t tid = p->tid_at ? AT(uint32_t, self + p->tid_at) : 0;

	if (tid == p->owner)
		return;
	p->thread = p->slot_self = 0;
	p->owner = tid;
}

/* No cache has it any more. */
PART void forget(struct il_private *p, uint64_t code)
{
	forget_in(p->cache, code);
	for (uint32_t i = 0; p->lanes && i < IL_LANE_CNT; i++)
		if (p->selves[i])
			forget_in((uint64_t)(uintptr_t)lane_at(p, i) + IL_LANE_CACHE, code);
}

STUB void pye_inline_slow(struct il_private *p, uint64_t object, uint64_t arg, uint32_t kind)
{
	struct il_private *q = 0;

	if (!p->active)
		return; /* a forked child */
	if ((kind == INLINE_UNWIND || kind == INLINE_RETURN) && is_hidden(p, object))
		return;
	if (kind == INLINE_UNWIND && has_not_begun(p, object))
		return;
	if (kind == INLINE_CLOSE && !is_closed_running(p, object))
		return;
	if (kind == INLINE_DEALLOC)
		forget(p, object);
	if (p->locked && p->lanes)
		q = lane_of(p);
	if (!q)
		lock(p);
	if (!q && p->lanes)
		check_turn(p);
	event(q ? q : p, (void *)(uintptr_t)(q ? q->shared : p->shared), object, arg, kind);
	if (p->quiet && kind == INLINE_DEALLOC)
		retire_verdict(p, (const void *)(uintptr_t)p->shared, object);
	if (!q)
		unlock(p);
}

/* --- to 3.10, where every event is a call of C: one that follows on the last one, as nearly all do --- */

/* Without room, in a forked child, where verdicts wait, and with the kernel's clock limit is 0. */
PART int eval_goes_on(const struct il_private *p, uint64_t caller)
{
	const uint64_t self = own_self();

	return p->head - p->base < p->limit && p->thread == self && caller && !is_raising(p);
}

/* What is_quiet() does, of frames that are left out alone. */
PART int eval_is_quiet(struct il_private *p, uint64_t frame, uint64_t caller, int entry)
{
	if (entry)
		return AT(int32_t, frame + p->f_instr) < 0 &&
		       begin_quiet(p, (void *)(uintptr_t)p->shared, frame, caller,
				   il_frame_hash(caller));
	if (!p->quiet_at || frame != p->run)
		return 0;
	end_quiet(p);
	return 1;
}

/* Its record, but for the time; 0: that is the slow path's. */
PART uint64_t eval_what(const struct il_private *p, uint64_t frame, uint64_t caller, int entry)
{
	uint64_t code;

	if (p->quiet_at || p->top != (entry ? caller : frame))
		return 0;
	if (!entry)
		return eval_exit(p, frame);
	code = code_of(p, frame);
	return *cache_slot(p, code) == code ? eval_entry(p, frame, IL_CODE_SLOT(code)) : 0;
}

STUB void pye_inline_eval(struct il_private *p, uint64_t frame, uint64_t arg, uint32_t kind)
{
	struct il_shared *h = (void *)(uintptr_t)p->shared;
	uint64_t caller = AT(uint64_t, frame + p->f_previous), what = 0;
	int entry = kind == INLINE_EVAL_ENTRY;

	if (eval_goes_on(p, caller)) {
		if (p->quiet && eval_is_quiet(p, frame, caller, entry))
			return;
		what = eval_what(p, frame, caller, entry);
	}
	if (!what) {
		pye_inline_slow(p, frame, arg, kind);
		return;
	}
	put(p, ticks() << 16 | (entry ? il_frame_hash(caller) : 0), what);
	p->top = p->run = entry ? frame : caller;
	__atomic_store_n(&h->head, p->head, __ATOMIC_RELEASE);
}
