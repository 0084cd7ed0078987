// SPDX-License-Identifier: Apache-2.0
/*
 * The events of one thread, through all chunks. A stream begins with the thread's open frames and
 * the number of its first event: where they are not what the decoder has, something in between is
 * missing, and a gap is handed out with the frames after it. So a chunk that was dropped when
 * writing, or is damaged, is noticed per thread and in numbers.
 */
#include <errno.h>
#include <stdlib.h>

#include "capfile/format.h"
#include "decode/decode_priv.h"

#define STACK_TRIM     256u /* frames that a thread may keep room for */
#define FRAMES_CAP_MAX (4 * CAP_FRAMES_MAX) /* room for open frames, of all threads */

struct thread *dec_thread_get(struct decoder *d, uint32_t id)
{
	uint64_t *value = known__add(&d->threads, id);
	struct thread *t;

	if (!value)
		return NULL;
	if (*value)
		return (struct thread *)(uintptr_t)*value;
	t = calloc(1, sizeof(*t));
	if (!t) {
		known__remove(&d->threads, id);
		return NULL;
	}
	t->id = id;
	t->end = &t->first;
	*value = (uintptr_t)t;
	return t;
}

void dec_thread_queue(struct thread *t, struct segment *s)
{
	*t->end = s;
	t->end = &s->next;
}

static void end_segment(struct decoder *d, struct thread *t)
{
	struct segment *s = t->first;

	dec_sample_forget(t);
	t->first = s->next;
	if (!t->first)
		t->end = &t->first;
	dec_chunk_done(d, s->chunk);
}

void dec_thread_free(struct decoder *d, struct thread *t)
{
	while (t->first)
		end_segment(d, t);
	dec_sample_forget(t);
	d->frames_cap -= t->cap;
	free(t->stack);
	free(t);
}

static int resize_stack(struct decoder *d, struct thread *t, uint32_t cap)
{
	uint32_t *stack = reallocarray(t->stack, cap, sizeof(stack[0]));

	if (!stack)
		return -ENOMEM;
	d->frames_cap -= t->cap;
	d->frames_cap += cap;
	t->stack = stack;
	t->cap = cap;
	return 0;
}

/* Take from threads that were deep once what they do not need; not more often than once a chunk. */
static void trim_stacks(struct decoder *d)
{
	if (d->trimmed_at == d->next)
		return;
	d->trimmed_at = d->next;
	for (uint32_t i = 0; i < d->threads.cap; i++) {
		struct thread *t = (struct thread *)(uintptr_t)d->threads.slots[i].value;

		if (!d->threads.slots[i].used || t->cap <= STACK_TRIM || t->len >= t->cap / 4)
			continue;
		if (resize_stack(d, t, t->len * 2 > STACK_TRIM ? t->len * 2 : STACK_TRIM))
			return;
	}
}

/* Room for @len open frames. Return: 1, 0 if no writer keeps so many, or -ENOMEM. */
static int reserve_stack(struct decoder *d, struct thread *t, uint32_t len)
{
	uint32_t cap = t->cap ? t->cap : 16;

	if (len <= t->cap)
		return 1;
	while (cap < len)
		cap *= 2;
	if (len > CAP_DEPTH_MAX)
		return 0;
	if (d->frames_cap + cap > FRAMES_CAP_MAX)
		trim_stacks(d);
	if (d->frames_cap + cap > FRAMES_CAP_MAX)
		return 0;
	return resize_stack(d, t, cap) ? -ENOMEM : 1;
}

/* The rest of the stream cannot be understood; the thread's next one shows what is missing. */
static void drop_rest(struct decoder *d, struct thread *t)
{
	struct segment *s = t->first;

	dec_note_damage(d, 0);
	s->c.p = s->c.end;
}

/* Time does not go back, whatever the file says. */
static uint64_t advance(struct decoder *d, uint64_t ns)
{
	if (ns > d->now_ns)
		d->now_ns = ns;
	return d->now_ns;
}

static int give_gap(struct decoder *d, struct thread *t, struct trace_gap *gap)
{
	int err;

	gap->thread = t->id;
	if (gap->until_ns < gap->ts_ns)
		gap->until_ns = gap->ts_ns;
	t->len = 0;
	err = d->consumer->gap ? d->consumer->gap(d->self, gap) : 0;
	return err < 0 ? err : 0;
}

/* Read the open frames at the beginning of a stream. Return: 1 if they are those the thread has
 * already, 0 if not, or an error. */
static int read_frames(struct decoder *d, struct thread *t, struct segment *s)
{
	bool same = s->open_cnt == t->len;
	int room = s->open_cnt <= cursor_left(&s->c) ? reserve_stack(d, t, s->open_cnt) : 0;

	if (room < 0)
		return room;
	if (!room)
		cursor_fail(&s->c);
	for (uint32_t i = 0; i < s->open_cnt && !s->c.bad; i++) {
		uint64_t local = cursor_varint(&s->c);

		if (local >= s->chunk->func_cnt) {
			cursor_fail(&s->c);
			break;
		}
		same = same && t->stack[i] == s->chunk->funcs[local];
		t->stack[i] = s->chunk->funcs[local];
	}
	return same && !s->c.bad;
}

static int begin_segment(struct decoder *d, struct thread *t)
{
	struct segment *s = t->first;
	struct trace_gap gap = { .ts_ns = d->now_ns, .until_ns = s->first_ns, .reason = GAP_LOSS };
	bool first = d->in_run && !t->begun;
	int same = read_frames(d, t, s);
	int err = 0;

	if (same < 0)
		return same;
	t->begun = true;
	if (s->c.bad) {
		t->len = 0; /* what it was is overwritten, and known by nobody */
		drop_rest(d, t);
		return give_gap(d, t, &gap);
	}
	if (s->first_seq > t->seq)
		gap.lost = s->first_seq - t->seq;
	t->next_ns = s->first_ns;
	if (!same || s->first_seq != t->seq) {
		/* what a thread did before the capture began is not missing from it */
		err = first ? 0 : give_gap(d, t, &gap);
		t->reopened = 0;
		t->pending = s->open_cnt ? PENDING_OPEN : PENDING_NONE;
	}
	t->len = s->open_cnt;
	t->seq = s->first_seq;
	return err;
}

int dec_thread_fetch(struct decoder *d, struct thread *t)
{
	int err;

	t->pending = PENDING_NONE;
	while (t->first) {
		struct segment *s = t->first;
		uint64_t word, delta;

		if (!s->begun) {
			s->begun = true;
			err = begin_segment(d, t);
			if (err || t->pending)
				return err;
		}
		if (s->c.p == s->c.end) {
			end_segment(d, t);
			continue;
		}
		word = cursor_varint(&s->c);
		delta = word / CAP_KIND_BITS;
		if (s->c.bad || delta > CAP_TS_MAX - t->next_ns) {
			drop_rest(d, t);
			continue;
		}
		t->next_ns += delta;
		t->kind = word % CAP_KIND_BITS;
		t->pending = PENDING_EVENT;
		return 0;
	}
	return 0;
}

static int give_event(struct decoder *d, struct thread *t, unsigned int kind, uint32_t func,
		      uint32_t depth)
{
	struct trace_event event = { .ts_ns = advance(d, t->next_ns),
				     .thread = t->id,
				     .func = func,
				     .depth = depth,
				     .kind = (uint8_t)kind };
	int err;

	if (kind != TRACE_OPEN) {
		t->seq++;
		d->written++;
	}
	err = d->consumer->event ? d->consumer->event(d->self, &event) : 0;
	return err < 0 ? err : 0;
}

static int step_enter(struct decoder *d, struct thread *t)
{
	struct segment *s = t->first;
	uint64_t local = cursor_varint(&s->c);
	int room;

	if (s->c.bad || local >= s->chunk->func_cnt) {
		drop_rest(d, t);
		return 0;
	}
	if (t->len == t->cap) {
		room = reserve_stack(d, t, t->len + 1);
		if (room < 0)
			return room;
		if (!room) {
			drop_rest(d, t);
			return 0;
		}
	}
	t->stack[t->len] = s->chunk->funcs[local];
	t->len++;
	return give_event(d, t, t->kind, t->stack[t->len - 1], t->len - 1);
}

static int step_leave(struct decoder *d, struct thread *t)
{
	if (!t->len) {
		drop_rest(d, t);
		return 0;
	}
	t->len--;
	return give_event(d, t, t->kind, t->stack[t->len], t->len);
}

static int step_sample(struct decoder *d, struct thread *t, struct cursor *c)
{
	int err;

	advance(d, t->next_ns);
	err = dec_sample(d, t, c);
	if (c->bad)
		drop_rest(d, t);
	return err;
}

static int step_memory(struct decoder *d, struct thread *t, struct cursor *c)
{
	struct trace_memory memory = { .rss_bytes = cursor_varint(c), .thread = t->id };

	if (c->bad) {
		drop_rest(d, t);
		return 0;
	}
	memory.ts_ns = advance(d, t->next_ns);
	return d->consumer->memory ? d->consumer->memory(d->self, &memory) : 0;
}

static void step_lock(struct decoder *d, struct thread *t, struct cursor *c)
{
	uint64_t type = cursor_varint(c);

	if (c->bad)
		drop_rest(d, t);
	else
		t->lock_type = type < LOCK_CNT ? (uint8_t)type : LOCK_UNKNOWN;
}

static int step_extended(struct decoder *d, struct thread *t)
{
	struct segment *s = t->first;
	uint64_t type = cursor_varint(&s->c), len = cursor_varint(&s->c), reason;
	struct cursor c = { .p = s->c.p };
	struct trace_gap gap;

	cursor_skip(&s->c, len);
	c.end = s->c.p;
	if (type == CAP_EXTEND_SAMPLE && !s->c.bad)
		return step_sample(d, t, &c);
	if (type == CAP_EXTEND_MEMORY && !s->c.bad)
		return step_memory(d, t, &c);
	if (type == CAP_EXTEND_LOCK && !s->c.bad)
		step_lock(d, t, &c);
	if (type != CAP_EXTEND_GAP && !s->c.bad)
		return 0;
	reason = cursor_varint(&c);
	gap.until_ns = t->next_ns + cursor_number(&c, CAP_TS_MAX);
	gap.lost = cursor_varint(&c);
	if (s->c.bad || c.bad) {
		drop_rest(d, t);
		return 0;
	}
	gap.ts_ns = advance(d, t->next_ns);
	gap.reason = reason < GAP_CNT ? (uint8_t)reason : GAP_LOSS;
	t->seq += gap.lost;
	return give_gap(d, t, &gap);
}

int dec_thread_step(struct decoder *d, struct thread *t)
{
	int err;

	if (t->pending == PENDING_OPEN) {
		uint32_t i = t->reopened++;

		err = give_event(d, t, TRACE_OPEN, t->stack[i], i);
		if (err || t->reopened < t->len)
			return err;
	} else {
		if (t->kind == CAP_KIND_EXTEND)
			err = step_extended(d, t);
		else
			err = trace_is_leave(t->kind) ? step_leave(d, t) : step_enter(d, t);
		if (err)
			return err;
	}
	return dec_thread_fetch(d, t);
}
