/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a capture to output files: what `convert` does, and `trace` after capturing. Decodes the
 * capture into an exporter, and into an aggregate for the summary at the same time.
 */
#ifndef PYEBPF_CMD_EMIT_H
#define PYEBPF_CMD_EMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "cmd/input.h"
#include "cmd/options.h"
#include "export/export.h"
#include "profile/aggregate.h"

/* The options -o, -f, --force and --raw, a group for the commands that write files. --full-filenames and --split are
 * groups of their own, in the same struct: not all have them, and commands that capture have another --split. */
struct output_opts {
	const char *path; /* NULL: the caller's default */
	const char *format; /* NULL: by the path's extension, else firefox */
	bool force, raw, full_files;
	bool merge_threads; /* of struct export_opts; no option of this group */
	uint64_t split_events; /* 0: never */
};

extern const struct opt_row output_rows[], files_rows[], split_rows[];

#define EMIT_SPLIT_EVENTS 10000000 /* the default, as the row has it */

/* What goes with a conversion but for its files. */
struct emit_how {
	const struct input_opts *in; /* may be NULL */
	struct aggregate *agg; /* fed too, for the summary; may be NULL */
	bool progress; /* say on a terminal how far it is */
	unsigned int asks; /* end when run_is_to_end() so often; 0: not */
	unsigned int parts_behind; /* the number behind which those of further parts begin; 0: 1 */
};

struct emit_result {
	struct trace_totals totals;
	uint64_t bytes; /* of all parts */
	unsigned int part_cnt; /* files */
	bool damaged; /* the capture ends before its proper end */
};

/**
 * emit_format - the exporter that the options mean
 * @path: of the output; NULL or "-": no extension to go by
 *
 * Return: 0, or -PYE_EUSAGE with a sentence that lists the formats.
 */
int emit_format(const struct output_opts *opts, const char *path, const struct exporter **format,
		struct err *e);

/* emit_is_plain - a name that ends in .json is taken at its word; where a format has both, it is compressed else. */
bool emit_is_plain(const char *path);

/**
 * emit_check - refuse an output before the work starts
 * @path: where it goes; "-" is stdout
 *
 * Return: 0; -PYE_EOUTPUT; -PYE_EUSAGE for bytes that are no text and a terminal, and for the name of a capture.
 */
int emit_check(const struct output_opts *opts, const char *path, const struct exporter *format,
	       struct err *e);

/**
 * emit_capture - convert a capture, or a profile that input_read() knows
 * @fd:   at its beginning
 * @path: of the output; further parts become name-2.json.gz and so on, next to it
 * @format: NULL: nothing is written, only the aggregate is fed
 *
 * Parts that are complete stay when a later one fails.
 *
 * Return: 0, -PYE_EFORMAT, -PYE_EOUTPUT, -EINTR or -ENOMEM, with a sentence.
 */
int emit_capture(int fd, const struct emit_how *how, const struct output_opts *opts,
		 const char *path, const struct exporter *format, struct emit_result *result,
		 struct err *e);

/**
 * emit_report - say on @f what was written, and the command to go on with
 *
 * One line each; the command can be pasted into a shell.
 */
void emit_report(FILE *f, const char *path, const struct exporter *format,
		 const struct emit_result *result);

/* emit_instead - to stderr, behind a line that says so, what could not be written to a file. @said: a bool, false at first. 0 or -EIO */
int emit_instead(void *said, const void *data, size_t len);

/* emit_report_capture - the same for a capture that is kept as it is. */
void emit_report_capture(FILE *f, const char *path, uint64_t bytes);

/**
 * emit_path_with - a path with its known extension replaced
 * @path:      of a capture or an output
 * @extension: with its dot
 *
 * Return: 0 or -ENAMETOOLONG.
 */
int emit_path_with(char *out, size_t size, const char *path, const char *extension);

#endif
