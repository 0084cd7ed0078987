// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/input.h"
#include "cmd/options.h"
#include "export/diff_table.h"

struct diff_opts {
	struct input_opts input;
	uint64_t top_cnt;
	bool json, raw;
};

#define AT(member) offsetof(struct diff_opts, member)

/* clang-format off */
static const struct opt_row rows[] = {
	{ 'n', "top", "N", OPT_UNSIGNED, AT(top_cnt), "20", "rows to show, 0 for all", false, NULL },
	{ 0, "raw", NULL, OPT_FLAG, AT(raw), NULL,
	  "keep the profiler's own cost in the times", false, NULL },
	{ 0, "json", NULL, OPT_FLAG, AT(json), NULL, "print a JSON object", false, NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Options", rows, 0 },
	{ NULL, input_rows, AT(input) },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "diff",
	.usage = "diff BEFORE AFTER [-n N] [--json]",
	.about =
		"Say which functions take more or less time in the second capture (.pyebpf) than in "
		"the first, the largest change first, and which of these changes are no more than "
		"noise. Needs no privilege.",
	.groups = groups,
	.examples = "  pyebpf diff yesterday.pyebpf today.pyebpf\n"
		    "  pyebpf diff a.pyebpf b.pyebpf -n 0 --json | jq '.rows[].verdict'\n"
		    "  pyebpf diff old.pyebpf new.pyebpf --raw\n",
};

static int write_stdout(void *ctx, const void *data, size_t len)
{
	(void)ctx;
	return fwrite(data, 1, len, stdout) == len ? 0 : -PYE_EOUTPUT;
}

static void free_slices(struct slices **s)
{
	slices__free(*s);
}

static int read_side(const char *path, const struct diff_opts *opts, struct slices **out,
		     struct err *e)
{
	const struct aggregate_opts agg_opts = { .raw = opts->raw };
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
	uint32_t top_cnt = opts->top_cnt && opts->top_cnt < UINT32_MAX ? (uint32_t)opts->top_cnt
								       : UINT32_MAX;
	int err = outbuf__init(&b, 65536, write_stdout, NULL);

	if (err)
		return err;
	if (opts->json)
		diff_json(&b, d, top_cnt);
	else
		diff_print(stdout, d, top_cnt);
	if (outbuf__flush(&b) || fflush(stdout))
		err = err_set(e, -PYE_EOUTPUT, "cannot write standard output: %s", err_str(-errno));
	return err;
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
	return err ? err : print(opts, &d, e);
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
	err = diff(rest.operands, &opts, &e);
	return err ? cmd_fail(command.name, err, &e) : 0;
}
