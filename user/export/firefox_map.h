/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one hash table of the Firefox exporter: it gives every 64-bit key that it meets a dense
 * index, in the order of first use, so that a table is this and flat arrays beside it. Open
 * addressing with linear probing, load <= 3/4; a slot is the index and 32 bits of the hash, so that
 * the array of the keys is only read to confirm a hit.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_MAP_H
#define PYEBPF_EXPORT_FIREFOX_MAP_H

#include <stddef.h>
#include <stdint.h>

#define FF_NONE UINT32_MAX

/* A zeroed one is empty. */
struct ff_map {
	uint64_t *keys; /* of each index */
	uint64_t *slots; /* tag << 32 | index + 1, 0 = free */
	uint32_t cnt, cap;
	uint32_t slot_cnt; /* power of two */
	unsigned int shift;
};

/* ff_map__add_slow - adds a key that is not there; not for callers. */
uint32_t ff_map__add_slow(struct ff_map *m, uint64_t key);

static inline uint64_t ff_map_hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u;
}

/* ff_map_tag - of a hash: the 32 bits below those that choose the slot, in the upper half. */
static inline uint64_t ff_map_tag(uint64_t hash, unsigned int shift)
{
	return hash << (64 - shift) & 0xffffffff00000000u;
}

/* ff_map__find - index of @key, FF_NONE if it is not there. */
static inline uint32_t ff_map__find(const struct ff_map *m, uint64_t key)
{
	uint64_t hash = ff_map_hash(key), tag;

	if (!m->slot_cnt)
		return FF_NONE;
	tag = ff_map_tag(hash, m->shift);
	for (uint64_t at = hash >> m->shift;; at++) {
		uint64_t slot = m->slots[at & (m->slot_cnt - 1)];

		if (!slot)
			return FF_NONE;
		if ((slot ^ tag) >> 32 == 0 && m->keys[(uint32_t)slot - 1] == key)
			return (uint32_t)slot - 1;
	}
}

/* ff_map__find_id - the same for keys that are mostly counted up by one: no hashing then. */
static inline uint32_t ff_map__find_id(const struct ff_map *m, uint64_t key)
{
	uint64_t guess = m->cnt ? key - m->keys[0] : 0;

	if (guess < m->cnt && m->keys[guess] == key)
		return (uint32_t)guess;
	return ff_map__find(m, key);
}

/* ff_map__add - index of @key, new (then it is the old m->cnt) or not; FF_NONE: out of memory. */
static inline uint32_t ff_map__add(struct ff_map *m, uint64_t key)
{
	uint32_t index = ff_map__find(m, key);

	return index != FF_NONE ? index : ff_map__add_slow(m, key);
}

/* ff_map__clear - empty, the memory kept; ff_map__done - empty, the memory given back. */
void ff_map__clear(struct ff_map *m);
void ff_map__done(struct ff_map *m);

/* ff_pair - two indexes as a key. */
static inline uint64_t ff_pair(uint32_t high, uint32_t low)
{
	return (uint64_t)high << 32 | low;
}

/**
 * ff_grow - make room for one more element of a flat array
 * @mem: of @cap elements of @size bytes, replaced when it moves
 * @cnt: elements in use
 *
 * Return: 0 or -ENOMEM.
 */
int ff_grow(void **mem, uint32_t *cap, uint32_t cnt, size_t size);

#endif
