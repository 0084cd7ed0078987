/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel for the BPF walkers, in one process: the memory of a target made of regions, maps, rings and
 * the state of one thread. Reads and reservations can be made to fail one at a time, so that a test can
 * try every place where something can go wrong. Everything is checked for what the verifier proves:
 * records are allocated one by one (AddressSanitizer sees their ends), keys have the map's size.
 */
#ifndef PYEBPF_HOST_HOST_H
#define PYEBPF_HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOST_NEVER UINT64_MAX

enum host_map_kind {
	HOST_ARRAY,
	HOST_HASH,
	HOST_RING,
	HOST_RINGS
};

struct host_record {
	const void *ring;
	uint32_t size;
	bool submitted;
	_Alignas(8) uint8_t data[];
};

struct host {
	uint64_t reads, reserves; /* made since host_reset() */
	uint64_t fail_read, fail_reserve; /* number of the one that fails; HOST_NEVER: none */
	bool fail_all_reads, fail_all_reserves; /* that one and all that follow */
	uint64_t ring_records; /* records that all rings together hold before they are full */
	bool paged_out; /* only reads that may sleep find the memory */
	void (*before_read)(uint64_t number); /* the target runs on; NULL: it stands still */
	size_t record_cnt;
	struct host_record **records; /* in order */
};

extern struct host host;

/* host_reset - forget memory, maps' content, records and the thread. Maps stay known. */
void host_reset(void);

/* host_forget_records - free the records; the ring is empty again. */
void host_forget_records(void);

/* host_memory - the target has @len bytes at @addr; @data is borrowed until host_reset(). */
void host_memory(uint64_t addr, const void *data, size_t len);

/* host_map - make a map known, once. @entries of a ring: its size, not used. */
void host_map(void *map, enum host_map_kind kind, uint32_t key_size, uint32_t value_size,
	      uint32_t entries);

long host_read(void *to, uint32_t size, const void *from, bool may_sleep);
void *host_map_lookup(const void *map, const void *key);
long host_map_update(const void *map, const void *key, const void *value);
long host_map_delete(const void *map, const void *key);
long host_map_each(const void *map, long (*round)(void *, void *, void *, void *), void *ctx);
long host_rounds(uint32_t cnt, long (*round)(uint32_t, void *), void *ctx);
void *host_ring_reserve(const void *ring, uint64_t size);
void host_ring_submit(void *record);
uint64_t host_ring_query(const void *ring, uint64_t what);
void *host_thread_storage(size_t size);
uint64_t host_now(void);

#endif
