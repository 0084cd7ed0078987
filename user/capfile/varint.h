/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces a payload is made of. A varint holds 64 bits, seven to a byte, lowest first, the top
 * bit set on all bytes but the last (LEB128). A string is its length as a varint, its bytes and a
 * NUL, so that a reader can hand it out where it lies.
 */
#ifndef PYEBPF_CAPFILE_VARINT_H
#define PYEBPF_CAPFILE_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VARINT_MAX 10 /* bytes of the longest */

/* varint_put - write @v at @p, which has room for VARINT_MAX bytes. Return: the place after it. */
static inline uint8_t *varint_put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

/* varint_put_short - the same, without a jump for those of one or two bytes */
static inline uint8_t *varint_put_short(uint8_t *p, uint64_t v)
{
	bool two = v >= 0x80;

	if (__builtin_expect(v >= 0x4000, 0))
		return varint_put(p, v);
	p[0] = (uint8_t)(v | (uint64_t)two << 7);
	p[1] = (uint8_t)(v >> 7);
	return p + 1 + two;
}

/* Reads a payload that may hold anything. The first thing that does not fit sets @bad; from then
 * on every read gives 0, so callers look at @bad once after a group of reads. */
struct cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

static inline uint64_t cursor_fail(struct cursor *c)
{
	c->bad = true;
	c->p = c->end;
	return 0;
}

/* cursor_varint - the next varint; one that is cut or has more than 64 bits is bad. */
static inline uint64_t cursor_varint(struct cursor *c)
{
	const uint8_t *p = c->p;
	uint64_t v = 0;

	for (unsigned int shift = 0; p < c->end && shift < 64; shift += 7) {
		uint8_t byte = *p++;

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (shift == 63 && byte > 1)
			break;
		c->p = p;
		return v;
	}
	return cursor_fail(c);
}

/* cursor_number - a varint that must not exceed @max. */
static inline uint64_t cursor_number(struct cursor *c, uint64_t max)
{
	uint64_t v = cursor_varint(c);

	return v <= max ? v : cursor_fail(c);
}

/* cursor_count - a number of things that take at least @least bytes each, so no more than fit. */
static inline uint32_t cursor_count(struct cursor *c, size_t least)
{
	uint64_t v = cursor_varint(c);

	return v <= cursor_left(c) / least && v <= UINT32_MAX ? (uint32_t)v
							      : (uint32_t)cursor_fail(c);
}

/* cursor_skip - the place of the next @n bytes, which are passed; NULL if there are fewer. */
static inline const uint8_t *cursor_skip(struct cursor *c, uint64_t n)
{
	const uint8_t *p = c->p;

	if (n > cursor_left(c)) {
		cursor_fail(c);
		return NULL;
	}
	c->p += n;
	return p;
}

/**
 * cursor_string - the next string
 *
 * Return: NUL-terminated, without a NUL inside, borrowed from the payload; "" when @c is bad.
 */
const char *cursor_string(struct cursor *c);

/* A payload being built. A failed allocation sets @failed, after which nothing is added. */
struct bytes {
	uint8_t *data;
	size_t len, cap;
	bool failed;
};

void bytes_varint(struct bytes *b, uint64_t v);
void bytes_add(struct bytes *b, const void *data, size_t len);

/* bytes_string_length - how much of a string is kept: at most CAP_STRING_MAX bytes, cut between two
 * characters. */
size_t bytes_string_length(const char *s);

/* bytes_string - append a string, as long as that; NULL is "". */
void bytes_string(struct bytes *b, const char *s);

/* bytes_room - make room for @len more bytes. Return: where they go, or NULL. */
uint8_t *bytes_room(struct bytes *b, size_t len);

/* bytes_clear - empty, memory kept; bytes_done - memory released. */
void bytes_clear(struct bytes *b);
void bytes_done(struct bytes *b);

#endif
