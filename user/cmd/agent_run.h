/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYEBPF_CMD_AGENT_RUN_H
#define PYEBPF_CMD_AGENT_RUN_H

#include "cmd/agent_opts.h"

/* How the agent was started: to read the settings again. Borrowed. */
struct agent_start {
	int argc;
	char **argv; /* as options_parse() left them */
	const struct agent_opts *given;
	const char *arguments; /* as one line, for the profiles */
};

/* agent_run - until a signal or the duration ends it. Takes @settings over. 0 or a negative number. */
int agent_run(const struct agent_start *start, struct agent_settings *settings, struct err *e);

/* agent_purge - remove the store of an agent that has ended; with @wait, then wait for a signal. 0 or a negative number. */
int agent_purge(const struct agent_opts *o, bool wait, struct err *e);

#endif
