/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --count --time has of code objects that were freed. A node of a function that cannot be called any more, and all below
 * it, only takes up room in the target's table: they are summed up here by their path, and their places given back. A
 * program that makes code again and again can be counted for days.
 */
#ifndef PYEBPF_CAPTURE_INLINE_COUNT_DEAD_H
#define PYEBPF_CAPTURE_INLINE_COUNT_DEAD_H

#include "base/idmap.h"
#include "base/strpool.h"
#include "capture/inline_count.h"

#define COUNT_PATH_MAX \
	256u /* nodes from the outermost one on; the target begins anew long before */

struct count_dead {
	struct strpool keys; /* caller and function of each node */
	struct inline_count_node *nodes; /* self_ns in ticks; from the keys' number 1 on */
	uint32_t cnt, cap;
	struct idmap freed; /* il_func.id of those that may still have nodes there */
	uint32_t enough; /* so many are worth a look through the table */
	uint64_t lost; /* calls of paths that were too many */
};

int count_dead__init(struct count_dead *d); /* 0 or -ENOMEM; done() in any case */
void count_dead__done(struct count_dead *d);

/* count_dead__add - a code object was freed, and all records of its life have been read. 0 or -ENOMEM */
int count_dead__add(struct count_dead *d, uint32_t id);

/**
 * count_dead__take - when enough were freed: give back what nothing that runs is counted in
 * @nodes, @running: tables of the target, which goes on meanwhile: it uses a node that is taken no more
 * @ids: il_func.id -> function
 *
 * Return: 0 or -ENOMEM, then some are summed up and others still there, none both.
 */
int count_dead__take(struct count_dead *d, struct il_node *nodes, const struct il_active *running,
		     const struct idmap *ids);

#endif
