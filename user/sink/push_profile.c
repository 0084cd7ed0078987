// SPDX-License-Identifier: Apache-2.0
#include "sink/push_profile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "base/idmap.h"
#include "base/pprof_fields.h"
#include "base/wire.h"
#include "export/gzip.h"
#include "import/source.h"

#define RAW_MAX (256u << 20)

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

/* --- the profile, indexed --- */

struct piece {
	const uint8_t *at;
	uint64_t len;
};

/* What parts refer to by numbers, and its numbers in the part at hand. */
struct table {
	struct piece *pieces; /* in the order of the profile */
	uint32_t cnt, cap;
	struct idmap index_of; /* by id in the profile; not of strings, whose ids are their indexes */
	struct idmap in_part; /* by index */
	uint32_t in_part_cnt;
	struct proto out;
};

enum part_table {
	STRINGS,
	LOCATIONS,
	FUNCTIONS,
	PART_TABLES
};

struct parts {
	struct membuf raw;
	struct table tables[PART_TABLES];
	struct wire samples; /* what is left */
	struct proto head, out;
	struct outbox_progress at;
	struct err *e;
};

/* What the fields of a message are: how their numbers are put. */
enum kind {
	KIND_COPY,
	KIND_DROP,
	KIND_STRING,
	KIND_LOCATION,
	KIND_FUNCTION,
	KIND_TIME,
	KIND_VALUE_TYPE, /* messages, from here on */
	KIND_MAPPING,
	KIND_LINE,
	KIND_LOCATION_MESSAGE,
	KIND_FUNCTION_MESSAGE,
	KIND_SAMPLE,
	KIND_PROFILE
};

/* clang-format off */
#define FIELDS 16
static const uint8_t shapes[][FIELDS] = {
	[KIND_VALUE_TYPE] = { [1] = KIND_STRING, [2] = KIND_STRING },
	[KIND_MAPPING] = { [MAPPING_FILENAME] = KIND_STRING, [6] = KIND_STRING },
	[KIND_LINE] = { [LINE_FUNCTION_ID] = KIND_FUNCTION },
	[KIND_LOCATION_MESSAGE] = { [LOCATION_ID] = KIND_DROP, [LOCATION_LINE] = KIND_LINE },
	[KIND_FUNCTION_MESSAGE] = { [FUNCTION_ID] = KIND_DROP, [FUNCTION_NAME] = KIND_STRING, [FUNCTION_SYSTEM_NAME] = KIND_STRING, [FUNCTION_FILENAME] = KIND_STRING },
	[KIND_SAMPLE] = { [SAMPLE_LOCATION_ID] = KIND_LOCATION, [SAMPLE_LABEL] = KIND_DROP },
	/* its tables and samples are put on their own; the others are regular expressions, comments and the like */
	[KIND_PROFILE] = {
		[PROFILE_SAMPLE_TYPE] = KIND_VALUE_TYPE, [PROFILE_SAMPLE] = KIND_DROP, [PROFILE_MAPPING] = KIND_MAPPING,
		[PROFILE_LOCATION] = KIND_DROP, [PROFILE_FUNCTION] = KIND_DROP, [PROFILE_STRING_TABLE] = KIND_DROP,
		[7] = KIND_STRING, [8] = KIND_STRING, [PROFILE_TIME_NANOS] = KIND_TIME, [PROFILE_PERIOD_TYPE] = KIND_VALUE_TYPE,
		[PROFILE_COMMENT] = KIND_STRING, [PROFILE_DEFAULT_SAMPLE_TYPE] = KIND_STRING, [15] = KIND_STRING,
	},
};
/* clang-format on */

static void parts_done(struct parts *p)
{
	membuf__done(&p->raw);
	for (unsigned int i = 0; i < PART_TABLES; i++) {
		free(p->tables[i].pieces);
		idmap__done(&p->tables[i].index_of);
		idmap__done(&p->tables[i].in_part);
		proto__done(&p->tables[i].out);
	}
	proto__done(&p->head);
	proto__done(&p->out);
}

static int damaged(struct parts *p)
{
	return err_set(p->e, -PYE_EFORMAT, "it is damaged");
}

static uint64_t id_of(const struct wire_field *f)
{
	struct wire w = wire_inner(f);
	struct wire_field in;
	uint64_t id = 0;

	while (wire__next(&w, &in))
		if (in.number == 1 && in.type == WIRE_VARINT) /* of locations and functions */
			id = in.value;
	return id;
}

static int index_piece(struct table *t, const struct wire_field *f, bool has_id)
{
	if (GROW(t->pieces, t->cap, t->cnt))
		return -ENOMEM;
	t->pieces[t->cnt] = (struct piece){ f->bytes, f->value };
	return has_id ? idmap__set(&t->index_of, id_of(f), t->cnt++) : (t->cnt++, 0);
}

static int index_all(struct parts *p)
{
	struct wire w = { .at = (const uint8_t *)p->raw.data,
			  .end = (const uint8_t *)p->raw.data + p->raw.len };
	struct wire_field f;
	int err = 0;

	p->samples = w;
	while (!err && wire__next(&w, &f)) {
		if (f.type != WIRE_BYTES)
			continue;
		if (f.number == PROFILE_STRING_TABLE)
			err = index_piece(&p->tables[STRINGS], &f, false);
		else if (f.number == PROFILE_LOCATION)
			err = index_piece(&p->tables[LOCATIONS], &f, true);
		else if (f.number == PROFILE_FUNCTION)
			err = index_piece(&p->tables[FUNCTIONS], &f, true);
	}
	return err ? err : w.bad || w.at < w.end ? damaged(p) : 0;
}

/* --- a part --- */

static int put_fields(struct parts *p, struct proto *out, struct wire w, enum kind shape);

static int put_piece(struct parts *p, enum part_table which, uint32_t index)
{
	static const uint8_t fields[] = { PROFILE_STRING_TABLE, PROFILE_LOCATION,
					  PROFILE_FUNCTION };
	struct table *t = &p->tables[which];
	const struct piece *piece = &t->pieces[index];
	struct wire w = { .at = piece->at, .end = piece->at + piece->len };
	size_t mark;
	int err;

	if (which == STRINGS) {
		proto__bytes(&t->out, PROFILE_STRING_TABLE, piece->at, piece->len);
		return 0;
	}
	mark = proto__open(&t->out, fields[which]);
	proto__u64(&t->out, 1, t->in_part_cnt); /* its id */
	err = put_fields(p, &t->out, w,
			 which == LOCATIONS ? KIND_LOCATION_MESSAGE : KIND_FUNCTION_MESSAGE);
	proto__close(&t->out, mark);
	return err;
}

/* The number in this part of what has one in the profile; what is new is put into its table. */
static int renumber(struct parts *p, enum part_table which, uint64_t *id)
{
	struct table *t = &p->tables[which];
	uint32_t index = which != STRINGS ? idmap__find(&t->index_of, *id)
			 : *id < t->cnt	  ? (uint32_t)*id
					  : IDMAP_NONE;
	int err;

	if (which != STRINGS && !*id)
		return 0; /* none */
	if (index == IDMAP_NONE)
		return damaged(p);
	*id = idmap__find(&t->in_part, index);
	if (*id != IDMAP_NONE)
		return 0;
	/* strings count from 0, which is "" */
	*id = which == STRINGS ? t->in_part_cnt++ : ++t->in_part_cnt;
	err = idmap__set(&t->in_part, index, (uint32_t)*id);
	return err ? err : put_piece(p, which, index);
}

static int translate(struct parts *p, enum kind kind, uint64_t *value)
{
	switch (kind) {
	case KIND_STRING:
		return renumber(p, STRINGS, value);
	case KIND_LOCATION:
		return renumber(p, LOCATIONS, value);
	case KIND_FUNCTION:
		return renumber(p, FUNCTIONS, value);
	case KIND_TIME: /* a server may take two profiles of a series and a millisecond for one that came twice */
		*value += p->at.parts * 1000000ull;
		return 0;
	default:
		return 0;
	}
}

static int put_numbers(struct parts *p, struct proto *out, const struct wire_field *f,
		       enum kind kind)
{
	uint64_t value = f->value;
	struct wire w = wire_inner(f);
	size_t mark;
	int err = 0;

	if (f->type == WIRE_VARINT) {
		err = translate(p, kind, &value);
		proto__u64(out, f->number, value);
		return err;
	}
	mark = proto__open(out, f->number);
	while (!err && w.at < w.end) {
		value = wire__varint(&w);
		err = w.bad ? damaged(p) : translate(p, kind, &value);
		proto__varint(out, value);
	}
	proto__close(out, mark);
	return err;
}

static int put_fields(struct parts *p, struct proto *out, struct wire w, enum kind shape)
{
	const uint8_t *at = w.at;
	struct wire_field f;
	int err = 0;

	for (; !err && wire__next(&w, &f); at = w.at) {
		enum kind kind = f.number < FIELDS ? shapes[shape][f.number] : KIND_COPY;

		if (kind == KIND_COPY) {
			proto__raw(out, at, (size_t)(w.at - at));
		} else if (kind >= KIND_VALUE_TYPE) {
			size_t mark = proto__open(out, f.number);

			err = put_fields(p, out, wire_inner(&f), kind);
			proto__close(out, mark);
		} else if (kind != KIND_DROP) {
			err = put_numbers(p, out, &f, kind);
		}
	}
	return err ? err : w.bad || w.at < w.end ? damaged(p) : 0;
}

static size_t part_size(const struct parts *p)
{
	size_t size = p->head.len + p->out.len;

	for (unsigned int i = 0; i < PART_TABLES; i++)
		size += p->tables[i].out.len;
	return size;
}

static void start_part(struct parts *p)
{
	for (unsigned int i = 0; i < PART_TABLES; i++) {
		idmap__done(&p->tables[i].in_part);
		p->tables[i].in_part_cnt = 0;
		p->tables[i].out.len = 0;
	}
	p->head.len = p->out.len = 0;
}

static int fill_part(struct parts *p, const struct push_limits *limits)
{
	struct wire all = { .at = (const uint8_t *)p->raw.data,
			    .end = (const uint8_t *)p->raw.data + p->raw.len };
	struct wire_field f;
	uint32_t samples = 0;
	uint64_t empty = 0;
	int err;

	start_part(p);
	err = renumber(p, STRINGS, &empty);
	err = err ? err : put_fields(p, &p->head, all, KIND_PROFILE);
	/* with a sample at least, else there would be no end */
	while (!err && samples < limits->samples && (!samples || part_size(p) < limits->bytes) &&
	       wire__next(&p->samples, &f)) {
		size_t mark;

		if (f.number != PROFILE_SAMPLE || f.type != WIRE_BYTES)
			continue;
		p->at.samples++;
		mark = proto__open(&p->out, PROFILE_SAMPLE);
		err = put_fields(p, &p->out, wire_inner(&f), KIND_SAMPLE);
		proto__close(&p->out, mark);
		samples++;
	}
	return err;
}

static int pack_part(struct parts *p, struct membuf *out)
{
	struct proto *pieces[] = { &p->head, &p->out, &p->tables[LOCATIONS].out,
				   &p->tables[FUNCTIONS].out, &p->tables[STRINGS].out };
	struct gzip *gzip = NULL;
	int err = gzip__new(&gzip, GZIP_FASTEST, membuf__write, out);

	for (unsigned int i = 0; i < sizeof(pieces) / sizeof(pieces[0]) && !err; i++) {
		err = pieces[i]->err;
		err = err ? err : gzip__write(gzip, pieces[i]->data, pieces[i]->len);
	}
	err = err ? err : gzip__finish(gzip);
	gzip__free(gzip);
	return err;
}

/* Whether there is a sample left. */
static bool has_more(const struct parts *p)
{
	struct wire w = p->samples;
	struct wire_field f;

	while (wire__next(&w, &f))
		if (f.number == PROFILE_SAMPLE && f.type == WIRE_BYTES)
			return true;
	return false;
}

/* Samples that are there already. */
static void skip_taken(struct parts *p, const struct outbox_progress *from)
{
	struct wire_field f;

	while (p->at.samples < from->samples && wire__next(&p->samples, &f))
		p->at.samples += f.number == PROFILE_SAMPLE && f.type == WIRE_BYTES;
	p->at.parts = from->parts;
}

static int put_part(struct parts *p, struct sink_push *push, const struct sink_window *w,
		    const struct push_limits *limits, push_part_fn put)
{
	auto_fn(membuf__done) struct membuf profile = { 0 };
	int err = fill_part(p, limits);

	err = err ? err : pack_part(p, &profile);
	err = err ? err : put(push, w, &profile);
	if (err)
		return err;
	p->at.parts++;
	push->requests[push->request_cnt - 1].then = p->at;
	return 0;
}

int push_profile_parts(struct sink_push *push, const struct sink_window *w,
		       const struct push_limits *most, push_part_fn put, struct err *e)
{
	auto_fn(parts_done) struct parts p = { .e = e };
	const struct push_limits limits = { most->bytes >> w->smaller,
					    most->samples >> w->smaller };
	uint32_t before = push->request_cnt;
	int err = read_all(w, &p.raw, e);

	if (!err && !p.raw.data)
		return err_set(e, -PYE_EFORMAT, "it is empty");
	err = err ? err : index_all(&p);
	if (!err)
		skip_taken(&p, &w->from);
	/* one that is empty goes, too */
	while (!err && (!p.at.parts || has_more(&p)))
		err = put_part(&p, push, w, &limits, put);
	if (err)
		sink_push__cut(push, before);
	return err;
}
