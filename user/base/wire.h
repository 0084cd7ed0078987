/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading protocol buffers that are in memory, field by field. Whatever the bytes are, nothing behind @end is
 * looked at; what ends in the middle of something sets @bad and ends the reading.
 */
#ifndef PYEBPF_BASE_WIRE_H
#define PYEBPF_BASE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_BYTES = 2,
	WIRE_32 = 5
};

/* A message in memory, borrowed; bad is set where it ends in the middle of something. */
struct wire {
	const uint8_t *at, *end;
	bool bad;
};

struct wire_field {
	uint32_t number, type;
	uint64_t value; /* of a number; the length of bytes */
	const uint8_t *bytes; /* borrowed; not of a number */
};

/* wire__varint - a bare number, of a packed field; 0 and bad where there is none. */
uint64_t wire__varint(struct wire *w);

/* wire__next - the next field. Return: whether there is one. */
bool wire__next(struct wire *w, struct wire_field *f);

/* wire_inner - what is in a field of bytes; of a number nothing. */
struct wire wire_inner(const struct wire_field *f);

#endif
