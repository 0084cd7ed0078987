// SPDX-License-Identifier: Apache-2.0
#include "export/source_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/as_user.h"
#include "base/cleanup.h"

#define TAB 8

void source_file__done(struct source_file *f)
{
	free(f->text);
	free(f->lines);
	f->text = NULL;
	f->lines = NULL;
	f->line_cnt = 0;
}

static const char *reason(int err)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
		return "it is not on this machine";
	case EACCES:
	case EPERM:
		return "it may not be read";
	default:
		return "it cannot be read";
	}
}

/* Waits for nobody: a name can be that of a FIFO. Return: a descriptor, or -1 with a reason. */
static int open_as_user(const char *path, const char **why)
{
	struct as_user was;
	int fd;

	if (as_user__enter(&was)) {
		*why = "it may not be read";
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		*why = reason(errno);
	as_user__leave(&was);
	return fd;
}

static bool ends_in(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	return n > m && !strcmp(path + n - m, end);
}

static bool has_python_name(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	return ends_in(path, ".py") || ends_in(path, ".pyw");
}

static bool runs_in_python(const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);
	size_t first = end ? (size_t)(end - text) : len;

	return first > 2 && !memcmp(text, "#!", 2) && memmem(text, first, "python", 6);
}

static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t at = 0;
	ssize_t n;

	while (at < size) {
		n = read(fd, text + at, size - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		at += (size_t)n;
	}
	return (ssize_t)at;
}

/* Copies a line with its tabs as spaces. Return: the byte behind it. */
static char *expand(char *out, const char *s, size_t len)
{
	char *line = out;

	for (; len && out - line < SOURCE_LINE_MAX; s++, len--) {
		if (*s != '\t') {
			*out++ = *s;
			continue;
		}
		do
			*out++ = ' ';
		while ((out - line) % TAB);
	}
	return out;
}

static int split(struct source_file *f, const char *raw, size_t len)
{
	const char *end = raw + len, *next;
	uint32_t cnt = 1, i = 0;
	char *out;

	for (const char *at = raw; at < end; at++)
		cnt += *at == '\n';
	/* a tab is at most 8 bytes, and the last one can stand out */
	f->text = malloc(len * TAB + TAB);
	f->lines = calloc(cnt, sizeof(*f->lines));
	if (!f->text || !f->lines)
		return -ENOMEM;
	out = f->text;
	for (const char *at = raw; at < end; at = next + 1) {
		next = memchr(at, '\n', (size_t)(end - at));
		next = next ? next : end;
		f->lines[i].s = out;
		out = expand(out, at, (size_t)(next - at) - (next > at && next[-1] == '\r'));
		f->lines[i].len = (size_t)(out - f->lines[i].s);
		i++;
	}
	f->line_cnt = i;
	return 0;
}

static int load(struct source_file *f, int fd, int64_t start_unix_ns)
{
	auto_free char *raw = NULL;
	struct stat st;
	ssize_t len;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		f->missing = "it is no file";
		return 0;
	}
	if (st.st_size > SOURCE_BYTES_MAX) {
		f->missing = "it is larger than 4 MB";
		return 0;
	}
	raw = malloc((size_t)st.st_size + 1);
	if (!raw)
		return -ENOMEM;
	len = read_all(fd, raw, (size_t)st.st_size);
	if (len < 0)
		f->missing = "it cannot be read";
	else if (!has_python_name(fd) && !runs_in_python(raw, (size_t)len))
		f->missing = "it is not called .py, and its first line does not name Python";
	else if (memchr(raw, '\0', (size_t)len))
		f->missing = "it is no text";
	if (f->missing)
		return 0;
	f->newer = start_unix_ns > 0 &&
		   st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec > start_unix_ns;
	return split(f, raw, (size_t)len);
}

int source_file__init(struct source_file *f, const char *path, int64_t start_unix_ns)
{
	auto_close int fd = -1;

	*f = (struct source_file){ 0 };
	if (!*path || *path == '<') {
		f->missing = "it is no file";
		return 0;
	}
	fd = open_as_user(path, &f->missing);
	return fd < 0 ? 0 : load(f, fd, start_unix_ns);
}
