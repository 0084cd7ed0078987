/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of the pages of another process's memory that a walk of its stacks has needed, so that the next one gets all of them by a few
 * calls, while the threads stand still: one takes less than a microsecond then, several times as much alone, and a whole page, which
 * lies in no CPU's cache, some 4 us.
 */
#ifndef PYEBPF_CPYTHON_OUTSIDE_PAGES_H
#define PYEBPF_CPYTHON_OUTSIDE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTSIDE_PAGES_MAX 65536u /* pieces; more are read page by page */

struct proc_mem;

/* Zeroed, it is empty. Released by outside_pages__done(). */
struct outside_pages {
	struct outside_page {
		uint64_t addr;
		bool read, used; /* it is in `data`; somebody has asked for it since */
	} * list; /* by address, @sorted of them; those that are new come behind */
	size_t cnt, sorted, size;
	size_t last; /* that was found */
	uint8_t *data; /* of the sorted ones; @room pieces */
	size_t room;
};

/* outside_pages__read - all that were needed before, and no others any more. What cannot be read is left out. */
void outside_pages__read(struct outside_pages *p, const struct proc_mem *mem);

/* outside_pages__prepare - before the threads are stopped: the memory for it, with some for more */
void outside_pages__prepare(struct outside_pages *p);

/* outside_pages__need - another piece; @addr: a multiple of PROC_PIECE_BYTES */
void outside_pages__need(struct outside_pages *p, uint64_t addr);

/* outside_pages__find - @addr: of a piece. NULL: it was not read */
const uint8_t *outside_pages__find(struct outside_pages *p, uint64_t addr);

void outside_pages__done(struct outside_pages *p);

#endif
