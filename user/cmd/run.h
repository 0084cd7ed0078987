/* SPDX-License-Identifier: Apache-2.0 */
/* What `trace` and `record` share of their command lines and exit codes. */
#ifndef PYEBPF_CMD_RUN_H
#define PYEBPF_CMD_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "cmd/options.h"

#define RUN_PIDS_MAX 256
/* What --ring takes at most. */
#define RUN_RING_BYTES_MAX (16ull << 30)

struct assembler_oddities;
struct interp;
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

/* run_operands - "12,34 56" behind the options, into the list of -p. 0 or -PYE_EUSAGE, said. */
int run_operands(const struct opt_command *command, const struct opt_rest *rest,
		 struct pid_list *pids);

/* run_say_odd - a warning of what an assembler could not use, if there was any. */
void run_say_odd(const struct assembler_oddities *odd);

/* run_say_left_out - a warning of a second interpreter in a process, if there is one. */
void run_say_left_out(pid_t pid, const struct interp *in);

/* run_descendants - proc_descendants() of a process that was asked for, into PROC_DESCENDANTS_MAX numbers; @say: a warning where there may be more */
int run_descendants(pid_t pid, pid_t *pids, bool say);

/* run_raise_files - room for the descriptors of many processes. */
void run_raise_files(void);

/* run_signals - hear of what ends a run, of children and (@usr1) of SIGUSR1 by a signalfd; no death by SIGPIPE.
 * The descriptor, or a negative errno. */
int run_signals(bool usr1);

/* run_is_interrupted - does a run end that was asked to so often (@asks)? With a command half a second later, or when it is asked again: the
 * terminal sent the signal to that, too, and its last events are worth a moment. @since: when it was first; 0: not yet */
bool run_is_interrupted(unsigned int asks, bool command, uint64_t now, uint64_t *since);

/* run_is_to_end - after run_signals(), when nobody reads its descriptor any more: has something come that ends a run? Waits for that
 * or a child's end, for @wait_ms at most. */
bool run_is_to_end(unsigned int wait_ms);

/*
 * How often somebody has to ask until the output is not made, either: twice in all. Whoever stops a run may do so when it has just
 * ended by itself, and wants the output.
 */
#define RUN_ASKS 2u

/* The option --fail-on-loss, a group of its own. */
struct run_loss {
	uint64_t above; /* of a million events, and 1; 0: not given */
};

extern const struct opt_row loss_rows[];

/**
 * run_finish - the exit code of a run that is over
 * @loss: NULL: whatever was lost is no failure
 * @err:  0, or why it failed, with its sentence in @e: it is said here
 *
 * With a command its own status goes through, unless that is 0 and too much was lost; 125 when we have failed.
 */
int run_finish(const struct opt_command *command, const struct opt_rest *rest,
	       const struct session_result *run, const struct run_loss *loss, int err,
	       const struct err *e);

#endif
