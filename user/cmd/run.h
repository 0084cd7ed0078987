/* SPDX-License-Identifier: Apache-2.0 */
/* What `trace` and `record` share of their command lines and exit codes. */
#ifndef PYEBPF_CMD_RUN_H
#define PYEBPF_CMD_RUN_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define RUN_PIDS_MAX 256

struct opt_rest;
struct session_result;

/* Of -p, which can be repeated. */
struct pid_list {
	pid_t pids[RUN_PIDS_MAX];
	size_t cnt;
};

/* run_parse_pids - "12,34" into a struct pid_list; for OPT_CUSTOM and operands. 0 or -PYE_EUSAGE. */
int run_parse_pids(void *field, const char *arg, struct err *e);

/* run_arguments - our command line, for the metadata of the capture; cut to @size. */
void run_arguments(int argc, char **argv, char *out, size_t size);

/* run_refusal_code - the exit code when we fail before a command ran: 125 with one, as of env and timeout. */
int run_refusal_code(const struct opt_rest *rest, int err);

/* run_exit_code - that of the command. */
int run_exit_code(const struct session_result *run);

#endif
