/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffered byte sink: writers of formats append small pieces, a callback takes them in large
 * ones. Errors stick: after the first one everything is swallowed, and the error is returned by
 * each flush, so that code that appends needs no checks between the pieces.
 */
#ifndef PYEBPF_BASE_OUTBUF_H
#define PYEBPF_BASE_OUTBUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* outbuf_write_fn - takes all of @data (borrowed) or fails: 0 or a negative errno. */
typedef int (*outbuf_write_fn)(void *ctx, const void *data, size_t len);

struct outbuf {
	char *at, *end; /* free part of the buffer */
	char *mem;
	size_t size;
	outbuf_write_fn write;
	void *ctx;
	uint64_t passed_bytes; /* handed to @write so far */
	int err; /* first error, sticky */
};

/**
 * outbuf__init - an empty buffer in front of @write
 * @b:    the caller's; released with outbuf__done()
 * @size: bytes, >= 64; what outbuf__room() can give at most
 * @ctx:  borrowed for the life of @b
 *
 * Return: 0 or -ENOMEM (of the calls below only outbuf__done() is then allowed).
 */
int outbuf__init(struct outbuf *b, size_t size, outbuf_write_fn write, void *ctx);

/* outbuf__done - release the memory; what was not flushed is dropped. A zeroed @b is fine. */
void outbuf__done(struct outbuf *b);

/**
 * outbuf__flush - hand over what is buffered
 *
 * Return: 0 or the first error that @b ever met.
 */
int outbuf__flush(struct outbuf *b);

/* outbuf__put_slow - the part of outbuf__put() that does not fit; not for callers. */
void outbuf__put_slow(struct outbuf *b, const void *data, size_t len);

/* outbuf__room_slow - the part of outbuf__room() that flushes; not for callers. */
char *outbuf__room_slow(struct outbuf *b);

/**
 * outbuf__room - place for at least @len bytes, to be written by hand
 * @len: <= the buffer's size
 *
 * Return: where to write, borrowed until the next call; commit with outbuf__used(). Never NULL.
 */
static inline char *outbuf__room(struct outbuf *b, size_t len)
{
	if ((size_t)(b->end - b->at) < len)
		return outbuf__room_slow(b);
	return b->at;
}

/* outbuf__used - @end is the first byte not written of what outbuf__room() gave. */
static inline void outbuf__used(struct outbuf *b, char *end)
{
	b->at = end;
}

/* outbuf__put - append @len bytes, any number of them. */
static inline void outbuf__put(struct outbuf *b, const void *data, size_t len)
{
	if ((size_t)(b->end - b->at) < len) {
		outbuf__put_slow(b, data, len);
		return;
	}
	memcpy(b->at, data, len);
	b->at += len;
}

/* outbuf__puts - append a string without its NUL. */
static inline void outbuf__puts(struct outbuf *b, const char *s)
{
	outbuf__put(b, s, strlen(s));
}

/* outbuf__printf - append formatted text. */
void outbuf__printf(struct outbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline void outbuf__putc(struct outbuf *b, char c)
{
	*outbuf__room(b, 1) = c;
	b->at++;
}

/* outbuf__total - bytes appended so far, buffered ones included. */
static inline uint64_t outbuf__total(const struct outbuf *b)
{
	return b->passed_bytes + (uint64_t)(b->at - b->mem);
}

/* Bytes collected in memory: an outbuf_write_fn for what is small or needed as a whole. */
struct membuf {
	char *data; /* owned; membuf__done() */
	size_t len, cap;
};

/* membuf__write - append; an outbuf_write_fn, @membuf is a struct membuf. Return: 0 or -ENOMEM. */
int membuf__write(void *membuf, const void *data, size_t len);

/* membuf__done - release the memory. A zeroed @m is fine. */
void membuf__done(struct membuf *m);

#endif
