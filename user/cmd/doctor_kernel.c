// SPDX-License-Identifier: Apache-2.0
/* Features of the kernel. A refusal has several causes; which one it is decides what to do. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/sandbox.h"
#include "capture/bpf_load.h"
#include "capture/feature.h"
#include "cmd/doctor_check.h"

#define GROUP	   "kernel"
#define RING_BYTES ((size_t)4 << 20)

/* One feature. */
struct trial {
	const char *name;
	int (*run)(void);
	uint64_t caps; /* that it takes */
	uint64_t caps_access; /* and these, where it is refused with EACCES to who has them: a distribution's own rule */
	bool needed; /* else there is another way, or it is for `record` alone */
	const char *good, *bad;
	const char *since; /* what has it */
};

/* clang-format off */
static const struct trial trials[] = {
	{ "bpf", feature_try_map, CAPS_BPF, 0, true,
	  "bpf() makes maps", "bpf() does not work", "a kernel with CONFIG_BPF_SYSCALL" },
	{ "btf", feature_try_btf, 0, 0, true,
	  "the kernel describes its types (/sys/kernel/btf/vmlinux)",
	  "the kernel does not describe its types: /sys/kernel/btf/vmlinux cannot be read",
	  "a kernel with CONFIG_DEBUG_INFO_BTF, and /sys mounted" },
	{ "ring_buffer", feature_try_ring, CAPS_BPF, 0, true,
	  "ring buffers", "no ring buffers", "Linux 5.8 or later" },
	{ "task_storage", feature_try_task_storage, CAPS_BPF, 0, true,
	  "data of programs that belongs to a task", "no data that belongs to a task",
	  "Linux 5.11 or later" },
	{ "trace_points", feature_try_trace_point, CAPS_BPF, 0, true,
	  "programs at fork, exec and exit", "no programs at fork, exec and exit",
	  "Linux 5.5 or later with BTF" },
	{ "sleepable", feature_try_sleepable, CAPS_BPF, 0, false,
	  "probes that can fault pages in", "probes cannot fault pages in: a name that is not in "
	  "memory at its first use is not known", "Linux 6.0 or later" },
	{ "perf_events", feature_try_perf, CAPS(CAP_PERFMON), CAPS(CAP_SYS_ADMIN), false,
	  "sampling events for whole CPUs", "no sampling events for whole CPUs: record needs them",
	  "a kernel with CONFIG_PERF_EVENTS" },
};
/* clang-format on */

static void answer(int fd, const void *arg, void *out)
{
	char first;

	(void)arg;
	*(char *)out = pread(fd, &first, 1, 0) == 1 ? first : 0;
}

/* Files of targets are read in one only. */
static void try_sandbox(struct checkup *c)
{
	auto_close int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct check *check;
	struct err e = { 0 };
	char first = 0;
	int err = fd < 0 ? -errno : sandbox_run(answer, fd, NULL, &first, 1, &sandbox_usual, &e);

	if (!err && first == 0x7f) {
		checkup__add(c, GROUP, "sandbox", CHECK_OK,
			     "a process without privileges in which files of targets are read");
		return;
	}
	check = checkup__add(c, GROUP, "sandbox", CHECK_MISSING,
			     "no sandbox in which files of targets can be read (%s)",
			     e.what[0] ? e.what : err_str(err));
	check->cause = -PYE_EKERNEL;
	check_fix(check, "a kernel with CONFIG_SECCOMP_FILTER, and no filter of a container that "
			 "forbids prctl(), capset() or setresuid()");
}

static bool is_filtered(void)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
}

static void fix_filter(const struct checkup *c, struct check *check)
{
	switch (c->where) {
	case WHERE_KUBERNETES:
		check_fix(check,
			  "in the pod: securityContext: {seccompProfile: {type: Unconfined}}");
		return;
	case WHERE_DOCKER:
	case WHERE_PODMAN:
		check_fix(check,
			  "start the container so: %s run --security-opt seccomp=unconfined ...",
			  c->where == WHERE_DOCKER ? "docker" : "podman");
		return;
	case WHERE_CONTAINER:
	case WHERE_HOST:
		break;
	}
	check_fix(check, "start pyebpf outside of the sandbox or service whose seccomp filter this "
			 "is (systemd: SystemCallFilter=bpf perf_event_open)");
}

/* EPERM and ENOSYS can come from a filter; EACCES and EPERM for want of a capability. */
static void explain(const struct checkup *c, struct check *check, int err, uint64_t caps,
		    const char *since)
{
	bool forbidden = err == -EPERM || err == -EACCES;
	uint64_t missing = forbidden ? caps_missing(caps) : 0;
	size_t used = strlen(check->text);
	char *more = check->text + used, names[160];
	size_t room = sizeof(check->text) - used;

	check->cause = -PYE_EPRIV;
	if (missing) {
		snprintf(more, room, " (%s)", caps_text(names, sizeof(names), missing));
		caps_ways(check->fix, sizeof(check->fix), missing);
	} else if ((err == -EPERM || err == -ENOSYS) && is_filtered()) {
		snprintf(more, room, " (no capability is missing: the seccomp filter forbids it)");
		fix_filter(c, check);
	} else if (err == -EPERM) {
		snprintf(more, room,
			 " (no capability is missing: a security module or lockdown forbids it)");
		check_fix(check, "see /sys/kernel/security/lsm, /sys/kernel/security/lockdown and "
				 "the kernel's log");
	} else {
		check->cause = -PYE_EKERNEL;
		snprintf(more, room, " (%s)", err_str(err));
		check_fix(check, "%s", since);
	}
}

static void try_one(struct checkup *c, const struct trial *trial)
{
	int err = trial->run();
	struct check *check;

	if (!err) {
		checkup__add(c, GROUP, trial->name, CHECK_OK, "%s", trial->good);
		return;
	}
	check = checkup__add(c, GROUP, trial->name, trial->needed ? CHECK_MISSING : CHECK_LIMITED,
			     "%s", trial->bad);
	explain(c, check, err,
		err == -EACCES && !caps_missing(trial->caps) ? trial->caps_access : trial->caps,
		trial->since);
}

/* Either kind of probe does; the newer one is quick to place and to take out. */
static void try_uprobes(struct checkup *c)
{
	bool per_process;
	int multi = feature_try_multi(&per_process), classic = feature_try_classic();
	struct check *check;

	if (!multi && per_process) {
		checkup__add(c, GROUP, "uprobe_multi", CHECK_OK,
			     "many uprobes in one link, for one process with all its threads");
	} else if (!multi) {
		check = checkup__add(c, GROUP, "uprobe_multi", CHECK_LIMITED,
				     "many uprobes in one link, but the filter by process compares "
				     "threads: other processes of the same interpreter would pay");
		check_fix(check, "Linux 6.11 or later");
	} else {
		check = checkup__add(c, GROUP, "uprobe_multi",
				     classic ? CHECK_MISSING : CHECK_LIMITED,
				     "no links of many uprobes");
		explain(c, check, multi, CAPS_BPF, "Linux 6.6 or later");
	}
	if (!classic) {
		checkup__add(c, GROUP, "uprobe_classic", CHECK_OK, "uprobes of the old way%s",
			     multi ? "" : ", not used here");
		return;
	}
	if (multi == -EPERM || multi == -EACCES) {
		checkup__add(c, GROUP, "uprobe_classic", CHECK_UNTRIED,
			     "uprobes of the old way: they would not take fewer privileges");
		return;
	}
	check = checkup__add(c, GROUP, "uprobe_classic", multi ? CHECK_MISSING : CHECK_NOTE,
			     "no uprobes of the old way%s",
			     multi ? "" : ", which are not needed here");
	if (multi)
		explain(c, check, classic, CAPS(CAP_SYS_ADMIN),
			"a kernel with CONFIG_UPROBE_EVENTS");
}

/* All of the above may work and the verifier still not like what we have. */
static void load_programs(struct checkup *c)
{
	struct bpf_load_opts opts = { .ring_bytes = RING_BYTES,
				      .launch = true,
				      .families = BPF_ALL };
	struct bpf_loaded bpf;
	struct check *check;
	struct err e = { 0 };
	int err;

	if (checkup__err(c)) {
		checkup__add(c, GROUP, "programs", CHECK_UNTRIED,
			     "pyebpf's own BPF programs, before the rest works");
		return;
	}
	err = bpf_load(&bpf, &opts, &e);
	if (!err) {
		bpf_unload(&bpf);
		checkup__add(c, GROUP, "programs", CHECK_OK,
			     "the kernel takes pyebpf's BPF programs");
		return;
	}
	check = checkup__add(c, GROUP, "programs", CHECK_MISSING, "%s", e.what);
	check->cause = err == -PYE_EPRIV ? err : -PYE_EKERNEL;
	check_fix(check, "%s", e.hint);
}

void checkup__kernel(struct checkup *c)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	struct utsname u = { 0 };

	uname(&u);
	checkup__add(c, GROUP, "version", CHECK_NOTE, "%s %s on %s", u.sysname, u.release,
		     u.machine);
	if (strcmp(u.machine, "x86_64") != 0) {
		struct check *check = checkup__add(c, GROUP, "machine", CHECK_MISSING,
						   "only x86-64 is known to trace");

		check->cause = -PYE_EKERNEL;
	}
	bpf_be_quiet();
	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* as before a trace */
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
		try_one(c, &trials[i]);
	try_uprobes(c);
	try_sandbox(c);
	load_programs(c);
}
