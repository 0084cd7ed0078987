/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from 64-bit keys to 32-bit numbers (indexes into the caller's arrays): open
 * addressing, one allocation, no removal. Looking up is inline, for event handlers.
 */
#ifndef PYEBPF_BASE_IDMAP_H
#define PYEBPF_BASE_IDMAP_H

#include <stdint.h>

#define IDMAP_NONE UINT32_MAX

struct idmap_slot {
	uint64_t key;
	uint32_t value; /* IDMAP_NONE: empty */
};

/* Zeroed is an empty map. */
struct idmap {
	struct idmap_slot *slots;
	uint32_t shift; /* 64 - log2 of the number of slots */
	uint32_t cnt;
};

static inline uint32_t idmap_hash(uint64_t key, uint32_t shift)
{
	key ^= key >> 32;
	return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> shift);
}

/* idmap__find - the number of @key, IDMAP_NONE when there is none. */
static inline uint32_t idmap__find(const struct idmap *m, uint64_t key)
{
	uint32_t mask, i;

	if (!m->slots)
		return IDMAP_NONE;
	mask = (uint32_t)((1ull << (64 - m->shift)) - 1);
	for (i = idmap_hash(key, m->shift);; i = (i + 1) & mask) {
		if (m->slots[i].value == IDMAP_NONE || m->slots[i].key == key)
			return m->slots[i].value;
	}
}

/**
 * idmap__set - give @key a number, a new one if it has one
 * @value: not IDMAP_NONE
 *
 * Return: 0, -ENOMEM, or -EOVERFLOW past 2^30 keys.
 */
int idmap__set(struct idmap *m, uint64_t key, uint32_t value);

/* idmap__done - release the memory; the map is then empty. */
void idmap__done(struct idmap *m);

#endif
