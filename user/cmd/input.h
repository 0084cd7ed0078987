/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands read that work on files: a capture, or a profile of another tool, by its name, or - for
 * standard input. */
#ifndef PYEBPF_CMD_INPUT_H
#define PYEBPF_CMD_INPUT_H

#include "base/err.h"
#include "cmd/options.h"
#include "profile/renamer.h"
#include "profile/trace.h"

/* The options --count-time and --max-input, a group for the commands that read files; --strip-paths and --anonymize are one of their
 * own, in the same struct, for those that capture, too. */
struct input_opts {
	uint64_t count_ns; /* what a count without a unit stands for; 0: the default */
	uint64_t max_bytes; /* of memory that reading may take; 0: no limit */
	struct renamer_opts names;
};

extern const struct opt_row input_rows[], names_rows[];

/* input_renames - whether names are not to be shown as they are. */
bool input_renames(const struct input_opts *opts);

/**
 * input_open - open an input
 * @path: "-" is standard input
 *
 * Return: a file descriptor, the caller's; -PYE_EFORMAT or -EACCES with a sentence.
 */
int input_open(const char *path, struct err *e);

/**
 * input_read - push what a file holds into a consumer, whichever of the formats it has
 * @fd:   of input_open()
 * @opts: may be NULL
 * @e:    as decode_file() and import_file() have it: when the result is 0, what the user has to know, or ""
 *
 * Return: as theirs; -PYE_EFORMAT past @opts->max_bytes.
 */
int input_read(int fd, const struct input_opts *opts, const struct trace_consumer *consumer,
	       void *self, struct err *e);

/* input_explain - put the input's name before the sentence of what is wrong in it. -PYE_EFORMAT. */
int input_explain(const char *path, struct err *e);

#endif
