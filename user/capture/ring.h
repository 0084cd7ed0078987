/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a BPF ring buffer in batches. The kernel maps its data twice in a row, so a record never
 * wraps, and all complete records up to the first one that is still being written form one batch.
 */
#ifndef PYEBPF_CAPTURE_RING_H
#define PYEBPF_CAPTURE_RING_H

#include <stddef.h>
#include <stdint.h>

struct ring {
	volatile unsigned long *consumer; /* position up to which we have read */
	const volatile unsigned long *producer; /* position up to which the kernel has reserved */
	const uint8_t *data;
	size_t size; /* of the data, a power of two */
	unsigned long pending; /* position after the batch that is handed out */
};

/* ring__open - map the ring of a BPF_MAP_TYPE_RINGBUF of @size bytes; 0 or a negative errno. */
int ring__open(struct ring *r, int map_fd, size_t size);
void ring__close(struct ring *r);

/**
 * ring__next - release the batch handed out before and take the next one
 * @max: bytes at most
 *
 * Return: its length, 0 when the ring is empty; *data is borrowed until the next call.
 */
size_t ring__next(struct ring *r, const uint8_t **data, size_t max);

/* ring__end - position up to which the kernel has reserved; ring__read - up to which batches were
 * handed out. */
unsigned long ring__end(const struct ring *r);
unsigned long ring__read(const struct ring *r);

/* ring__used - bytes waiting to be read. */
size_t ring__used(const struct ring *r);

#endif
