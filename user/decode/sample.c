// SPDX-License-Identifier: Apache-2.0
/* Samples: each shows how it differs from the one before it in the same stream. */
#include <errno.h>
#include <stdlib.h>

#include "capfile/format.h"
#include "decode/decode_priv.h"

void dec_sample_forget(struct thread *t)
{
	free(t->sample);
	t->sample = NULL;
	t->sample_len = t->sample_cap = 0;
	t->lock_type = 0;
}

static int reserve(struct thread *t, uint32_t len)
{
	uint32_t cap = t->sample_cap ? t->sample_cap : 32;
	struct trace_frame *frames;

	if (len <= t->sample_cap)
		return 0;
	while (cap < len)
		cap *= 2;
	frames = reallocarray(t->sample, cap, sizeof(frames[0]));
	if (!frames)
		return -ENOMEM;
	t->sample = frames;
	t->sample_cap = cap;
	return 0;
}

static void read_frames(struct thread *t, struct cursor *c, uint32_t keep, uint32_t cnt)
{
	const struct chunk *chunk = t->first->chunk;

	for (uint32_t i = keep; i < keep + cnt && !c->bad; i++) {
		uint64_t local = cursor_varint(c);

		if (local >= chunk->func_cnt) {
			cursor_fail(c);
			return;
		}
		t->sample[i].func = chunk->funcs[local];
		t->sample[i].line = (uint32_t)cursor_number(c, UINT32_MAX);
	}
}

/* Since 1.3, where there is more. */
static void read_lock(struct thread *t, struct cursor *c, struct trace_sample *s)
{
	const struct chunk *chunk = t->first->chunk;
	uint64_t local;

	if (cursor_left(c))
		s->lock = cursor_varint(c);
	if (!cursor_left(c))
		return;
	local = cursor_varint(c);
	if (local >= chunk->func_cnt) {
		cursor_fail(c);
		return;
	}
	s->holder.func = chunk->funcs[local];
	s->holder.line = (uint32_t)cursor_number(c, UINT32_MAX);
}

int dec_sample(struct decoder *d, struct thread *t, struct cursor *c)
{
	struct trace_sample s = { .ts_ns = d->now_ns, .count = 1, .thread = t->id };
	uint64_t why;
	uint32_t keep, cnt;
	int err;

	s.weight_ns = cursor_number(c, CAP_TS_MAX);
	why = cursor_varint(c);
	keep = (uint32_t)cursor_number(c, t->sample_len);
	cnt = cursor_count(c, 2);
	if (keep + (uint64_t)cnt > TRACE_SAMPLE_FRAMES)
		cursor_fail(c);
	if (c->bad)
		return 0;
	err = reserve(t, keep + cnt);
	if (err)
		return err;
	read_frames(t, c, keep, cnt);
	if (c->bad) {
		t->sample_len = 0;
		return 0;
	}
	t->sample_len = keep + cnt;
	s.frames = t->sample;
	s.frame_cnt = t->sample_len;
	read_lock(t, c, &s);
	if (c->bad) {
		t->sample_len = 0;
		return 0;
	}
	s.lock_type = t->lock_type;
	t->lock_type = 0;
	s.off_cpu = why & 1;
	s.reason = why >> 1 < REASON_CNT ? (uint8_t)(why >> 1) : REASON_OTHER;
	t->seq++;
	d->written++;
	err = d->consumer->sample ? d->consumer->sample(d->self, &s) : 0;
	return err < 0 ? err : 0;
}
