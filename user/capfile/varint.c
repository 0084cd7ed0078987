// SPDX-License-Identifier: Apache-2.0
#include "capfile/varint.h"

#include <stdlib.h>
#include <string.h>

#include "capfile/format.h"

const char *cursor_string(struct cursor *c)
{
	uint64_t len = cursor_number(c, CAP_STRING_MAX);
	const uint8_t *s = cursor_skip(c, len + 1);

	if (!s)
		return "";
	if (memchr(s, 0, len + 1) != s + len) {
		cursor_fail(c);
		return "";
	}
	return (const char *)s;
}

uint8_t *bytes_room(struct bytes *b, size_t len)
{
	size_t cap = b->cap ? b->cap : 256;
	uint8_t *data;

	if (b->failed)
		return NULL;
	if (b->data && b->cap - b->len >= len)
		return b->data + b->len;
	while (cap - b->len < len)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return NULL;
	}
	b->data = data;
	b->cap = cap;
	return data + b->len;
}

void bytes_varint(struct bytes *b, uint64_t v)
{
	uint8_t *p = bytes_room(b, VARINT_MAX);

	if (p)
		b->len = (size_t)(varint_put(p, v) - b->data);
}

void bytes_add(struct bytes *b, const void *data, size_t len)
{
	uint8_t *p = bytes_room(b, len);

	if (!p || !len)
		return;
	memcpy(p, data, len);
	b->len += len;
}

size_t bytes_string_length(const char *s)
{
	size_t len = strnlen(s, CAP_STRING_MAX + 1);

	if (len <= CAP_STRING_MAX)
		return len;
	len = CAP_STRING_MAX;
	while (len > CAP_STRING_MAX - 4 && ((unsigned char)s[len] & 0xc0) == 0x80)
		len--;
	return len;
}

void bytes_string(struct bytes *b, const char *s)
{
	size_t len;

	if (!s)
		s = "";
	len = bytes_string_length(s);
	bytes_varint(b, len);
	bytes_add(b, s, len);
	bytes_add(b, "", 1);
}

void bytes_clear(struct bytes *b)
{
	b->len = 0;
	b->failed = false;
}

void bytes_done(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){ 0 };
}
