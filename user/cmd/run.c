// SPDX-License-Identifier: Apache-2.0
#include "cmd/run.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/session.h"

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

int run_signals(bool usr1)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	if (usr1)
		sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static int command_code(const struct session_result *run)
{
	if (WIFSIGNALED(run->child_status))
		return 128 + WTERMSIG(run->child_status);
	return WEXITSTATUS(run->child_status);
}

int run_finish(const struct opt_command *command, const struct opt_rest *rest,
	       const struct session_result *run, int err, const struct err *e)
{
	int code;

	if (err == -PYE_EUSAGE)
		return run_refusal_code(rest, options_usage(command, "%s", e->what));
	if (!err)
		return rest->command ? command_code(run) : 0;
	code = cmd_fail(command->name, err, e);
	/* what could not be executed has said so by its status: 126 or 127 */
	return !rest->command ? code : run->child_status ? command_code(run) : 125;
}
