// SPDX-License-Identifier: Apache-2.0
#include "capfile/idtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int grow(struct idtab *t, uint32_t number)
{
	uint32_t cnt = t->page_cnt ? t->page_cnt : 16;
	struct idtab_page **pages;

	while (cnt <= number)
		cnt *= 2;
	pages = reallocarray(t->pages, cnt, sizeof(pages[0]));
	if (!pages)
		return -ENOMEM;
	memset(pages + t->page_cnt, 0, (cnt - t->page_cnt) * sizeof(pages[0]));
	t->pages = pages;
	t->page_cnt = cnt;
	return 0;
}

int idtab__add(struct idtab *t, uint32_t id, void *record)
{
	uint32_t number = id >> IDTAB_BITS;
	struct idtab_page *page;

	if (number >= t->page_cnt && grow(t, number))
		return -ENOMEM;
	page = t->pages[number];
	if (!page) {
		page = calloc(1, sizeof(*page));
		if (!page)
			return -ENOMEM;
		t->pages[number] = page;
	}
	page->slots[id & (IDTAB_PAGE - 1)] = record;
	page->used_cnt++;
	return 0;
}

void idtab__remove(struct idtab *t, uint32_t id)
{
	uint32_t number = id >> IDTAB_BITS;
	struct idtab_page *page = t->pages[number];

	page->slots[id & (IDTAB_PAGE - 1)] = NULL;
	if (--page->used_cnt)
		return;
	free(page);
	t->pages[number] = NULL;
}

void idtab__each(const struct idtab *t, void (*fn)(void *record, void *arg), void *arg)
{
	for (uint32_t i = 0; i < t->page_cnt; i++) {
		struct idtab_page *page = t->pages[i];

		for (uint32_t j = 0; page && j < IDTAB_PAGE; j++) {
			if (page->slots[j])
				fn(page->slots[j], arg);
		}
	}
}

void idtab__done(struct idtab *t)
{
	for (uint32_t i = 0; i < t->page_cnt; i++)
		free(t->pages[i]);
	free(t->pages);
	*t = (struct idtab){ 0 };
}
