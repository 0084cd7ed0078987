/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned strings: equal bytes get the same id. Ids count up from 0, which is "". Strings stay
 * where they are until strtab__done().
 */
#ifndef PYEBPF_BASE_STRTAB_H
#define PYEBPF_BASE_STRTAB_H

#include <stddef.h>
#include <stdint.h>

struct strtab_str {
	const char *s; /* NUL-terminated */
	size_t len;
};

struct strtab {
	struct strtab_str *strs; /* by id */
	uint64_t *hashes; /* by id */
	uint32_t *slots; /* hash table of ids + 1 */
	uint32_t cnt, cap, slot_cnt;
	struct strtab_block *blocks;
};

/* strtab__init - holds "" as id 0. Return: 0 or -ENOMEM. */
int strtab__init(struct strtab *t);

/* strtab__done - release everything. A zeroed @t is fine. */
void strtab__done(struct strtab *t);

/**
 * strtab__add - the id of a string, a new one if it was not seen
 * @s: @len bytes, copied
 *
 * Return: 0, -ENOMEM, or -EOVERFLOW past 2^31 strings.
 */
int strtab__add(struct strtab *t, const char *s, size_t len, uint32_t *id);

/* strtab__get - the string of an id that strtab__add() gave; borrowed until strtab__done(). */
static inline const char *strtab__get(const struct strtab *t, uint32_t id)
{
	return t->strs[id].s;
}

#endif
