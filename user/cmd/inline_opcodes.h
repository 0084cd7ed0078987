/* SPDX-License-Identifier: Apache-2.0 */
/* `trace --engine inline --opcodes`: single instructions, counted and timed. */
#ifndef PYEBPF_CMD_INLINE_OPCODES_H
#define PYEBPF_CMD_INLINE_OPCODES_H

#include "base/err.h"
#include "cmd/emit.h"
#include "cmd/session.h"

/**
 * inline_opcodes - a whole run
 * @output: text (the default) is tables by opcode and by line, and by SIGUSR1 also of the sums by now, to files with
 *          a number; ndjson is a line for each instruction in its sequence
 * @list:   "all", or names of opcodes with commas between them
 *
 * Return: 0, or an error with its sentence.
 */
int inline_opcodes(const struct session_opts *opts, const struct output_opts *output,
		   const char *list, struct session_result *result, struct err *e);

#endif
