/* SPDX-License-Identifier: Apache-2.0 */
/* The sub-commands: each takes its own argc and argv (its name first) and returns the exit code. */
#ifndef PYEBPF_CMD_CMD_H
#define PYEBPF_CMD_CMD_H

#include "base/err.h"
#include "cmd/options.h"

int cmd_agent(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_fleet(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_trace(int argc, char **argv);

/**
 * cmd_fail - say why a command failed
 * @name: of the command
 * @code: negative error number
 * @e:    its sentence and hint, which may be empty
 *
 * Return: the exit code.
 */
int cmd_fail(const char *name, int code, const struct err *e);

/*
 * cmd_end - the exit code of a command that ended with @err: 0, or what cmd_fail() says; -PYE_EUSAGE is said as a
 * wrong option is.
 */
int cmd_end(const struct opt_command *command, int err, const struct err *e);

#endif
