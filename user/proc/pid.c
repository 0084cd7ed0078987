// SPDX-License-Identifier: Apache-2.0
#include "proc/pid.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/file.h"

#define START_TICKS 22 /* of stat(5) */

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* <linux/nsfs.h>, from Linux 6.12 on: our number of a process -> that in a pid namespace */
#define NSFS_GET_TGID_IN_PIDNS _IOR(0xb7, 0x9, int)

/* A process does not appear in a /proc of a namespace below its own, and then there is no /proc/self
 * to ask. The namespace itself is at hand, though: it is that of the first process in there. */
static int pid_by_namespace(int pidfd, pid_t given)
{
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };
	auto_close int fd = open("/proc/1/ns/pid", O_RDONLY | O_CLOEXEC);
	int pid;

	if (fd < 0)
		return errno == EACCES ? -EACCES : -ENOENT;
	pid = ioctl(fd, NSFS_GET_TGID_IN_PIDNS, given);
	if (pid < 0)
		return poll(&ended, 1, 0) > 0 ? -ESRCH : -EXDEV;
	return pid;
}

int proc_pid_shown(int fd, pid_t given)
{
	auto_fclose FILE *f = NULL;
	char path[64], line[128];
	long pid;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f && err_is_shortage(errno))
		return -errno;
	if (!f)
		return pid_by_namespace(fd, given);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "Pid:", 4) != 0)
			continue;
		pid = strtol(line + 4, NULL, 10);
		if (pid == 0)
			return -EXDEV;
		return pid < 0 ? -ESRCH : (int)pid;
	}
	return -EXDEV;
}

bool proc_pid_is_ours(void)
{
	char self[32] = "";
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	return n > 0 && strtol(self, NULL, 10) == getpid();
}

int proc_stat_number(const char *text, int field, uint64_t *out)
{
	const char *at = strrchr(text, ')'); /* behind the name, which may hold anything */
	char *end;

	for (int i = 2; at && i < field; i++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -EINVAL;
	errno = 0;
	*out = strtoull(at + 1, &end, 10);
	return end == at + 1 || errno ? -EINVAL : 0;
}

int proc_start_ticks(pid_t pid, uint64_t *ticks)
{
	auto_free char *text = NULL;
	size_t len;
	int err = proc_file__read(pid, "stat", 4096, &text, &len);

	return err < 0 ? err : proc_stat_number(text, START_TICKS, ticks);
}

static int refuse_open(pid_t given, int err, struct err *e)
{
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/status", given);
	f = proc_pid_is_ours() ? fopen(name, "re") : NULL;
	if (f) {
		char line[256];
		long group = 0;

		while (fgets(line, sizeof(line), f))
			if (strncmp(line, "Tgid:", 5) == 0)
				group = strtol(line + 5, NULL, 10);
		fclose(f);
		if (group && group != given)
			return err_set(e, -PYE_ETARGET, "%d is a thread of process %ld; give %ld",
				       given, group, group);
	}
	if (err == -ESRCH || err == -EINVAL || err == -ENOENT)
		return err_set(e, -PYE_ETARGET, "there is no process %d", given);
	return err_set(e, err, "cannot open process %d: %s", given, err_str(err));
}

static int refuse_shown(pid_t given, int err, struct err *e)
{
	if (err_is_shortage(-err))
		return err_set(e, err, "cannot look at process %d: %s", given, err_str(err));
	switch (err) {
	case -ESRCH:
		return err_set(e, -PYE_ETARGET, "process %d has ended", given);
	case -EXDEV:
		err_set(e, 0,
			"process %d has no number in /proc: it was mounted for another pid namespace",
			given);
		break;
	case -EACCES:
		return err_set(
			e, -PYE_EPRIV,
			"/proc belongs to another pid namespace, which may not be looked at");
	default:
		err_set(e, 0, "/proc is not mounted, or belongs to another pid namespace");
	}
	err_hint(e, "mount -t proc proc /proc (in a mount namespace of your own)");
	return -PYE_EKERNEL;
}

int proc_pid__open(pid_t given, struct proc_pid *out, struct err *e)
{
	auto_close int fd = given > 0 ? (int)syscall(SYS_pidfd_open, given, 0) : -1;
	uint64_t ticks;
	int pid, err;

	if (fd < 0)
		return refuse_open(given, given > 0 ? -errno : -ESRCH, e);
	pid = proc_pid_shown(fd, given);
	if (pid < 0)
		return refuse_shown(given, pid, e);
	err = proc_start_ticks(pid, &ticks);
	/* The number was read from the pidfd, so if the process still runs now, @pid meant it. */
	if (err == -ESRCH || proc_pid_shown(fd, given) != pid)
		return refuse_shown(given, -ESRCH, e);
	if (err)
		return err_set(e, err, "cannot read /proc/%d/stat: %s", pid, err_str(err));
	*out = (struct proc_pid){ .given = given, .pid = pid, .start_ticks = ticks };
	out->fd = take_fd(&fd);
	return 0;
}

void proc_pid__close(struct proc_pid *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

bool proc_pid__alive(const struct proc_pid *p)
{
	struct pollfd poll_fd = { .fd = p->fd, .events = POLLIN };

	/* while it lives nobody else has its number; to read its stat takes 60 us where there are 1,000 threads */
	return p->fd >= 0 && poll(&poll_fd, 1, 0) == 0;
}

int proc_pid_take_fd(pid_t pid, int fd)
{
	auto_close int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	return pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
}
