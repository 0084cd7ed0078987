// SPDX-License-Identifier: Apache-2.0
#include "capture/cap_inline.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "capture/inline_priv.h"

#define BATCH_BYTES ((uint64_t)256 << 10) /* of the ring */
#define CODES_MAX   (4u << 20) /* code objects that live at once; more a target only says it has */

int cap_inline__new(struct cap_inline **out, uint32_t pix, pid_t pid, struct cap_inline_ids *ids,
		    const struct cap_inline *like)
{
	struct cap_inline *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->pix = pix;
	c->pid = pid;
	c->ids = ids;
	c->slots = c->common;
	if (like)
		c->clock = like->clock;
	else
		inline_clock__begin(&c->clock);
	c->last_tsc = inline_clock__ticks(&c->clock);
	track_note_comm(c);
	*out = c;
	return 0;
}

void cap_inline__hand_to(struct cap_inline *c, const struct capture_taker *taker)
{
	c->records = taker;
}

static void code_forget(struct cap_inline *c, struct code_of *code)
{
	HASH_DEL(c->codes, code);
	free(code);
}

static void codes_free(struct cap_inline *c)
{
	struct code_of *code, *next;

	HASH_ITER(hh, c->codes, code, next)
	code_forget(c, code);
}

void cap_inline__free(struct cap_inline *c)
{
	struct track *t, *next;

	if (!c)
		return;
	HASH_ITER(hh, c->threads, t, next)
	track_free(c, t);
	codes_free(c);
	free(c->verdicts.v);
	lanes_free(c);
	free(c->out);
	free(c);
}

void cap_inline__use(struct cap_inline *c, struct inline_engine *e)
{
	c->e = e;
}

void cap_inline__take(struct cap_inline *c, const struct cap_inline_taker *taker)
{
	c->taker = taker;
}

void cap_inline__forked(struct cap_inline *c)
{
	struct track *t;

	for (t = c->threads; t; t = t->hh.next) {
		t->need_walk = t->stack.cnt != 0;
		t->reason = PYE_WALK_UNKNOWN;
	}
}

uint32_t cap_inline__new_thread(struct cap_inline *c)
{
	return ++c->ids->thread;
}

static struct code_of *code_get(struct cap_inline *c, uint64_t address, bool *is_new)
{
	struct code_of *code;

	HASH_FIND(hh, c->codes, &address, sizeof(address), code);
	*is_new = !code;
	if (code)
		return code;
	code = HASH_COUNT(c->codes) < CODES_MAX ? calloc(1, sizeof(*code)) : NULL;
	if (!code)
		return NULL;
	code->address = address;
	code->id = ++c->ids->code;
	HASH_ADD(hh, c->codes, address, sizeof(code->address), code);
	return code;
}

uint32_t cap_inline__code(struct cap_inline *c, uint64_t address, bool *is_new)
{
	struct code_of *code = code_get(c, address, is_new);

	return code ? code->id : 0;
}

/* Has it lost nothing, but runs another stack (a greenlet's) than the last one that its events have shown? */
static bool is_another(const struct track *t, const struct track_stack *read)
{
	if (t->need_walk || !t->stack.cnt)
		return false;
	for (uint32_t i = 0; i < read->cnt; i++) /* what is below can be known now */
		if (read->frames[i].frame == t->stack.frames[0].frame)
			return false;
	return true;
}

int cap_inline__stack(struct cap_inline *c, uint64_t self, pid_t tid,
		      const struct cap_inline_frame *frames, uint32_t cnt, bool cut)
{
	struct track *t = track_get(c, self, (uint64_t)tid);
	struct cap_inline_frame *copy = calloc(cnt + 1, sizeof(*copy));
	struct track_stack stack;

	if (!t || !copy) {
		free(copy);
		return -ENOMEM;
	}
	t->ended_at = 0; /* it is there, though all of its events may be lost */
	if (c->e->lane_ring && t->read_at && t->read_at <= c->e->remote.stops && !t->need_walk) {
		free(copy);
		return 0; /* it lost nothing, and may be in the middle of an event */
	}
	if (cnt)
		memcpy(copy, frames, cnt * sizeof(*copy));
	stack = (struct track_stack){ .frames = copy, .cnt = cnt, .size = cnt + 1, .cut = cut };
	if (t->read_at == c->e->remote.stops + 1) { /* it has one in another interpreter, too */
		c->guests = t->stack.guest = stack.guest = true;
		return track_park(t, &stack);
	}
	t->read_at = c->e->remote.stops + 1;
	if (is_another(t, &stack)) {
		track_switch(c, t, stack);
	} else {
		free(t->stack.frames);
		t->stack = stack;
	}
	t->read_now = true;
	t->resynced = t->need_walk;
	return c->failed;
}

bool cap_inline__is_lossy(const struct cap_inline *c)
{
	bool lossy = __atomic_load_n(&c->e->shared->lost_mode, __ATOMIC_ACQUIRE) != 0;

	for (uint32_t i = 0; c->e->lane_ring && i < IL_LANE_CNT; i++)
		lossy |= __atomic_load_n(&inline__lane(c->e, i).shared->lost_mode,
					 __ATOMIC_ACQUIRE) != 0;
	return lossy;
}

uint64_t cap_inline__lost(const struct cap_inline *c)
{
	uint64_t lost = c->e->shared->lost_other;

	for (uint32_t i = 0; c->e->lane_ring && i < IL_LANE_CNT; i++)
		lost += inline__lane(c->e, i).shared->lost_other;
	return lost;
}

uint64_t cap_inline__unmatched(const struct cap_inline *c)
{
	return c->unmatched;
}

bool cap_inline__is_at_end(const struct cap_inline *c)
{
	return c->at_end;
}

unsigned int cap_inline__backlog(const struct cap_inline *c)
{
	uint64_t used = c->e->shared->head - c->tail;

	if (c->lanes)
		return lanes_backlog(c);
	return used >= c->e->ring_bytes ? 100 : (unsigned int)(used * 100 / c->e->ring_bytes);
}

void cap_inline__adjust(struct cap_inline *c, const struct clock_pair *now)
{
	inline_clock__add(&c->clock, now);
}

static void recount(struct cap_inline *c, struct il_thread *slot)
{
	struct track *t;

	if (!slot->lost)
		return;
	t = track_get(c, slot->self, slot->tid);
	if (!t)
		return; /* the next time */
	if (c->taker)
		c->taker->lost(c->taker->ctx, IL_LOST_CNT(slot->lost));
	if (!t->announced)
		track_announce(c, t, now_ns());
	t->seq += (uint32_t)slot->lost;
	t->stack.cnt = 0;
	parked_clear(&t->parked);
	t->need_walk = true;
	t->reason = PYE_WALK_UNKNOWN;
	slot->lost = 0;
}

static bool is_retire_lost(const struct cap_inline *c)
{
	uint64_t lost = __atomic_load_n(&c->e->shared->retire_lost, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; c->e->lane_ring && i < IL_LANE_CNT; i++)
		lost |= __atomic_load_n(&inline__lane(c->e, i).shared->retire_lost,
					__ATOMIC_ACQUIRE);
	return lost != 0;
}

void cap_inline__recount(struct cap_inline *c)
{
	struct il_thread *slots = (struct il_thread *)(uintptr_t)c->e->threads;

	for (uint32_t i = 0; i < IL_THREAD_CNT; i++)
		recount(c, &slots[i]);
	for (uint32_t i = 0; c->e->lane_ring && i < IL_LANE_CNT; i++)
		recount(c, inline__lane(c->e, i).thread);
	/* a code object that was freed meanwhile may have another one's address by now */
	if (is_retire_lost(c))
		codes_free(c);
	c->suspended_before = true; /* to clear it takes 2 ms, and nobody may run now */
	c->now = NULL;
	lanes_recounted(c);
}

/* Its instructions and code objects end with it. */
static void end_taken(struct cap_inline *c)
{
	const struct track *t;
	const struct code_of *code;

	for (t = c->threads; t; t = t->hh.next)
		c->failed = c->taker->end(c->taker->ctx, t->tix, 0) ?: c->failed;
	for (code = c->codes; code; code = code->hh.next)
		c->failed = c->taker->retired(c->taker->ctx, code->id) ?: c->failed;
}

void cap_inline__end(struct cap_inline *c)
{
	struct track *t, *next;

	if (c->taker)
		end_taken(c);
	HASH_ITER(hh, c->threads, t, next)
	{
		if (!t->announced)
			continue;
		track_end(c, t, now_ns());
		track_free(c, t);
	}
}

void cap_inline__finals(struct cap_inline *c, void (*cb)(void *ctx, uint32_t tix, uint32_t seq),
			void *ctx)
{
	const struct track *t;

	for (t = c->threads; t; t = t->hh.next)
		if (t->seq)
			cb(ctx, t->tix, t->seq);
}

/* All that came before a thread was seen to be gone? */
static bool is_read_to(const struct cap_inline *c, uint64_t at)
{
	return (c->e->lane_ring ? c->settled : c->tail) >= at;
}

static bool is_gone(const struct cap_inline *c, const struct track *t)
{
	return syscall(SYS_tgkill, c->pid, (pid_t)t->key.tid, 0) && errno == ESRCH;
}

/* Another one can get its tid and its pthread_self(). It was not there yet when we looked again, so all of its events come
 * behind that, and its lane is claimed anew. */
static void look_for_end(struct cap_inline *c, struct track *t)
{
	if (!is_gone(c, t))
		return;
	t->ended_ns = now_ns();
	lanes_ended(c, t);
	if (is_gone(c, t))
		t->ended_at = c->e->lane_ring ? inline__now(c->e) : c->e->shared->head + 1;
}

void cap_inline__reap(struct cap_inline *c)
{
	struct track *t, *next;

	HASH_ITER(hh, c->threads, t, next)
	{
		if (!t->announced || t->key.tid > INT32_MAX)
			continue;
		if (t->last_ns >= t->ended_ns)
			t->ended_at = 0; /* another one goes on in its place */
		if (!t->ended_at) {
			look_for_end(c, t);
		} else if (is_read_to(c, t->ended_at)) {
			track_end(c, t, now_ns());
			lanes_gone(c, t);
			track_free(c, t);
		}
	}
}

static void send_text(struct cap_inline *c, uint32_t id, uint32_t which, const struct il_str *str,
		      const uint8_t *data)
{
	struct pye_str_rec *rec = inline_put(c, (uint32_t)sizeof(*rec) + str->bytes);

	if (!rec)
		return;
	memset(rec, 0, sizeof(*rec));
	rec->head.kind = PYE_REC_STR;
	rec->head.sub = (uint8_t)which;
	rec->code = id;
	rec->status = str->status;
	rec->str = (struct pye_str){
		.addr = str->addr, .length = str->length, .state = str->state, .bytes = str->bytes
	};
	rec->data_len = str->bytes;
	memcpy(rec->data, data, str->bytes);
}

static void send_definition(struct cap_inline *c, const struct il_def *d, uint32_t id)
{
	struct pye_def_rec *rec = inline_put(c, sizeof(*rec));
	const uint8_t *data = d->data;

	if (!rec)
		return;
	memset(rec, 0, sizeof(*rec));
	rec->head.frame = d->code;
	rec->head.kind = PYE_REC_DEF;
	rec->code = id;
	rec->pix = c->pix;
	rec->line = d->line;
	rec->flags = d->flags;
	for (uint32_t i = 0; i < PYE_STR_CNT; i++) {
		rec->str_addr[i] = d->str[i].addr;
		rec->head.sub += d->str[i].addr != 0;
	}
	for (uint32_t i = 0; i < PYE_STR_CNT; i++) {
		if (!d->str[i].addr)
			continue; /* to 3.10 there are no qualified names */
		send_text(c, id, i, &d->str[i], data);
		data += d->str[i].bytes;
	}
}

const struct il_def *inline_def_copy(const struct il_def *in, uint64_t room,
				     struct inline_def_copy *copy)
{
	const struct il_def *d = (const void *)copy->bytes;
	uint32_t total =
		__atomic_load_n(&in->total, __ATOMIC_RELAXED); /* once: the target can change it */
	uint64_t bytes = sizeof(*d);

	if (total < sizeof(*d) || total > sizeof(copy->bytes) || total > room || total % 16)
		return NULL;
	memcpy(copy->bytes, in, total);
	for (int i = 0; i < PYE_STR_CNT; i++) {
		if (d->str[i].bytes > IL_STR_MAX || d->str[i].status > PYE_STR_CUT)
			return NULL;
		bytes += d->str[i].bytes;
	}
	return bytes > total || d->total != total || d->slot >= IL_CACHE_CNT ? NULL : d;
}

static uint64_t text_of(const struct il_def *d)
{
	uint64_t hash = hash_bytes(HASH_BEGIN, &d->line, sizeof(d->line)), bytes = 0;

	for (uint32_t i = 0; i < PYE_STR_CNT; i++) {
		hash = hash_bytes(hash, &d->str[i].length, sizeof(d->str[i].length));
		bytes += d->str[i].bytes;
	}
	hash = hash_bytes(hash, d->data, bytes);
	return hash ?: 1;
}

/*
 * Whose definition it is. A thread whose lane is full frees a code object, and says no more than that this was lost; another one whose
 * lane has room defines what comes to its address. What is called the same may keep its number.
 */
static struct code_of *defined(struct cap_inline *c, const struct il_def *d, bool *is_new)
{
	struct code_of *code = code_get(c, d->code, is_new);
	uint64_t text = c->e->lane_ring ? text_of(d) : 0;

	if (code && !*is_new && (code->text ? code->text != text : text && is_retire_lost(c))) {
		code_forget(c, code);
		code = code_get(c, d->code, is_new);
	}
	if (code)
		code->text = text;
	return code;
}

/* A definition; its size, or 0 when it is none. */
static uint32_t on_definition(struct cap_inline *c, const struct il_def *in, uint64_t room)
{
	struct inline_def_copy copy;
	const struct il_def *d = inline_def_copy(in, room, &copy);
	struct code_of *code;
	bool is_new;
	uint32_t id;

	if (!d)
		return 0;
	code = defined(c, d, &is_new);
	if (!code)
		return 0;
	id = code->id;
	c->slots[d->slot] = id;
	if (is_new)
		send_definition(c, d, id);
	if (c->e->quiet)
		quiet_defined(c, code, d->flags);
	if (c->taker)
		c->failed = c->taker->code(c->taker->ctx, id, d) ?: c->failed;
	return d->total;
}

static void on_retire(struct cap_inline *c, uint64_t address)
{
	struct pye_retire_rec *rec;
	struct code_of *code;

	HASH_FIND(hh, c->codes, &address, sizeof(address), code);
	if (!code)
		return;
	rec = inline_put(c, sizeof(*rec));
	if (rec) {
		memset(rec, 0, sizeof(*rec));
		rec->head.kind = PYE_REC_RETIRE;
		rec->head.frame = address;
		rec->code = code->id;
		rec->pix = c->pix;
	}
	if (c->taker)
		c->failed = c->taker->retired(c->taker->ctx, code->id) ?: c->failed;
	code_forget(c, code);
}

static uint32_t on_lines(struct cap_inline *c, const struct il_lines *l, uint64_t room)
{
	uint32_t total = __atomic_load_n(&l->total, __ATOMIC_RELAXED);
	uint32_t bytes = __atomic_load_n(&l->bytes, __ATOMIC_RELAXED);
	uint32_t slot = __atomic_load_n(&l->slot, __ATOMIC_RELAXED);

	if (!c->taker || room < sizeof(*l) || total < sizeof(*l) || total > room || total % 16 ||
	    bytes > total - sizeof(*l) || slot >= IL_CACHE_CNT || !c->slots[slot])
		return 0;
	c->failed = c->taker->lines(c->taker->ctx, c->slots[slot], l->data, bytes) ?: c->failed;
	return total;
}

RARELY uint32_t on_opcode(struct cap_inline *c, uint64_t what, uint32_t bits, uint64_t ts)
{
	struct cap_inline_opcode o = { .tsc = c->last_tsc,
				       .ts_ns = ts,
				       .code = c->slots[what >> 48],
				       .opcode = (uint8_t)(what >> IL_OPCODE_SHIFT),
				       .at = IL_OPCODE_OFFSET(what) };

	if (!c->taker || !c->now)
		return 0;
	o.tix = c->now->tix;
	o.tid = (uint32_t)c->now->key.tid;
	o.pid = (uint32_t)c->pid;
	if ((what & 7) == IL_OPCODE_END) {
		c->failed = c->taker->end(c->taker->ctx, o.tix, o.tsc) ?: c->failed;
		return sizeof(struct il_rec);
	}
	if (!o.code)
		return 0;
	o.depth = track_depth(c->now, bits);
	o.frame = bits;
	c->failed = c->taker->begin(c->taker->ctx, &o) ?: c->failed;
	return sizeof(struct il_rec);
}

/* A record of more than 16 bytes: its size, 0 when it is none. */
RARELY uint32_t on_more(struct cap_inline *c, const struct il_more_rec *r, uint64_t room,
			uint64_t ts)
{
	uint64_t what = r->head.what, frame = what & 0xfffffffffff8ull, w2 = r->w2;
	uint32_t bits = r->head.time & 0xffff;

	if (room < sizeof(*r))
		return 0;
	switch (what >> 48) {
	case IL_SWITCH:
		c->now = track_get(c, w2, r->w3);
		return c->now ? (uint32_t)sizeof(*r) : 0;
	case IL_DEF:
		return on_definition(c, (const void *)r, room);
	case IL_RETIRE:
		on_retire(c, w2);
		return sizeof(*r);
	case IL_LINES:
		return on_lines(c, (const void *)r, room);
	case IL_UNWIND:
		if (!c->now || !frame)
			return 0;
		track_unwind(
			c, ts, frame, bits,
			&(struct track_end_of){ c->slots[w2 & 0xffff], w2 & IL_GENERATOR, r->w3 });
		return sizeof(*r);
	case IL_THROW:
		if (!c->now || !frame)
			return 0;
		track_throw(c, ts, frame, c->slots[w2 & 0xffff], bits);
		return sizeof(*r);
	case IL_FRAME:
		if (!c->now || (!frame && !(w2 & IL_FRAME_KNOWN)))
			return 0;
		track_frame(c, frame, c->slots[w2 & 0xffff], w2);
		return sizeof(*r);
	case IL_CLOSE:
		if (!c->now || !frame)
			return 0;
		track_close(c, ts, frame, c->slots[w2 & 0xffff], r->w3);
		return sizeof(*r);
	case IL_CLOSED:
		if (!c->now)
			return 0;
		track_closed(c, ts, w2);
		return sizeof(*r);
	default:
		return 0;
	}
}

uint32_t inline_record(struct cap_inline *c, const struct il_rec *r, uint64_t room)
{
	uint64_t what = r->what, time = r->time, frame = what & 0xfffffffffff8ull;
	uint64_t ts = inline_time(c, &c->last_tsc, time);
	unsigned int kind = what & 7;
	uint32_t bits = time & 0xffff, code = c->slots[what >> 48];

	if (kind == IL_MORE)
		return on_more(c, (const void *)r, room, ts);
	if (kind == IL_OPCODE || kind == IL_OPCODE_END)
		return on_opcode(c, what, bits, ts);
	if (!c->now || !frame)
		return 0;
	switch (kind) {
	case IL_CALL:
	case IL_RESUME:
		track_entry(c, ts, frame, code, kind == IL_CALL ? PYE_ENTRY_CALL : PYE_ENTRY_RESUME,
			    bits);
		break;
	case IL_RETURN:
		track_exit(c, ts, frame, PYE_EXIT_RETURN);
		break;
	case IL_YIELD:
		track_exit(c, ts, frame, PYE_EXIT_YIELD);
		break;
	case IL_CAUGHT:
		track_caught(c, ts, frame, code, bits);
		break;
	default:
		return 0;
	}
	return sizeof(*r);
}

static int read_some(struct cap_inline *c)
{
	uint64_t head = __atomic_load_n(&c->e->shared->head, __ATOMIC_ACQUIRE), end;

	if (head - c->tail > c->e->ring_bytes || head % 16)
		return -EILSEQ;
	/* what comes follows on this moment; without it, on the last record, which may be longer ago than a record's 48 bits can say */
	if (head == c->tail)
		c->last_tsc = inline_clock__ticks(&c->clock);
	c->at_end = false;
	end = head - c->tail > BATCH_BYTES ? c->tail + BATCH_BYTES : head;
	while (c->tail < end && !c->failed) {
		const struct il_rec *r;
		uint32_t size;

		inline_take_usual(c, end);
		if (c->tail >= end)
			break;
		r = (const void *)(c->e->ring + (c->tail & (c->e->ring_bytes - 1)));
		size = inline_record(c, r, head - c->tail);
		if (!size)
			return -EILSEQ;
		c->tail += size;
	}
	c->at_end = c->tail == head;
	__atomic_store_n(&c->e->shared->tail, c->tail, __ATOMIC_RELEASE);
	return c->failed;
}

static int next(void *self, struct capture_batch *batch)
{
	struct cap_inline *c = self;
	uint64_t begun = c->tail;
	int err = 0;

	if (c->suspended_before)
		suspended_clear(&c->suspended);
	c->suspended_before = false;
	if (c->e && c->e->shared)
		err = c->e->lane_ring ? lanes_read(c) : read_some(c);
	if (c->records)
		inline_hand_out(c);
	if (err)
		return err;
	quiet_tell(c);
	*batch = (struct capture_batch){ .data = c->out, .len = c->out_len, .round = ++c->round };
	c->out_len = 0;
	return batch->len || c->tail != begun; /* instructions go to their taker */
}

const struct capture_ops cap_inline_ops = { .next = next };
