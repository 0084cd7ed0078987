/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `trace --engine inline`: as session.h, for one process and with -s what it starts, without BPF and without privilege. */
#ifndef PYEBPF_CMD_SESSION_INLINE_H
#define PYEBPF_CMD_SESSION_INLINE_H

#include "capture/inline_count.h"
#include "capture/inline_opcodes.h"
#include "cmd/session.h"
#include "cpython/opcode_names.h"

struct inline_run;

struct session_sums {
	bool last;
	uint64_t lost; /* instructions and calls */
	uint64_t duration_ns;
	double cost_ns; /* of the probes, for each instruction, which is left out of the times */
};

/* What --opcodes wants of a run, beside its calls. */
struct session_opcodes {
	const char *list; /* as opcode_choose() takes it */
	bool raw; /* the probes' own cost stays in the times */
	inline_opcode_fn each; /* for each instruction; NULL: not wanted */
	void *ctx;
	/* the target is known, nothing has run; before the first one. 0 or an error */
	int (*begin)(void *ctx, const struct interp *in, const struct opcode_name *names,
		     pid_t pid);
	/* the sums, when SIGUSR1 asks (@last: no) and at the end. 0 or an error with its sentence */
	int (*sums)(void *ctx, const struct inline_opcodes_view *view, const struct session_sums *s,
		    struct err *e);
};

/* Of what the sums of --count are. */
struct session_counted {
	bool last;
	uint64_t start_ns;
	int64_t start_unix_ns;
	pid_t pid; /* of the first process, as it was given; and what it is: */
	const char *comm, *exe, *python;
};

/* What --count wants of a run in place of events. */
struct session_counts {
	bool time;
	void *ctx;
	/* the sums of all processes, when SIGUSR1 asks and at the end. 0 or an error with its sentence */
	int (*sums)(void *ctx, const struct inline_count_view *view,
		    const struct session_counted *of, struct err *e);
};

/**
 * session_inline - trace until the target ends, time or events are up, or a signal comes
 * @fd: where the capture is written; borrowed
 * @opcodes: NULL: calls alone; else no capture is written
 * @counts: NULL: events; else no capture is written either
 * @left: when threads of the target could not be let go yet, as they sleep where nothing wakes them: for
 *        session_inline__beside() and inline_run__free(), by the same thread; NULL: they stand when they have woken up, until we end
 *
 * Return: 0 with @result filled, or a negative number with the sentence in @e.
 */
int session_inline(const struct session_opts *opts, int fd, const struct session_opcodes *opcodes,
		   const struct session_counts *counts, struct session_result *result,
		   struct inline_run **left, struct err *e);

/* session_inline__beside - what @run returns, while those of @left that wake up are let go; NULL: there are none. If there are,
 * @run is called by another thread, with all signals blocked. */
int session_inline__beside(struct inline_run *left, int (*run)(void *ctx), void *ctx);

/* inline_run__free - of @left; NULL is none */
void inline_run__free(struct inline_run *r);

static inline void inline_run__freep(struct inline_run **r)
{
	inline_run__free(*r);
}

#endif
