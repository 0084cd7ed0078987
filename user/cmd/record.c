// SPDX-License-Identifier: Apache-2.0
/* Samples: the same run as `trace`, but a clock asks for stacks instead of probes telling of calls. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi/sample.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/outfile.h"

#include "cmd/cmd.h"
#include "cmd/outputs.h"
#include "cmd/run.h"
#include "cmd/select.h"
#include "cmd/session.h"
#include "cmd/show.h"

#define RATE_MAX    10000u
#define MAX_CPU_PCT 100000u

enum mode {
	MODE_DEFAULT, /* as options say who is sampled */
	MODE_WALL,
	MODE_CPU,
	MODE_OFFCPU,
	MODE_GIL,
	MODE_CNT
};

struct record_opts {
	struct pid_list pids;
	struct select_args select;
	struct output_opts output;
	struct input_opts names; /* none but those of names */
	struct run_loss loss;
	struct show_opts show;
	int show_fd; /* of the capture, for show_capture(); -1: none */
	bool gil, idle, threads, kernel, native, subprocesses, as_root, keep_capture, quiet,
		verbose;
	uint64_t duration_ns, rate, ring_bytes, max_cpu;
	enum mode mode;
};

static int parse_mode(void *field, const char *arg, struct err *e)
{
	static const char *const names[] = { "wall", "cpu", "offcpu", "gil", NULL };
	int i = opt_word(names, arg);

	if (i < 0)
		return err_set(e, -PYE_EUSAGE, "want wall, cpu, offcpu or gil");
	*(enum mode *)field = MODE_WALL + (enum mode)i;
	return 0;
}

#define AT(member) offsetof(struct record_opts, member)

/* clang-format off */
static const struct opt_row target_rows[] = {
	{ 'p', "pid", "PID[,PID]", OPT_CUSTOM, AT(pids), NULL,
	  "sample these running processes; can be repeated", false, run_parse_pids },
	{ 's', "subprocesses", NULL, OPT_FLAG, AT(subprocesses), NULL,
	  "sample their children too: those that run already, and others from their first moment on", false, NULL },
	{ 0, "children", NULL, OPT_FLAG, AT(subprocesses), NULL, "", true, NULL },
	{ 0, "as-root", NULL, OPT_FLAG, AT(as_root), NULL,
	  "under sudo: run CMD as root, not as the user who typed it", false, NULL },
	{ 0 },
};
static const struct opt_row capture_rows[] = {
	{ 'r', "rate", "N", OPT_UNSIGNED, AT(rate), "99",
	  "samples of each CPU per second, up to 10000", false, NULL },
	{ 0, "mode", "NAME", OPT_CUSTOM, AT(mode), NULL,
	  "cpu: threads that run; offcpu: threads that wait, and for what; wall: both; gil: those that "
	  "hold the interpreter's lock, running or not. Default: wall, but cpu with -a",
	  false, parse_mode },
	{ 'g', "gil", NULL, OPT_FLAG, AT(gil), NULL, "the same as --mode gil", false, NULL },
	{ 'i', "idle", NULL, OPT_FLAG, AT(idle), NULL,
	  "threads that wait, too: the same as --mode wall", false, NULL },
	{ 't', "threads", NULL, OPT_FLAG, AT(threads), NULL,
	  "in collapsed stacks and flame graphs each thread has stacks of its own", false, NULL },
	{ 'n', "native", NULL, OPT_FLAG, AT(native), NULL,
	  "native frames, too, between the Python frames: of code that was compiled with frame pointers",
	  false, NULL },
	{ 'k', "kernel", NULL, OPT_FLAG, AT(kernel), NULL, "the kernel's frames, too", false, NULL },
	{ 0, "max-cpu", "PCT", OPT_LIMIT, AT(max_cpu), NULL,
	  "of one CPU, for the recording with all that belongs to it: then not every sample is taken "
	  "(ten a second or a tenth are), and the next one of the thread stands for those left out, too", false, NULL },
	{ 'd', "duration", "TIME", OPT_PERIOD, AT(duration_ns), NULL,
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
	{ "More targets", select_rows, AT(select) },
	{ "Sampling", capture_rows, 0 },
	{ "Output", output_rows, AT(output) },
	{ NULL, files_rows, AT(output) },
	{ NULL, names_rows, AT(names) },
	{ NULL, show_rows, AT(show) },
	{ "Other", loss_rows, AT(loss) },
	{ NULL, other_rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "record",
	.usage = "record [options] -p PID[,PID]\n"
		 "record [options] PID\n"
		 "record [options] -a|--comm NAME|--cgroup PATH|--container ID\n"
		 "record [options] -- CMD [ARG...]",
	.about =
		"Sample the Python stacks of running processes, or of a command, in the kernel: the "
		"target is neither stopped nor written to, and is not slowed down by what it calls. "
		"With -a and the like, processes that start later are sampled from their first moment. "
		"Without -o the output is a file for profiler.firefox.com.",
	.groups = groups,
	.examples = "  sudo pyebpf record --pid 1234 -d 10s\n"
		    "  sudo pyebpf record -a -d 30s -o host.json.gz\n"
		    "  sudo pyebpf record --mode cpu -r 999 -o app.pb.gz -- python3 app.py\n",
};

static int choose(struct outputs *out, const struct record_opts *o, const struct opt_rest *rest,
		  struct err *e)
{
	uint32_t pid = o->pids.cnt ? (uint32_t)o->pids.pids[0] : (uint32_t)getpid();
	const char *slash = rest->command ? strrchr(rest->command[0], '/') : NULL;
	const char *comm = slash ? slash + 1 : rest->command ? rest->command[0] : "pid";

	return outputs_choose(out, comm, pid, e);
}

static int record(struct record_opts *o, const struct opt_rest *rest, const char *arguments,
		  struct session_result *run, struct err *e)
{
	struct session_opts so = {
		.engine = "sample",
		.select = select_any(&o->select) ? &o->select : NULL,
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
		.max_cpu_pct = (uint32_t)o->max_cpu,
		.gil_only = o->mode == MODE_GIL,
		.native = (o->kernel ? PYE_TAKE_KERNEL : 0) | (o->native ? PYE_TAKE_USER : 0),
		.quiet = o->quiet,
		.arguments = arguments,
	};
	struct outputs out = { .opts = &o->output,
			       .in = &o->names,
			       .verb = "record",
			       .keep_capture = o->keep_capture,
			       .quiet = o->quiet,
			       .show_fd = o->show.open ? &o->show_fd : NULL };
	auto_fn(session__freep) struct session *session = NULL;
	auto_fn(outfile__freep) struct outfile *capture = NULL;
	int err = choose(&out, o, rest, e);

	err = err ? err : session__new(&session, &so, e);
	if (err)
		return err;
	err = outfile__open(&capture, out.capture, OUTFILE_DIRECT, o->output.force, e);
	if (err)
		return err;
	err = session__run(session, outfile__fd(capture), run, e);
	if (err)
		return outputs_failed(&out, capture, err, e);
	if (run->interrupts >= RUN_ASKS) {
		outputs_say_kept(&out, "interrupted; what was captured is in");
		return 0;
	}
	out.asks = RUN_ASKS - run->interrupts;
	err = outputs_produce(&out, capture, true, e);
	outputs_discard(&out, capture, err);
	return err;
}

static int check(struct record_opts *o, const struct opt_rest *rest)
{
	if (run_operands(&command, rest, &o->pids))
		return -PYE_EUSAGE;
	if (select_check(&o->select, o->pids.cnt != 0, rest, &command))
		return -PYE_EUSAGE;
	if (o->max_cpu > MAX_CPU_PCT)
		return options_usage(&command, "--max-cpu: 1 to %u", MAX_CPU_PCT);
	if (o->gil && o->mode != MODE_DEFAULT && o->mode != MODE_GIL)
		return options_usage(&command, "-g means --mode gil");
	if (o->idle && (o->gil || (o->mode != MODE_DEFAULT && o->mode != MODE_WALL)))
		return options_usage(&command, "-i means --mode wall");
	if (o->gil)
		o->mode = MODE_GIL;
	if (o->idle)
		o->mode = MODE_WALL;
	o->output.merge_threads = !o->threads;
	if (o->mode == MODE_DEFAULT)
		o->mode = o->select.all ? MODE_CPU : MODE_WALL;
	if (!o->rate || o->rate > RATE_MAX)
		return options_usage(&command, "--rate: 1 to %u", RATE_MAX);
	if (o->ring_bytes > RUN_RING_BYTES_MAX)
		return options_usage(&command, "--ring: at most 16G");
	return 0;
}

int cmd_record(int argc, char **argv)
{
	struct record_opts opts = { .output.split_events = EMIT_SPLIT_EVENTS, .show_fd = -1 };
	struct session_result run = { 0 };
	char arguments[1024];
	struct opt_rest rest;
	struct err e = { 0 };
	int err;

	run_arguments(argc, argv, arguments, sizeof(arguments));
	err = options_parse(&command, argc, argv, &opts, &rest);
	if (err)
		return err == OPTIONS_DONE ? 0 : run_refusal_code(&rest, err);
	err = check(&opts, &rest);
	if (err)
		return run_refusal_code(&rest, err);
	if (opts.verbose)
		log_set_level(LOG_DEBUG);
	err = show_check(&opts.show, &e);
	err = err ? err : record(&opts, &rest, arguments, &run, &e);
	show_capture(opts.show_fd);
	return run_finish(&command, &rest, &run, &opts.loss, err, &e);
}
