// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ff_grow(void **mem, uint32_t *cap, uint32_t cnt, size_t size)
{
	uint32_t want = *cap ? *cap * 2 : 16;
	void *moved;

	if (cnt < *cap)
		return 0;
	if (want <= *cap)
		return -ENOMEM;
	moved = reallocarray(*mem, want, size);
	if (!moved)
		return -ENOMEM;
	*mem = moved;
	*cap = want;
	return 0;
}

static void put_slot(struct ff_map *m, uint32_t index)
{
	uint64_t hash = ff_map_hash(m->keys[index]);
	uint64_t at = hash >> m->shift;

	while (m->slots[at])
		at = (at + 1) & (m->slot_cnt - 1);
	m->slots[at] = ff_map_tag(hash, m->shift) | (index + 1);
}

static int rehash(struct ff_map *m)
{
	uint32_t want = m->slot_cnt ? m->slot_cnt * 2 : 64;
	uint64_t *slots;

	if (!want)
		return -ENOMEM;
	slots = calloc(want, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(m->slots);
	m->slots = slots;
	m->slot_cnt = want;
	m->shift = 64 - (unsigned int)__builtin_ctz(want);
	for (uint32_t i = 0; i < m->cnt; i++)
		put_slot(m, i);
	return 0;
}

uint32_t ff_map__add_slow(struct ff_map *m, uint64_t key)
{
	if (m->cnt >= m->slot_cnt / 4 * 3 && rehash(m))
		return FF_NONE;
	if (ff_grow((void **)&m->keys, &m->cap, m->cnt, sizeof(*m->keys)))
		return FF_NONE;
	m->keys[m->cnt] = key;
	put_slot(m, m->cnt);
	return m->cnt++;
}

void ff_map__clear(struct ff_map *m)
{
	if (m->slots)
		memset(m->slots, 0, (size_t)m->slot_cnt * sizeof(*m->slots));
	m->cnt = 0;
}

void ff_map__done(struct ff_map *m)
{
	free(m->keys);
	free(m->slots);
	*m = (struct ff_map){ 0 };
}
