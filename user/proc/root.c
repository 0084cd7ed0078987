// SPDX-License-Identifier: Apache-2.0
#include "proc/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/cleanup.h"
#include "proc/file.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

int proc_root__open(pid_t pid, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	auto_close int root = -1;
	char root_path[32];
	int fd;

	snprintf(root_path, sizeof(root_path), "/proc/%d/root", pid);
	root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return proc_gone(-errno);
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? -EACCES : -ENOENT;
	return fd;
}
