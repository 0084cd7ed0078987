// SPDX-License-Identifier: Apache-2.0
#include "proc/file_id.h"

#include <stdlib.h>
#include <sys/stat.h>

#define SET_MAX 1024
#define SET_ADD 64 /* room is made for so many at a time */

bool file_id__read(const char *path, struct file_id *out)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	*out = (struct file_id){ st.st_dev, st.st_ino, st.st_size, st.st_ctim };
	return true;
}

bool file_id__same(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

bool file_set__has(const struct file_set *set, const struct file_id *id)
{
	for (size_t i = 0; i < set->cnt; i++)
		if (file_id__same(&set->items[i], id))
			return true;
	return false;
}

void file_set__add(struct file_set *set, const struct file_id *id)
{
	if (set->cnt == SET_MAX)
		file_set__done(set);
	if (set->cnt % SET_ADD == 0) {
		void *items = reallocarray(set->items, set->cnt + SET_ADD, sizeof(*set->items));

		if (!items)
			return;
		set->items = items;
	}
	set->items[set->cnt++] = *id;
}

void file_set__done(struct file_set *set)
{
	free(set->items);
	*set = (struct file_set){ NULL, 0 };
}
