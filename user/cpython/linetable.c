// SPDX-License-Identifier: Apache-2.0
#include "cpython/linetable.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proc/mem.h"

#define NO_LINE_310 (-128)
#define UNITS_MAX   0x7fffffff

int linetable__read(struct linetable *out, const struct proc_mem *mem, const struct pye_pylayout *l,
		    uint64_t code)
{
	struct proc_near near;
	uint64_t bytes, size;
	uint8_t *data;

	*out = (struct linetable){ 0 };
	proc_near__look(&near, mem, code);
	if (proc_near__read(&near, code + l->co_firstlineno, &out->first, sizeof(out->first)) ||
	    proc_near__read(&near, code + l->co_linetable, &bytes, sizeof(bytes)))
		return -EFAULT;
	proc_near__look(&near, mem, bytes);
	if (proc_near__read(&near, bytes + l->bytes_size, &size, sizeof(size)))
		return -EFAULT;
	if (size > LINETABLE_MAX)
		size = LINETABLE_MAX;
	data = malloc(size + 1);
	if (!data)
		return -ENOMEM;
	if (proc_near__read(&near, bytes + l->bytes_data, data, size)) {
		free(data);
		return -EFAULT;
	}
	out->data = data;
	out->len = (uint32_t)size;
	return 0;
}

void linetable__done(struct linetable *t)
{
	free(t->data);
	*t = (struct linetable){ 0 };
}

static uint32_t as_line(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Pairs: bytes of code, difference of the line at their end. */
uint32_t linetable_lnotab(const struct linetable *t, int64_t offset)
{
	int64_t at = 0, line = t->first;

	for (uint32_t i = 0; i + 1 < t->len; i += 2) {
		at += t->data[i];
		if (at > offset)
			break;
		line += (int8_t)t->data[i + 1];
	}
	return as_line(line);
}

/* Pairs: bytes of code, difference of the line at their start, or that there is none. */
uint32_t linetable_310(const struct linetable *t, int64_t unit)
{
	int64_t end = 0, line = t->first, offset = 2 * unit;

	for (uint32_t i = 0; i + 1 < t->len; i += 2) {
		int8_t delta = (int8_t)t->data[i + 1];
		int64_t start = end;

		end += t->data[i];
		if (delta != NO_LINE_310)
			line += delta;
		if (start <= offset && offset < end)
			return delta == NO_LINE_310 ? 0 : as_line(line);
	}
	return 0;
}

struct reader {
	const uint8_t *p, *end;
};

static uint32_t read_varint(struct reader *r)
{
	unsigned int shift = 0;
	uint32_t value = 0;

	while (r->p < r->end) {
		uint8_t byte = *r->p++;

		if (shift < 32)
			value |= (uint32_t)(byte & 63) << shift;
		shift += 6;
		if (!(byte & 64))
			break;
	}
	return value;
}

static int64_t read_svarint(struct reader *r)
{
	uint32_t value = read_varint(r);

	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* What follows the first byte of an entry: the difference of the line. */
static int64_t read_delta(struct reader *r, unsigned int kind)
{
	int64_t delta = 0;

	if (kind <= 9) { /* the same line, columns */
		r->p += 1;
	} else if (kind <= 12) { /* so many lines on, columns */
		r->p += 2;
		delta = kind - 10;
	} else if (kind <= 14) { /* 13: no columns, 14: all numbers */
		delta = read_svarint(r);
		for (int i = 0; kind == 14 && i < 3; i++)
			read_varint(r);
	}
	return delta;
}

/* Entries of up to eight units: a byte with the kind and their number, then what the kind has. */
uint32_t linetable_311_from(const struct linetable *t, struct linetable_place *place, int64_t unit)
{
	struct reader r = { .end = t->data + t->len };

	if (place->start > unit)
		*place = (struct linetable_place){ 0 };
	r.p = t->data + place->at;
	while (r.p < r.end) {
		unsigned int kind = *r.p >> 3 & 15, units = (*r.p & 7u) + 1;
		int64_t line = place->line;

		r.p++;
		line += read_delta(&r, kind);
		if (place->start <= unit && unit < place->start + units)
			return kind == 15 ? 0 : as_line(t->first + line);
		place->at = (uint32_t)((r.p < r.end ? r.p : r.end) - t->data);
		place->start += units;
		place->line = line;
	}
	return 0;
}

uint32_t linetable_311(const struct linetable *t, int64_t unit)
{
	struct linetable_place place = { 0 };

	return linetable_311_from(t, &place, unit);
}

uint32_t linetable__line(const struct linetable *t, const struct pye_pylayout *l, uint64_t code,
			 uint64_t instr)
{
	uint64_t first;
	int64_t unit;

	if (!t->data)
		return 0;
	if (l->flags & PYE_LAYOUT_FRAME_OBJECT) {
		/* -1: the frame has not begun */
		unit = (int32_t)instr < 0 ? 0 : (int32_t)instr;
		return l->minor < 10 ? linetable_lnotab(t, unit) : linetable_310(t, unit);
	}
	first = code + l->co_code_adaptive;
	/* 3.11 and 3.12: one instruction ahead of the first one means that it has not begun */
	if (instr < first && first - instr <= 2)
		instr = first;
	if (instr < first || (instr - first) / 2 > UNITS_MAX)
		return 0;
	return linetable_311(t, (int64_t)((instr - first) / 2));
}
