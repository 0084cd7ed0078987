// SPDX-License-Identifier: Apache-2.0
#include "proc/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/root.h"

static int check_regular(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : -EINVAL;
}

/* On file systems with several device numbers (btrfs, overlayfs) the one in maps is not that of
 * stat(), so there only the first way works. */
static int check_same(int fd, const struct mapping *m)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_dev == m->dev && st.st_ino == m->ino ? check_regular(fd) : -ENOENT;
}

/* A descriptor, or a negative errno. */
static int by_link(const char *path, const struct mapping *same_as)
{
	auto_close int fd = open(path, O_PATH | O_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	err = same_as ? check_same(fd, same_as) : check_regular(fd);
	return err ? err : take_fd(&fd);
}

/* Undoes what the kernel does to a newline. A path that really contained "\012" is not found, which
 * is no harm. */
static void unescape(char *out, size_t size, const char *path)
{
	size_t at = 0;

	while (*path && at + 1 < size) {
		if (strncmp(path, "\\012", 4) == 0) {
			out[at++] = '\n';
			path += 4;
		} else {
			out[at++] = *path++;
		}
	}
	out[at] = '\0';
}

int mapped_file_by_path(pid_t pid, const struct mapping *m)
{
	auto_close int fd = -1;
	char path[4096];
	int err;

	if (m->path[0] != '/')
		return -ENOENT;
	unescape(path, sizeof(path), m->path);
	fd = proc_root__open(pid, path);
	if (fd < 0)
		return fd;
	err = check_same(fd, m);
	return err ? err : take_fd(&fd);
}

int mapped_file__open(pid_t pid, const struct mapping *m, struct mapped_file *out)
{
	struct mapped_file f;
	char own[MAPPED_PATH_SIZE];
	bool refused, by_path;

	if (!m->ino)
		return -EINVAL;
	snprintf(f.path, sizeof(f.path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, m->start,
		 m->end);
	f.fd = by_link(f.path, NULL);
	refused = f.fd == -EPERM || f.fd == -EACCES;
	if (f.fd < 0) {
		snprintf(f.path, sizeof(f.path), "/proc/%d/exe", pid);
		f.fd = by_link(f.path, m);
	}
	by_path = f.fd < 0;
	if (by_path)
		f.fd = mapped_file_by_path(pid, m);
	if (f.fd < 0)
		return refused && f.fd == -ENOENT ? -EACCES : f.fd;
	/* in the /proc of a container we have no entry of our own: then the process's has to do */
	snprintf(own, sizeof(own), "/proc/self/fd/%d", f.fd);
	if (by_path || !access(own, F_OK))
		memcpy(f.path, own, sizeof(own));
	*out = f;
	return 0;
}

void mapped_file__close(struct mapped_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
