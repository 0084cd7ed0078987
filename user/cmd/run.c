// SPDX-License-Identifier: Apache-2.0
#include "cmd/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text.h"
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

int run_exit_code(const struct session_result *run)
{
	if (WIFSIGNALED(run->child_status))
		return 128 + WTERMSIG(run->child_status);
	return WEXITSTATUS(run->child_status);
}
