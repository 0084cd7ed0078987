// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_samples.h"

#include <errno.h>
#include <stdlib.h>

#include "export/firefox_map.h"
#include "export/json.h"

enum {
	TEXT_BYTES_MIN = 512,
	TEXT_BYTES_MAX = 64 << 10,
	NUMBER_BYTES = JSON_MS_MAX + 1
};

static int make_room(struct ff_column *c, struct ff_gzip *gzip)
{
	uint32_t want = c->cap ? c->cap * 2 : TEXT_BYTES_MIN;
	char *text;
	int err;

	if (c->cap == TEXT_BYTES_MAX) {
		if (ff_grow((void **)&c->pieces, &c->piece_cap, c->piece_cnt, sizeof(*c->pieces)))
			return -ENOMEM;
		err = ff_gzip__piece(gzip, c->text, c->len, &c->pieces[c->piece_cnt]);
		if (err)
			return err;
		c->piece_cnt++;
		c->len = 0;
		return 0;
	}
	text = realloc(c->text, want);
	if (!text)
		return -ENOMEM;
	c->text = text;
	c->cap = want;
	return 0;
}

static inline int room(struct ff_column *c, struct ff_gzip *gzip)
{
	return c->cap - c->len >= NUMBER_BYTES ? 0 : make_room(c, gzip);
}

static inline void used(struct ff_column *c, char *end)
{
	*end++ = ',';
	c->len = (uint32_t)(end - c->text);
}

static int put_stack(struct ff_column *c, struct ff_gzip *gzip, uint32_t stack)
{
	int err = room(c, gzip);
	char *at;

	if (err)
		return err;
	at = c->text + c->len;
	if (stack == FF_NONE) {
		memcpy(at, "null", 4);
		used(c, at + 4);
	} else {
		used(c, json_fmt_u64(at, stack));
	}
	return 0;
}

static int put_delta(struct ff_column *c, struct ff_gzip *gzip, uint64_t delta_ns)
{
	int err = room(c, gzip);

	if (!err)
		used(c, json_fmt_ms(c->text + c->len, delta_ns));
	return err;
}

static int put_cpu(struct ff_column *c, struct ff_gzip *gzip, uint64_t ns)
{
	int err = room(c, gzip);

	if (!err)
		used(c, json_fmt_u64(c->text + c->len, ns));
	return err;
}

int ff_samples__add(struct ff_samples *s, struct ff_gzip *gzip, uint64_t ts_ns, uint32_t stack)
{
	int err;

	s->finding = false;
	if (!s->cnt) {
		s->first_ns = s->last_ns = ts_ns;
		s->stack = stack;
		s->cnt = 1;
		return 0;
	}
	if (ts_ns <= s->last_ns)
		ts_ns = s->last_ns + 1;
	err = put_stack(&s->stacks, gzip, s->stack);
	if (!err && s->cnt > 1)
		err = put_delta(&s->deltas, gzip, s->delta_ns);
	if (!err && s->cnt > 1 && s->sampled)
		err = put_cpu(&s->cpu, gzip, s->cpu_ns);
	if (err)
		return err;
	s->delta_ns = ts_ns - s->last_ns;
	s->cpu_ns = s->on_cpu && s->stack != FF_NONE ? s->delta_ns : 0;
	if (s->stack != FF_NONE)
		s->busy_ns += s->delta_ns;
	s->last_ns = ts_ns;
	s->stack = stack;
	s->cnt++;
	return 0;
}

int ff_samples__find(struct ff_samples *s, struct ff_gzip *gzip, uint64_t ts_ns, uint32_t stack)
{
	int err;

	if (s->finding && ts_ns <= s->last_ns) {
		s->stack = stack;
		return 0;
	}
	err = ff_samples__add(s, gzip, ts_ns, stack);
	s->finding = true;
	return err;
}

static int write_column(const struct ff_column *c, struct outbuf *b, struct ff_gzip *gzip)
{
	int err = c->piece_cnt ? outbuf__flush(b) : 0;

	for (uint32_t i = 0; !err && i < c->piece_cnt; i++)
		err = ff_gzip__insert(gzip, &c->pieces[i]);
	if (!err && c->len)
		outbuf__put(b, c->text, c->len);
	return err;
}

/* A sample has the CPU time since the one before. */
static int write_cpu(const struct ff_samples *s, struct outbuf *b, struct ff_gzip *gzip)
{
	int err = 0;

	outbuf__puts(b, ",\"threadCPUDelta\":[0");
	if (s->cnt > 1) {
		outbuf__putc(b, ',');
		err = write_column(&s->cpu, b, gzip);
		json_u64(b, s->cpu_ns);
	}
	outbuf__putc(b, ']');
	return err;
}

int ff_samples__write(const struct ff_samples *s, struct outbuf *b, struct ff_gzip *gzip)
{
	int err;

	outbuf__puts(b, "\"length\":");
	json_u64(b, s->cnt);
	outbuf__puts(b, ",\"weightType\":\"tracing-ms\"");
	if (!s->cnt) {
		outbuf__puts(b, ",\"stack\":[],\"timeDeltas\":[],\"weight\":[]");
		return 0;
	}
	outbuf__puts(b, ",\"stack\":[");
	err = write_column(&s->stacks, b, gzip);
	outbuf__puts(b, "null],\"timeDeltas\":[");
	json_ms(b, s->first_ns);
	if (s->cnt > 1) {
		outbuf__putc(b, ',');
		if (!err)
			err = write_column(&s->deltas, b, gzip);
		json_ms(b, s->delta_ns);
	}
	outbuf__puts(b, "],\"weight\":[");
	if (s->cnt > 1) {
		if (!err)
			err = write_column(&s->deltas, b, gzip);
		json_ms(b, s->delta_ns);
		outbuf__putc(b, ',');
	}
	outbuf__puts(b, "0]");
	return err || !s->sampled ? err : write_cpu(s, b, gzip);
}

static void clear_column(struct ff_column *c)
{
	for (uint32_t i = 0; i < c->piece_cnt; i++)
		free(c->pieces[i].data);
	free(c->pieces);
	free(c->text);
	*c = (struct ff_column){ 0 };
}

void ff_samples__clear(struct ff_samples *s)
{
	clear_column(&s->deltas);
	clear_column(&s->stacks);
	clear_column(&s->cpu);
	*s = (struct ff_samples){ 0 };
}
