// SPDX-License-Identifier: Apache-2.0
#include "decode/known.h"

#include <stdlib.h>
#include <sys/random.h>

static uint32_t home(const struct known *k, uint32_t id)
{
	uint64_t h = (id ^ k->seed) * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 32 ^ k->seed >> 17) * 0xd6e8feb86659fd93ull;
	return (uint32_t)(h >> 32) & (k->cap - 1);
}

/* The slot of an id, or the free one where it would go. */
static struct known_slot *slot_of(const struct known *k, uint32_t id)
{
	uint32_t i = home(k, id);

	while (k->slots[i].used && k->slots[i].id != id)
		i = (i + 1) & (k->cap - 1);
	return &k->slots[i];
}

static int grow(struct known *k)
{
	struct known grown = { .cap = k->cap ? k->cap * 2 : 64, .cnt = k->cnt, .seed = k->seed };

	if (!k->cap && getrandom(&grown.seed, sizeof(grown.seed), GRND_NONBLOCK) < 0)
		grown.seed = (uintptr_t)k; /* early in boot: better than nothing */
	grown.slots = calloc(grown.cap, sizeof(grown.slots[0]));
	if (!grown.slots)
		return -1;
	for (uint32_t i = 0; i < k->cap; i++) {
		if (k->slots[i].used)
			*slot_of(&grown, k->slots[i].id) = k->slots[i];
	}
	free(k->slots);
	*k = grown;
	return 0;
}

uint64_t *known__add(struct known *k, uint32_t id)
{
	struct known_slot *s;

	if (k->cnt >= k->cap / 2 && grow(k))
		return NULL;
	s = slot_of(k, id);
	if (!s->used) {
		*s = (struct known_slot){ .id = id, .used = 1 };
		k->cnt++;
	}
	return &s->value;
}

void known__remove(struct known *k, uint32_t id)
{
	struct known_slot *s = k->cap ? slot_of(k, id) : NULL;
	uint32_t hole, i;

	if (!s || !s->used)
		return;
	k->cnt--;
	/* Move back what would no longer be found over the hole. */
	hole = i = (uint32_t)(s - k->slots);
	for (;;) {
		uint32_t mask = k->cap - 1;

		i = (i + 1) & mask;
		if (!k->slots[i].used)
			break;
		if (((i - home(k, k->slots[i].id)) & mask) < ((i - hole) & mask))
			continue;
		k->slots[hole] = k->slots[i];
		hole = i;
	}
	k->slots[hole].used = 0;
}

void known__done(struct known *k)
{
	free(k->slots);
	*k = (struct known){ 0 };
}
