/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `trace --engine inline`: as session.h, for one process, without BPF and without privilege. */
#ifndef PYEBPF_CMD_SESSION_INLINE_H
#define PYEBPF_CMD_SESSION_INLINE_H

#include "capture/inline_opcodes.h"
#include "cmd/session.h"
#include "cpython/opcode_names.h"

struct session_sums {
	bool last;
	uint64_t lost; /* instructions and calls */
	uint64_t duration_ns;
	double cost_ns; /* of the probes, for each instruction, which is left out of the times */
};

/* What --opcodes wants of a run, beside its calls. */
struct session_opcodes {
	const char *list; /* as opcode_choose() takes it */
	inline_opcode_fn each; /* for each instruction; NULL: not wanted */
	void *ctx;
	/* the target is known, nothing has run; before the first one. 0 or an error */
	int (*begin)(void *ctx, const struct interp *in, const struct opcode_name *names,
		     pid_t pid);
	/* the sums, when SIGUSR1 asks (@last: no) and at the end. 0 or an error with its sentence */
	int (*sums)(void *ctx, const struct inline_opcodes_view *view, const struct session_sums *s,
		    struct err *e);
};

/**
 * session_inline - trace until the target ends, time or events are up, or a signal comes
 * @fd: where the capture is written; borrowed
 * @opcodes: NULL: calls alone; else no capture is written
 *
 * Return: 0 with @result filled, or a negative number with the sentence in @e.
 */
int session_inline(const struct session_opts *opts, int fd, const struct session_opcodes *opcodes,
		   struct session_result *result, struct err *e);

#endif
