// SPDX-License-Identifier: Apache-2.0
#include "store/head.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"

#define RAW_MAX	     (256u << 20) /* of a profile; those that we write have a few MB */
#define COMMENTS_MAX 256

enum field {
	FIELD_STRING = 6,
	FIELD_TIME = 9,
	FIELD_DURATION = 10,
	FIELD_COMMENT = 13
};

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
	const uint8_t *at, *end;
	uint64_t comments[COMMENTS_MAX]; /* numbers of strings */
	uint32_t comment_cnt;
	uint64_t time, duration;
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

static int varint(struct scan *s, uint64_t *out)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
		uint8_t byte = *s->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*out = value;
			return 0;
		}
	}
	return -PYE_EFORMAT;
}

/* A field: its number, and a value or the bytes that it has. */
static int next_field(struct scan *s, uint32_t *field, uint64_t *value, struct bytes *bytes)
{
	uint64_t tag;
	int err = varint(s, &tag);

	if (err)
		return err;
	*field = (uint32_t)(tag >> 3);
	bytes->data = NULL;
	switch (tag & 7) {
	case 0:
		return varint(s, value);
	case 1:
		bytes->len = 8;
		break;
	case 2:
		err = varint(s, value);
		if (err || *value > (uint64_t)(s->end - s->at))
			return -PYE_EFORMAT;
		bytes->len = *value;
		break;
	case 5:
		bytes->len = 4;
		break;
	default:
		return -PYE_EFORMAT;
	}
	if (bytes->len > (size_t)(s->end - s->at))
		return -PYE_EFORMAT;
	bytes->data = (uint8_t *)s->at;
	s->at += bytes->len;
	return 0;
}

/* Comments can be packed, as others write them, or not. */
static int add_comments(struct scan *s, uint64_t value, const struct bytes *bytes)
{
	struct scan inner = { .at = bytes->data, .end = bytes->data + bytes->len };
	int err = 0;

	if (!bytes->data) {
		if (s->comment_cnt < COMMENTS_MAX)
			s->comments[s->comment_cnt++] = value;
		return 0;
	}
	while (!err && inner.at < inner.end && s->comment_cnt < COMMENTS_MAX)
		err = varint(&inner, &s->comments[s->comment_cnt++]);
	return err;
}

static int scan_numbers(struct scan *s)
{
	struct bytes bytes = { 0 };
	uint64_t value = 0;
	uint32_t field;
	int err = 0;

	while (!err && s->at < s->end) {
		err = next_field(s, &field, &value, &bytes);
		if (err)
			return err;
		if (field == FIELD_TIME && !bytes.data)
			s->time = value;
		else if (field == FIELD_DURATION && !bytes.data)
			s->duration = value;
		else if (field == FIELD_COMMENT)
			err = add_comments(s, value, &bytes);
	}
	return err;
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
static int take_strings(struct head *h, struct scan *s, const struct bytes *all)
{
	struct bytes bytes = { 0 };
	uint64_t value = 0, string = 0;
	uint32_t field;
	char *to;

	h->text = to = malloc(all->len + 1); /* each string ends where the next one's tag was */
	if (!to)
		return -ENOMEM;
	s->at = all->data;
	while (s->at < s->end) {
		if (next_field(s, &field, &value, &bytes))
			return -PYE_EFORMAT;
		if (field != FIELD_STRING || !bytes.data)
			continue;
		if (is_comment(s, string++)) {
			memcpy(to, bytes.data, bytes.len);
			to[bytes.len] = '\0';
			if (strlen(to) == bytes.len)
				add_label(h, to);
			to += bytes.len + 1;
		}
	}
	return 0;
}

int head_read(int fd, struct head *out)
{
	auto_fn(bytes_done) struct bytes all = { 0 };
	struct scan s = { 0 };
	int err;

	memset(out, 0, sizeof(*out));
	err = read_file(fd, &all);
	if (err)
		return err;
	s.at = all.data;
	s.end = all.data + all.len;
	err = scan_numbers(&s);
	err = err ? err : take_strings(out, &s, &all);
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
