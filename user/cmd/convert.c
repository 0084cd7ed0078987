// SPDX-License-Identifier: Apache-2.0
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/emit.h"
#include "cmd/input.h"

struct convert_opts {
	struct input_opts input;
	struct output_opts output;
	bool quiet;
};

/* clang-format off */
static const struct opt_row rows[] = {
	{ 'q', "quiet", NULL, OPT_FLAG, offsetof(struct convert_opts, quiet), NULL,
	  "say nothing about what was written", false, NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Output", output_rows, offsetof(struct convert_opts, output) },
	{ NULL, split_rows, offsetof(struct convert_opts, output) },
	{ NULL, files_rows, offsetof(struct convert_opts, output) },
	{ NULL, names_rows, offsetof(struct convert_opts, input) },
	{ "Other", input_rows, offsetof(struct convert_opts, input) },
	{ NULL, rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "convert",
	.usage = "convert IN [-o OUT] [-f FORMAT] [options]",
	.about = "Turn a capture (.pyebpf), or a profile of another tool, into a file that other "
		 "tools read. IN is - for stdin; without -o the output lies next to IN. Its format "
		 "is known by its content: a capture, pprof, collapsed, speedscope, firefox, the "
		 "text of perf script, pstats. Needs no privilege. A capture that was cut off is "
		 "converted up to its last whole piece.",
	.groups = groups,
	.examples = "  pyebpf convert trace.pyebpf -o trace.json.gz   # for profiler.firefox.com\n"
		    "  pyebpf convert trace.pyebpf -o trace.pb.gz     # for go tool pprof\n"
		    "  pyebpf convert trace.pyebpf -f ndjson -o - | head\n",
};

static int convert(const char *in, const struct convert_opts *opts, struct err *e)
{
	const struct emit_how how = { .in = &opts->input, .progress = !opts->quiet };
	const struct exporter *format;
	struct emit_result result;
	auto_close int fd = -1;
	const char *out = opts->output.path;
	char beside[PATH_MAX];
	int err = emit_format(&opts->output, out, &format, e);

	if (err)
		return err;
	if (!out && strcmp(in, "-") != 0) {
		err = emit_path_with(beside, sizeof(beside), in, format->extensions[0]);
		if (err)
			return err_set(e, -PYE_EOUTPUT, "the name of the output is too long");
		out = beside;
	}
	out = out ? out : "-";
	fd = input_open(in, e);
	if (fd < 0)
		return fd;
	err = emit_check(&opts->output, out, format, e);
	err = err ? err : emit_capture(fd, &how, &opts->output, out, format, &result, e);
	if (err == -PYE_EFORMAT)
		return input_explain(in, e);
	if (err)
		return err;
	if (e->what[0] || result.damaged)
		log_warn("%s", e->what[0] ? e->what : "the capture ends before its proper end");
	if (!opts->quiet)
		emit_report(stderr, out, format, &result);
	return 0;
}

int cmd_convert(int argc, char **argv)
{
	struct convert_opts opts = { 0 };
	struct opt_rest rest;
	struct err e = { 0 };
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	if (rest.operand_cnt + rest.command_cnt != 1)
		return err_exit_code(options_usage(&command, "want one capture to convert"));
	err = convert(rest.operand_cnt ? rest.operands[0] : rest.command[0], &opts, &e);
	return cmd_end(&command, err, &e);
}
