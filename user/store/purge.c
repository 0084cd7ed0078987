// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/store_priv.h"

#define OUTBOX "outbox.sqlite"
#define LOCK   "lock"

static void search_close(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* The databases with what SQLite puts beside them: "-wal", "-shm", "-journal". */
static bool is_ours(const char *name)
{
	return store_is_window(name) || store_is_left_over(name) || begins(name, CATALOGUE) ||
	       begins(name, OUTBOX);
}

static int refused(const struct store *s, const char *what, struct err *e)
{
	return err_set(e, -PYE_EOUTPUT, "the store %s cannot be %s: %s", s->dir, what,
		       strerror(errno));
}

static int remove_files(const struct store *s, struct store_purged *out, struct err *e)
{
	auto_fn(search_close) DIR *dir = opendir(s->dir);

	if (!dir)
		return refused(s, "read", e);
	for (const struct dirent *d; (d = readdir(dir));) {
		struct stat st;

		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") || !strcmp(d->d_name, LOCK))
			continue;
		if (!is_ours(d->d_name) ||
		    fstatat(s->dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode)) {
			out->strangers++;
			continue;
		}
		if (unlinkat(s->dir_fd, d->d_name, 0))
			return refused(s, "removed", e);
		out->bytes += (uint64_t)st.st_size;
		out->windows += store_is_window(d->d_name);
	}
	return 0;
}

int store_purge(const char *dir, struct store_purged *out, struct err *e)
{
	auto_fn(store__freep) struct store *s = calloc(1, sizeof(*s));
	int err;

	*out = (struct store_purged){ 0 };
	if (!s)
		return -ENOMEM;
	s->lock_fd = -1;
	s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0 && errno == ENOENT)
		return 0;
	s->dir = strdup(dir);
	if (!s->dir)
		return -ENOMEM;
	if (s->dir_fd < 0)
		return refused(s, "opened", e);
	err = store_lock(s, e);
	err = err ? err : remove_files(s, out, e);
	if (err)
		return err;
	if (unlinkat(s->dir_fd, LOCK, 0) || (!out->strangers && rmdir(dir)))
		return refused(s, "removed", e);
	return 0;
}
