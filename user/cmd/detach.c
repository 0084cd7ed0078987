// SPDX-License-Identifier: Apache-2.0
/* What an inline engine that was killed has left in a process: out with it. */
#include <stdio.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/run.h"
#include "inline/engine.h"
#include "proc/info.h"
#include "proc/pid.h"

struct detach_opts {
	struct pid_list pids;
	bool subprocesses, quiet;
};

/* clang-format off */
static const struct opt_row target_rows[] = {
	{ 'p', "pid", "PID[,PID]", OPT_CUSTOM, offsetof(struct detach_opts, pids), NULL,
	  "from these processes; can be repeated", false, run_parse_pids },
	{ 's', "subprocesses", NULL, OPT_FLAG, offsetof(struct detach_opts, subprocesses), NULL,
	  "from their children too", false, NULL },
	{ 0 },
};
static const struct opt_row other_rows[] = {
	{ 'q', "quiet", NULL, OPT_FLAG, offsetof(struct detach_opts, quiet), NULL,
	  "say nothing when all is well", false, NULL },
	{ 0 },
};
static const struct opt_group groups[] = {
	{ "Targets", target_rows, 0 },
	{ "Other", other_rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "detach",
	.usage = "detach [-s] [-p] PID[,PID]",
	.about =
		"Take out what a `pyebpf trace --engine inline` that was killed has left in a process: "
		"every word that is still pyebpf's is put back, and the stubs are unmapped when no "
		"thread is in them. Until then the process runs on, a little slower. No other engine "
		"leaves anything. The next `pyebpf trace --engine inline` on the process does the "
		"same.",
	.groups = groups,
	.examples = "  pyebpf detach 1234\n"
		    "  sudo pyebpf detach 1234               # of another user\n"
		    "  pyebpf detach -s $(pgrep -fo gunicorn) # a server and its workers\n",
};

static void say(pid_t pid, const struct inline_found *found)
{
	if (!found->taken_out) {
		fprintf(stderr, "pyebpf: nothing of pyebpf is in process %d\n", pid);
		return;
	}
	fprintf(stderr,
		"pyebpf: process %d is as it was before%s; it was stopped %u times, for at most "
		"%.2f ms\n",
		pid, found->left_mapped ? ", but for stubs that are not used" : "", found->stops,
		found->longest_us / 1000.0);
}

static int detach(pid_t given, bool quiet, struct err *e)
{
	struct inline_found found;
	struct proc_pid pid;
	int err = proc_pid__open(given, &pid, e);

	if (err)
		return err;
	err = inline__recover(pid.pid, &found, e);
	proc_pid__close(&pid);
	if (!err && !quiet)
		say(given, &found);
	if (!err && found.left_mapped)
		log_warn(
			"the stubs stay mapped, unused: no thread could unmap them yet; detach again later");
	return err;
}

/* One that fails keeps no other from it: the first is what is told of at the end. */
struct failure {
	int err;
	struct err e;
};

static void note_failure(struct failure *first, int err, const struct err *e)
{
	if (!err)
		return;
	if (first->err)
		log_warn("%s", e->what);
	else
		*first = (struct failure){ err, *e };
}

static void detach_descendants(pid_t pid, bool quiet, struct failure *first)
{
	pid_t pids[PROC_DESCENDANTS_MAX];
	int cnt = run_descendants(pid, pids, true);
	bool has_reader;

	for (int i = 0; i < cnt; i++) {
		struct err e = { 0 };
		int err = inline__is_left(pids[i], &has_reader) ? detach(pids[i], quiet, &e) : 0;

		if (!inline__is_ending(pids[i])) /* that takes it out, too */
			note_failure(first, err, &e);
	}
}

int cmd_detach(int argc, char **argv)
{
	struct detach_opts opts = { 0 };
	struct opt_rest rest;
	struct failure first = { 0 };
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	err = run_operands(&command, &rest, &opts.pids);
	if (err)
		return err_exit_code(err);
	if (!opts.pids.cnt || rest.command_cnt)
		return err_exit_code(options_usage(&command, "want a process"));
	for (size_t i = 0; i < opts.pids.cnt; i++) {
		struct err e = { 0 };

		note_failure(&first, detach(opts.pids.pids[i], opts.quiet, &e), &e);
		if (opts.subprocesses && proc_pid_is_ours())
			detach_descendants(opts.pids.pids[i], opts.quiet, &first);
	}
	return cmd_end(&command, first.err, &first.e);
}
