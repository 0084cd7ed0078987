// SPDX-License-Identifier: Apache-2.0
#include "base/idmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FIRST_LOG2 = 6,
	LAST_LOG2 = 31
};

static struct idmap_slot *slot_of(const struct idmap *m, uint64_t key)
{
	uint32_t mask = (uint32_t)((1ull << (64 - m->shift)) - 1);
	uint32_t i = idmap_hash(key, m->shift);

	while (m->slots[i].value != IDMAP_NONE && m->slots[i].key != key)
		i = (i + 1) & mask;
	return &m->slots[i];
}

static int grow(struct idmap *m)
{
	uint32_t log2 = m->slots ? 64 - m->shift + 1 : FIRST_LOG2;
	struct idmap grown = { .shift = 64 - log2, .cnt = m->cnt };
	size_t old_cnt = m->slots ? (size_t)1 << (log2 - 1) : 0;

	if (log2 > LAST_LOG2)
		return -EOVERFLOW;
	grown.slots = malloc(sizeof(*grown.slots) << log2);
	if (!grown.slots)
		return -ENOMEM;
	memset(grown.slots, 0xff, sizeof(*grown.slots) << log2);
	for (size_t i = 0; i < old_cnt; i++) {
		if (m->slots[i].value != IDMAP_NONE)
			*slot_of(&grown, m->slots[i].key) = m->slots[i];
	}
	free(m->slots);
	*m = grown;
	return 0;
}

int idmap__set(struct idmap *m, uint64_t key, uint32_t value)
{
	struct idmap_slot *slot;
	int err;

	/* more than half, so that the 4M stacks of a full aggregate fit into 8M slots */
	if (!m->slots || m->cnt >= (1ull << (64 - m->shift)) / 8 * 5) {
		err = grow(m);
		if (err)
			return err;
	}
	slot = slot_of(m, key);
	if (slot->value == IDMAP_NONE)
		m->cnt++;
	*slot = (struct idmap_slot){ .key = key, .value = value };
	return 0;
}

void idmap__done(struct idmap *m)
{
	free(m->slots);
	*m = (struct idmap){ 0 };
}
