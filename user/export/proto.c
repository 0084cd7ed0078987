// SPDX-License-Identifier: Apache-2.0
#include "export/proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	WIRE_VARINT = 0,
	WIRE_LEN = 2,
	VARINT_MAX = 10
};

void proto__done(struct proto *p)
{
	free(p->data);
	*p = (struct proto){ 0 };
}

int proto__flush(struct proto *p, struct outbuf *b)
{
	if (p->err)
		return p->err;
	if (p->len)
		outbuf__put(b, p->data, p->len);
	p->len = 0;
	return b->err;
}

/* Where @len more bytes go; NULL after an error. */
static uint8_t *room(struct proto *p, size_t len)
{
	size_t cap = p->cap ? p->cap : 256;
	uint8_t *grown;

	if (p->cap - p->len >= len)
		return p->data + p->len;
	while (!p->err && cap - p->len < len) {
		if (cap > SIZE_MAX / 2)
			p->err = -ENOMEM;
		cap *= 2;
	}
	if (p->err)
		return NULL;
	grown = realloc(p->data, cap);
	if (!grown) {
		p->err = -ENOMEM;
		return NULL;
	}
	p->data = grown;
	p->cap = cap;
	return p->data + p->len;
}

static size_t put_varint(uint8_t *at, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		at[n++] = (uint8_t)(value | 0x80);
	at[n++] = (uint8_t)value;
	return n;
}

void proto__varint(struct proto *p, uint64_t value)
{
	uint8_t *at = room(p, VARINT_MAX);

	if (at)
		p->len += put_varint(at, value);
}

void proto__varints(struct proto *p, const uint32_t *values, size_t cnt)
{
	uint8_t *at = room(p, cnt * VARINT_MAX), *end = at;

	for (size_t i = 0; at && i < cnt; i++)
		end += put_varint(end, values[i]);
	p->len += (size_t)(end - at);
}

void proto__raw(struct proto *p, const void *data, size_t len)
{
	uint8_t *at = room(p, len);

	if (at && len) {
		memcpy(at, data, len);
		p->len += len;
	}
}

static void put_tag(struct proto *p, uint32_t field, unsigned int wire)
{
	proto__varint(p, (uint64_t)field << 3 | wire);
}

void proto__u64(struct proto *p, uint32_t field, uint64_t value)
{
	if (!value)
		return;
	put_tag(p, field, WIRE_VARINT);
	proto__varint(p, value);
}

void proto__i64(struct proto *p, uint32_t field, int64_t value)
{
	proto__u64(p, field, (uint64_t)value);
}

void proto__bytes(struct proto *p, uint32_t field, const void *data, size_t len)
{
	put_tag(p, field, WIRE_LEN);
	proto__varint(p, len);
	proto__raw(p, data, len);
}

size_t proto__open(struct proto *p, uint32_t field)
{
	put_tag(p, field, WIRE_LEN);
	if (room(p, 1))
		p->len++; /* for a length below 128 */
	return p->len;
}

void proto__close(struct proto *p, size_t mark)
{
	uint8_t length[VARINT_MAX];
	size_t len, n;

	if (p->err)
		return;
	len = p->len - mark;
	n = put_varint(length, len);
	if (!room(p, n))
		return;
	if (n > 1)
		memmove(p->data + mark + n - 1, p->data + mark, len);
	memcpy(p->data + mark - 1, length, n);
	p->len += n - 1;
}
