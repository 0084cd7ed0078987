// SPDX-License-Identifier: Apache-2.0
#include "capture/ring.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/capture.h"

#define BUSY 0x80000000u

int ring__open(struct ring *r, int map_fd, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *consumer, *producer;

	consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	if (consumer == MAP_FAILED)
		return -errno;
	producer = mmap(NULL, page + 2 * size, PROT_READ, MAP_SHARED, map_fd, (off_t)page);
	if (producer == MAP_FAILED) {
		int err = -errno;

		munmap(consumer, page);
		return err;
	}
	r->consumer = consumer;
	r->producer = producer;
	r->data = (const uint8_t *)producer + page;
	r->size = size;
	r->pending = *r->consumer;
	return 0;
}

void ring__close(struct ring *r)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (!r->consumer)
		return;
	munmap((void *)r->consumer, page);
	munmap((void *)r->producer, page + 2 * r->size);
	r->consumer = NULL;
}

unsigned long ring__end(const struct ring *r)
{
	return __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
}

unsigned long ring__read(const struct ring *r)
{
	return r->pending;
}

size_t ring__used(const struct ring *r)
{
	return ring__end(r) - r->pending;
}

size_t ring__next(struct ring *r, const uint8_t **data, size_t max)
{
	unsigned long from = r->pending, end, at = from;

	__atomic_store_n(r->consumer, from, __ATOMIC_RELEASE);
	end = ring__end(r);
	while (at < end && at - from < max) {
		const uint8_t *header = r->data + (at & (r->size - 1));
		uint32_t len =
			__atomic_load_n((const uint32_t *)(const void *)header, __ATOMIC_ACQUIRE);

		if (len & BUSY)
			break;
		at += ((len & CAPTURE_LEN_MASK) + CAPTURE_HEADER_BYTES + 7) & ~7ul;
	}
	*data = r->data + (from & (r->size - 1));
	r->pending = at;
	return at - from;
}
