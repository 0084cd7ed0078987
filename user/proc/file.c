// SPDX-License-Identifier: Apache-2.0
#include "proc/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int proc_gone(int err)
{
	return err == -ENOENT || err == -ENOTDIR ? -ESRCH : err;
}

static int grow(char **buf, size_t *size, size_t cap)
{
	size_t wanted = *size ? *size * 2 : 4096;
	char *bigger;

	if (wanted > cap + 1)
		wanted = cap + 1;
	bigger = realloc(*buf, wanted);
	if (!bigger)
		return -ENOMEM;
	*buf = bigger;
	*size = wanted;
	return 0;
}

/* Bytes read, up to @cap; one more is tried for, to tell whether that was all. */
static int read_all(int fd, size_t cap, char **buf, size_t *len)
{
	size_t size = 0;
	char extra;
	ssize_t n;
	int err;

	*len = 0;
	err = grow(buf, &size, cap);
	if (err)
		return err;
	for (;;) {
		if (*len + 1 >= size && *len < cap) {
			err = grow(buf, &size, cap);
			if (err)
				return err;
		}
		n = *len < cap ? read(fd, *buf + *len, size - 1 - *len) : read(fd, &extra, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0 || *len == cap)
			break;
		*len += (size_t)n;
	}
	(*buf)[*len] = '\0';
	return n > 0;
}

int proc_file__read(pid_t pid, const char *name, size_t cap, char **out, size_t *len)
{
	char path[96];

	if ((size_t)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name) >= sizeof(path))
		return -ENAMETOOLONG;
	return proc_read(path, cap, out, len);
}

int proc_read(const char *path, size_t cap, char **out, size_t *len)
{
	auto_free char *buf = NULL;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err;

	if (fd < 0)
		return proc_gone(-errno);
	err = read_all(fd, cap, &buf, len);
	if (err < 0)
		return err;
	*out = take_ptr(buf);
	return err;
}

static const char *find_line(const char *text, const char *name)
{
	size_t n = strlen(name);

	while (text) {
		if (strncmp(text, name, n) == 0 && text[n] == ':')
			return text + n + 1;
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return NULL;
}

int proc_file__field(const char *text, const char *name, int index, long long *out)
{
	const char *at = find_line(text, name);
	bool found = false;

	for (int i = 0; at && (index < 0 || i <= index); i++) {
		long long value;
		char *end;

		at += strspn(at, " \t");
		errno = 0;
		value = strtoll(at, &end, 10);
		if (end == at || errno || *at == '\n')
			break;
		found = index < 0 || i == index;
		*out = value;
		at = end;
	}
	return found ? 0 : -ENOENT;
}
