/* SPDX-License-Identifier: Apache-2.0 */
/* The process that the inline engine is put into: found or started, watched, and let go. */
#ifndef PYEBPF_CMD_INLINE_TARGET_H
#define PYEBPF_CMD_INLINE_TARGET_H

#include <stdbool.h>

#include "capture/launch.h"
#include "cmd/session.h"
#include "cpython/interp.h"
#include "inline/engine.h"
#include "proc/info.h"
#include "proc/pid.h"

struct inline_target {
	const struct session_opts *opts;
	struct proc_pid pid;
	struct interp in;
	struct interp_cache *cache; /* of what it starts, too; owned */
	struct inline_engine engine;
	struct launch launch;
	uint64_t start_ns; /* of it */
	struct held held; /* pid 0: it is not */
	bool loaded; /* it ran already when it loaded Python */
	bool let_go; /* the trace was over before a command was Python */
	int refused; /* why the last program of the command that was looked at is not traced; 0: it is, or is no Python */
	int signal_fd;
	unsigned int interrupts;
	bool ended, dump_asked; /* by SIGUSR1 */
	bool child_reaped;
	int child_status;
	struct follow *follow; /* -s: what it starts is seen; owned; NULL: not wanted */
	uint32_t stops, longest_us; /* of processes beside it */
	struct session_result *result;
	struct err *e;
};

/* inline_target__init - all borrowed; inline_target__done() can follow at once */
void inline_target__init(struct inline_target *t, const struct session_opts *opts,
			 struct session_result *result, struct err *e);

/* inline_target__start - find the process, or start it and hold it where its interpreter begins. 0, or an error with
 * its sentence. */
int inline_target__start(struct inline_target *t);

/* inline_target__describe - read what a process of the run is; the first one into the result, too. @python: "3.12" */
void inline_target__describe(struct inline_target *t, pid_t pid, const struct interp *in,
			     struct proc_info *info, char *python, size_t size);

/* inline_target__never_python - the refusal of a command in which no interpreter was seen. */
int inline_target__never_python(struct inline_target *t);

/* inline_target__too_soon - of one that loads Python while it runs, and had ended when that was seen. */
int inline_target__too_soon(struct inline_target *t);

/* inline_target__signals - wait so many ms for a signal, or the end of the target. */
void inline_target__signals(struct inline_target *t, int timeout);

/* inline_target__let_late_go - those of its threads that did not stop when they were asked to at the end, and of those that it started, now that
 * they have. False: some have not yet */
bool inline_target__let_late_go(struct inline_target *t);

/* inline_target__unfollow - what it started has been let go. */
void inline_target__unfollow(struct inline_target *t);

/* inline_target__add_stops - of another process of the run, or those that no engine knows of. */
void inline_target__add_stops(struct inline_target *t, uint32_t stops, uint32_t longest_us);

/* inline_target__say_left - what stays in a process of the run after its detach, if anything does; @pid: as it is told of */
void inline_target__say_left(const struct inline_engine *e, pid_t pid);

/* inline_target__say_stops - what stays in it, how often it was stopped, and for how long. */
void inline_target__say_stops(const struct inline_target *t);

/* inline_target__recover - out of one that runs with what an earlier pyebpf has left; as inline__recover(). @given: as it is told of */
int inline_target__recover(pid_t pid, pid_t given, struct err *e);

/* inline_target__say_loaded - a process was no Python when it began. */
void inline_target__say_loaded(pid_t pid);

/* inline_target__abandon - a command that cannot be traced must not run. */
void inline_target__abandon(struct inline_target *t);

/* inline_target__wait - until a command has ended. */
void inline_target__wait(struct inline_target *t);
void inline_target__done(struct inline_target *t);

#endif
