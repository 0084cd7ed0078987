/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and loading the chunks of a capture file. Opening reads the whole file once and keeps a
 * list of the chunks that are whole by their checksums; what is damaged or cut is left out and
 * noted. So a reader knows from the beginning what there is, also how early later chunks reach back
 * in time. What a payload holds is the caller's to check.
 */
#ifndef PYEBPF_CAPFILE_READER_H
#define PYEBPF_CAPFILE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "capfile/varint.h"

struct capr_chunk {
	uint64_t offset; /* of the payload */
	uint64_t seq; /* its number in the file */
	uint64_t min_ns, max_ns;
	uint64_t sum; /* XXH64 of the payload */
	uint32_t stored, raw;
	uint16_t type, flags;
};

struct capr {
	int fd; /* owned when it is a copy of a pipe */
	bool is_copy;
	uint64_t size;
	struct capr_chunk *chunks; /* of types this version knows, in the order of the file */
	uint32_t cnt, cap;
	bool complete; /* undamaged, and ends as it should */
	uint64_t bad_offset; /* of the first damage, when not complete */
};

/* capr_is_capture - whether a file that can seek begins with the magic number. */
bool capr_is_capture(int fd);

/**
 * capr__open - find the chunks
 * @fd: borrowed until capr__close(); at its beginning. What cannot seek is first copied to an
 *      unnamed file in $TMPDIR (/tmp without it, and for root)
 * @e:  says why when this fails; may be NULL
 *
 * Return: 0 with at least one chunk; -PYE_EFORMAT; -ENOMEM; what read() returned.
 */
int capr__open(struct capr **out, int fd, struct err *e);

/**
 * capr__load - read and uncompress a payload
 * @raw: cleared and filled; at most CAP_RAW_MAX bytes
 *
 * Return: 0; -PYE_EFORMAT when it does not uncompress to its size or was changed since capr__open();
 * -ENOMEM; what read() returned.
 */
int capr__load(struct capr *r, const struct capr_chunk *chunk, struct bytes *raw);

/* capr__close - NULL is fine. */
void capr__close(struct capr *r);

/* capr__closep - for auto_fn(). */
static inline void capr__closep(struct capr **r)
{
	capr__close(*r);
}

#endif
