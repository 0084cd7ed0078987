// SPDX-License-Identifier: Apache-2.0
#include "cmd/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/text.h"

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

int input_explain(const char *path, struct err *e)
{
	const struct err inner = *e;

	return err_set(e, -PYE_EFORMAT, "%.200s: %s",
		       strcmp(path, "-") != 0 ? path : "standard input", inner.what);
}
