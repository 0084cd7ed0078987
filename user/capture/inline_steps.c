// SPDX-License-Identifier: Apache-2.0
/*
 * What comes of the ring, handed on: events many at a time, which the assembler and the writer take so, too; all else as
 * records, one by one. We, the assembler and the writer each have a loop for what usually comes; the rest goes its own way,
 * event by event.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/inline_priv.h"
#include "capture/step_record.h"

#define OUT_BYTES ((size_t)512 << 10) /* of a batch, at first */

static bool grow(struct cap_inline *c, size_t need)
{
	size_t size = c->out_size ? 2 * c->out_size : OUT_BYTES;
	uint8_t *more;

	while (size < need)
		size *= 2;
	more = realloc(c->out, size);
	if (!more) {
		c->failed = -ENOMEM;
		return false;
	}
	c->out = more;
	c->out_size = size;
	return true;
}

void inline_hand_steps(struct cap_inline *c)
{
	struct steps *s = &c->steps;

	if (c->records && s->cnt)
		c->records->steps(c->records->ctx, s->tix, s->seq, s->v, s->cnt);
	s->cnt = 0;
}

void *inline_put(struct cap_inline *c, uint32_t bytes)
{
	size_t need = c->out_len + CAPTURE_HEADER_BYTES + ((bytes + 7u) & ~7u);
	uint32_t *header;

	inline_hand_steps(c);
	if (need > c->out_size && !grow(c, need))
		return NULL;
	header = (void *)(c->out + c->out_len);
	header[0] = bytes;
	header[1] = 0;
	c->out_len = need;
	return header + 2;
}

void inline_hand_out(struct cap_inline *c)
{
	const struct capture_batch batch = { .data = c->out, .len = c->out_len };
	const void *rec;
	uint32_t len;

	inline_hand_steps(c);
	for (size_t at = 0; (rec = capture_record(&batch, &at, &len));)
		c->records->record(c->records->ctx, rec, len);
	c->out_len = 0;
}

/* Room for one more of the thread. */
static struct trace_step *next_step(struct cap_inline *c, const struct track *t)
{
	struct steps *s = &c->steps;

	if (c->out_len)
		inline_hand_out(c);
	if (s->cnt == STEPS_MAX || s->tix != t->tix || s->seq + s->cnt != t->seq)
		inline_hand_steps(c);
	if (!s->cnt) {
		s->tix = t->tix;
		s->seq = t->seq;
	}
	return &s->v[s->cnt];
}

static bool put_event(struct cap_inline *c, const struct track *t, const struct trace_step *s,
		      uint32_t caller)
{
	struct pye_entry_rec rec;
	uint32_t bytes = step_record(s, t->tix, t->seq, caller, &rec);
	void *to = inline_put(c, bytes);

	if (to)
		memcpy(to, &rec, bytes);
	return to;
}

bool inline_event(struct cap_inline *c, const struct track *t, const struct trace_step *s,
		  uint32_t caller)
{
	if (!c->records) /* of instructions only the stacks are wanted */
		return c->taker || put_event(c, t, s, caller);
	*next_step(c, t) = *s;
	c->steps.cnt++;
	return true;
}

/* Nothing comes before the next event, and its caller is the frame on top, if that has its hash. */
static bool is_plain(const struct cap_inline *c, const struct track *t)
{
	return c->records && t && t->announced && !t->need_walk && !t->unseen && !t->thrown.depth &&
	       (!t->parked.cnt || c->e->switches);
}

_Static_assert(IL_CALL == 0 && IL_RESUME == 1 && IL_RETURN == 2 && IL_YIELD == 3 &&
		       TRACE_CALL + 1 == TRACE_RESUME && TRACE_RETURN + 1 == TRACE_YIELD,
	       "the low bit tells generators");

/* What changes with each event. */
struct run {
	struct track_stack stack;
	uint64_t tsc, last_ns;
};

/* A frame yields, and is the top one; or it goes on. */
static inline void suspend_or_not(struct cap_inline *c, const struct track_stack *s, uint64_t frame,
				  bool yields)
{
	if (yields)
		suspended_add(&c->suspended, &(struct suspended){ frame, s->frames[s->cnt - 1].code,
								  track_below(s) });
	else
		suspended_forget(&c->suspended, frame);
}

/* One event; false: it is another one. Calls and returns take the same way, for no processor guesses which comes
 * next. */
static inline bool step(struct cap_inline *c, struct run *run, const struct il_rec *r,
			struct trace_step *out)
{
	uint64_t what = r->what, time = r->time, frame = what & 0xfffffffffff8ull, ts;
	struct track_stack *s = &run->stack;
	const struct cap_inline_frame *top = &s->frames[s->cnt - 1];
	/* calls and returns are even, what generators do is the odd one beside them */
	bool enters = ((what & 6) == IL_CALL) & (frame != top->frame) & (frame != 0) &
		      (top->closing == 0) & (il_frame_hash(top->frame) == (time & 0xffff)) &
		      (s->cnt < s->size);
	bool leaves = ((what & 6) == IL_RETURN) & (frame == top->frame);
	uint32_t code = enters ? c->slots[what >> 48] : 0;

	if (!(enters | leaves))
		return false;
	if (what & 1)
		suspend_or_not(c, s, frame, leaves);
	/* one that leaves is overwritten, which nobody sees */
	s->frames[s->cnt - leaves] = (struct cap_inline_frame){ .frame = frame, .code = code };
	s->cnt += 1u - 2u * leaves;
	ts = inline_time(c, &run->tsc, time);
	run->last_ns = ts < run->last_ns ? run->last_ns : ts; /* the clock was adjusted */
	out->ts_ns = run->last_ns;
	out->frame = frame;
	out->func = code;
	out->kind = (uint8_t)((leaves ? TRACE_RETURN : TRACE_CALL) + (what & 1));
	return true;
}

void inline_take_usual(struct cap_inline *c, uint64_t end)
{
	const uint8_t *ring = c->e->ring;
	const uint64_t mask = c->e->ring_bytes - 1;
	struct track *t = c->now;

	while (is_plain(c, t) && t->stack.cnt && c->tail < end) {
		struct trace_step *out = next_step(c, t), *last = c->steps.v + STEPS_MAX;
		struct run run = { t->stack, c->last_tsc, t->last_ns };
		uint64_t tail = c->tail;
		uint32_t cnt = 0;

		while (out + cnt < last && tail < end && run.stack.cnt &&
		       step(c, &run, (const void *)(ring + (tail & mask)), out + cnt)) {
			tail += sizeof(struct il_rec);
			cnt++;
		}
		if (!cnt)
			return;
		t->read_now = t->resynced = false;
		t->stack = run.stack;
		t->last_ns = run.last_ns;
		t->seq += cnt;
		c->last_tsc = run.tsc;
		c->steps.cnt += cnt;
		c->tail = tail;
		if (out + cnt < last)
			return;
	}
}
