// SPDX-License-Identifier: Apache-2.0
/* One capture at a time is read and folded into what was read before, so many need no more memory than
 * their distinct stacks. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/emit.h"
#include "cmd/input.h"
#include "export/folding.h"
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
	{ "Other", input_rows, offsetof(struct merge_opts, input) },
	{ NULL, rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "merge",
	.usage = "merge FILE... -o OUT [-f FORMAT] [options]",
	.about =
		"Add up captures (.pyebpf) and profiles, of many runs or machines, into one pprof, "
		"collapsed or svg file. Processes of the same name, executable and version become one, as do "
		"their threads of the same name. Needs no privilege.",
	.groups = groups,
	.examples = "  pyebpf merge run-*.pyebpf -o all.pb.gz\n"
		    "  pyebpf merge monday.pyebpf tuesday.pyebpf -o week.svg\n"
		    "  pyebpf merge node*/*.pyebpf -f collapsed -o - | head\n",
};

static void free_aggregate(struct aggregate **agg)
{
	aggregate__free(*agg);
}

static int add_file(struct aggregate *all, const char *path, bool first,
		    const struct merge_opts *opts, struct err *e)
{
	const struct aggregate_opts agg_opts = { .raw = opts->output.raw };
	auto_fn(free_aggregate) struct aggregate *one = NULL;
	auto_close int fd = input_open(path, e);
	char shown[512];
	int err;

	if (fd < 0)
		return fd;
	err = aggregate__new(&one, &agg_opts);
	err = err ? err : input_read(fd, &opts->input, &aggregate_consumer, one, e);
	if (err == -PYE_EFORMAT)
		return input_explain(path, e);
	if (err)
		return err;
	if (e->what[0])
		log_warn("%s: %s", text_escape(shown, sizeof(shown), path, strlen(path)), e->what);
	if (!first && !aggregate__result(all)->sample_ns != !aggregate__result(one)->sample_ns)
		return err_set(e, -PYE_EFORMAT,
			       "%.200s holds %s, and those before do not: they do not add up", path,
			       aggregate__result(one)->sample_ns ? "samples" : "calls");
	return aggregate__merge(all, aggregate__result(one));
}

static int write_out(void *ctx, const void *data, size_t len)
{
	return outfile__write(ctx, data, len);
}

static int write_format(struct aggregate *all, const struct exporter *format, void **self,
			struct outfile *file, const struct merge_opts *opts)
{
	const struct export_opts export_opts = { .raw = opts->output.raw };
	const struct export_out out = { .ctx = file, .write = write_out };
	int err = exporter__new(format, self, &export_opts, &out);

	if (err)
		return err;
	folding__give(*self, all);
	return format->consumer.end(*self, &aggregate__result(all)->totals);
}

static int write_file(struct aggregate *all, const struct exporter *format, const char *path,
		      const struct merge_opts *opts, struct emit_result *result, struct err *e)
{
	auto_fn(outfile__freep) struct outfile *file = NULL;
	void *self = NULL;
	int err = outfile__open(&file, path, OUTFILE_ATOMIC, opts->output.force, e);

	if (err)
		return err;
	err = write_format(all, format, &self, file, opts);
	exporter__free(format, self);
	if (err)
		return err == -ENOMEM ? err : outfile__explain(file, e);
	err = outfile__commit(file, e);
	result->bytes = outfile__bytes(file);
	result->part_cnt = 1;
	return err;
}

/* Where nothing says what is wanted it is pprof, which adds up further. */
static int choose_format(const struct output_opts *output, const struct exporter **format,
			 struct err *e)
{
	if (output->format)
		return emit_format(output, output->path, format, e);
	*format = exporter_by_path(output->path);
	if (!*format)
		*format = &export_pprof;
	return 0;
}

static int merge(char *const *paths, int cnt, const struct merge_opts *opts, struct err *e)
{
	const struct aggregate_opts agg_opts = { .raw = opts->output.raw };
	auto_fn(free_aggregate) struct aggregate *all = NULL;
	struct emit_result result = { 0 };
	const struct exporter *format;
	int err = choose_format(&opts->output, &format, e);

	if (err)
		return err;
	if (!format->folds)
		return err_set(
			e, -PYE_EUSAGE,
			"%s shows one run; merge writes pprof, collapsed, svg, pstats or text",
			format->name);
	err = emit_check(&opts->output, opts->output.path, format, e);
	err = err ? err : aggregate__new(&all, &agg_opts);
	for (int i = 0; i < cnt && !err; i++)
		err = add_file(all, paths[i], !i, opts, e);
	err = err ? err : aggregate__close(all);
	err = err ? err : write_file(all, format, opts->output.path, opts, &result, e);
	if (err || opts->quiet)
		return err;
	summary_print(stderr, all, SUMMARY_TOP);
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
	if (err == -PYE_EUSAGE)
		return err_exit_code(options_usage(&command, "%s", e.what));
	return err ? cmd_fail(command.name, err, &e) : 0;
}
