/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of an input, uncompressed as they are read, from the beginning as often as wanted. */
#ifndef PYEBPF_IMPORT_SOURCE_H
#define PYEBPF_IMPORT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/err.h"

#define SOURCE_BYTES	(64u << 10) /* of a piece */
#define SOURCE_LINE_MAX (4u << 20)

struct source {
	int fd; /* borrowed */
	bool gzip, in_member, end;
	z_stream z;
	uint8_t *in; /* compressed */
	uint8_t *buf; /* what is there: from at to len */
	size_t at, len;
	uint64_t passed; /* bytes before buf */
	char *line;
	size_t line_cap;
	struct err *e;
};

/* source__open - @fd: seekable. Return: 0, -ENOMEM, or as source__fill(). */
int source__open(struct source *s, int fd, struct err *e);

/* source__done - a zeroed @s is fine. */
void source__done(struct source *s);

/* source__rewind - back to the first byte. Return: 0 or a negative errno. */
int source__rewind(struct source *s);

/**
 * source__fill - see that there is a byte at @s->at, unless the input ends
 *
 * Return: 1; 0 at the end; -PYE_EFORMAT for gzip data that are damaged or cut; what read() returned.
 */
int source__fill(struct source *s);

/* source__take - the next @len bytes. Return: 0; -PYE_EFORMAT where the input ends before. */
int source__take(struct source *s, void *out, size_t len);

/* source__skip - the same, but nobody wants them. */
int source__skip(struct source *s, uint64_t len);

/**
 * source__line - the next line, without its newline
 * @line: NUL-terminated, borrowed until the next call, writable
 *
 * Return: 1; 0 at the end; -PYE_EFORMAT past SOURCE_LINE_MAX; -ENOMEM; as source__fill().
 */
int source__line(struct source *s, char **line, size_t *len);

/* source__offset - of the byte at hand, for messages; in what is uncompressed. */
static inline uint64_t source__offset(const struct source *s)
{
	return s->passed + s->at;
}

#endif
