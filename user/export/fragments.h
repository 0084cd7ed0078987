/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of output that come again and again, as the name of a function in each of its events: each is
 * made once, kept under a number, and copied from then on. Equal ones are one.
 */
#ifndef PYEBPF_EXPORT_FRAGMENTS_H
#define PYEBPF_EXPORT_FRAGMENTS_H

#include "base/outbuf.h"
#include "base/strpool.h"

struct fragments {
	struct strpool pool; /* by id, in order of their making; 0 is "" */
	struct membuf scratch; /* the one that is being made */
};

/* fragments__init - holds "" as id 0. Return: 0 or -ENOMEM. */
int fragments__init(struct fragments *f);

/* fragments__done - release everything. A zeroed @f is fine. */
void fragments__done(struct fragments *f);

/**
 * fragment_begin - start on one; one at a time
 * @b: what is put into it belongs to the fragment; fragment_end() releases it
 *
 * Return: 0 or -ENOMEM, after which @b needs no fragment_end().
 */
int fragment_begin(struct fragments *f, struct outbuf *b);

/* fragment_end - its number into @id. Return: 0 or negative errno; @b is released either way. */
int fragment_end(struct fragments *f, struct outbuf *b, uint32_t *id);

/* put_fragment - a copy of the one with the number @id, which fragment_end() gave. */
static inline void put_fragment(struct outbuf *b, const struct fragments *f, uint32_t id)
{
	outbuf__put(b, f->pool.strs[id].s, f->pool.strs[id].len);
}

#endif
