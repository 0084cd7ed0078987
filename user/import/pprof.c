// SPDX-License-Identifier: Apache-2.0
/*
 * pprof's profile.proto. The parts of a profile come in any order, names after the samples that use
 * them in most files, so the input is read twice: first what names things, then the samples, each
 * pushed as it is read. Numbers of the wire format: protobuf.dev/programming-guides/encoding.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/idmap.h"
#include "import/importers.h"
#include "import/pprof_names.h"

enum {
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_BYTES = 2,
	WIRE_32 = 5,
	VALUES_MAX = 64,
	LABEL_TEXT_MAX = 256
};

/* A message in memory; bad is set where it ends in the middle of something. */
struct wire {
	const uint8_t *at, *end;
	bool bad;
};

struct field {
	uint32_t number, type;
	uint64_t value; /* of a number; the length of bytes */
	const uint8_t *bytes;
};

struct pprof {
	struct source *s;
	struct sink *k;
	struct pprof_names n;
	uint8_t *message;
	size_t message_cap;
	struct trace_frame *frames; /* innermost first, while reading */
	uint32_t frame_cnt, frame_cap;
	uint64_t *locations;
	uint32_t location_cnt, location_cap;
	struct idmap func_ids; /* process and function -> id of the sink */
	uint32_t default_thread, default_process;
	/* of sample_type: which values are what; -1: none */
	int count_at, time_at, off_at;
	uint64_t time_unit_ns, off_unit_ns;
};

static uint64_t varint(struct wire *w)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		if (w->at == w->end)
			break;
		value |= (uint64_t)(*w->at & 0x7f) << shift;
		if (!(*w->at++ & 0x80))
			return value;
	}
	w->bad = true;
	return 0;
}

/* Return: whether there is another field. */
static bool next_field(struct wire *w, struct field *f)
{
	uint64_t tag, left;

	if (w->at == w->end || w->bad)
		return false;
	tag = varint(w);
	f->number = (uint32_t)(tag >> 3);
	f->type = tag & 7;
	f->bytes = w->at;
	f->value = 0;
	if (f->type == WIRE_VARINT || f->type == WIRE_BYTES)
		f->value = varint(w);
	else if (f->type == WIRE_64 || f->type == WIRE_32)
		f->value = f->type == WIRE_64 ? 8 : 4;
	else
		w->bad = true;
	left = (uint64_t)(w->end - w->at);
	if (f->type != WIRE_VARINT && f->value > left)
		w->bad = true;
	if (f->type != WIRE_VARINT && !w->bad) {
		f->bytes = w->at;
		w->at += f->value;
	}
	return !w->bad && tag >> 3 > 0 && tag >> 3 <= UINT32_MAX;
}

static struct wire inner(const struct field *f)
{
	static const uint8_t nothing[1];

	/* a number has no bytes */
	if (f->type == WIRE_VARINT || !f->value)
		return (struct wire){ .at = nothing, .end = nothing };
	return (struct wire){ .at = f->bytes, .end = f->bytes + f->value };
}

static int malformed(struct pprof *p, const char *what)
{
	return err_set(p->k->e, -PYE_EFORMAT, "the pprof data are damaged: %s before byte %" PRIu64,
		       what, source__offset(p->s));
}

/* A varint of the outermost message. Return: 1; 0 at the end, where @may_end; or a negative number. */
static int read_varint(struct pprof *p, bool may_end, uint64_t *value)
{
	*value = 0;
	for (unsigned int shift = 0; shift < 64; shift += 7) {
		int more = source__fill(p->s);
		uint8_t byte;

		if (more < 0 || (!more && may_end && !shift))
			return more;
		if (!more)
			return malformed(p, "it is cut");
		byte = p->s->buf[p->s->at++];
		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return 1;
	}
	return malformed(p, "a number is too long");
}

static int room_for(struct pprof *p, size_t len)
{
	uint8_t *grown;
	size_t cap = p->message_cap ? p->message_cap : 4096;

	if (len <= p->message_cap)
		return 0;
	while (cap < len)
		cap *= 2;
	grown = realloc(p->message, cap);
	if (!grown)
		return -ENOMEM;
	p->message = grown;
	p->message_cap = cap;
	return 0;
}

/* Bytes of the outermost message's field; those that are not wanted are skipped. */
static int read_bytes(struct pprof *p, struct field *f, uint64_t wanted)
{
	int err;

	if (!(wanted >> f->number & 1))
		return source__skip(p->s, f->value);
	if (f->value > PPROF_MESSAGE_MAX)
		return malformed(p, "a message is longer than 16 MB");
	err = room_for(p, f->value);
	err = err ? err : source__take(p->s, p->message, f->value);
	f->bytes = p->message;
	return err;
}

/**
 * each_field - read the outermost message
 * @wanted: bit n: bytes of field n are handed over; others are skipped
 */
static int each_field(struct pprof *p, uint64_t wanted,
		      int (*fn)(struct pprof *, const struct field *))
{
	struct field f = { 0 };
	uint64_t tag;
	int got, err = 0;

	while (!err && (got = read_varint(p, true, &tag)) != 0) {
		if (got < 0)
			return got;
		f = (struct field){ .number = (uint32_t)(tag >> 3), .type = tag & 7 };
		if (!f.number || tag >> 3 > 63)
			return malformed(p, "a field that no profile has");
		if (f.type == WIRE_VARINT || f.type == WIRE_BYTES) {
			got = read_varint(p, false, &f.value);
			if (got < 0)
				return got;
			if (f.type == WIRE_BYTES)
				err = read_bytes(p, &f, wanted);
			if (!err && (f.type == WIRE_VARINT || wanted >> f.number & 1))
				err = fn(p, &f);
		} else if (f.type == WIRE_64 || f.type == WIRE_32) {
			err = source__skip(p->s, f.type == WIRE_64 ? 8 : 4);
		} else {
			err = malformed(p, "a field of no known type");
		}
	}
	return err;
}

/* The numbers of a message's fields that are one, by field number below 8. */
static int numbers_of(struct pprof *p, const struct field *f, uint64_t *out)
{
	struct wire w = inner(f);
	struct field in;

	memset(out, 0, 8 * sizeof(*out));
	while (next_field(&w, &in)) {
		if (in.number < 8 && in.type == WIRE_VARINT)
			out[in.number] = in.value;
	}
	return w.bad ? malformed(p, "a message is cut") : 0;
}

static int take_function(struct pprof *p, const struct field *f)
{
	uint64_t v[8];
	int err = numbers_of(p, f, v);

	return err ? err
		   : pprof_names__function(
			     &p->n, v[FUNCTION_ID],
			     &(struct pprof_function){ .name = v[FUNCTION_NAME],
						       .file = v[FUNCTION_FILENAME],
						       .line = v[FUNCTION_START_LINE] });
}

/* Lines of a location: the innermost of what was inlined is first. */
static int take_location(struct pprof *p, const struct field *f)
{
	struct wire w = inner(f);
	struct field in;
	uint64_t v[8] = { 0 }, line[8];
	uint32_t first = p->n.line_cnt;
	int err = 0;

	while (!err && next_field(&w, &in)) {
		if (in.number < 8 && in.type == WIRE_VARINT)
			v[in.number] = in.value;
		if (in.number != LOCATION_LINE || in.type != WIRE_BYTES)
			continue;
		err = numbers_of(p, &in, line);
		err = err ? err : pprof_names__line(&p->n, line[LINE_FUNCTION_ID], line[LINE_LINE]);
	}
	if (!err && w.bad)
		err = malformed(p, "a location is cut");
	return err ? err : pprof_names__location(&p->n, v[LOCATION_ID], first, v[LOCATION_ADDRESS]);
}

/* The first time through: everything but the samples. */
static int take_name(struct pprof *p, const struct field *f)
{
	uint64_t v[8];
	int err = 0;

	if ((f->type == WIRE_BYTES) !=
	    (f->number <= PROFILE_STRING_TABLE || f->number == PROFILE_PERIOD_TYPE))
		return 0; /* packed comments, for example */
	switch (f->number) {
	case PROFILE_SAMPLE_TYPE:
		err = numbers_of(p, f, v);
		if (p->n.type_cnt == VALUES_MAX)
			return malformed(p, "too many types of samples");
		p->n.types[p->n.type_cnt++] = (struct pprof_type){ v[1], v[2] };
		break;
	case PROFILE_PERIOD_TYPE:
		err = numbers_of(p, f, v);
		p->n.period_type = (struct pprof_type){ v[1], v[2] };
		break;
	case PROFILE_LOCATION:
		return take_location(p, f);
	case PROFILE_FUNCTION:
		return take_function(p, f);
	case PROFILE_MAPPING:
		err = p->n.mapping ? 0 : numbers_of(p, f, v);
		p->n.mapping = p->n.mapping || err ? p->n.mapping : v[MAPPING_FILENAME];
		break;
	case PROFILE_STRING_TABLE:
		return pprof_names__string(&p->n, f->bytes, f->value);
	case PROFILE_TIME_NANOS:
		p->n.time_ns = (int64_t)f->value;
		break;
	case PROFILE_DURATION_NANOS:
		p->n.duration_ns = f->value <= SINK_TIME_MAX ? f->value : 0;
		break;
	case PROFILE_PERIOD:
		p->n.period = f->value;
		break;
	case PROFILE_DEFAULT_SAMPLE_TYPE:
		p->n.default_type = f->value;
		break;
	default:
		break;
	}
	return err;
}

static bool is_called(const struct pprof *p, uint64_t string, const char *name)
{
	return !strcmp(pprof_names__text(&p->n, string), name);
}

/* ns of a unit of time; 0: it is none. */
static uint64_t unit_ns(const struct pprof *p, uint64_t unit)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "nanoseconds", 1 }, { "nanosecond", 1 },
		      { "ns", 1 },	    { "microseconds", 1000 },
		      { "us", 1000 },	    { "milliseconds", 1000000 },
		      { "ms", 1000000 },    { "seconds", 1000000000 },
		      { "s", 1000000000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (is_called(p, unit, units[i].name))
			return units[i].ns;
	}
	return 0;
}

static int no_times(const struct pprof *p)
{
	return err_set(
		p->k->e, -PYE_EFORMAT,
		"the profile measures %.100s in %.100s, and not time: it has no times to show",
		p->n.type_cnt ? pprof_names__text(&p->n, p->n.types[p->n.type_cnt - 1].type)
			      : "nothing",
		p->n.type_cnt ? pprof_names__text(&p->n, p->n.types[p->n.type_cnt - 1].unit)
			      : "no unit");
}

/* The last type that is a time, but the one asked for where it is one; counts times the period else. */
static int choose_values(struct pprof *p)
{
	uint64_t period_ns = unit_ns(p, p->n.period_type.unit);

	p->count_at = p->time_at = p->off_at = -1;
	for (int i = 0; i < (int)p->n.type_cnt; i++) {
		const struct pprof_type *t = &p->n.types[i];

		if (is_called(p, t->unit, "count") && p->count_at < 0)
			p->count_at = i;
		if (!unit_ns(p, t->unit))
			continue;
		if (is_called(p, t->type, "off_cpu")) {
			p->off_at = i;
			p->off_unit_ns = unit_ns(p, t->unit);
		} else if (p->time_at < 0 || !p->n.default_type ||
			   p->n.types[p->time_at].type != p->n.default_type) {
			p->time_at = i;
			p->time_unit_ns = unit_ns(p, t->unit);
		}
	}
	/* our own: wall = cpu + off_cpu */
	for (int i = 0; p->off_at >= 0 && i < (int)p->n.type_cnt; i++) {
		if (is_called(p, p->n.types[i].type, "cpu") && unit_ns(p, p->n.types[i].unit))
			p->time_at = i;
	}
	if (p->time_at < 0 && p->count_at >= 0 && period_ns && p->n.period) {
		p->time_at = p->count_at;
		return sink__times(p->k, p->n.period, period_ns, &p->time_unit_ns);
	}
	return p->time_at < 0 ? no_times(p) : 0;
}

static int begin(struct pprof *p)
{
	uint64_t period_ns = unit_ns(p, p->n.period_type.unit);
	struct trace_info info = { .engine = "pprof", .start_unix_ns = p->n.time_ns };
	const char *path = pprof_names__text(&p->n, p->n.mapping), *slash = strrchr(path, '/');
	uint32_t name;
	int err = choose_values(p);

	/* of calls a period says nothing */
	if (!err && p->count_at >= 0 && is_called(p, p->n.types[p->count_at].type, "calls"))
		period_ns = 0;
	if (!err && period_ns && p->n.period)
		err = sink__times(p->k, p->n.period, period_ns, &info.sample_ns);
	if (!err && !info.sample_ns && p->count_at >= 0 &&
	    is_called(p, p->n.types[p->count_at].type, "samples"))
		info.sample_ns = p->k->count_ns;
	err = err ? err : sink__begin(p->k, &info);
	path = slash && slash[1] ? slash + 1 : path;
	err = err ? err : sink__text(p->k, *path ? path : "all", *path ? strlen(path) : 3, &name);
	if (err)
		return err;
	p->n.comm = name;
	p->default_process = p->default_thread = UINT32_MAX;
	return 0;
}

static int add_location_id(struct pprof *p, uint64_t id)
{
	if (p->location_cnt == PPROF_FRAMES_MAX)
		return malformed(p, "a sample has more than 65536 locations");
	if (p->location_cnt == p->location_cap) {
		uint32_t cap = p->location_cap ? p->location_cap * 2 : 256;
		uint64_t *grown = reallocarray(p->locations, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		p->locations = grown;
		p->location_cap = cap;
	}
	p->locations[p->location_cnt++] = id;
	return 0;
}

/* What labels say of where a sample was; strings by number. */
struct labels {
	uint64_t pid, tid, process, thread;
};

static int take_label(struct pprof *p, const struct field *f, struct labels *l)
{
	uint64_t v[8];
	int err = numbers_of(p, f, v);
	const char *key = pprof_names__text(&p->n, v[1]);

	if (err)
		return err;
	if (!strcmp(key, "pid") || !strcmp(key, "process_id"))
		l->pid = v[3];
	else if (!strcmp(key, "tid") || !strcmp(key, "thread_id"))
		l->tid = v[3];
	else if (!strcmp(key, "process") || !strcmp(key, "comm"))
		l->process = v[2];
	else if (!strcmp(key, "thread") || !strcmp(key, "thread_name"))
		l->thread = v[2];
	return 0;
}

static int text_of(struct pprof *p, uint64_t string, uint32_t fallback, uint32_t *id)
{
	const char *text = pprof_names__text(&p->n, string);

	*id = fallback;
	return *text ? sink__text(p->k, text, strlen(text), id) : 0;
}

static int place(struct pprof *p, const struct labels *l, uint32_t *process, uint32_t *thread)
{
	bool plain = !(l->pid | l->tid | l->process | l->thread);
	uint32_t comm, name;
	int err;

	*process = p->default_process;
	*thread = p->default_thread;
	if (plain && *thread != UINT32_MAX)
		return 0;
	err = text_of(p, l->process, p->n.comm, &comm);
	err = err ? err : sink__process(p->k, (uint32_t)l->pid, comm, process);
	err = err ? err : text_of(p, l->thread, comm, &name);
	err = err ? err : sink__thread(p->k, *process, (uint32_t)l->tid, name, thread);
	if (!err && plain) {
		p->default_process = *process;
		p->default_thread = *thread;
	}
	return err;
}

static int func_of(struct pprof *p, uint32_t process, uint32_t index, uint32_t *id)
{
	uint64_t key = (uint64_t)process << 32 | index;
	uint32_t name, file;
	int err;

	*id = idmap__find(&p->func_ids, key);
	if (*id != IDMAP_NONE)
		return 0;
	err = pprof_names__describe(&p->n, p->k, index, &name, &file);
	err = err ? err
		  : sink__func(p->k, process, name, file, (uint32_t)p->n.functions[index].line, id);
	return err ? err : idmap__set(&p->func_ids, key, *id);
}

static int add_frames(struct pprof *p, uint32_t process)
{
	int err = 0;

	p->frame_cnt = 0;
	for (uint32_t i = 0; i < p->location_cnt && !err; i++) {
		struct pprof_location *at;

		err = pprof_names__find(&p->n, p->locations[i], &at);
		for (uint32_t k = 0; !err && k < at->line_cnt; k++) {
			const struct pprof_line *line = &p->n.lines[at->first_line + k];
			struct trace_frame *f;

			if (p->frame_cnt == p->frame_cap) {
				uint32_t cap = p->frame_cap ? p->frame_cap * 2 : 256;
				struct trace_frame *grown =
					reallocarray(p->frames, cap, sizeof(*grown));

				if (cap > 4 * PPROF_FRAMES_MAX)
					return malformed(p, "a sample has too many frames");
				if (!grown)
					return -ENOMEM;
				p->frames = grown;
				p->frame_cap = cap;
			}
			f = &p->frames[p->frame_cnt++];
			f->line = line->line;
			err = func_of(p, process, line->function, &f->func);
		}
	}
	for (uint32_t i = 0; i < p->frame_cnt / 2; i++) {
		struct trace_frame swap = p->frames[i];

		p->frames[i] = p->frames[p->frame_cnt - 1 - i];
		p->frames[p->frame_cnt - 1 - i] = swap;
	}
	return err;
}

static uint64_t value_at(const uint64_t *values, uint32_t cnt, int at)
{
	/* below 0: of a profile that is the difference of two */
	return at >= 0 && (uint32_t)at < cnt && (int64_t)values[at] > 0 ? values[at] : 0;
}

static int push(struct pprof *p, const uint64_t *values, uint32_t cnt, const struct labels *l)
{
	struct trace_sample s = { 0 };
	uint64_t off = value_at(values, cnt, p->off_at);
	uint32_t process;
	int err = place(p, l, &process, &s.thread);

	err = err ? err : add_frames(p, process);
	if (err)
		return err;
	s.frames = p->frames;
	s.frame_cnt = p->frame_cnt;
	s.count = value_at(values, cnt, p->count_at);
	err = sink__times(p->k, value_at(values, cnt, p->time_at), p->time_unit_ns, &s.weight_ns);
	if (!err && (s.weight_ns || !off)) {
		err = sink__sum(p->k, &s);
		s.count = 0;
	}
	if (err || !off)
		return err;
	s.off_cpu = true;
	s.reason = REASON_OTHER;
	err = sink__times(p->k, off, p->off_unit_ns, &s.weight_ns);
	return err ? err : sink__sum(p->k, &s);
}

/* A repeated number: packed, or one field each. */
static int take_numbers(struct pprof *p, const struct field *f, bool is_value, uint64_t *values,
			uint32_t *cnt)
{
	struct wire w = inner(f);
	int err = 0;

	if (f->type == WIRE_VARINT) {
		if (!is_value)
			return add_location_id(p, f->value);
		if (*cnt < VALUES_MAX)
			values[(*cnt)++] = f->value;
		return 0;
	}
	while (w.at < w.end && !w.bad && !err) {
		uint64_t value = varint(&w);

		if (!is_value)
			err = add_location_id(p, value);
		else if (*cnt < VALUES_MAX)
			values[(*cnt)++] = value;
	}
	return err || !w.bad ? err : malformed(p, "a sample is cut");
}

/* The second time through: the samples. */
static int take_sample(struct pprof *p, const struct field *f)
{
	struct wire w = inner(f);
	struct field in;
	struct labels labels = { 0 };
	uint64_t values[VALUES_MAX];
	uint32_t cnt = 0;
	int err = 0;

	if (f->number != PROFILE_SAMPLE || f->type != WIRE_BYTES)
		return 0;
	p->location_cnt = 0;
	while (!err && next_field(&w, &in)) {
		if (in.number == SAMPLE_LOCATION_ID || in.number == SAMPLE_VALUE)
			err = take_numbers(p, &in, in.number == SAMPLE_VALUE, values, &cnt);
		else if (in.number == SAMPLE_LABEL && in.type == WIRE_BYTES)
			err = take_label(p, &in, &labels);
	}
	if (!err && w.bad)
		err = malformed(p, "a sample is cut");
	return err ? err : push(p, values, cnt, &labels);
}

#define BIT(n) (1ull << (n))

static int read_all(struct pprof *p)
{
	int err = pprof_names__init(&p->n, p->k->e);

	err = err ? err
		  : each_field(p,
			       BIT(PROFILE_SAMPLE_TYPE) | BIT(PROFILE_MAPPING) |
				       BIT(PROFILE_LOCATION) | BIT(PROFILE_FUNCTION) |
				       BIT(PROFILE_STRING_TABLE) | BIT(PROFILE_PERIOD_TYPE),
			       take_name);
	err = err ? err : pprof_names__close(&p->n);
	err = err ? err : begin(p);
	err = err ? err : source__rewind(p->s);
	err = err ? err : each_field(p, BIT(PROFILE_SAMPLE), take_sample);
	return err ? err : sink__end(p->k, p->n.duration_ns);
}

static int run(struct source *s, struct sink *k)
{
	struct pprof p = { .s = s, .k = k };
	int err = read_all(&p);

	pprof_names__done(&p.n);
	idmap__done(&p.func_ids);
	free(p.message);
	free(p.frames);
	free(p.locations);
	return err;
}

/* The first field is one that a profile has, and what has no control characters is a text. */
static bool is_pprof(const uint8_t *head, size_t len)
{
	uint32_t number = head[0] >> 3, type = head[0] & 7;
	bool binary = false;

	for (size_t i = 0; i < len && !binary; i++)
		binary = head[i] < ' ' && !strchr("\t\r\n\f\033", head[i]);
	if (!binary && len > 1 && head[0] == '\n') /* a first type of 4 to 31 bytes, then text */
		binary = head[1] < ' ' && head[1] != '\n' && len > 2 && head[2] == 0x08;
	return binary && number >= PROFILE_SAMPLE_TYPE && number <= 63 &&
	       (type == WIRE_BYTES || (type == WIRE_VARINT && number >= 7));
}

const struct importer import_pprof = { .name = "pprof", .is = is_pprof, .run = run };
