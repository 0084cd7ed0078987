// SPDX-License-Identifier: Apache-2.0
#include "store/head.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/pprof_fields.h"
#include "base/wire.h"

#define RAW_MAX	     (256u << 20) /* of a profile; those that we write have a few MB */
#define COMMENTS_MAX 256

static const char label_prefix[] = "label: ";

struct bytes {
	uint8_t *data;
	size_t len;
};

static void bytes_done(struct bytes *b)
{
	free(b->data);
}

struct scan {
	uint64_t comments[COMMENTS_MAX]; /* numbers of strings */
	uint32_t comment_cnt;
	uint64_t time, duration;
	bool bad;
};

void head_comment(const struct store_label *label, char *out, uint32_t size)
{
	snprintf(out, size, "%s%s=%s", label_prefix, label->name, label->value);
}

static int inflate_all(gzFile file, struct bytes *out)
{
	size_t cap = 0;
	int n;

	do {
		if (cap - out->len < 65536) {
			uint8_t *grown;

			cap = cap ? cap * 2 : 1u << 18;
			if (cap > RAW_MAX)
				return -PYE_EFORMAT;
			grown = realloc(out->data, cap);
			if (!grown)
				return -ENOMEM;
			out->data = grown;
		}
		n = gzread(file, out->data + out->len, (unsigned int)(cap - out->len));
		if (n > 0)
			out->len += (size_t)n;
	} while (n > 0);
	return n < 0 || gzdirect(file) ? -PYE_EFORMAT : 0;
}

static int read_file(int fd, struct bytes *out)
{
	int copy = dup(fd), err;
	gzFile file = copy < 0 ? NULL : gzdopen(copy, "rb");

	if (!file) {
		if (copy >= 0)
			close(copy);
		return -ENOMEM;
	}
	err = inflate_all(file, out);
	/* that it ends too early is told here */
	return gzclose_r(file) != Z_OK && !err ? -PYE_EFORMAT : err;
}

/* Comments can be packed, as others write them, or not. */
static void add_comments(struct scan *s, const struct wire_field *f)
{
	struct wire inner = wire_inner(f);

	if (f->type == WIRE_VARINT && s->comment_cnt < COMMENTS_MAX)
		s->comments[s->comment_cnt++] = f->value;
	while (inner.at < inner.end && !inner.bad && s->comment_cnt < COMMENTS_MAX)
		s->comments[s->comment_cnt++] = wire__varint(&inner);
	s->bad |= inner.bad;
}

static int scan_numbers(struct scan *s, struct wire w)
{
	struct wire_field f;

	while (wire__next(&w, &f)) {
		if (f.number == PROFILE_TIME_NANOS && f.type == WIRE_VARINT)
			s->time = f.value;
		else if (f.number == PROFILE_DURATION_NANOS && f.type == WIRE_VARINT)
			s->duration = f.value;
		else if (f.number == PROFILE_COMMENT)
			add_comments(s, &f);
	}
	return w.bad || s->bad || w.at < w.end ? -PYE_EFORMAT : 0;
}

static int compare_labels(const void *a, const void *b)
{
	const struct store_label *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* "label: name=value", in @text, which is ours. */
static void add_label(struct head *h, char *text)
{
	char *name = text + strlen(label_prefix), *equals;

	if (strncmp(text, label_prefix, strlen(label_prefix)) != 0)
		return;
	equals = strchr(name, '=');
	if (!equals || h->label_cnt == STORE_LABELS_MAX)
		return;
	*equals = '\0';
	if (!label_is_name(name) || *label_value(h->labels, h->label_cnt, name) ||
	    equals - name > STORE_LABEL_MAX || strlen(equals + 1) > STORE_LABEL_MAX)
		return;
	h->labels[h->label_cnt++] = (struct store_label){ name, equals + 1 };
}

static bool is_comment(const struct scan *s, uint64_t string)
{
	for (uint32_t i = 0; i < s->comment_cnt; i++)
		if (s->comments[i] == string)
			return true;
	return false;
}

/* The strings that are comments, one after the other into h->text. */
static int take_strings(struct head *h, const struct scan *s, struct wire w)
{
	uint64_t string = 0;
	struct wire_field f;
	char *to;

	/* each string ends where the next one's tag was */
	h->text = to = malloc((size_t)(w.end - w.at) + 1);
	if (!to)
		return -ENOMEM;
	while (wire__next(&w, &f)) {
		if (f.number != PROFILE_STRING_TABLE || f.type != WIRE_BYTES)
			continue;
		if (is_comment(s, string++)) {
			memcpy(to, f.bytes, f.value);
			to[f.value] = '\0';
			if (strlen(to) == f.value)
				add_label(h, to);
			to += f.value + 1;
		}
	}
	return 0;
}

int head_read(int fd, struct head *out)
{
	auto_fn(bytes_done) struct bytes all = { 0 };
	struct scan s = { 0 };
	struct wire w;
	int err;

	memset(out, 0, sizeof(*out));
	err = read_file(fd, &all);
	if (err)
		return err;
	w = (struct wire){ .at = all.data, .end = all.data + all.len };
	err = scan_numbers(&s, w);
	err = err ? err : take_strings(out, &s, w);
	if (err)
		return err;
	if (s.time > INT64_MAX || s.duration > INT64_MAX - s.time)
		return -PYE_EFORMAT;
	out->start_ns = (int64_t)s.time;
	out->end_ns = (int64_t)(s.time + s.duration);
	qsort(out->labels, out->label_cnt, sizeof(out->labels[0]), compare_labels);
	return *label_value(out->labels, out->label_cnt, STORE_SERVICE) ? 0 : -PYE_EFORMAT;
}

void head_done(struct head *h)
{
	free(h->text);
	h->text = NULL;
}
