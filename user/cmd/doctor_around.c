// SPDX-License-Identifier: Apache-2.0
/* Where pyebpf runs and who else is at work there. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/doctor_check.h"
#include "inline/engine.h"
#include "proc/info.h"
#include "proc/pid.h"
#include "proc/tracers.h"

#define GROUP	    "surroundings"
#define TRACERS_MAX 8
#define STUBS_MAX   4 /* processes that are named */

static const char *host_pids(enum where where)
{
	switch (where) {
	case WHERE_KUBERNETES:
		return "in the pod: hostPID: true";
	case WHERE_DOCKER:
		return "start the container so: docker run --pid=host ...";
	case WHERE_PODMAN:
		return "start the container so: podman run --pid=host ...";
	case WHERE_CONTAINER:
	case WHERE_HOST:
		break;
	}
	return "run pyebpf outside of that namespace";
}

void checkup__place(struct checkup *c)
{
	struct check *check;

	checkup__add(c, GROUP, "where", CHECK_NOTE, "%s", where_name(c->where));
	if (where_user_ns())
		checkup__add(
			c, GROUP, "user_namespace", CHECK_NOTE,
			"not the machine's: its capabilities count for nothing that BPF needs");
	if (where_pid_ns()) {
		check = checkup__add(
			c, GROUP, "pid_namespace", CHECK_NOTE,
			"not the machine's: only processes of this namespace are seen");
		check_fix(check, "to see all processes, %s", host_pids(c->where));
	} else {
		checkup__add(c, GROUP, "pid_namespace", CHECK_OK,
			     "the machine's: all processes are seen");
	}
	if (proc_pid_is_ours())
		return;
	check = checkup__add(c, GROUP, "proc", CHECK_LIMITED,
			     "/proc is not there or of another pid namespace than this process");
	check_fix(check, "mount -t proc proc /proc, in a mount namespace of its own");
}

/* Probes that a program left in here outlive it; ours never go this way. */
static unsigned int left_probes(const char *path)
{
	auto_fclose FILE *f = fopen(path, "re");
	unsigned int cnt = 0;
	int ch;

	while (f && (ch = fgetc(f)) != EOF)
		cnt += ch == '\n';
	return cnt;
}

static void check_tracefs(struct checkup *c)
{
	static const char *const roots[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

	for (size_t i = 0; i < 2; i++) {
		bool read_only = false;
		struct statvfs fs;
		char path[64];
		unsigned int left;

		snprintf(path, sizeof(path), "%s/uprobe_events", roots[i]);
		if (access(path, F_OK))
			continue;
		left = left_probes(path);
		if (statvfs(path, &fs) == 0)
			read_only = fs.f_flag & ST_RDONLY;
		if (left)
			checkup__add(c, GROUP, "tracefs", CHECK_NOTE,
				     "%s: %u uprobes of other programs lie in uprobe_events",
				     roots[i], left);
		else
			checkup__add(c, GROUP, "tracefs", CHECK_OK, "%s%s (not needed)", roots[i],
				     read_only ? ", read-only" : "");
		return;
	}
	checkup__add(c, GROUP, "tracefs", CHECK_NOTE, "not to be seen here, and not needed");
}

static void check_memlock(struct checkup *c)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		checkup__add(c, GROUP, "memlock", CHECK_OK, "unlimited");
	else
		checkup__add(c, GROUP, "memlock", CHECK_NOTE,
			     "%" PRIu64 " kB; only kernels before 5.11 count maps against it",
			     (uint64_t)limit.rlim_cur / 1024);
}

static void check_tracers(struct checkup *c)
{
	struct tracer found[TRACERS_MAX];
	unsigned int hidden;
	int cnt = tracers__find(found, TRACERS_MAX, &hidden);
	size_t shown = cnt < 0 ? 0 : cnt < TRACERS_MAX ? (size_t)cnt : TRACERS_MAX;

	for (size_t i = 0; i < shown; i++)
		checkup__add(c, GROUP, "tracer", CHECK_NOTE,
			     "PID %d (%s) is at work: %u links of uprobes, %u of other probes, "
			     "%u perf events",
			     found[i].pid, found[i].comm, found[i].uprobes, found[i].links,
			     found[i].events);
	if (cnt > TRACERS_MAX)
		checkup__add(c, GROUP, "tracers", CHECK_NOTE, "and %d more", cnt - TRACERS_MAX);
	else if (cnt <= 0)
		checkup__add(
			c, GROUP, "tracers", hidden ? CHECK_NOTE : CHECK_OK,
			hidden ? "no other one that can be seen; %u processes may not be looked "
				 "at"
			       : "no other one at work",
			hidden);
}

/* Stubs of an inline engine that was killed: the one thing of pyebpf's that can stay behind. */
static void check_stubs(struct checkup *c)
{
	auto_free pid_t *pids = NULL;
	unsigned int left = 0;
	size_t cnt = 0;
	bool has_reader;

	if (proc_pids(&pids, &cnt))
		return;
	for (size_t i = 0; i < cnt; i++) {
		struct check *check;

		if (!inline__is_left(pids[i], &has_reader) || has_reader || left++ >= STUBS_MAX)
			continue;
		check = checkup__add(c, GROUP, "stubs", CHECK_NOTE,
				     "PID %d has stubs of an inline engine that was killed: it "
				     "runs on, a little slower",
				     pids[i]);
		check_fix(check, "to take them out: pyebpf detach %d", pids[i]);
	}
	if (!left)
		checkup__add(c, GROUP, "stubs", CHECK_OK,
			     "no inline engine that was killed has left any");
	else if (left > STUBS_MAX)
		checkup__add(c, GROUP, "stubs", CHECK_NOTE, "and %u more processes",
			     left - STUBS_MAX);
}

void checkup__around(struct checkup *c)
{
	checkup__place(c);
	check_tracefs(c);
	check_memlock(c);
	check_tracers(c);
	check_stubs(c);
}
