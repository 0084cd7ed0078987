// SPDX-License-Identifier: Apache-2.0
#include "capture/sweep.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "abi/limits.h"

/* struct code_slot of bpf/py/code.bpf.h */
struct sweep_slot {
	uint64_t key, value;
};

#define SLOTS_BYTES (PYE_CODE_SLOTS * sizeof(struct sweep_slot))

int sweep__init(struct sweep *s, int codes_fd, int slots_fd)
{
	void *slots = mmap(NULL, SLOTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, slots_fd, 0);

	if (slots == MAP_FAILED)
		return -errno;
	s->codes_fd = codes_fd;
	s->slots = slots;
	s->cnt = 0;
	return 0;
}

void sweep__done(struct sweep *s)
{
	if (s->slots)
		munmap(s->slots, SLOTS_BYTES);
	s->slots = NULL;
}

static bool is_ended(const struct sweep *s, uint64_t key)
{
	for (uint32_t i = 0; i < s->cnt; i++)
		if (s->ended[i] == key >> 48)
			return true;
	return false;
}

static void sweep_codes(const struct sweep *s)
{
	uint64_t key, next;
	bool more = !bpf_map_get_next_key(s->codes_fd, NULL, &key);

	while (more) {
		/* the successor first: a deleted key has none */
		more = !bpf_map_get_next_key(s->codes_fd, &key, &next);
		if (is_ended(s, key))
			bpf_map_delete_elem(s->codes_fd, &key);
		key = next;
	}
}

void sweep__ended(struct sweep *s, uint32_t pix)
{
	s->ended[s->cnt++] = (uint16_t)pix;
	if (s->cnt < SWEEP_BATCH)
		return;
	sweep_codes(s);
	for (uint32_t i = 0; i < PYE_CODE_SLOTS; i++)
		if (s->slots[i].key && is_ended(s, s->slots[i].key))
			s->slots[i].key = 0;
	s->cnt = 0;
}
