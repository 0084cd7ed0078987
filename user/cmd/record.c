// SPDX-License-Identifier: Apache-2.0
/* Samples: the same run as `trace`, but a clock asks for stacks instead of probes telling of calls. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/emit.h"
#include "cmd/session.h"
#include "decode/decode.h"
#include "export/summary.h"

#define PIDS_MAX       256
#define SUMMARY_TOP    10
#define RATE_MAX       10000u
#define RING_BYTES_MAX (16ull << 30)

enum mode {
	MODE_WALL,
	MODE_CPU,
	MODE_OFFCPU,
	MODE_CNT
};

struct pid_list {
	pid_t pids[PIDS_MAX];
	size_t cnt;
};

struct record_opts {
	struct pid_list pids;
	struct output_opts output;
	bool subprocesses, as_root, keep_capture, quiet, verbose;
	uint64_t duration_ns, rate, ring_bytes;
	enum mode mode;
};

static int parse_pids(void *field, const char *arg, struct err *e)
{
	struct pid_list *list = field;
	const char *at = arg;
	char *end;

	for (;;) {
		long pid = strtol(at, &end, 10);

		if (end == at || (*end && *end != ',') || pid <= 0 || pid > INT_MAX)
			return err_set(e, -PYE_EUSAGE, "not a process id: %.60s", arg);
		if (list->cnt == PIDS_MAX)
			return err_set(e, -PYE_EUSAGE, "more than %d processes", PIDS_MAX);
		list->pids[list->cnt++] = (pid_t)pid;
		if (!*end)
			return 0;
		at = end + 1;
	}
}

static int parse_mode(void *field, const char *arg, struct err *e)
{
	static const char *const names[MODE_CNT] = { "wall", "cpu", "offcpu" };

	for (unsigned int i = 0; i < MODE_CNT; i++) {
		if (strcmp(arg, names[i]) != 0)
			continue;
		*(enum mode *)field = i;
		return 0;
	}
	return err_set(e, -PYE_EUSAGE, "no mode is called %.40s: wall, cpu or offcpu", arg);
}

#define AT(member) offsetof(struct record_opts, member)

/* clang-format off */
static const struct opt_row target_rows[] = {
	{ 'p', "pid", "PID[,PID]", OPT_CUSTOM, AT(pids), NULL,
	  "sample these running processes; can be repeated", false, parse_pids },
	{ 's', "subprocesses", NULL, OPT_FLAG, AT(subprocesses), NULL,
	  "sample their children too, from their first moment on", false, NULL },
	{ 0, "children", NULL, OPT_FLAG, AT(subprocesses), NULL, "", true, NULL },
	{ 0, "as-root", NULL, OPT_FLAG, AT(as_root), NULL,
	  "under sudo: run CMD as root, not as the user who typed it", false, NULL },
	{ 0 },
};
static const struct opt_row capture_rows[] = {
	{ 'r', "rate", "N", OPT_UNSIGNED, AT(rate), "99",
	  "samples of each CPU per second, up to 10000", false, NULL },
	{ 0, "mode", "NAME", OPT_CUSTOM, AT(mode), "wall",
	  "cpu: threads that run; offcpu: threads that wait, and for what; wall: both",
	  false, parse_mode },
	{ 'd', "duration", "TIME", OPT_DURATION, AT(duration_ns), NULL,
	  "stop after 30, 30s, 5m, 250ms; else at the end of the target or Ctrl-C", false, NULL },
	{ 0, "ring", "SIZE", OPT_SIZE, AT(ring_bytes), "16M",
	  "memory between kernel and pyebpf, in all", false, NULL },
	{ 0, "keep-capture", NULL, OPT_FLAG, AT(keep_capture), NULL,
	  "keep the capture (.pyebpf) beside the output", false, NULL },
	{ 0 },
};
static const struct opt_row other_rows[] = {
	{ 'q', "quiet", NULL, OPT_FLAG, AT(quiet), NULL, "no progress and no summary", false, NULL },
	{ 'v', "verbose", NULL, OPT_FLAG, AT(verbose), NULL, "say what is done", false, NULL },
	{ 0 },
};
static const struct opt_group groups[] = {
	{ "Targets", target_rows, 0 },
	{ "Sampling", capture_rows, 0 },
	{ "Output", output_rows, AT(output) },
	{ "Other", other_rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "record",
	.usage = "record [options] -p PID[,PID]\n"
		 "record [options] PID\n"
		 "record [options] -- CMD [ARG...]",
	.about =
		"Sample the Python stacks of running processes, or of a command, in the kernel: the "
		"target is neither stopped nor written to, and is not slowed down by what it calls. "
		"Without -o the output is a file for profiler.firefox.com.",
	.groups = groups,
	.examples = "  sudo pyebpf record --pid 1234 -d 10s\n"
		    "  sudo pyebpf record --mode cpu -r 999 -o app.pb.gz -- python3 app.py\n",
};

/* How a run's files are called. */
struct names {
	char output[PATH_MAX];
	char capture[PATH_MAX];
	bool capture_only;
	const struct exporter *format;
};

static int default_output(const struct record_opts *o, const struct opt_rest *rest,
			  const char *extension, char *out, size_t size)
{
	uint32_t pid = o->pids.cnt ? (uint32_t)o->pids.pids[0] : (uint32_t)getpid();
	const char *comm = "pid", *slash;
	struct timespec now;

	if (rest->command) {
		slash = strrchr(rest->command[0], '/');
		comm = slash ? slash + 1 : rest->command[0];
	}
	clock_gettime(CLOCK_REALTIME, &now);
	return outfile_default_name(out, size, "record", comm, pid,
				    (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, extension);
}

static int choose_names(const struct record_opts *o, const struct opt_rest *rest, struct names *n,
			struct err *e)
{
	const char *path = o->output.path;
	size_t len = path ? strlen(path) : 0;
	int err;

	n->capture_only = len > 7 && !strcmp(path + len - 7, ".pyebpf") && !o->output.format;
	if (n->capture_only) {
		if (snprintf(n->capture, sizeof(n->capture), "%s", path) >= (int)sizeof(n->capture))
			return err_set(e, -PYE_EOUTPUT, "the name of the output is too long");
		return outfile_check(path, o->output.force, e);
	}
	err = emit_format(&o->output, path, &n->format, e);
	if (err)
		return err;
	if (path)
		err = snprintf(n->output, sizeof(n->output), "%s", path) >= (int)sizeof(n->output);
	else
		err = default_output(o, rest, n->format->extensions[0], n->output,
				     sizeof(n->output));
	if (!err && path && !strcmp(path, "-"))
		err = default_output(o, rest, ".pyebpf", n->capture, sizeof(n->capture));
	else if (!err)
		err = emit_path_with(n->capture, sizeof(n->capture), n->output, ".pyebpf");
	if (err)
		return err_set(e, -PYE_EOUTPUT, "the name of the output is too long");
	err = emit_check(&o->output, n->output, n->format, e);
	return err ? err : outfile_check(n->capture, o->output.force, e);
}

static int produce(const struct record_opts *o, const struct names *n, struct outfile *capture,
		   struct err *e)
{
	struct emit_result result = { 0 };
	struct aggregate *agg = NULL;
	int err, fd = outfile__fd(capture);

	err = o->quiet ? 0 : aggregate__new(&agg, NULL);
	if (err)
		return err;
	if (lseek(fd, 0, SEEK_SET) < 0)
		err = -errno;
	else if (!n->capture_only)
		err = emit_capture(fd, &o->output, n->output, n->format, agg, &result, e);
	else if (agg)
		err = decode_file(fd, &aggregate_consumer, agg, e); /* for the summary */
	if (!err && agg) {
		summary_print(stderr, agg, SUMMARY_TOP);
		if (n->capture_only)
			emit_report_capture(stderr, n->capture, (uint64_t)lseek(fd, 0, SEEK_END));
		else
			emit_report(stderr, n->output, n->format, &result);
	}
	aggregate__free(agg);
	return err;
}

static int child_exit_code(const struct session_result *run)
{
	if (WIFSIGNALED(run->child_status))
		return 128 + WTERMSIG(run->child_status);
	return WEXITSTATUS(run->child_status);
}

static int record(struct record_opts *o, const struct opt_rest *rest, const char *arguments,
		  struct session_result *run, struct err *e)
{
	struct session_opts so = {
		.engine = "auto",
		.pids = o->pids.pids,
		.pid_cnt = o->pids.cnt,
		.command = rest->command,
		.as_root = o->as_root,
		.subprocesses = o->subprocesses,
		.duration_ns = o->duration_ns,
		.ring_bytes = (size_t)o->ring_bytes,
		.sample_ns = 1000000000ull / o->rate,
		.on_cpu = o->mode != MODE_OFFCPU,
		.off_cpu = o->mode != MODE_CPU,
		.quiet = o->quiet,
		.arguments = arguments,
	};
	auto_fn(session__freep) struct session *session = NULL;
	auto_fn(outfile__freep) struct outfile *capture = NULL;
	struct names names;
	char shown[512];
	int err = choose_names(o, rest, &names, e);

	err = err ? err : session__new(&session, &so, e);
	if (err)
		return err;
	err = outfile__open(&capture, names.capture, OUTFILE_DIRECT, o->output.force, e);
	if (err)
		return err;
	err = session__run(session, outfile__fd(capture), run, e);
	if (err) {
		outfile__remove(capture);
		return err;
	}
	text_escape(shown, sizeof(shown), names.capture, strlen(names.capture));
	if (run->aborted) {
		fprintf(stderr, "pyebpf record: interrupted; what was captured is in %s\n", shown);
		return 0;
	}
	err = produce(o, &names, capture, e);
	if (!err && !names.capture_only && !o->keep_capture)
		outfile__remove(capture);
	else if (err && !names.capture_only)
		log_warn("the capture is kept in %s", shown);
	return err;
}

/* Our command line, for the metadata of the capture. */
static void join_arguments(int argc, char **argv, char *out, size_t size)
{
	size_t at = (size_t)snprintf(out, size, "pyebpf");

	for (int i = 0; i < argc && at + 2 < size; i++) {
		out[at++] = ' ';
		text_escape(out + at, size - at, argv[i], strlen(argv[i]));
		at += strlen(out + at);
	}
}

/* With a command its own status is ours, so what we say ourselves is 125, as of env and timeout. */
static int refusal_code(const struct opt_rest *rest, int err)
{
	return rest->command_cnt ? 125 : err_exit_code(err);
}

static int check(struct record_opts *o, const struct opt_rest *rest)
{
	struct err e = { 0 };

	for (int i = 0; i < rest->operand_cnt; i++)
		if (parse_pids(&o->pids, rest->operands[i], &e))
			return options_usage(&command, "%s", e.what);
	if (!o->pids.cnt == !rest->command_cnt)
		return options_usage(
			&command, "want processes (-p PID) or a command (-- CMD), one of the two");
	if (!o->rate || o->rate > RATE_MAX)
		return options_usage(&command, "--rate: 1 to %u", RATE_MAX);
	if (o->ring_bytes > RING_BYTES_MAX)
		return options_usage(&command, "--ring: at most 16G");
	return 0;
}

int cmd_record(int argc, char **argv)
{
	struct record_opts opts = { 0 };
	struct session_result run = { 0 };
	char arguments[1024];
	struct opt_rest rest;
	struct err e = { 0 };
	int err;

	join_arguments(argc, argv, arguments, sizeof(arguments));
	err = options_parse(&command, argc, argv, &opts, &rest);
	if (err)
		return err == OPTIONS_DONE ? 0 : refusal_code(&rest, err);
	err = check(&opts, &rest);
	if (err)
		return refusal_code(&rest, err);
	if (opts.verbose)
		log_set_level(LOG_DEBUG);
	err = record(&opts, &rest, arguments, &run, &e);
	if (err == -PYE_EUSAGE)
		return refusal_code(&rest, options_usage(&command, "%s", e.what));
	if (err) {
		int code = cmd_fail(command.name, err, &e);

		return !rest.command ? code : run.child_status ? child_exit_code(&run) : 125;
	}
	return rest.command ? child_exit_code(&run) : 0;
}
