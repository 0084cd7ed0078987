/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of another process's memory that a walk of its stacks has needed, so that the next one gets all of them by a few calls,
 * while the threads stand still: a page takes a third of a microsecond then, and ten times as much alone.
 */
#ifndef PYEBPF_CPYTHON_OUTSIDE_PAGES_H
#define PYEBPF_CPYTHON_OUTSIDE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTSIDE_PAGES_MAX 16384u /* more are read one by one */

struct proc_mem;

/* Zeroed, it is empty. Released by outside_pages__done(). */
struct outside_pages {
	struct outside_page {
		uint64_t addr;
		bool read, used; /* it is in `data`; somebody has asked for it since */
	} * list; /* by address, @sorted of them; those that are new come behind */
	size_t cnt, sorted, size;
	uint8_t *data; /* of the sorted ones; @room pages */
	size_t room;
};

/* outside_pages__read - all that were needed before, and no others any more. What cannot be read is left out. */
void outside_pages__read(struct outside_pages *p, const struct proc_mem *mem);

/* outside_pages__prepare - before the threads are stopped: the memory for it, with some for more */
void outside_pages__prepare(struct outside_pages *p);

/* outside_pages__need - another page */
void outside_pages__need(struct outside_pages *p, uint64_t addr);

/* outside_pages__find - @addr: of a page. NULL: it was not read */
const uint8_t *outside_pages__find(struct outside_pages *p, uint64_t addr);

void outside_pages__done(struct outside_pages *p);

#endif
