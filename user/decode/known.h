/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from ids that a file chose to 64-bit values: open addressing with removal, and a
 * seed that the file's author cannot know.
 */
#ifndef PYEBPF_DECODE_KNOWN_H
#define PYEBPF_DECODE_KNOWN_H

#include <stdint.h>

struct known_slot {
	uint64_t value;
	uint32_t id;
	uint32_t used;
};

/* Zeroed: empty. */
struct known {
	struct known_slot *slots;
	uint32_t cnt, cap; /* cap is a power of two, or 0 */
	uint64_t seed;
};

/* known__add - the value of an id, zero when it is new, borrowed until the table changes; NULL without memory. */
uint64_t *known__add(struct known *k, uint32_t id);

/* known__remove - forget an id; one that is absent is fine. */
void known__remove(struct known *k, uint32_t id);

/* known__done - release the memory; the table is then empty. */
void known__done(struct known *k);

#endif
