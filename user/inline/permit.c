// SPDX-License-Identifier: Apache-2.0
/* What a process must be like, and whom the kernel lets trace it without a privilege: __ptrace_may_access() and Yama, told from
 * outside. */
#include "inline/permit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/where.h"
#include "inline/engine_priv.h"
#include "inline/remote.h"
#include "proc/file.h"
#include "proc/info.h"
#include "proc/maps.h"
#include "proc/threads.h"

#define STATUS_BYTES 16384

long inline_status_number(pid_t pid, const char *field)
{
	char path[40], line[256];
	auto_fclose FILE *f = NULL;
	size_t n = strlen(field);

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, field, n) && line[n] == ':')
			return strtol(line + n + 1, NULL, 10);
	return 0;
}

pid_t inline_process_of(pid_t tid)
{
	long pid = inline_status_number(tid, "Tgid");

	return pid > 0 ? (pid_t)pid : 0;
}

bool inline_is_traced(pid_t tid)
{
	return inline_status_number(tid, "TracerPid") == gettid();
}

/* As remote__open() sees it, but shared: who comes just then is not kept out for good. */
bool inline_is_busy(pid_t pid)
{
	auto_close int mem = inline_open_memory(pid, O_RDONLY);

	return mem >= 0 && flock(mem, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}

/* It can be one thread's. */
static bool has_filter(pid_t pid)
{
	auto_fn(threads__closep) DIR *threads = threads__open(pid);
	pid_t tid;

	while ((tid = threads__next(threads)))
		if (inline_status_number(tid, "Seccomp") > 0)
			return true;
	return false;
}

const char *inline_unfit(pid_t pid, bool held)
{
	struct proc_info info;
	int err = proc_info__read(pid, &info);
	long filter = inline_status_number(pid, "Seccomp");
	long tracer = inline_status_number(pid, "TracerPid");

	if (err)
		return err == -ESRCH || err == -ENOENT ? "it is gone" : err_str(err);
	if (info.own_pid != pid)
		return "it lives in another pid namespace";
	held |= tracer == gettid(); /* it is followed */
	if (!held && info.state == 'T')
		return "it is stopped";
	if (remote__is_frozen(pid, pid, 0))
		return "it is frozen (by the freezer of its cgroup)";
	if (!held && (tracer > 0 || info.state == 't')) /* that may have left since */
		return "another tracer is attached to it";
	if (filter < 0)
		return "its status cannot be read";
	if (filter || has_filter(pid))
		return "it has a seccomp filter, or one of its threads has, which may kill it for a "
		       "system call that it does not make itself";
	return NULL;
}

bool inline_is_elsewhere(pid_t pid, const struct interp *in)
{
	auto_fn(maps__done) struct maps maps = { 0 };
	const struct mapping *m;

	if (maps__read(pid, &maps) || !maps.cnt)
		return false;
	m = maps__find(&maps, in->start);
	return !m || m->ino != in->ino;
}

static bool has_capabilities(const char *status)
{
	const char *at = strstr(status, "\nCapPrm:");

	return at && strtoull(at + strlen("\nCapPrm:"), NULL, 16);
}

/* In a user namespace that its user has made it has them from that user, who may do more. */
static bool is_in_own_namespace(pid_t pid, long long uid)
{
	struct stat ours, its;
	uid_t owner;
	char path[40];
	auto_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && !fstat(fd, &its) && !stat("/proc/self/ns/user", &ours) &&
	       (its.st_ino != ours.st_ino || its.st_dev != ours.st_dev) &&
	       !ioctl(fd, NS_GET_OWNER_UID, &owner) && owner == uid;
}

/* The group that a user has without newgrp(1) and the like; -1: not known. */
static long long usual_group(long long uid)
{
	const struct passwd *pw;

	if (uid == (long long)geteuid())
		return getegid();
	pw = getpwuid((uid_t)uid);
	return pw ? (long long)pw->pw_gid : -1;
}

static const char *which_group(const char *status, long long uid)
{
	long long gid[3] = { 0 }, usual;

	for (int i = 0; i < 3; i++)
		if (proc_file__field(status, "Gid", i, &gid[i]))
			return "its group is not known";
	if (gid[0] != gid[1] || gid[1] != gid[2])
		return "it runs with the rights of more than one group";
	usual = usual_group(uid);
	return usual >= 0 && usual != gid[0] ? "its group is not that of its user" : NULL;
}

/* Its files in /proc are root's then. */
static bool is_closed(pid_t pid, long long uid)
{
	struct stat st;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return stat(path, &st) || (long long)st.st_uid != uid;
}

static const char *who_is_it(pid_t pid, const char *status)
{
	long long uid[3] = { 0 };

	for (int i = 0; i < 3; i++)
		if (proc_file__field(status, "Uid", i, &uid[i]))
			return "its user is not known";
	if (uid[0] != uid[1] || uid[1] != uid[2])
		return "it runs with the rights of more than one user";
	if (!uid[0])
		return NULL;
	if (is_closed(pid, uid[0]))
		return "its memory is closed to its own user";
	if (is_in_own_namespace(pid, uid[0]))
		return NULL;
	if (has_capabilities(status))
		return "it has capabilities that its user has not";
	return which_group(status, uid[0]);
}

const char *inline__owner_barred(pid_t pid)
{
	auto_free char *status = NULL;
	const char *why = inline_unfit(pid, false);
	size_t len;
	int scope;

	if (why)
		return why;
	if (proc_file__read(pid, "status", STATUS_BYTES, &status, &len))
		return "it is gone";
	why = who_is_it(pid, status);
	if (why)
		return why;
	if (where_rule("kernel.yama.ptrace_scope", &scope) && scope > 0)
		return "kernel.yama.ptrace_scope forbids it";
	return NULL;
}

int inline_bar(struct err *e, pid_t pid, const char *what)
{
	auto_free char *status = NULL;
	long long uid = -1;
	const char *why;
	size_t len;

	if (!proc_file__read(pid, "status", STATUS_BYTES, &status, &len))
		proc_file__field(status, "Uid", 0, &uid);
	why = uid == (long long)geteuid() ? inline__owner_barred(pid) : "it is another user's";
	err_set(e, -PYE_EPRIV, "process %d may not be %s: %s", pid, what,
		why ? why
		    : "the kernel forbids it: another tracer was at it a moment ago, or a security "
		      "module decides so");
	if (geteuid() && !inline_unfit(pid, false)) /* else whose it is changes nothing */
		err_hint(
			e,
			"the inline engine needs what ptrace needs: a process of your own, or root");
	return -PYE_EPRIV;
}
