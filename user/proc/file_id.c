// SPDX-License-Identifier: Apache-2.0
#include "proc/file_id.h"

#include <sys/stat.h>

static void fill(struct file_id *out, const struct stat *st)
{
	*out = (struct file_id){ st->st_dev, st->st_ino, st->st_size, st->st_ctim };
}

bool file_id__of(int fd, struct file_id *out)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	fill(out, &st);
	return true;
}

bool file_id__read(const char *path, struct file_id *out)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	fill(out, &st);
	return true;
}

bool file_id__same(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}
