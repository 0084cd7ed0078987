// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/filters.h"
#include "cmd/inline_calls.h"
#include "cmd/inline_opcodes.h"
#include "cmd/latency.h"
#include "cmd/outputs.h"
#include "cmd/run.h"
#include "cmd/select.h"
#include "cmd/session.h"
#include "cmd/session_inline.h"
#include "cmd/show.h"

struct trace_opts {
	struct pid_list pids;
	struct select_args select;
	struct output_opts output;
	struct input_opts names; /* none but those of names */
	struct run_loss loss;
	struct show_opts show;
	int show_fd; /* of the capture, for show_capture(); -1: none */
	struct limit_opts limits;
	struct filter_opts filter;
	const char *engine;
	bool wait, subprocesses, as_root, keep_capture, quiet, verbose, force_classic;
	bool count, time;
	const char *opcodes;
	uint64_t duration_ns, ring_bytes, table_max;
	const char *record_rings;
};

static int parse_engine(void *field, const char *arg, struct err *e)
{
	static const char *const engines[] = { "auto", "uprobe", "usdt", "inline", NULL };
	int i = opt_word(engines, arg);

	if (i < 0)
		return err_set(e, -PYE_EUSAGE, "want auto, uprobe, usdt or inline");
	*(const char **)field = engines[i];
	return 0;
}

static int parse_full(void *field, const char *arg, struct err *e)
{
	bool *wait = field;

	*wait = !strcmp(arg, "wait");
	return *wait || !strcmp(arg, "drop") ? 0 : err_set(e, -PYE_EUSAGE, "want drop or wait");
}

#define AT(member) offsetof(struct trace_opts, member)

/* clang-format off */
static const struct opt_row target_rows[] = {
	{ 'p', "pid", "PID[,PID]", OPT_CUSTOM, AT(pids), NULL,
	  "trace these running processes; can be repeated", false, run_parse_pids },
	{ 's', "subprocesses", NULL, OPT_FLAG, AT(subprocesses), NULL,
	  "trace their children too, also those that run already", false, NULL },
	{ 0, "children", NULL, OPT_FLAG, AT(subprocesses), NULL, "", true, NULL },
	{ 0, "follow-fork", NULL, OPT_FLAG, AT(subprocesses), NULL, "", true, NULL },
	{ 0, "host-wide", NULL, OPT_FLAG, AT(select.host_wide), NULL,
	  "with -p: probes for every process that runs the same file, so that with -s a child "
	  "is traced from its first call", false, NULL },
	{ 0, "as-root", NULL, OPT_FLAG, AT(as_root), NULL,
	  "under sudo: run CMD as root, not as the user who typed it", false, NULL },
	{ 0 },
};
static const struct opt_row capture_rows[] = {
	{ 0, "engine", "NAME", OPT_CUSTOM, AT(engine), "auto",
	  "auto, uprobe or usdt: where the probes sit; inline: stops the target for moments and writes "
	  "into it, as said above", false, parse_engine },
	{ 0, "on-full", "WHAT", OPT_CUSTOM, AT(wait), "drop",
	  "inline engine, when the ring is full: drop (and count), or wait (for 1 s at most when pyebpf is "
	  "dead, 10 s when it lives and does not read)", false, parse_full },
	{ 0, "count", NULL, OPT_FLAG, AT(count), NULL,
	  "inline engine: no events, calls are counted; SIGUSR1 has the sums written", false, NULL },
	{ 0, "time", NULL, OPT_FLAG, AT(time), NULL,
	  "with --count: how long calls take, too, and who made them", false, NULL },
	{ 0, "opcodes", "NAME[,NAME]", OPT_STRING, AT(opcodes), NULL,
	  "inline engine, Python 3.11 on: count and time these opcodes, or all of them, with their lines",
	  false, NULL },
	{ 'd', "duration", "TIME", OPT_PERIOD, AT(duration_ns), NULL,
	  "stop after 30, 30s, 5m, 250ms; else at the end of the target or Ctrl-C", false, NULL },
	{ 0, "ring", "SIZE", OPT_SIZE, AT(ring_bytes), NULL,
	  "memory between target and pyebpf, in all: 64M, inline 16M", false, NULL },
	{ 0, "keep-capture", NULL, OPT_FLAG, AT(keep_capture), NULL,
	  "keep the capture (.pyebpf) beside the output", false, NULL },
	{ 0, "record-rings", "FILE", OPT_STRING, AT(record_rings), NULL,
	  "keep what came from the kernel, as user/capture/replay.h says (for tests)", true, NULL },
	{ 0, "classic-uprobes", NULL, OPT_FLAG, AT(force_classic), NULL,
	  "as on a kernel without uprobe_multi (for tests)", true, NULL },
	{ 0, "table-entries", "N", OPT_UNSIGNED, AT(table_max), NULL,
	  "tables of processes and code objects with N entries (for tests)", true, NULL },
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
	{ "Capture", capture_rows, 0 },
	{ "Filters", filter_rows, AT(filter) },
	{ "Limits", limit_rows, AT(limits) },
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
	.name = "trace",
	.usage = "trace [options] -p PID[,PID]\n"
		 "trace [options] PID\n"
		 "trace [options] -a|--comm NAME|--cgroup PATH|--container ID\n"
		 "trace [options] -- CMD [ARG...]",
	.about =
		"Record every Python call and return of running processes, or of a command from its "
		"first call to its last, through eBPF: nothing is written to the target and it is "
		"never stopped by ptrace. With -a and the like, processes that start later are traced "
		"from their first call. Without -o the output is a file for profiler.firefox.com, "
		"with --count or --opcodes a table on stdout. "
		"With --engine inline (CPython 3.6 to 3.15; one process, with -s what it starts, too) "
		"the target is stopped for moments and written into, for calls at a few ns each; that "
		"needs neither eBPF nor privilege for a process of your own.",
	.groups = groups,
	.examples = "  sudo pyebpf trace --pid 1234 -d 10s\n"
		    "  sudo pyebpf trace -o app.pb.gz -- python3 app.py   # for go tool pprof\n"
		    "  sudo pyebpf trace -s -o all.pyebpf -- ./run-tests  # only the capture\n"
		    "  sudo pyebpf trace -d 10s --container 3f2a\n"
		    "  pyebpf trace --engine inline -d 10s -p 1234        # stops it for moments\n",
};

/* The files of a run. */
struct files {
	struct outputs first, outputs; /* of the first file, of the one that is written */
	struct outfile *capture, *before; /* being written, and the part that is complete */
	struct outputs before_outputs;
	unsigned int number;
	unsigned int unmade; /* that could not be begun */
	struct background *background;
	int *show_fd; /* of the last capture, or NULL */
};

static void files_done(struct files *f)
{
	outfile__free(f->capture);
	outfile__free(f->before);
	background__free(f->background);
}

static bool files_busy(void *ctx)
{
	const struct files *f = ctx;

	return !background__reap(f->background);
}

/* It is told, and in the exit code. */
static int not_made(struct files *f, int err, const struct err *e)
{
	cmd_fail("trace", err, e);
	f->unmade++;
	return err;
}

static int dump_files(void *ctx, struct capw *w)
{
	struct files *f = ctx;
	struct err e = { 0 };
	struct outputs o;
	int err;

	f->number++;
	err = outputs_number(&f->first, &f->number, &o, &e);
	err = err ? err : background__dump(f->background, &o, w);
	if (err && !e.what[0])
		err_set(&e, err, "the flight recorder cannot be written: %s", err_str(err));
	return err ? not_made(f, err, &e) : 0;
}

static int next_part(void *ctx)
{
	struct files *f = ctx;
	struct outfile *capture;
	struct err e = { 0 };
	struct outputs o;
	int err;

	f->number = f->number ? f->number + 1 : 2;
	err = outputs_number(&f->first, &f->number, &o, &e);
	err = err ? err : outfile__open(&capture, o.capture, OUTFILE_DIRECT, o.opts->force, &e);
	if (err)
		return not_made(f, err, &e);
	f->before = f->capture;
	f->before_outputs = f->outputs;
	f->capture = capture;
	f->outputs = o;
	return outfile__fd(capture);
}

static void part_done(void *ctx)
{
	struct files *f = ctx;

	background__part(f->background, &f->before_outputs, f->before);
	f->before = NULL;
}

static void reap_files(void *ctx)
{
	struct files *f = ctx;

	background__reap(f->background);
}

static int open_files(struct files *f, struct trace_opts *o, const struct opt_rest *rest,
		      struct err *e)
{
	const char *name = rest->command ? rest->command[0] : "pid", *slash = strrchr(name, '/');
	int err;

	if (o->limits.split.events || o->limits.split.bytes)
		o->output.split_events = 0;
	f->first.opts = &o->output;
	f->first.in = &o->names;
	f->first.verb = "trace";
	f->first.keep_capture = o->keep_capture;
	f->first.quiet = o->quiet;
	err = outputs_choose(&f->first, slash ? slash + 1 : name,
			     o->pids.cnt ? (uint32_t)o->pids.pids[0] : (uint32_t)getpid(), e);
	f->outputs = f->first;
	return err ? err : background__new(&f->background);
}

/* The session is over: what is made of the (last) capture. */
struct finish {
	struct files *files;
	const struct session_result *run;
	struct err *e;
};

/* For session_inline__beside(). */
static int finish_files(void *ctx)
{
	const struct finish *finish = ctx;
	const struct session_result *run = finish->run;
	struct files *f = finish->files;
	struct err *e = finish->e;
	unsigned int asks = run->interrupts < RUN_ASKS ? RUN_ASKS - run->interrupts : 0;
	unsigned int failed = background__wait(f->background, &asks) + f->unmade;
	int err;

	if (!asks) {
		outputs_say_kept(&f->outputs, "interrupted; what was captured is in");
		return 0;
	}
	f->outputs.show_fd = f->show_fd;
	f->outputs.asks = asks;
	f->outputs.parts_behind = f->number;
	err = outputs_produce(&f->outputs, f->capture, true, e);
	outputs_discard(&f->outputs, f->capture, err);
	if (!err && failed)
		err = err_set(e, -PYE_EOUTPUT, "%u of the files could not be made", failed);
	return err;
}

static int latency(const struct trace_opts *o, const struct session_opts *so,
		   struct session_result *run, struct err *e)
{
	const struct limit_opts *l = &o->limits;

	if (o->output.path || o->output.format || o->keep_capture || o->show.open || l->keep_ns ||
	    l->max_bytes || l->split.events || l->split.bytes || l->triggers.cnt)
		return err_set(e, -PYE_EUSAGE, "--latency records nothing that could be written");
	if (!strcmp(o->engine, "inline"))
		return err_set(e, -PYE_EUSAGE, "--engine inline does not go with --latency");
	return latency_run(so, run, e);
}

static int trace(struct trace_opts *o, const struct opt_rest *rest, const char *arguments,
		 struct session_result *run, struct inline_run **left, struct err *e)
{
	auto_fn(files_done) struct files files = { .show_fd = o->show.open ? &o->show_fd : NULL };
	struct session_opts so = {
		.engine = o->engine,
		.pids = o->pids.pids,
		.pid_cnt = o->pids.cnt,
		.select = o->select.host_wide || select_any(&o->select) ? &o->select : NULL,
		.command = rest->command,
		.as_root = o->as_root,
		.subprocesses = o->subprocesses,
		.duration_ns = o->duration_ns,
		.limits = o->limits,
		.filter = o->filter,
		.files = { .ctx = &files,
			   .busy = files_busy,
			   .dump = dump_files,
			   .next_part = next_part,
			   .part_done = part_done,
			   .child = reap_files },
		.ring_bytes = (size_t)o->ring_bytes,
		.force_classic = o->force_classic,
		.table_max = o->table_max,
		.record_rings = o->record_rings,
		.wait_when_full = o->wait,
		.quiet = o->quiet,
		.arguments = arguments,
	};
	auto_fn(session__freep) struct session *session = NULL;
	struct finish finish = { &files, run, e };
	bool inlined = !strcmp(o->engine, "inline");
	int err;

	if ((o->count || o->opcodes) && input_renames(&o->names))
		return err_set(e, -PYE_EUSAGE, "%s keeps names as they are",
			       o->count ? "--count" : "--opcodes");
	if (o->count) {
		so.files = (struct limit_files){ 0 };
		return inline_calls(&so, &o->output, o->time, run, e);
	}
	if (o->opcodes) {
		so.files = (struct limit_files){ 0 };
		return inline_opcodes(&so, &o->output, o->opcodes, run, e);
	}
	if (o->filter.latency)
		return latency(o, &so, run, e);
	err = open_files(&files, o, rest, e);
	if (err)
		return err;
	err = inlined ? 0 : session__new(&session, &so, e);
	if (err)
		return err;
	err = outfile__open(&files.capture, files.first.capture, OUTFILE_DIRECT, o->output.force,
			    e);
	if (err)
		return err;
	err = inlined ? session_inline(&so, outfile__fd(files.capture), NULL, NULL, run, left, e)
		      : session__run(session, outfile__fd(files.capture), run, e);
	if (err) {
		unsigned int asks = RUN_ASKS;

		background__wait(files.background, &asks);
		return outputs_failed(&files.outputs, files.capture, err, e);
	}
	return session_inline__beside(*left, finish_files, &finish);
}

static int show(void *opts)
{
	show_capture(((struct trace_opts *)opts)->show_fd);
	return 0;
}

static int check_targets(const struct trace_opts *o, const struct opt_rest *rest)
{
	if (o->select.host_wide && !o->pids.cnt)
		return options_usage(&command, "--host-wide goes with -p");
	return select_check(&o->select, o->pids.cnt != 0, rest, &command);
}

int cmd_trace(int argc, char **argv)
{
	struct trace_opts opts = { .output.split_events = EMIT_SPLIT_EVENTS, .show_fd = -1 };
	struct session_result run = { 0 };
	auto_fn(inline_run__freep) struct inline_run *left = NULL;
	char arguments[1024];
	struct opt_rest rest;
	struct err e = { 0 };
	int err;

	run_arguments(argc, argv, arguments, sizeof(arguments));
	err = options_parse(&command, argc, argv, &opts, &rest);
	if (err)
		return err == OPTIONS_DONE ? 0 : run_refusal_code(&rest, err);
	if (run_operands(&command, &rest, &opts.pids))
		return run_refusal_code(&rest, -PYE_EUSAGE);
	if (check_targets(&opts, &rest))
		return run_refusal_code(&rest, -PYE_EUSAGE);
	if (limits_check(&opts.limits, opts.output.path && !strcmp(opts.output.path, "-"), &e))
		return run_refusal_code(&rest, options_usage(&command, "%s", e.what));
	if (filters_check(&opts.filter, &e))
		return run_refusal_code(&rest, options_usage(&command, "%s", e.what));
	if (opts.ring_bytes > RUN_RING_BYTES_MAX)
		return run_refusal_code(&rest, options_usage(&command, "--ring: at most 16G"));
	if (opts.wait && strcmp(opts.engine, "inline") != 0)
		return run_refusal_code(
			&rest, options_usage(&command, "--on-full goes with --engine inline"));
	if (opts.time && !opts.count)
		return run_refusal_code(&rest, options_usage(&command, "--time goes with --count"));
	if (opts.count && opts.opcodes)
		return run_refusal_code(
			&rest, options_usage(&command, "--opcodes does not go with --count"));
	if ((opts.count || opts.opcodes) &&
	    (strcmp(opts.engine, "inline") != 0 || opts.keep_capture || opts.show.open))
		return run_refusal_code(&rest,
					options_usage(&command,
						      opts.keep_capture || opts.show.open
							      ? "%s makes no capture"
							      : "%s goes with --engine inline",
						      opts.count ? "--count" : "--opcodes"));
	if (opts.verbose)
		log_set_level(LOG_DEBUG);
	err = show_check(&opts.show, &e);
	err = err ? err : trace(&opts, &rest, arguments, &run, &left, &e);
	session_inline__beside(left, show, &opts);
	return run_finish(&command, &rest, &run, &opts.loss, err, &e);
}
