/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table from small dense ids to records. Ids of a capture grow and are never used again, so the
 * table has pages that go when their last record goes: its memory follows what lives, plus 8 bytes
 * for every 512 ids ever used. A look-up is two loads.
 */
#ifndef PYEBPF_CAPFILE_IDTAB_H
#define PYEBPF_CAPFILE_IDTAB_H

#include <stddef.h>
#include <stdint.h>

#define IDTAB_BITS 9u
#define IDTAB_PAGE (1u << IDTAB_BITS)

struct idtab_page {
	uint32_t used_cnt;
	void *slots[IDTAB_PAGE];
};

/* Zeroed: empty. */
struct idtab {
	struct idtab_page **pages;
	uint32_t page_cnt;
};

/* idtab__find - the record of an id, or NULL. */
static inline void *idtab__find(const struct idtab *t, uint32_t id)
{
	uint32_t number = id >> IDTAB_BITS;

	if (__builtin_expect(number >= t->page_cnt, 0) || !t->pages[number])
		return NULL;
	return t->pages[number]->slots[id & (IDTAB_PAGE - 1)];
}

/* idtab__known - the record of an id that has one. */
static inline void *idtab__known(const struct idtab *t, uint32_t id)
{
	return t->pages[id >> IDTAB_BITS]->slots[id & (IDTAB_PAGE - 1)];
}

/* idtab__add - set the record of an id that has none; borrowed. Return: 0 or -ENOMEM. */
int idtab__add(struct idtab *t, uint32_t id, void *record);

/* idtab__remove - forget the record of an id; it must have one. */
void idtab__remove(struct idtab *t, uint32_t id);

/* idtab__each - call @fn with each record, in order of id; @fn must not change the table. */
void idtab__each(const struct idtab *t, void (*fn)(void *record, void *arg), void *arg);

/* idtab__done - free the table; the records are the caller's. */
void idtab__done(struct idtab *t);

#endif
