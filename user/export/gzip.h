/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streaming gzip in front of a sink. Formats that are compressed put one between their outbuf and
 * the export_out: outbuf -> gzip__write -> export_out.write.
 */
#ifndef PYEBPF_EXPORT_GZIP_H
#define PYEBPF_EXPORT_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/outbuf.h"

struct gzip;

enum {
	GZIP_FASTEST =
		1, /* long columns of numbers: a third larger than GZIP_DEFAULT, 3 times faster */
	GZIP_DEFAULT = 6,
};

/**
 * gzip__new - start a gzip stream
 * @level: of zlib, 1 to 9
 * @write: takes the compressed bytes; @ctx is borrowed for the life of the stream
 *
 * The header has no name and no time, so equal input gives equal output.
 *
 * Return: 0 or -ENOMEM.
 */
int gzip__new(struct gzip **out, int level, outbuf_write_fn write, void *ctx);

/**
 * gzip__write - compress bytes; an outbuf_write_fn
 * @gzip: a struct gzip
 *
 * Return: 0 or the error of the sink.
 */
int gzip__write(void *gzip, const void *data, size_t len);

/**
 * gzip__finish - write out what is pending and the trailer
 *
 * The stream is then as new: what is written next is a gzip file of its own (the next part of a
 * split output).
 *
 * Return: 0 or the error of the sink.
 */
int gzip__finish(struct gzip *gzip);

/**
 * gzip_front - an outbuf that writes through a gzip stream, or as it is
 * @gzip:  the stream, to be freed by gzip__free(); NULL if @plain
 * @b:     to be released by outbuf__done(), also on failure
 * @size:  of the buffer
 *
 * Return: 0 or -ENOMEM.
 */
int gzip_front(struct gzip **gzip, bool plain, struct outbuf *b, size_t size, outbuf_write_fn write,
	       void *ctx);

/* gzip_front_end - write out all of it. @gzip may be NULL. Return: 0 or the first error. */
int gzip_front_end(struct gzip *gzip, struct outbuf *b);

/* gzip__free - NULL is fine; what was not finished is dropped. */
void gzip__free(struct gzip *gzip);

#endif
