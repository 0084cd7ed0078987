// SPDX-License-Identifier: Apache-2.0
#include "base/outbuf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int outbuf__init(struct outbuf *b, size_t size, outbuf_write_fn write, void *ctx)
{
	*b = (struct outbuf){ .size = size, .write = write, .ctx = ctx };
	b->mem = malloc(size);
	if (!b->mem) {
		b->err = -ENOMEM;
		b->size = 0;
		return -ENOMEM;
	}
	b->at = b->mem;
	b->end = b->mem + size;
	return 0;
}

void outbuf__done(struct outbuf *b)
{
	free(b->mem);
	*b = (struct outbuf){ .err = b->err };
}

static void pass(struct outbuf *b, const void *data, size_t len)
{
	if (b->err || !len)
		return;
	b->err = b->write(b->ctx, data, len);
	if (!b->err)
		b->passed_bytes += len;
}

int outbuf__flush(struct outbuf *b)
{
	pass(b, b->mem, (size_t)(b->at - b->mem));
	b->at = b->mem;
	return b->err;
}

char *outbuf__room_slow(struct outbuf *b)
{
	outbuf__flush(b);
	return b->at;
}

void outbuf__put_slow(struct outbuf *b, const void *data, size_t len)
{
	outbuf__flush(b);
	if (len >= b->size) {
		pass(b, data, len);
		return;
	}
	memcpy(b->at, data, len);
	b->at += len;
}

void outbuf__printf(struct outbuf *b, const char *fmt, ...)
{
	char text[512], *longer = NULL;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (len < (int)sizeof(text)) {
		outbuf__puts(b, text);
		return;
	}
	va_start(ap, fmt);
	len = vasprintf(&longer, fmt, ap);
	va_end(ap);
	if (len < 0)
		b->err = b->err ? b->err : -ENOMEM;
	else
		outbuf__put(b, longer, (size_t)len);
	free(len < 0 ? NULL : longer);
}

int membuf__write(void *membuf, const void *data, size_t len)
{
	struct membuf *m = membuf;

	if (m->cap - m->len < len) {
		size_t cap = m->cap ? m->cap : 256;
		char *grown;

		while (cap - m->len < len) {
			if (cap > SIZE_MAX / 2)
				return -ENOMEM;
			cap *= 2;
		}
		grown = realloc(m->data, cap);
		if (!grown)
			return -ENOMEM;
		m->data = grown;
		m->cap = cap;
	}
	memcpy(m->data + m->len, data, len);
	m->len += len;
	return 0;
}

void membuf__done(struct membuf *m)
{
	free(m->data);
	*m = (struct membuf){ 0 };
}
