// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cmd/cmd.h"
#include "cmd/emit.h"
#include "cmd/input.h"
#include "cmd/progress.h"
#include "cmd/sum.h"
#include "export/summary.h"

enum {
	SUMMARY_TOP = 10
};

struct merge_opts {
	struct input_opts input;
	struct output_opts output;
	bool quiet;
};

/* clang-format off */
static const struct opt_row rows[] = {
	{ 'q', "quiet", NULL, OPT_FLAG, offsetof(struct merge_opts, quiet), NULL,
	  "no summary, and nothing about what was written", false, NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Output", output_rows, offsetof(struct merge_opts, output) },
	{ NULL, files_rows, offsetof(struct merge_opts, output) },
	{ NULL, names_rows, offsetof(struct merge_opts, input) },
	{ "Other", input_rows, offsetof(struct merge_opts, input) },
	{ NULL, rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "merge",
	.usage = "merge FILE... -o OUT [-f FORMAT] [options]",
	.about =
		"Add up captures (.pyebpf) and profiles, of many runs or machines, into one file: "
		"pprof, collapsed or svg, and for samples every other format. Processes of the same name, executable and version become one, as do "
		"their threads of the same name. Needs no privilege.",
	.groups = groups,
	.examples = "  pyebpf merge run-*.pyebpf -o all.pb.gz\n"
		    "  pyebpf merge monday.pyebpf tuesday.pyebpf -o week.svg\n"
		    "  pyebpf merge node*/*.pyebpf -f collapsed -o - | head\n",
};

static int add_file(struct sum *sum, const char *path, const struct merge_opts *opts, struct err *e)
{
	auto_close int fd = input_open(path, e);

	return fd < 0 ? fd : sum__add(sum, fd, path, &opts->input, e);
}

static int merge(char *const *paths, int cnt, const struct merge_opts *opts, struct err *e)
{
	auto_fn(sum__done) struct sum sum = { 0 };
	struct emit_result result = { 0 };
	struct progress progress;
	const struct exporter *format;
	int err = sum_format(&opts->output, &format, e);

	err = err ? err : emit_check(&opts->output, opts->output.path, format, e);
	err = err ? err : sum__init(&sum, opts->output.raw, format->lines, opts->output.full_files);
	progress__init(&progress, !opts->quiet);
	for (int i = 0; i < cnt && !err; i++) {
		progress__say(&progress, "file %d of %d", i + 1, cnt);
		err = add_file(&sum, paths[i], opts, e);
	}
	progress__done(&progress);
	err = err ? err : sum__close(&sum);
	err = err ? err : sum__write(&sum, &opts->output, format, &result, e);
	if (err || opts->quiet)
		return err;
	summary_print(stderr, sum.all, SUMMARY_TOP);
	emit_report(stderr, opts->output.path, format, &result);
	return 0;
}

int cmd_merge(int argc, char **argv)
{
	struct merge_opts opts = { 0 };
	struct opt_rest rest;
	struct err e = { 0 };
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	if (rest.command_cnt || !rest.operand_cnt)
		return err_exit_code(options_usage(&command, "want captures to merge"));
	if (!opts.output.path)
		return err_exit_code(options_usage(&command, "want -o OUT, or -o - for stdout"));
	err = merge(rest.operands, rest.operand_cnt, &opts, &e);
	return cmd_end(&command, err, &e);
}
