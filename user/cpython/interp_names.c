// SPDX-License-Identifier: Apache-2.0
#include "cpython/interp_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/text.h"
#include "cpython/interp.h"
#include "proc/info.h"

#define KTHREADD 2 /* which makes all kernel threads */
/* Descendants that are looked at; a process with more of them is told the first Python ones. */
#define DESCENDANTS_MAX 256
#define NAMED_MAX	8

void interp_show_path(const char *path, char *out, size_t size)
{
	size_t len = strlen(path), keep = (size - 4) / 2;
	char head[4096];

	if (len < size) {
		text_escape(out, size, path, len);
		return;
	}
	text_escape(head, sizeof(head) < keep ? sizeof(head) : keep, path, keep);
	snprintf(out, size, "%s...", head);
	text_escape(out + strlen(out), size - strlen(out), path + len - keep / 2, keep / 2);
}

int interp_refuse_gone(pid_t pid, struct err *e)
{
	struct proc_info info;

	if (!proc_info__read(pid, &info) && !info.exe_err && !strchr("ZX", info.state))
		return err_set(e, -PYE_ETARGET,
			       "PID %d has executed another program while it was looked at", pid);
	return err_set(e, -PYE_ETARGET, "there is no process %d (any more)", pid);
}

int interp_refuse_access(pid_t pid, int err, struct err *e)
{
	uint64_t missing = caps_missing(CAPS(CAP_SYS_PTRACE));
	struct proc_info info = { 0 };
	char text[160];

	if (err == -ESRCH) /* what has no address space says so too: kernel threads, zombies */
		return interp_refuse_other(pid, e);
	if (err != -EACCES && err != -EPERM)
		return err_set(e, err, "cannot look at PID %d: %s", pid, err_str(err));
	proc_info__read(pid, &info);
	err_set(e, 0, "PID %d may not be looked at: it belongs to user %u, and %s", pid, info.uid,
		missing ? caps_text(text, sizeof(text), missing)
			: "a security module or a user namespace forbids it");
	if (missing)
		caps_advise(e, missing);
	return -PYE_EPRIV;
}

int interp_refuse_unopened(pid_t pid, int open_err, struct err *e)
{
	if (open_err == -EACCES || open_err == -EPERM) {
		uint64_t missing = caps_missing(CAPS_PROC);
		char text[160];

		err_set(e, 0, "the files that PID %d maps may not be opened: %s", pid,
			missing ? caps_text(text, sizeof(text), missing)
				: "a security module or a user namespace forbids it");
		if (missing)
			caps_advise(e, missing);
		return -PYE_EPRIV;
	}
	if (err_is_shortage(-open_err))
		return err_set(e, open_err, "the files that PID %d maps cannot be opened: %s", pid,
			       err_str(open_err));
	err_set(e, 0,
		"the files that PID %d maps are not there any more, so nothing can be said of it",
		pid);
	err_hint(e,
		 "restart the program, or run pyebpf as root: then it can open deleted files too");
	return -PYE_EPLAN;
}

int interp_refuse_other(pid_t pid, struct err *e)
{
	struct proc_info info;
	char comm[128], exe[256];
	int err;

	err = proc_info__read(pid, &info);
	if (err || info.state == 'X')
		return interp_refuse_gone(pid, e);
	text_escape(comm, sizeof(comm), info.comm, strlen(info.comm));
	if (info.state == 'Z' && info.threads > 1)
		return err_set(e, -PYE_ETARGET,
			       "the main thread of PID %d (%s) has ended, and through it alone its "
			       "memory is found",
			       pid, comm);
	if (info.state == 'Z')
		return err_set(e, -PYE_ETARGET,
			       "PID %d (%s) has ended and waits for its parent (zombie)", pid,
			       comm);
	if (info.exe_err == -ENOENT && info.pid != KTHREADD && info.parent != KTHREADD)
		return err_set(e, -PYE_ETARGET, "PID %d (%s) ends: its memory is gone already", pid,
			       comm);
	if (info.exe_err == -ENOENT)
		return err_set(e, -PYE_ENOTPYTHON, "PID %d is the kernel thread %s, not Python",
			       pid, comm);
	interp_show_path(info.exe, exe, sizeof(exe));
	err_set(e, 0, "PID %d is %s (%s), not Python", pid, comm, exe);
	err_hint(e, "pyebpf list shows every Python process");
	return -PYE_ENOTPYTHON;
}

void interp_hint_children(pid_t pid, const char *engine, struct interp_cache *cache, struct err *e)
{
	pid_t pids[DESCENDANTS_MAX];
	int cnt = proc_descendants(pid, pids, DESCENDANTS_MAX), named = 0;
	char list[128] = "";

	for (int i = 0; i < cnt && named < NAMED_MAX; i++) {
		struct interp in;
		struct err unused;
		size_t at = strlen(list);
		int err = interp__find_cached(pids[i], engine, cache, &in, &unused);

		if (!err)
			interp__done(&in);
		if (err && err != -PYE_EPLAN && err != -PYE_EVERSION)
			continue;
		snprintf(list + at, sizeof(list) - at, "%s%d", named ? "," : "", pids[i]);
		named++;
	}
	if (named == 1)
		err_hint(e, "its child %s is Python: -p %s", list, list);
	else if (named)
		err_hint(e, "its children %s are Python: -p %s", list, list);
}
