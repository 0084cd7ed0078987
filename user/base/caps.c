// SPDX-License-Identifier: Apache-2.0
#include "base/caps.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/where.h"

/* clang-format off */
static const struct {
	unsigned int number;
	const char *name;
	uint64_t included_in; /* one of these does as well */
	const char *rule;     /* sysctl that asks for it; NULL: it cannot be switched off */
} known[] = {
	{ CAP_BPF, "BPF", CAPS(CAP_SYS_ADMIN), "kernel.unprivileged_bpf_disabled" },
	{ CAP_PERFMON, "PERFMON", CAPS(CAP_SYS_ADMIN), "kernel.perf_event_paranoid" },
	{ CAP_SYS_ADMIN, "SYS_ADMIN", 0, "kernel.perf_event_paranoid" },
	{ CAP_SYS_PTRACE, "SYS_PTRACE", 0, "kernel.yama.ptrace_scope" },
	{ CAP_DAC_READ_SEARCH, "DAC_READ_SEARCH", CAPS(CAP_DAC_OVERRIDE), NULL },
	{ CAP_CHECKPOINT_RESTORE, "CHECKPOINT_RESTORE", CAPS(CAP_SYS_ADMIN), NULL },
	{ CAP_SYS_RESOURCE, "SYS_RESOURCE", 0, NULL },
};
/* clang-format on */

enum {
	KNOWN_CNT = sizeof(known) / sizeof(known[0])
};

struct cap_sets {
	uint64_t effective, permitted;
};

static int get_sets(struct cap_sets *sets)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	if (syscall(SYS_capget, &head, data))
		return -errno;
	sets->effective = (uint64_t)data[1].effective << 32 | data[0].effective;
	sets->permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted;
	return 0;
}

/* What could be inherited is always cleared, which clears the ambient set, too. */
static int set_sets(const struct cap_sets *sets)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)sets->effective, .permitted = (uint32_t)sets->permitted },
		{ .effective = (uint32_t)(sets->effective >> 32),
		  .permitted = (uint32_t)(sets->permitted >> 32) },
	};

	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

static uint64_t effective(void)
{
	struct cap_sets sets = { 0 };

	return get_sets(&sets) ? 0 : sets.effective;
}

/* Needs CAP_SETPCAP; without it no_new_privs does as much. */
static void bound(uint64_t keep)
{
	for (unsigned long i = 0; i < 64 && prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		if (!(keep & CAPS(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0))
			return;
}

int caps_keep(uint64_t keep, bool test)
{
	struct cap_sets sets = { 0 }, now = { 0 };
	int err = get_sets(&sets);

	if (err)
		return err;
	if (!test) {
		sets.effective = sets.permitted; /* after a test CAP_SETPCAP is not in force */
		set_sets(&sets);
		bound(keep);
	}
	sets.effective = sets.permitted & keep;
	if (!test)
		sets.permitted &= keep;
	err = set_sets(&sets);
	if (!err && !test && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	if (!err)
		err = get_sets(&now);
	if (err)
		return err;
	/* tools have gone on with everything because nobody looked */
	return now.effective == sets.effective && now.permitted == sets.permitted ? 0 : -EPERM;
}

uint64_t caps_missing(uint64_t wanted)
{
	uint64_t have = effective();

	/* a process inside may be looked into with what one has inside */
	if (where_user_ns())
		have &= CAPS_PROC;
	for (unsigned int i = 0; i < KNOWN_CNT; i++)
		if (have & known[i].included_in)
			have |= CAPS(known[i].number);
	return wanted & ~have;
}

/* Appends what fits. */
__attribute__((format(printf, 3, 4))) static void add(char *out, size_t size, const char *fmt, ...)
{
	size_t at = strlen(out);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out + at, size - at, fmt, ap);
	va_end(ap);
}

char *caps_text(char *out, size_t size, uint64_t missing)
{
	int cnt = __builtin_popcountll(missing), named = 0;

	out[0] = '\0';
	for (unsigned int i = 0; i < KNOWN_CNT; i++) {
		if (!(missing & CAPS(known[i].number)))
			continue;
		named++;
		add(out, size, "%sCAP_%s",
		    named == 1	   ? ""
		    : named == cnt ? " and "
				   : ", ",
		    known[i].name);
	}
	add(out, size, cnt == 1 ? " is missing" : " are missing");
	return out;
}

static void add_rules(char *out, size_t size, uint64_t missing)
{
	const char *last = "";
	int value;

	for (unsigned int i = 0; i < KNOWN_CNT; i++) {
		const char *rule = known[i].rule;

		if (!(missing & CAPS(known[i].number)) || !rule || !strcmp(last, rule) ||
		    !where_rule(rule, &value))
			continue;
		add(out, size, "%s%s = %d", *last ? ", " : "the kernel's rules: ", rule, value);
		last = rule;
	}
	if (*last)
		add(out, size, "\n");
}

/* All that trace may ask for: nobody should find them out one by one. */
static char *all_names(char *out, size_t size, uint64_t missing, const char *before,
		       const char *between)
{
	out[0] = '\0';
	missing |= CAPS_BPF | CAPS_PROC;
	for (unsigned int i = 0; i < KNOWN_CNT; i++)
		if (missing & CAPS(known[i].number))
			add(out, size, "%s%s%s", *out ? between : "", before, known[i].name);
	return out;
}

static void lower(char *s)
{
	for (; *s; s++)
		*s = (char)tolower((unsigned char)*s);
}

/* Could this user get it, and all that is named with it? */
static bool within_bounds(uint64_t missing)
{
	missing |= caps_missing(CAPS_BPF | CAPS_PROC);
	for (unsigned int i = 0; i < KNOWN_CNT; i++)
		if (missing & CAPS(known[i].number) &&
		    prctl(PR_CAPBSET_READ, known[i].number, 0, 0, 0) != 1)
			return false;
	return true;
}

/* Whether sudo, which has a path of its own, finds a program in this place: not in a virtual environment. */
static bool sudo_finds(const char *path)
{
	static const char *const folders[] = { "/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/",
					       "/usr/bin/",	   "/sbin/",	      "/bin/" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		size_t len = strlen(folders[i]);

		if (!strncmp(path, folders[i], len) && !strchr(path + len, '/'))
			return true;
	}
	return false;
}

static void ways_of_user(char *out, size_t size, const char *caps)
{
	char path[PATH_MAX], shown[160];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0 || (size_t)n >= sizeof(shown)) {
		add(out, size, "run it as root: sudo pyebpf ...");
		return;
	}
	path[n] = '\0';
	text_escape(shown, sizeof(shown), path, (size_t)n);
	add(out, size, "run it as root: sudo %s ...", sudo_finds(path) ? "pyebpf" : shown);
	add(out, size, "\nor, once: sudo setcap %s=ep %s", caps, shown);
}

/* Nobody in here can get it, root or not: sudo would change nothing. */
static void ways_from_outside(char *out, size_t size, uint64_t missing)
{
	bool root = !geteuid();
	char names[256];

	switch (where_are_we()) {
	case WHERE_KUBERNETES:
		add(out, size, "in the pod: securityContext: {%scapabilities: {add: [%s]}}",
		    root ? "" : "runAsUser: 0, ",
		    all_names(names, sizeof(names), missing, "", ", "));
		return;
	case WHERE_DOCKER:
	case WHERE_PODMAN:
		add(out, size, "start the container so: %s run%s%s ...",
		    where_are_we() == WHERE_DOCKER ? "docker" : "podman", root ? "" : " --user=0",
		    all_names(names, sizeof(names), missing, " --cap-add=", ""));
		return;
	case WHERE_CONTAINER:
	case WHERE_HOST:
		break;
	}
	add(out, size, "%s: start pyebpf outside of it, or with %s",
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
		    ? "no_new_privs forbids this session to get more"
		    : "this session has been stripped of it",
	    all_names(names, sizeof(names), missing, "CAP_", ", "));
}

void caps_ways(char *out, size_t size, uint64_t missing)
{
	char names[256];

	out[0] = '\0';
	lower(all_names(names, sizeof(names), missing, "cap_", ","));
	if (where_user_ns())
		add(out, size,
		    "capabilities of a user namespace do not count here: run it outside");
	else if (geteuid() && within_bounds(missing) && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		ways_of_user(out, size, names);
	else
		ways_from_outside(out, size, missing);
}

void caps_advise(struct err *e, uint64_t missing)
{
	char text[sizeof(e->hint)] = "", ways[sizeof(e->hint)];

	add_rules(text, sizeof(text), missing);
	caps_ways(ways, sizeof(ways), missing);
	err_hint(e, "%s%s", text, ways);
}
