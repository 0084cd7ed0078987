// SPDX-License-Identifier: Apache-2.0
#include "import/pprof_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"

static int malformed(const struct pprof_reader *p, const char *what)
{
	return err_set(p->e, -PYE_EFORMAT, "the pprof data are damaged: %s before byte %" PRIu64,
		       what, source__offset(p->s));
}

/* A varint of the outermost message. Return: 1; 0 at the end, where @may_end; or a negative number. */
static int read_varint(struct pprof_reader *p, bool may_end, uint64_t *value)
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

static int room_for(struct pprof_reader *p, size_t len)
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
static int read_bytes(struct pprof_reader *p, struct wire_field *f, uint64_t wanted)
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
static int each_field(struct pprof_reader *p, uint64_t wanted,
		      int (*fn)(struct pprof_reader *, const struct wire_field *))
{
	struct wire_field f = { 0 };
	uint64_t tag;
	int got, err = 0;

	while (!err && (got = read_varint(p, true, &tag)) != 0) {
		if (got < 0)
			return got;
		f = (struct wire_field){ .number = (uint32_t)(tag >> 3), .type = tag & 7 };
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
static int numbers_of(struct pprof_reader *p, const struct wire_field *f, uint64_t *out)
{
	struct wire w = wire_inner(f);
	struct wire_field in;

	memset(out, 0, 8 * sizeof(*out));
	while (wire__next(&w, &in)) {
		if (in.number < 8 && in.type == WIRE_VARINT)
			out[in.number] = in.value;
	}
	return w.bad ? malformed(p, "a message is cut") : 0;
}

/* One that there cannot be is none, as the others that there are not. */
static uint32_t number_of_string(uint64_t string)
{
	return string < UINT32_MAX ? (uint32_t)string : UINT32_MAX;
}

static int take_function(struct pprof_reader *p, const struct wire_field *f)
{
	uint64_t v[8];
	int err = numbers_of(p, f, v);

	return err ? err
		   : pprof_names__function(
			     &p->names, v[FUNCTION_ID],
			     &(struct pprof_function){
				     .name = number_of_string(v[FUNCTION_NAME]),
				     .file = number_of_string(v[FUNCTION_FILENAME]),
				     .line = v[FUNCTION_START_LINE] <= INT32_MAX
						     ? (uint32_t)v[FUNCTION_START_LINE]
						     : 0 });
}

/* Lines of a location: the innermost of what was inlined is first. */
static int take_location(struct pprof_reader *p, const struct wire_field *f)
{
	struct wire w = wire_inner(f);
	struct wire_field in;
	uint64_t v[8] = { 0 }, line[8];
	uint32_t first = p->names.line_cnt;
	int err = 0;

	while (!err && wire__next(&w, &in)) {
		if (in.number < 8 && in.type == WIRE_VARINT)
			v[in.number] = in.value;
		if (in.number != LOCATION_LINE || in.type != WIRE_BYTES)
			continue;
		err = numbers_of(p, &in, line);
		err = err ? err
			  : pprof_names__line(&p->names, line[LINE_FUNCTION_ID], line[LINE_LINE]);
	}
	if (!err && w.bad)
		err = malformed(p, "a location is cut");
	return err ? err
		   : pprof_names__location(&p->names, v[LOCATION_ID], first, v[LOCATION_ADDRESS]);
}

/* The first time through: everything but the samples. */
static int take_name(struct pprof_reader *p, const struct wire_field *f)
{
	uint64_t v[8];
	int err = 0;

	if ((f->type == WIRE_BYTES) !=
	    (f->number <= PROFILE_STRING_TABLE || f->number == PROFILE_PERIOD_TYPE))
		return 0; /* packed comments, for example */
	switch (f->number) {
	case PROFILE_SAMPLE_TYPE:
		err = numbers_of(p, f, v);
		if (p->names.type_cnt == PPROF_VALUES_MAX)
			return malformed(p, "too many types of samples");
		p->names.types[p->names.type_cnt++] = (struct pprof_type){ v[1], v[2] };
		break;
	case PROFILE_PERIOD_TYPE:
		err = numbers_of(p, f, v);
		p->names.period_type = (struct pprof_type){ v[1], v[2] };
		break;
	case PROFILE_LOCATION:
		return take_location(p, f);
	case PROFILE_FUNCTION:
		return take_function(p, f);
	case PROFILE_MAPPING:
		err = p->names.mapping ? 0 : numbers_of(p, f, v);
		p->names.mapping = p->names.mapping || err ? p->names.mapping : v[MAPPING_FILENAME];
		break;
	case PROFILE_STRING_TABLE:
		return pprof_names__string(&p->names, f->bytes, f->value);
	case PROFILE_TIME_NANOS:
		p->names.time_ns = (int64_t)f->value;
		break;
	case PROFILE_DURATION_NANOS:
		p->names.duration_ns = f->value <= SINK_TIME_MAX ? f->value : 0;
		break;
	case PROFILE_PERIOD:
		p->names.period = f->value;
		break;
	case PROFILE_DEFAULT_SAMPLE_TYPE:
		p->names.default_type = f->value;
		break;
	default:
		break;
	}
	return err;
}

static int add_id(struct pprof_reader *p, uint64_t id)
{
	if (p->id_cnt == PPROF_FRAMES_MAX)
		return malformed(p, "a sample has more than 65536 locations");
	if (p->id_cnt == p->id_cap) {
		uint32_t cap = p->id_cap ? p->id_cap * 2 : 256;
		uint64_t *grown = reallocarray(p->ids, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		p->ids = grown;
		p->id_cap = cap;
	}
	p->ids[p->id_cnt++] = id;
	return 0;
}

static int take_label(struct pprof_reader *p, const struct wire_field *f, struct pprof_sample *s)
{
	uint64_t v[8];
	int err = numbers_of(p, f, v);

	if (err || s->label_cnt == PPROF_LABELS_MAX)
		return err;
	s->labels[s->label_cnt++] =
		(struct pprof_label){ .key = v[1], .text = v[2], .number = v[3] };
	return 0;
}

/* A repeated number: packed, or one field each. */
static int take_numbers(struct pprof_reader *p, const struct wire_field *f, bool is_value,
			uint64_t *values, uint32_t *cnt)
{
	struct wire w = wire_inner(f);
	int err = 0;

	if (f->type == WIRE_VARINT) {
		if (!is_value)
			return add_id(p, f->value);
		if (*cnt < PPROF_VALUES_MAX)
			values[(*cnt)++] = f->value;
		return 0;
	}
	while (w.at < w.end && !w.bad && !err) {
		uint64_t value = wire__varint(&w);

		if (!is_value)
			err = add_id(p, value);
		else if (*cnt < PPROF_VALUES_MAX)
			values[(*cnt)++] = value;
	}
	return err || !w.bad ? err : malformed(p, "a sample is cut");
}

static int take_sample(struct pprof_reader *p, const struct wire_field *f)
{
	struct wire w = wire_inner(f);
	struct pprof_sample s = { 0 };
	struct wire_field in;
	int err = 0;

	if (f->number != PROFILE_SAMPLE || f->type != WIRE_BYTES)
		return 0;
	p->id_cnt = 0;
	while (!err && wire__next(&w, &in)) {
		if (in.number == SAMPLE_LOCATION_ID || in.number == SAMPLE_VALUE)
			err = take_numbers(p, &in, in.number == SAMPLE_VALUE, s.values,
					   &s.value_cnt);
		else if (in.number == SAMPLE_LABEL && in.type == WIRE_BYTES)
			err = take_label(p, &in, &s);
	}
	if (!err && w.bad)
		err = malformed(p, "a sample is cut");
	s.locations = p->ids;
	s.location_cnt = p->id_cnt;
	return err ? err : p->fn(p->ctx, &s);
}

#define BIT(n) (1ull << (n))

int pprof_reader__names(struct pprof_reader *p, struct source *s, struct err *e)
{
	int err;

	*p = (struct pprof_reader){ .s = s, .e = e };
	err = pprof_names__init(&p->names, e);
	err = err ? err
		  : each_field(p,
			       BIT(PROFILE_SAMPLE_TYPE) | BIT(PROFILE_MAPPING) |
				       BIT(PROFILE_LOCATION) | BIT(PROFILE_FUNCTION) |
				       BIT(PROFILE_STRING_TABLE) | BIT(PROFILE_PERIOD_TYPE),
			       take_name);
	return err ? err : pprof_names__close(&p->names);
}

int pprof_reader__samples(struct pprof_reader *p, pprof_sample_fn fn, void *ctx)
{
	int err = source__rewind(p->s);

	p->fn = fn;
	p->ctx = ctx;
	return err ? err : each_field(p, BIT(PROFILE_SAMPLE), take_sample);
}

void pprof_reader__done(struct pprof_reader *p)
{
	pprof_names__done(&p->names);
	free(p->message);
	free(p->ids);
}

int pprof_reader__malformed(const struct pprof_reader *p, const char *what)
{
	return malformed(p, what);
}
