// SPDX-License-Identifier: Apache-2.0
/* Whom the kernel lets trace a process without a privilege: __ptrace_may_access() and Yama, told from outside. */
#include "inline/permit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/where.h"
#include "inline/engine_priv.h"
#include "proc/file.h"

#define STATUS_BYTES 16384

static bool has_capabilities(const char *status)
{
	const char *at = strstr(status, "\nCapPrm:");

	return at && strtoull(at + strlen("\nCapPrm:"), NULL, 16);
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
	return has_capabilities(status) ? "it has capabilities that its user has not" : NULL;
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
		why ? why : "ptrace is not permitted");
	err_hint(e, "the inline engine needs what ptrace needs: a process of your own, or root");
	return -PYE_EPRIV;
}
