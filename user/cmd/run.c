// SPDX-License-Identifier: Apache-2.0
#include "cmd/run.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "assemble/assemble.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/session.h"
#include "cpython/interp.h"
#include "proc/info.h"

#define GRACE_NS     500000000ull
#define FILES_WANTED 65536 /* descriptors: some for each process that runs at the start */

int run_parse_pids(void *field, const char *arg, struct err *e)
{
	struct pid_list *list = field;
	const char *at = arg;
	char *end;

	for (;;) {
		long pid = strtol(at, &end, 10);

		if (end == at || (*end && *end != ',') || pid <= 0 || pid > INT_MAX)
			return err_set(e, -PYE_EUSAGE, "not a process id: %.60s", arg);
		if (list->cnt == RUN_PIDS_MAX)
			return err_set(e, -PYE_EUSAGE, "more than %d processes", RUN_PIDS_MAX);
		list->pids[list->cnt++] = (pid_t)pid;
		if (!*end)
			return 0;
		at = end + 1;
	}
}

void run_arguments(int argc, char **argv, char *out, size_t size)
{
	size_t at = (size_t)snprintf(out, size, "pyebpf");

	for (int i = 0; i < argc && at + 2 < size; i++) {
		out[at++] = ' ';
		text_escape(out + at, size - at, argv[i], strlen(argv[i]));
		at += strlen(out + at);
	}
}

int run_refusal_code(const struct opt_rest *rest, int err)
{
	return rest->command_cnt ? 125 : err_exit_code(err);
}

int run_operands(const struct opt_command *command, const struct opt_rest *rest,
		 struct pid_list *pids)
{
	struct err e = { 0 };

	for (int i = 0; i < rest->operand_cnt; i++)
		if (run_parse_pids(pids, rest->operands[i], &e))
			return options_usage(command, "%s", e.what);
	return 0;
}

void run_say_left_out(pid_t pid, const struct interp *in)
{
	if (in->other[0])
		log_warn("process %d has a second interpreter that is left out: %s", pid,
			 in->other);
}

int run_descendants(pid_t pid, pid_t *pids, bool say)
{
	int cnt = proc_descendants(pid, pids, PROC_DESCENDANTS_MAX);

	if (say && cnt == PROC_DESCENDANTS_MAX)
		log_warn("only the first %d descendants of process %d are looked at", cnt, pid);
	return cnt;
}

void run_raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	if (limit.rlim_cur < FILES_WANTED)
		limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void what_ends_a_run(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGXCPU); /* ulimit -t: the hard limit kills */
	sigaddset(set, SIGCHLD);
}

int run_signals(bool usr1)
{
	sigset_t set;
	int fd;

	what_ends_a_run(&set);
	if (usr1)
		sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

bool run_is_interrupted(unsigned int asks, bool command, uint64_t now, uint64_t *since)
{
	if (!asks)
		return false;
	if (!*since)
		*since = now;
	return !command || asks > 1 || now - *since >= GRACE_NS;
}

bool run_is_to_end(unsigned int wait_ms)
{
	const struct timespec wait = { wait_ms / 1000, wait_ms % 1000 * 1000000L }, none = { 0 };
	sigset_t set;
	int number;

	what_ends_a_run(&set);
	number = sigtimedwait(&set, NULL, &wait);
	while (number == SIGCHLD)
		number = sigtimedwait(&set, NULL, &none);
	return number > 0;
}

static int command_code(const struct session_result *run)
{
	if (WIFSIGNALED(run->child_status))
		return 128 + WTERMSIG(run->child_status);
	return WEXITSTATUS(run->child_status);
}

static int parse_loss(void *field, const char *arg, struct err *e)
{
	char *end;
	double pct = strtod(arg, &end);

	if (end > arg && *end == '%')
		end++;
	if (end == arg || *end || !(pct >= 0 && pct <= 100))
		return err_set(e, -PYE_EUSAGE, "want 0 to 100 percent");
	*(uint64_t *)field = (uint64_t)(pct * 10000) + 1;
	return 0;
}

/* clang-format off */
const struct opt_row loss_rows[] = {
	{ 0, "fail-on-loss", "PCT", OPT_CUSTOM, offsetof(struct run_loss, above), NULL,
	  "exit with 7 when more than so many percent were lost; 0: when anything was", false, parse_loss },
	{ 0 },
};
/* clang-format on */

/* The files are there all the same. */
static int check_loss(const struct opt_command *command, const struct trace_totals *t,
		      const struct run_loss *loss)
{
	uint64_t lost = 0;
	struct err e = { 0 };

	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += t->lost[i];
	if (!loss || !loss->above ||
	    (double)lost * 1e6 <= (double)(loss->above - 1) * (double)t->generated)
		return 0;
	err_set(&e, -PYE_ELOSS, "%llu of %llu were lost, more than --fail-on-loss allows",
		(unsigned long long)lost, (unsigned long long)t->generated);
	/* what there was no room for in tables does not come through a ring */
	if (t->lost[LOSS_MAP] < lost)
		err_hint(&e, "a larger --ring, or a filter, loses less");
	return cmd_fail(command->name, -PYE_ELOSS, &e);
}

int run_finish(const struct opt_command *command, const struct opt_rest *rest,
	       const struct session_result *run, const struct run_loss *loss, int err,
	       const struct err *e)
{
	int code;

	if (err == -PYE_EUSAGE)
		return run_refusal_code(rest, options_usage(command, "%s", e->what));
	if (!err) {
		code = check_loss(command, &run->totals, loss);
		return rest->command && command_code(run) ? command_code(run) : code;
	}
	code = cmd_fail(command->name, err, e);
	/* what could not be executed has said so by its status: 126 or 127 */
	return !rest->command ? code : run->child_status ? command_code(run) : 125;
}

void run_say_odd(const struct assembler_oddities *odd)
{
	char text[192] = "";
	struct {
		uint64_t cnt;
		const char *one, *many;
	} const what[] = {
		{ odd->malformed, "malformed record", "malformed records" },
		{ odd->mismatched, "frame that did not match", "frames that did not match" },
		{ odd->unnamed, "unreadable name", "unreadable names" },
	};
	size_t at = 0;

	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++)
		if (what[i].cnt)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%" PRIu64 " %s",
					       at ? ", " : "", what[i].cnt,
					       what[i].cnt == 1 ? what[i].one : what[i].many);
	if (at)
		log_warn("%s", text);
}
