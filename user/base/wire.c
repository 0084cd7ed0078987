// SPDX-License-Identifier: Apache-2.0
#include "base/wire.h"

uint64_t wire__varint(struct wire *w)
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

bool wire__next(struct wire *w, struct wire_field *f)
{
	uint64_t tag, left;

	if (w->at == w->end || w->bad)
		return false;
	tag = wire__varint(w);
	f->number = (uint32_t)(tag >> 3);
	f->type = tag & 7;
	f->bytes = w->at;
	f->value = 0;
	if (f->type == WIRE_VARINT || f->type == WIRE_BYTES)
		f->value = wire__varint(w);
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

struct wire wire_inner(const struct wire_field *f)
{
	static const uint8_t nothing[1];

	/* a number has no bytes */
	if (f->type == WIRE_VARINT || !f->value)
		return (struct wire){ .at = nothing, .end = nothing };
	return (struct wire){ .at = f->bytes, .end = f->bytes + f->value };
}
