/* SPDX-License-Identifier: Apache-2.0 */
/* `trace --engine inline --count`: calls per function, with --time durations, and no events. */
#ifndef PYEBPF_CMD_INLINE_CALLS_H
#define PYEBPF_CMD_INLINE_CALLS_H

#include "base/err.h"
#include "cmd/emit.h"
#include "cmd/session.h"

/**
 * inline_calls - a whole run
 * @output: without a path the sums go to stdout, as text if nothing else is asked for; SIGUSR1 has them written
 *          while the run goes on, to files with a number
 * @time:   with durations
 *
 * Return: 0, or an error with its sentence.
 */
int inline_calls(const struct session_opts *opts, const struct output_opts *output, bool time,
		 struct session_result *result, struct err *e);

#endif
