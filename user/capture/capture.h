/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where raw records come from. A source hands out batches in the format of the kernel's BPF ring
 * buffer: each record after an 8-byte header {u32 length and flags, u32 unused}, padded to 8 bytes.
 * The BPF source, the inline engine's and the replay of recorded rings look the same to the assembler.
 */
#ifndef PYEBPF_CAPTURE_CAPTURE_H
#define PYEBPF_CAPTURE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "profile/step.h"

struct capture_batch {
	const uint8_t *data; /* borrowed until the next call of next() */
	size_t len;
	uint32_t ring; /* number of the ring: order holds inside one */
	/* how often the source has read all its rings up to where they ended at the same moment. What was
	 * in any ring during round n has been handed out in the batches before the first of round n + 2 */
	uint32_t round;
};

struct capture_ops {
	/* next - the next batch; 1, 0 when there is nothing now, or a negative errno */
	int (*next)(void *self, struct capture_batch *batch);
};

/* Whoever takes records and events as they come: a source that knows one need not put them into a batch first. An error is no
 * end: the taker accounts for it. */
struct capture_taker {
	void *ctx;
	int (*record)(void *ctx, const void *rec, uint32_t len); /* borrowed for the call */
	/* the events of a thread, which nearly all records are: many at a time, so that what they have in common is looked at once.
	 * Numbered from @seq on; borrowed for the call */
	int (*steps)(void *ctx, uint32_t tix, uint32_t seq, const struct trace_step *steps,
		     uint32_t cnt);
};

#define CAPTURE_HEADER_BYTES 8
#define CAPTURE_LEN_MASK     0x3fffffffu
#define CAPTURE_DISCARDED    0x40000000u

/**
 * capture_record - step through a batch
 * @at: offset, 0 at first; moved past the record
 *
 * Return: the record, or NULL at the end. A record that reaches past the batch ends it.
 */
static inline const void *capture_record(const struct capture_batch *b, size_t *at, uint32_t *len)
{
	/* the last one may lack its padding */
	while (*at + CAPTURE_HEADER_BYTES <= b->len) {
		const uint32_t *header = (const uint32_t *)(const void *)(b->data + *at);
		uint32_t size = *header & CAPTURE_LEN_MASK;
		size_t start = *at + CAPTURE_HEADER_BYTES;

		if (size > b->len - start)
			return NULL;
		*at = start + ((size + 7u) & ~7u);
		if (*header & CAPTURE_DISCARDED)
			continue;
		*len = size;
		return b->data + start;
	}
	return NULL;
}

#endif
