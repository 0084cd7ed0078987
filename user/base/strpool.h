/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned strings: equal bytes get the same id. Ids count up from 0, which is "". Strings stay
 * where they are until strpool__done().
 */
#ifndef PYEBPF_BASE_STRPOOL_H
#define PYEBPF_BASE_STRPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strpool_str {
	const char *s; /* NUL-terminated */
	size_t len;
};

struct strpool {
	struct strpool_str *strs; /* by id */
	uint64_t *hashes; /* by id */
	uint32_t *slots; /* hash table of ids + 1 */
	uint32_t cnt, cap, slot_cnt;
	struct strpool_block *blocks;
};

/* strpool__init - holds "" as id 0. Return: 0 or -ENOMEM. */
int strpool__init(struct strpool *t);

/* strpool__done - release everything. A zeroed @t is fine. */
void strpool__done(struct strpool *t);

/**
 * strpool__add - the id of a string, a new one if it was not seen
 * @s: @len bytes, copied
 *
 * Return: 0, -ENOMEM, or -EOVERFLOW past 2^31 strings.
 */
int strpool__add(struct strpool *t, const char *s, size_t len, uint32_t *id);

/* strpool__find - the same of one that was seen; false: it was not. */
bool strpool__find(const struct strpool *t, const char *s, size_t len, uint32_t *id);

/* strpool__get - the string of an id that strpool__add() gave; borrowed until strpool__done(). */
static inline const char *strpool__get(const struct strpool *t, uint32_t id)
{
	return t->strs[id].s;
}

#endif
