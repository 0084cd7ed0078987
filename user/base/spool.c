// SPDX-License-Identifier: Apache-2.0
#include "base/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/memfile.h"

enum {
	PIECE_BYTES = 64 << 10
};

static int open_copy(void)
{
	const char *dir = geteuid() ? secure_getenv("TMPDIR")
				    : NULL; /* root may have it of another user */
	int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = memfile_open("pyebpf-copy");
	return fd < 0 ? -errno : fd;
}

static int copy_piece(int to, const uint8_t *data, size_t len)
{
	while (len) {
		ssize_t n = write(to, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

int spool_copy(int fd)
{
	auto_free uint8_t *buf = malloc(PIECE_BYTES);
	auto_close int to = open_copy();
	int err;

	if (!buf)
		return -ENOMEM;
	if (to < 0)
		return to;
	for (;;) {
		ssize_t n = read(fd, buf, PIECE_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return take_fd(&to);
		err = copy_piece(to, buf, (size_t)n);
		if (err)
			return err;
	}
}
