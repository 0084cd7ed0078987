// SPDX-License-Identifier: Apache-2.0
#include "cpython/outside_pages.h"

#include <stdlib.h>
#include <string.h>

#include "proc/mem.h"

static int by_addr(const void *a, const void *b)
{
	const struct outside_page *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Those that nobody has asked for since are forgotten. */
static void settle(struct outside_pages *p)
{
	size_t cnt = 0;

	for (size_t i = 0; i < p->cnt; i++)
		if (p->list[i].used)
			p->list[cnt++] = p->list[i];
	if (cnt)
		qsort(p->list, cnt, sizeof(*p->list), by_addr);
	p->cnt = 0;
	for (size_t i = 0; i < cnt; i++)
		if (!i || p->list[i].addr != p->list[p->cnt - 1].addr)
			p->list[p->cnt++] = (struct outside_page){ .addr = p->list[i].addr };
	p->sorted = p->cnt;
	p->last = 0;
}

static bool make_room(struct outside_pages *p, size_t room)
{
	if (p->room >= room)
		return true;
	free(p->data);
	p->data = malloc(room * PROC_PIECE_BYTES);
	p->room = p->data ? room : 0;
	return p->data;
}

void outside_pages__prepare(struct outside_pages *p)
{
	if (p->room < p->cnt && make_room(p, p->cnt + p->cnt / 4))
		memset(p->data, 0, p->room * PROC_PIECE_BYTES); /* so that it is there */
}

void outside_pages__read(struct outside_pages *p, const struct proc_mem *mem)
{
	uint64_t addrs[PROC_PIECES];
	size_t n;

	settle(p);
	if (!make_room(p, p->cnt))
		p->sorted = 0;
	for (size_t i = 0; i < p->sorted; i += n) {
		n = p->sorted - i < PROC_PIECES ? p->sorted - i : PROC_PIECES;
		for (size_t k = 0; k < n; k++)
			addrs[k] = p->list[i + k].addr;
		n = proc_mem__pieces_held(mem, addrs, n, p->data + i * PROC_PIECE_BYTES);
		for (size_t k = 0; k < n; k++)
			p->list[i + k].read = true;
		n += n == 0; /* the first one is not there */
	}
}

void outside_pages__need(struct outside_pages *p, uint64_t addr)
{
	if (p->cnt == p->size) {
		size_t size = p->size ? 2 * p->size : 64;
		void *more = size > OUTSIDE_PAGES_MAX
				     ? NULL
				     : reallocarray(p->list, size, sizeof(*p->list));

		if (!more)
			return;
		p->list = more;
		p->size = size;
	}
	p->list[p->cnt++] = (struct outside_page){ .addr = addr, .used = true };
}

const uint8_t *outside_pages__find(struct outside_pages *p, uint64_t addr)
{
	const struct outside_page key = { .addr = addr };
	struct outside_page *found;

	if (!p->sorted)
		return NULL;
	found = &p->list[p->last];
	if (found->addr != addr)
		found = bsearch(&key, p->list, p->sorted, sizeof(key), by_addr);
	if (!found || !found->read)
		return NULL;
	p->last = (size_t)(found - p->list);
	found->used = true;
	return p->data + (size_t)(found - p->list) * PROC_PIECE_BYTES;
}

void outside_pages__done(struct outside_pages *p)
{
	free(p->list);
	free(p->data);
	*p = (struct outside_pages){ 0 };
}
