// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/emit.h"
#include "cmd/input.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "export/diff_table.h"
#include "export/svg_diff.h"

struct diff_opts {
	struct input_opts input;
	struct table_opts table;
	bool force;
	const char *output;
};

#define AT(member) offsetof(struct diff_opts, member)

/* clang-format off */
static const struct opt_row rows[] = {
	{ 'o', "output", "FILE.svg", OPT_STRING, AT(output), NULL,
	  "write a flame graph in place of the table: red took more time, blue less; - for stdout",
	  false, NULL },
	{ 0, "force", NULL, OPT_FLAG, AT(force), NULL, "replace a file that exists", false, NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Options", rows, 0 },
	{ NULL, table_rows, AT(table) },
	{ NULL, names_rows, AT(input) },
	{ NULL, input_rows, AT(input) },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "diff",
	.usage = "diff BEFORE AFTER [-n N] [--json]\n"
		 "diff BEFORE AFTER -o FILE.svg",
	.about =
		"Say which functions take more or less time in the second capture (.pyebpf) than in "
		"the first, the largest change first, and which of these changes are no more than "
		"noise. Needs no privilege.",
	.groups = groups,
	.examples = "  pyebpf diff yesterday.pyebpf today.pyebpf\n"
		    "  pyebpf diff a.pyebpf b.pyebpf -n 0 --json | jq '.rows[].verdict'\n"
		    "  pyebpf diff old.pyebpf new.pyebpf -o change.svg\n",
};

static void free_slices(struct slices **s)
{
	slices__free(*s);
}

static int read_side(const char *path, const struct diff_opts *opts, struct slices **out,
		     struct err *e)
{
	const struct aggregate_opts agg_opts = { .raw = opts->table.raw,
						 .full_files = opts->table.full_files };
	auto_close int fd = input_open(path, e);
	char shown[512];
	int err;

	if (fd < 0)
		return fd;
	err = slices__new(out, &agg_opts);
	err = err ? err : input_read(fd, &opts->input, &slices_consumer, *out, e);
	if (err == -PYE_EFORMAT)
		return input_explain(path, e);
	if (!err && e->what[0])
		log_warn("%s: %s", text_escape(shown, sizeof(shown), path, strlen(path)), e->what);
	return err;
}

static int print(const struct diff_opts *opts, const struct diff *d, struct err *e)
{
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	int err = table_begin(&b);

	if (err)
		return err;
	if (opts->table.json)
		diff_json(&b, d, table_row_cnt(&opts->table));
	else
		diff_print(stdout, d, table_row_cnt(&opts->table));
	return table_end(&b, e);
}

static int write_picture(const struct diff_opts *opts, const struct diff *d, struct err *e)
{
	auto_fn(outfile__freep) struct outfile *file = NULL;
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	int err = outfile__open(&file, opts->output, OUTFILE_ATOMIC, opts->force, e);

	err = err ? err : outbuf__init(&b, 65536, outfile__write, file);
	err = err ? err : svg_diff(&b, d);
	if (err == -PYE_EOUTPUT && file)
		return outfile__explain(file, e);
	err = err ? err : outfile__commit(file, e);
	if (!err)
		emit_report(stderr, opts->output, &export_svg,
			    &(struct emit_result){ .bytes = outfile__bytes(file), .part_cnt = 1 });
	return err;
}

/* Before the work starts. */
static int check_output(const struct diff_opts *opts, struct err *e)
{
	const char *path = opts->output;

	if (!path)
		return 0;
	if (opts->table.json)
		return err_set(e, -PYE_EUSAGE, "--json and --output are two things: ask for one");
	if (strcmp(path, "-") != 0 && exporter_by_path(path) != &export_svg)
		return err_set(e, -PYE_EUSAGE, "--output: want a file that ends in .svg");
	return outfile_check(path, opts->force, e);
}

static int diff(char *const *paths, const struct diff_opts *opts, struct err *e)
{
	auto_fn(free_slices) struct slices *before = NULL;
	auto_fn(free_slices) struct slices *after = NULL;
	auto_fn(diff__done) struct diff d = { 0 };
	int err = read_side(paths[0], opts, &before, e);

	err = err ? err : read_side(paths[1], opts, &after, e);
	if (!err && !slices__result(before)->sample_ns != !slices__result(after)->sample_ns)
		return err_set(
			e, -PYE_EFORMAT,
			"one capture holds samples and the other one calls: they do not compare");
	err = err ? err : diff__init(&d, before, after);
	if (err)
		return err;
	return opts->output ? write_picture(opts, &d, e) : print(opts, &d, e);
}

int cmd_diff(int argc, char **argv)
{
	struct diff_opts opts = { 0 };
	struct opt_rest rest;
	struct err e = { 0 };
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	if (rest.command_cnt || rest.operand_cnt != 2)
		return err_exit_code(options_usage(&command, "want two captures"));
	err = check_output(&opts, &e);
	err = err ? err : diff(rest.operands, &opts, &e);
	return cmd_end(&command, err, &e);
}
