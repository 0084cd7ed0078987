// SPDX-License-Identifier: Apache-2.0
/*
 * Samples in a thread's stream. Stacks of one thread have most of their outer frames in common, so a
 * sample says how many it shares with the one before and only shows the rest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capfile/writer_priv.h"

#define HEAD_BYTES_MAX (3UL * VARINT_MAX)
#define NOTE_BYTES_MAX (HEAD_BYTES_MAX + VARINT_MAX)

void capw_sample_forget(struct capw *w, struct wthread *t)
{
	w->samples_memory -= t->sample_cap * sizeof(t->sample[0]);
	free(t->sample);
	t->sample = NULL;
	t->sample_len = t->sample_cap = 0;
}

/* Room to keep @len frames. false: this sample is not kept, the next one shows all its frames. */
static bool reserve(struct capw *w, struct wthread *t, uint32_t len)
{
	uint32_t cap = len < 32 ? 32 : len;
	struct wframe *frames;

	if (len <= t->sample_cap)
		return true;
	if (w->samples_memory + (cap - t->sample_cap) * sizeof(*frames) > SAMPLES_MEMORY_MAX)
		return false;
	frames = reallocarray(t->sample, cap, sizeof(*frames));
	if (!frames)
		return false;
	w->samples_memory += (cap - t->sample_cap) * sizeof(*frames);
	t->sample = frames;
	t->sample_cap = cap;
	return true;
}

static uint32_t shared(const struct capw *w, const struct wthread *t, const struct trace_sample *s)
{
	uint32_t n = 0;

	if (t->sample_epoch != w->epoch)
		return 0;
	while (n < s->frame_cnt && n < t->sample_len &&
	       t->sample[n].func->id == s->frames[n].func && t->sample[n].line == s->frames[n].line)
		n++;
	return n;
}

/* Since 1.3, and only where there is something to say. */
static void encode_lock(struct capw *w, const struct trace_sample *s)
{
	struct wfunc *f = s->holder.func ? idtab__find(&w->funcs, s->holder.func) : NULL;
	struct bytes *b = &w->body;

	if (!s->lock && !s->holder.func)
		return;
	bytes_varint(b, s->lock);
	if (!f) /* its code object may have died while the thread waited */
		return;
	capw_defs_use_func(w, f);
	bytes_varint(b, f->index);
	bytes_varint(b, s->holder.line);
}

static int encode(struct capw *w, struct wthread *t, const struct trace_sample *s)
{
	uint32_t keep = shared(w, t, s);
	bool kept = reserve(w, t, s->frame_cnt);
	struct bytes *b = &w->body;

	bytes_clear(b);
	bytes_varint(b, s->weight_ns);
	bytes_varint(b, (uint64_t)s->reason << 1 | s->off_cpu);
	bytes_varint(b, keep);
	bytes_varint(b, s->frame_cnt - keep);
	for (uint32_t i = keep; i < s->frame_cnt; i++) {
		struct wfunc *f = idtab__find(&w->funcs, s->frames[i].func);

		if (!f)
			return -EINVAL;
		capw_defs_use_func(w, f);
		bytes_varint(b, f->index);
		bytes_varint(b, s->frames[i].line);
		if (kept)
			t->sample[i] = (struct wframe){ f, s->frames[i].line };
	}
	encode_lock(w, s);
	t->sample_len = kept ? s->frame_cnt : 0;
	t->sample_epoch = w->epoch;
	return b->failed ? -ENOMEM : 0;
}

/* The body may be longer than a block. */
static int put_body(struct capw *w, struct wthread *t)
{
	size_t done = 0;

	while (done < w->body.len) {
		size_t n = w->body.len - done;

		if (t->at == t->end && capw_add_block(w, t))
			return -ENOMEM;
		if (n > (size_t)(t->end - t->at))
			n = (size_t)(t->end - t->at);
		memcpy(t->at, w->body.data + done, n);
		t->at += n;
		done += n;
	}
	return 0;
}

/* Memory for the whole body is there before its first byte is written. */
static bool has_blocks(struct capw *w, size_t len)
{
	size_t need = len / sizeof(w->free_blocks->data) + 2;
	struct block *b = w->free_blocks;

	for (; b && need; b = b->next)
		need--;
	for (; need; need--) {
		b = malloc(sizeof(*b));
		if (!b)
			return false;
		b->next = w->free_blocks;
		w->free_blocks = b;
	}
	return true;
}

/* A record of one number, for which there is room; it is no event. */
static void put_note(struct wthread *t, uint64_t ts_ns, enum cap_extend_type type, uint64_t value)
{
	uint8_t body[VARINT_MAX];
	size_t len = (size_t)(varint_put(body, value) - body);

	t->at = varint_put(t->at, (ts_ns - t->last_ns) * CAP_KIND_BITS | CAP_KIND_EXTEND);
	t->at = varint_put(t->at, type);
	t->at = varint_put(t->at, len);
	memcpy(t->at, body, len);
	t->at += len;
	t->last_ns = ts_ns;
}

int capw__memory(struct capw *w, const struct trace_memory *memory)
{
	struct wthread *t = idtab__find(&w->threads, memory->thread);
	uint64_t ts_ns = memory->ts_ns;
	int err;

	if (!t || ts_ns > CAP_TS_MAX)
		return -EINVAL;
	if (ts_ns < t->last_ns)
		ts_ns = t->last_ns;
	err = capw_make_room(w, t, ts_ns, NOTE_BYTES_MAX);
	if ((size_t)(t->end - t->at) >= NOTE_BYTES_MAX)
		put_note(t, ts_ns, CAP_EXTEND_MEMORY, memory->rss_bytes);
	return err;
}

int capw__sample(struct capw *w, const struct trace_sample *s)
{
	struct wthread *t = idtab__find(&w->threads, s->thread);
	uint64_t ts_ns = s->ts_ns;
	int err, write_err;

	if (!t || ts_ns > CAP_TS_MAX || s->weight_ns > CAP_TS_MAX ||
	    s->frame_cnt > TRACE_SAMPLE_FRAMES || s->reason >= REASON_CNT ||
	    s->lock_type >= LOCK_CNT)
		return -EINVAL;
	if (ts_ns < t->last_ns)
		ts_ns = t->last_ns;
	write_err = capw_make_room(w, t, ts_ns, HEAD_BYTES_MAX + NOTE_BYTES_MAX);
	if ((size_t)(t->end - t->at) < HEAD_BYTES_MAX + NOTE_BYTES_MAX)
		return write_err;
	err = encode(w, t, s);
	if (!err && !has_blocks(w, w->body.len))
		err = -ENOMEM;
	if (err) {
		t->sample_len = 0;
		return err;
	}
	if (s->lock_type)
		put_note(t, ts_ns, CAP_EXTEND_LOCK, s->lock_type);
	t->at = varint_put(t->at, (ts_ns - t->last_ns) * CAP_KIND_BITS | CAP_KIND_EXTEND);
	t->at = varint_put(t->at, CAP_EXTEND_SAMPLE);
	t->at = varint_put(t->at, w->body.len);
	t->last_ns = ts_ns;
	put_body(w, t);
	t->seq++;
	w->written++;
	return write_err;
}
