// SPDX-License-Identifier: Apache-2.0
/* Capabilities, the kernel's rules about them, and what else can forbid. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/doctor_check.h"
#include "inline/stub_clock.h"

#define GROUP "privilege"

/* clang-format off */
static const struct {
	unsigned int number;
	const char *name, *use;
} wanted[] = {
	{ CAP_BPF, "cap_bpf", "to load BPF programs" },
	{ CAP_PERFMON, "cap_perfmon", "to place probes" },
	{ CAP_SYS_PTRACE, "cap_sys_ptrace", "to read processes of other users" },
	{ CAP_DAC_READ_SEARCH, "cap_dac_read_search", "to read their files" },
	{ CAP_CHECKPOINT_RESTORE, "cap_checkpoint_restore", "to read files that are deleted or replaced" },
};

static const struct {
	const char *name, *use;
} rules[] = {
	{ "kernel.unprivileged_bpf_disabled", "0: bpf() is for everybody; 1, 2: it takes CAP_BPF" },
	{ "kernel.perf_event_paranoid", "from 2 on probes and sampling take CAP_PERFMON, above it (Debian, Ubuntu) sampling CAP_SYS_ADMIN" },
	{ "kernel.yama.ptrace_scope", "from 1 on a user's own processes take CAP_SYS_PTRACE too" },
	{ "kernel.kptr_restrict", "from 1 on names of kernel functions take CAP_SYSLOG" },
};
/* clang-format on */

void checkup__capabilities(struct checkup *c)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		bool has = !caps_missing(CAPS(wanted[i].number));
		struct check *check = checkup__add(c, GROUP, wanted[i].name,
						   has ? CHECK_OK : CHECK_MISSING, "%s%s",
						   wanted[i].use, has ? "" : ": not there");

		if (has)
			continue;
		check->cause = -PYE_EPRIV;
		caps_ways(check->fix, sizeof(check->fix), CAPS(wanted[i].number));
	}
}

static void check_rules(struct checkup *c)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const char *name = strrchr(rules[i].name, '.') + 1;
		int value;

		if (where_rule(rules[i].name, &value))
			checkup__add(c, GROUP, name, CHECK_NOTE, "%s = %d (%s)", rules[i].name,
				     value, rules[i].use);
		else
			checkup__add(c, GROUP, name, CHECK_NOTE, "%s: this kernel has no such rule",
				     rules[i].name);
	}
}

/* The one engine that wants neither eBPF nor its capabilities. */
static void check_inline(struct checkup *c)
{
	static const char *const by_scope[] = {
		"processes of this user, without a privilege",
		"commands that it launches (-- CMD), without a privilege; else CAP_SYS_PTRACE",
		"nothing without CAP_SYS_PTRACE",
		"nothing: kernel.yama.ptrace_scope forbids it to everybody",
	};
	bool has = !caps_missing(CAPS(CAP_SYS_PTRACE)), inside = where_user_ns();
	char clock[96] =
		"; by the kernel's clock, which is slower: the time stamp counter is not steady";
	int scope;

	if (!where_rule("kernel.yama.ptrace_scope", &scope) || scope < 0 || scope > 3)
		scope = 0;
	if (tsc_is_steady())
		snprintf(clock, sizeof(clock), "; the time stamp of an event takes %.1f ns here",
			 tsc_cost_ns());
	checkup__add(c, GROUP, "inline_engine", CHECK_NOTE, "trace --engine inline may take %s%s",
		     !has || scope == 3 ? by_scope[scope]
		     : inside		? "any process of this user namespace"
					: "any process",
		     clock);
}

/* "none [integrity] confidentiality": the word in brackets is in force. */
static void check_lockdown(struct checkup *c)
{
	auto_fclose FILE *f = fopen("/sys/kernel/security/lockdown", "re");
	char line[128] = "", *mode, *end;
	struct check *check;

	if (f && !fgets(line, sizeof(line), f))
		line[0] = '\0';
	mode = strchr(line, '[');
	end = mode ? strchr(mode, ']') : NULL;
	if (!end) {
		checkup__add(c, GROUP, "lockdown", CHECK_NOTE, "%s",
			     f ? "its state is not known" : "none that can be seen");
		return;
	}
	*end = '\0';
	mode++;
	if (strcmp(mode, "confidentiality") != 0) {
		checkup__add(c, GROUP, "lockdown", CHECK_OK, "%s", mode);
		return;
	}
	check = checkup__add(c, GROUP, "lockdown", CHECK_MISSING,
			     "confidentiality: BPF programs may not read memory");
	check->cause = -PYE_EPRIV;
	check_fix(check, "boot with lockdown=integrity, on the machine itself");
}

static void check_filters(struct checkup *c)
{
	int filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);

	checkup__add(c, GROUP, "seccomp", CHECK_NOTE, "%s",
		     filter == 2 ? "a filter is in force: what it forbids shows above"
				 : "no filter");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		checkup__add(c, GROUP, "no_new_privs", CHECK_NOTE,
			     "in force: sudo and file capabilities have no effect in this session");
}

void checkup__privilege(struct checkup *c)
{
	checkup__add(c, GROUP, "user", CHECK_NOTE, "uid %u", geteuid());
	checkup__capabilities(c);
	check_rules(c);
	check_inline(c);
	check_lockdown(c);
	check_filters(c);
}
