// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/input.h"
#include "cmd/options.h"
#include "cmd/viewer.h"
#include "export/export.h"

struct view_opts {
	struct input_opts input;
	struct viewer_opts viewer;
	bool raw;
};

#define AT(member) offsetof(struct view_opts, member)

/* clang-format off */
static const struct opt_row rows[] = {
	{ 0, "raw", NULL, OPT_FLAG, AT(raw), NULL,
	  "keep the profiler's own cost in the times of what adds up", false, NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Options", viewer_rows, AT(viewer) },
	{ NULL, rows, 0 },
	{ NULL, names_rows, AT(input) },
	{ NULL, input_rows, AT(input) },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "view",
	.usage = "view FILE [--firefox] [--no-open]",
	.about =
		"Show a capture (.pyebpf), or a profile of another tool, in a browser: in speedscope's page, which is part of this "
		"program and needs no network, served on this machine to whoever has the address that "
		"is printed. Ends at Ctrl-C, and when nobody asked for anything for 15 minutes. FILE "
		"is - for stdin.",
	.groups = groups,
	.examples = "  pyebpf view trace.pyebpf\n"
		    "  pyebpf view trace.pyebpf --firefox      # in the Firefox Profiler\n"
		    "  pyebpf view trace.pyebpf --no-open --port 8080\n"
		    "  pyebpf view trace.pyebpf --firefox-url https://profiler.example.com\n",
};

static void note(void *ctx, const char *sentence)
{
	(void)ctx;
	log_warn("%s", sentence);
}

static int add_profile(struct viewer *c, const char *path, const struct view_opts *opts,
		       struct err *e)
{
	const struct exporter *format = opts->viewer.firefox ? &export_firefox : &export_speedscope;
	const struct export_opts export_opts = { .raw = opts->raw };
	struct export_out out = { .write = viewer_write, .note = note };
	auto_close int in = input_open(path, e);
	void *self = NULL;
	int err, fd;

	if (in < 0)
		return in;
	fd = viewer__add(c, opts->viewer.firefox);
	if (fd < 0)
		return fd;
	out.ctx = &fd;
	err = exporter__new(format, &self, &export_opts, &out);
	err = err ? err : input_read(in, &opts->input, &format->consumer, self, e);
	exporter__free(format, self);
	if (err == -PYE_EFORMAT)
		return input_explain(path, e);
	if (!err && e->what[0])
		log_warn("%s", e->what);
	return err;
}

static int view(const char *path, const struct view_opts *opts, struct err *e)
{
	auto_fn(viewer__done) struct viewer c = { 0 };
	int err = viewer_leave_root(e); /* first: the profile is read as the user who typed sudo */

	err = err ? err : add_profile(&c, path, opts, e);
	return err ? err : viewer__run(&c, &opts->viewer, e);
}

int cmd_view(int argc, char **argv)
{
	struct view_opts opts = { 0 };
	struct opt_rest rest;
	struct err e = { 0 };
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	if (rest.operand_cnt + rest.command_cnt != 1)
		return err_exit_code(options_usage(&command, "want one file to show"));
	err = viewer_check(&opts.viewer, &e);
	err = err ? err : view(rest.operand_cnt ? rest.operands[0] : rest.command[0], &opts, &e);
	return cmd_end(&command, err, &e);
}
