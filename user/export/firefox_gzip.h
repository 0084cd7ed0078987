/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One gzip member that is put together from pieces. The time column and the weight column of a
 * tracing profile hold the same numbers, one place apart. So the text of a column is compressed
 * once, as soon as there is enough of it, into a piece that begins and ends on a byte and looks at
 * nothing outside of itself, and the piece is copied to every place where the text belongs. That
 * halves the work on the largest columns and keeps only compressed bytes in memory. A plain stream
 * keeps its pieces so too, and writes their text.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_GZIP_H
#define PYEBPF_EXPORT_FIREFOX_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/outbuf.h"

struct ff_gzip;

/* Compressed text; freed by the owner with free(data). */
struct ff_piece {
	unsigned char *data;
	uint32_t len;
	uint32_t text_len;
	uint32_t crc; /* of the text */
};

/**
 * ff_gzip__new - start a gzip file
 * @plain: write the text itself, not compressed
 * @write: takes the bytes of the file; @ctx is borrowed for the life of the stream
 *
 * Return: 0 or -ENOMEM.
 */
int ff_gzip__new(struct ff_gzip **out, bool plain, outbuf_write_fn write, void *ctx);

/* ff_gzip__write - append text; an outbuf_write_fn. Return: 0 or the error of the sink. */
int ff_gzip__write(void *gzip, const void *data, size_t len);

/* ff_gzip__piece - make a piece of some text (@len <= 1 MiB). Return: 0 or -ENOMEM. */
int ff_gzip__piece(struct ff_gzip *gzip, const char *text, size_t len, struct ff_piece *out);

/* ff_gzip__insert - write a piece, any number of times. Return: 0 or the error of the sink. */
int ff_gzip__insert(struct ff_gzip *gzip, const struct ff_piece *piece);

/* ff_gzip__finish - write the rest and what ends the file; the stream is then as new. */
int ff_gzip__finish(struct ff_gzip *gzip);

/* ff_gzip__free - NULL is fine. */
void ff_gzip__free(struct ff_gzip *gzip);

#endif
