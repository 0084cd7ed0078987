/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps the agent from its work, as `pyebpf doctor` finds it: said in the log and by /readyz, with what mends it. */
#ifndef PYEBPF_CMD_AGENT_PROBLEMS_H
#define PYEBPF_CMD_AGENT_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct agent_opts;

/* Sentences with a line behind each that mends it; "": there are none. Escaped. */
struct agent_problems {
	char text[6144];
	size_t len;
};

/* agent_problems_look - what can be seen at the start, quickly, of a pod. Logs them. */
void agent_problems_look(struct agent_problems *p, const struct agent_opts *o);

/**
 * agent_problems_stay - the agent cannot begin: find out why, say it, and be there to be asked, in a pod, where the log of a container that ends
 * again and again is soon gone
 * @err: the error, its sentence in @e
 *
 * Returns at once where that helps nobody; else at SIGTERM or SIGINT.
 */
void agent_problems_stay(struct agent_problems *p, const struct agent_opts *o, int err,
			 const struct err *e);

#endif
