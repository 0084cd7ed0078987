// SPDX-License-Identifier: Apache-2.0
#include "cmd/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/spool.h"
#include "base/text.h"
#include "decode/decode.h"
#include "import/import.h"

/* clang-format off */
const struct opt_row input_rows[] = {
	{ 0, "count-time", "TIME", OPT_DURATION, offsetof(struct input_opts, count_ns), "10ms",
	  "what one sample stands for where an input only counts samples", false, NULL },
	{ 0 },
};
/* clang-format on */

int input_open(const char *path, struct err *e)
{
	auto_close int fd = -1;
	char shown[512];
	struct stat st;

	fd = strcmp(path, "-") != 0 ? open(path, O_RDONLY | O_CLOEXEC)
				    : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && !fstat(fd, &st)) {
		if (!S_ISDIR(st.st_mode))
			return take_fd(&fd);
		errno = EISDIR;
	}
	text_escape(shown, sizeof(shown), path, strlen(path));
	return err_set(e, errno == EACCES ? -EACCES : -PYE_EFORMAT, "cannot read %s: %s", shown,
		       err_str(-errno));
}

/* A pipe is copied first: what is in it shows only at its beginning. */
static int seekable(int fd, int *copy)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISREG(st.st_mode))
		return fd;
	*copy = spool_copy(fd);
	return *copy < 0 || lseek(*copy, 0, SEEK_SET) == 0 ? *copy : -errno;
}

int input_read(int fd, const struct input_opts *opts, const struct trace_consumer *consumer,
	       void *self, struct err *e)
{
	const struct import_opts import_opts = { .count_ns = opts ? opts->count_ns : 0 };
	auto_close int copy = -1;

	fd = seekable(fd, &copy);
	if (fd < 0)
		return fd;
	return decode_is_capture(fd) ? decode_file(fd, consumer, self, e)
				     : import_file(fd, &import_opts, consumer, self, e);
}

int input_explain(const char *path, struct err *e)
{
	const struct err inner = *e;

	return err_set(e, -PYE_EFORMAT, "%.200s: %s",
		       strcmp(path, "-") != 0 ? path : "standard input", inner.what);
}
