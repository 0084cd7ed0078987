// SPDX-License-Identifier: Apache-2.0
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/as_user.h"
#include "base/cleanup.h"
#include "base/text.h"

struct outfile {
	char *path;
	const char *name; /* last part of path */
	int dirfd, fd;
	enum outfile_mode mode;
	bool force, is_stdout;
	bool has_temp; /* temp is there and must go */
	char temp[40];
	uint64_t bytes;
	int err; /* of the write that failed, -errno */
};

static int fail(struct err *e, const char *path, int err)
{
	char shown[512];

	text_escape(shown, sizeof(shown), path, strlen(path));
	return err_set(e, err_is_full(-err) ? -ENOSPC : -PYE_EOUTPUT, "cannot write %s: %s", shown,
		       err_str(err));
}

/* The folder a path lies in, opened as the invoking user. */
static int open_parent(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	auto_free char *parent = NULL;
	int fd;

	*name = slash ? slash + 1 : path;
	if (!**name)
		return *path ? -EISDIR : -ENOENT;
	if (!strcmp(*name, ".") || !strcmp(*name, ".."))
		return -EISDIR;
	if (strlen(*name) > NAME_MAX)
		return -ENAMETOOLONG;
	parent = !slash		 ? strdup(".")
		 : slash == path ? strdup("/")
				 : strndup(path, (size_t)(slash - path));
	if (!parent)
		return -ENOMEM;
	fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int refuse(struct err *e, const char *path, const struct stat *st, bool force)
{
	char shown[512];

	text_escape(shown, sizeof(shown), path, strlen(path));
	if (!S_ISREG(st->st_mode))
		return err_set(e, -PYE_EOUTPUT, "%s is %s, not a file to write to", shown,
			       S_ISLNK(st->st_mode)    ? "a symbolic link"
			       : S_ISDIR(st->st_mode)  ? "a directory"
			       : S_ISFIFO(st->st_mode) ? "a FIFO"
			       : S_ISSOCK(st->st_mode) ? "a socket"
						       : "a device");
	if (force)
		return 0;
	err_set(e, -PYE_EOUTPUT, "%s exists", shown);
	err_hint(e, "choose another name with -o, or pass --force to replace it");
	return -PYE_EOUTPUT;
}

/* What has the name now must be nothing, or a file that may be replaced. Return: 0, 1: there. */
static int check_name(int dirfd, const char *name, const char *path, bool force, struct err *e)
{
	struct stat st;
	int err;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : fail(e, path, -errno);
	err = refuse(e, path, &st, force);
	return err ? err : 1;
}

static int check_as_user(const char *path, bool force, struct err *e)
{
	auto_close int dirfd = -1;
	const char *name;
	int there;

	dirfd = open_parent(path, &name);
	if (dirfd < 0)
		return fail(e, path, dirfd);
	there = check_name(dirfd, name, path, force, e);
	if (there < 0)
		return there;
	if (faccessat(dirfd, ".", W_OK | X_OK, AT_EACCESS))
		return fail(e, path, -errno);
	return 0;
}

int outfile_check(const char *path, bool force, struct err *e)
{
	struct as_user was;
	int err;

	if (!strcmp(path, "-"))
		return 0;
	err = as_user__enter(&was);
	if (err)
		return fail(e, path, err);
	err = check_as_user(path, force, e);
	as_user__leave(&was);
	return err;
}

/* As the link that linkat() follows: with a descriptor alone it wants a privilege. */
static void path_of(const struct outfile *f, char *out, size_t size)
{
	snprintf(out, size, "/proc/self/fd/%d", f->fd);
}

/* A file without a name, which is gone with us, however we end. False: not here. */
static bool open_nameless(struct outfile *f)
{
	char path[40];

	f->fd = openat(f->dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (f->fd < 0)
		return false;
	path_of(f, path, sizeof(path));
	if (!access(path, F_OK))
		return true;
	close(f->fd);
	f->fd = -1;
	return false;
}

/* A name for what has none, or a file of that name. */
static int make_temp(struct outfile *f)
{
	char path[40];

	if (f->fd >= 0) {
		path_of(f, path, sizeof(path));
		return linkat(AT_FDCWD, path, f->dirfd, f->temp, AT_SYMLINK_FOLLOW) ? -errno : 0;
	}
	f->fd = openat(f->dirfd, f->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return f->fd < 0 ? -errno : 0;
}

static int name_temp(struct outfile *f)
{
	int err = -EEXIST;

	for (int i = 0; i < 16 && err == -EEXIST; i++) {
		unsigned long long random;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EIO;
		snprintf(f->temp, sizeof(f->temp), ".pyebpf-%016llx.tmp", random);
		err = make_temp(f);
	}
	f->has_temp = !err;
	return err;
}

static int open_direct(struct outfile *f, bool there)
{
	if (there && unlinkat(f->dirfd, f->name, 0))
		return -errno;
	f->fd = openat(f->dirfd, f->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return f->fd < 0 ? -errno : 0;
}

static int open_as_user(struct outfile *f, struct err *e)
{
	int err, there;

	f->dirfd = open_parent(f->path, &f->name);
	if (f->dirfd < 0)
		return fail(e, f->path, f->dirfd);
	there = check_name(f->dirfd, f->name, f->path, f->force, e);
	if (there < 0)
		return there;
	err = f->mode == OUTFILE_DIRECT ? open_direct(f, there)
	      : open_nameless(f)	? 0
					: name_temp(f);
	return err ? fail(e, f->path, err) : 0;
}

int outfile__open(struct outfile **out, const char *path, enum outfile_mode mode, bool force,
		  struct err *e)
{
	auto_fn(outfile__freep) struct outfile *f = calloc(1, sizeof(*f));
	struct as_user was;
	int err;

	if (!f)
		return -ENOMEM;
	f->dirfd = f->fd = -1;
	f->mode = mode;
	f->force = force;
	f->path = strdup(path);
	if (!f->path)
		return -ENOMEM;
	if (!strcmp(path, "-")) {
		f->is_stdout = true;
		f->fd = STDOUT_FILENO;
		*out = take_ptr(f);
		return 0;
	}
	err = as_user__enter(&was);
	if (err)
		return fail(e, path, err);
	err = open_as_user(f, e);
	as_user__leave(&was);
	if (err)
		return err;
	*out = take_ptr(f);
	return 0;
}

int outfile__write(void *outfile, const void *data, size_t len)
{
	struct outfile *f = outfile;
	const char *from = data;

	while (len && !f->err) {
		ssize_t n = write(f->fd, from, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			f->err = n < 0 ? -errno : -EIO;
			break;
		}
		from += n;
		len -= (size_t)n;
		f->bytes += (size_t)n;
	}
	return f->err ? -PYE_EOUTPUT : 0;
}

int outfile__explain(const struct outfile *f, struct err *e)
{
	return fail(e, f->is_stdout ? "standard output" : f->path, f->err ? f->err : -EIO);
}

/* Gives the temporary file its name; file systems without RENAME_NOREPLACE get link + unlink. */
static int name_it(struct outfile *f)
{
	if (f->force) {
		if (renameat(f->dirfd, f->temp, f->dirfd, f->name))
			return -errno;
		f->has_temp = false;
		return 0;
	}
	if (!renameat2(f->dirfd, f->temp, f->dirfd, f->name, RENAME_NOREPLACE)) {
		f->has_temp = false;
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (linkat(f->dirfd, f->temp, f->dirfd, f->name, 0))
		return -errno;
	return 0;
}

static void remove_temp(struct outfile *f)
{
	if (f->has_temp)
		unlinkat(f->dirfd, f->temp, 0);
	f->has_temp = false;
}

static int commit_as_user(struct outfile *f, struct err *e)
{
	int err, there;

	there = check_name(f->dirfd, f->name, f->path, f->force, e);
	err = there < 0 || f->has_temp ? 0 : name_temp(f);
	err = there < 0 ? there : err ? err : name_it(f);
	remove_temp(f);
	if (there < 0)
		return there;
	return err ? fail(e, f->path, err) : 0;
}

int outfile__commit(struct outfile *f, struct err *e)
{
	struct as_user was;
	int err;

	if (f->err)
		return outfile__explain(f, e);
	if (f->is_stdout)
		return 0;
	if (fsync(f->fd) && errno != EINVAL && errno != EROFS)
		return fail(e, f->path, -errno);
	if (f->mode == OUTFILE_DIRECT)
		return 0;
	err = as_user__enter(&was);
	if (err)
		return fail(e, f->path, err);
	err = commit_as_user(f, e);
	as_user__leave(&was);
	return err;
}

void outfile__remove(struct outfile *f)
{
	struct as_user was;

	if (f->is_stdout || f->mode != OUTFILE_DIRECT || as_user__enter(&was))
		return;
	unlinkat(f->dirfd, f->name, 0);
	as_user__leave(&was);
}

void outfile__free(struct outfile *f)
{
	struct as_user was;

	if (!f)
		return;
	if (f->has_temp && !as_user__enter(&was)) {
		remove_temp(f);
		as_user__leave(&was);
	}
	if (f->fd >= 0 && !f->is_stdout)
		close(f->fd);
	if (f->dirfd >= 0)
		close(f->dirfd);
	free(f->path);
	free(f);
}

int outfile__fd(const struct outfile *f)
{
	return f->fd;
}

uint64_t outfile__bytes(const struct outfile *f)
{
	return f->bytes;
}

int outfile_default_name(char *out, size_t size, const char *mode, const char *comm, uint32_t pid,
			 int64_t unix_ns, const char *extension)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	char name[64], when[32];
	size_t n = 0;
	struct tm tm;
	int len;

	for (; comm && comm[n] && n < sizeof(name) - 1; n++) {
		char c = comm[n];
		bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '+' || c == '-';

		name[n] = fine ? c : '_';
	}
	name[n] = '\0';
	if (!gmtime_r(&seconds, &tm))
		return -EOVERFLOW;
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &tm);
	len = snprintf(out, size, "pyebpf-%s-%s-%u-%s%s", mode, n ? name : "unknown", pid, when,
		       extension);
	return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}
