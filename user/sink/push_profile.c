// SPDX-License-Identifier: Apache-2.0
#include "sink/push_profile.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/pprof_fields.h"
#include "base/wire.h"
#include "export/gzip.h"
#include "import/source.h"

#define RAW_MAX	    (256u << 20)
#define BUFFER_SIZE (64u << 10)

enum {
	LABEL_NAME = 1,
	LABEL_VALUE = 2
};

const char *push_profile_name(const struct sink_window *w)
{
	const char *type = label_value(w->head->labels, w->head->label_cnt, "profile_type");

	return !strcmp(type, "calls") ? "python_calls" : "process_cpu";
}

static void put_label(struct proto *p, uint32_t field, const char *name, const char *value)
{
	size_t mark = proto__open(p, field);

	proto__bytes(p, LABEL_NAME, name, strlen(name));
	proto__bytes(p, LABEL_VALUE, value, strlen(value));
	proto__close(p, mark);
}

void push_profile_labels(struct proto *p, uint32_t field, const struct sink_window *w)
{
	/* "_" is before all letters that a label begins with but capitals, and these are rare */
	put_label(p, field, "__name__", push_profile_name(w));
	for (uint32_t i = 0; i < w->head->label_cnt; i++) {
		const struct store_label *l = &w->head->labels[i];

		if (*l->value && strcmp(l->name, "container_id") != 0 &&
		    strcmp(l->name, "__name__") != 0)
			put_label(p, field, l->name, l->value);
	}
}

static int read_all(const struct sink_window *w, struct membuf *out, struct err *e)
{
	struct source s = { 0 };
	int got = 0, err = 0;

	if (lseek(w->fd, 0, SEEK_SET))
		return -errno;
	err = source__open(&s, w->fd, e);
	while (!err && (got = source__fill(&s)) > 0) {
		if (out->len + (s.len - s.at) > RAW_MAX)
			err = err_set(e, -PYE_EFORMAT, "it is too large");
		err = err ? err : membuf__write(out, s.buf + s.at, s.len - s.at);
		s.at = s.len;
	}
	source__done(&s);
	return err ? err : got;
}

/* A field as it was: its bytes from @at on, up to where the reader is now. */
static void copy(struct outbuf *b, const uint8_t *at, const struct wire *w)
{
	outbuf__put(b, at, (size_t)(w->at - at));
}

static void put_sample(struct outbuf *b, const struct wire_field *f, struct proto *p)
{
	struct wire w = wire_inner(f);
	const uint8_t *at = w.at;
	struct wire_field in;
	size_t mark = proto__open(p, PROFILE_SAMPLE);

	for (; wire__next(&w, &in); at = w.at)
		if (in.number != SAMPLE_LABEL)
			proto__raw(p, at, (size_t)(w.at - at));
	proto__close(p, mark);
	proto__flush(p, b);
}

static int strip(const struct membuf *raw, struct outbuf *b, struct err *e)
{
	struct wire w = { .at = (const uint8_t *)raw->data,
			  .end = (const uint8_t *)raw->data + raw->len };
	const uint8_t *at = w.at;
	auto_fn(proto__done) struct proto p = { 0 };
	struct wire_field f;

	for (; wire__next(&w, &f); at = w.at) {
		if (f.number == PROFILE_SAMPLE && f.type == WIRE_BYTES)
			put_sample(b, &f, &p);
		else
			copy(b, at, &w);
	}
	if (w.bad || w.at < w.end)
		return err_set(e, -PYE_EFORMAT, "it is damaged");
	return p.err;
}

int push_profile_strip(const struct sink_window *w, struct membuf *out, struct err *e)
{
	auto_fn(membuf__done) struct membuf raw = { 0 };
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	struct gzip *gzip = NULL;
	int err = read_all(w, &raw, e);

	if (!err && !raw.data)
		return err_set(e, -PYE_EFORMAT, "it is empty");
	err = err ? err : gzip__new(&gzip, GZIP_FASTEST, membuf__write, out);
	err = err ? err : outbuf__init(&b, BUFFER_SIZE, gzip__write, gzip);
	err = err ? err : strip(&raw, &b, e);
	err = err ? err : outbuf__flush(&b);
	err = err ? err : gzip__finish(gzip);
	gzip__free(gzip);
	return err;
}

int push_profile_body(struct sink_push *push, struct proto *p, struct membuf *body)
{
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	int err = outbuf__init(&b, BUFFER_SIZE, membuf__write, body);

	err = err ? err : proto__flush(p, &b);
	err = err ? err : outbuf__flush(&b);
	push->request_cnt = err ? 0 : 1;
	return err;
}
