// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/emit.h"

struct convert_opts {
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
	{ "Other", rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "convert",
	.usage = "convert IN [-o OUT] [-f FORMAT] [options]",
	.about =
		"Turn a capture (.pyebpf) into a file that other tools read. IN is - for stdin; "
		"without -o the output lies next to IN. Needs no privilege. A capture that was cut "
		"off is converted up to its last whole piece.",
	.groups = groups,
	.examples = "  pyebpf convert trace.pyebpf -o trace.json.gz   # for profiler.firefox.com\n"
		    "  pyebpf convert trace.pyebpf -o trace.pb.gz     # for go tool pprof\n"
		    "  pyebpf convert trace.pyebpf -f ndjson -o - | head\n",
};

static int open_input(const char *path, struct err *e)
{
	auto_close int fd = -1;
	char shown[512];
	struct stat st;

	fd = strcmp(path, "-") != 0 ? open(path, O_RDONLY | O_CLOEXEC)
				    : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && !fstat(fd, &st)) {
		if (!S_ISDIR(st.st_mode))
			return take_fd(&fd);
		errno = EISDIR;
	}
	text_escape(shown, sizeof(shown), path, strlen(path));
	return err_set(e, errno == EACCES ? -EACCES : -PYE_EFORMAT, "cannot read %s: %s", shown,
		       err_str(-errno));
}

static int name_input(const char *in, struct err *e)
{
	const struct err inner = *e;

	return err_set(e, -PYE_EFORMAT, "%.200s: %s", strcmp(in, "-") != 0 ? in : "standard input",
		       inner.what);
}

static int convert(const char *in, const struct convert_opts *opts, struct err *e)
{
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
	fd = open_input(in, e);
	if (fd < 0)
		return fd;
	err = emit_check(&opts->output, out, format, e);
	err = err ? err : emit_capture(fd, &opts->output, out, format, NULL, &result, e);
	if (err == -PYE_EFORMAT)
		return name_input(in, e);
	if (err)
		return err;
	if (result.damaged)
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
	if (err == -PYE_EUSAGE)
		return err_exit_code(options_usage(&command, "%s", e.what));
	return err ? cmd_fail(command.name, err, &e) : 0;
}
