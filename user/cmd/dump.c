// SPDX-License-Identifier: Apache-2.0
/*
 * The stack of each thread of a process now, and why it waits, read from outside while it runs on. A
 * stack that changes while it is read is read again; one that never holds still is said to run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/dump_show.h"
#include "cmd/options.h"
#include "cmd/run.h"
#include "cmd/select.h"
#include "cmd/table.h"
#include "cpython/interp.h"
#include "proc/pid.h"

#define TRY_NS	 20000000 /* at a process whose threads move */
#define PAUSE_NS 1000000

struct dump_opts {
	struct pid_list pids;
	struct select_args select;
	bool json;
};

/* clang-format off */
static const struct opt_row rows[] = {
	{ 'p', "pid", "PID[,PID]", OPT_CUSTOM, offsetof(struct dump_opts, pids), NULL,
	  "of these processes; can be repeated", false, run_parse_pids },
	{ 0 },
};
static const struct opt_row output_rows[] = {
	{ 0, "json", NULL, OPT_FLAG, offsetof(struct dump_opts, json), NULL,
	  "print a JSON array with an object for each process", false, NULL },
	{ 0 },
};
static const struct opt_group groups[] = {
	{ "Targets", rows, 0 },
	{ "More targets", select_container_rows, offsetof(struct dump_opts, select) },
	{ "Output", output_rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "dump",
	.usage = "dump [-p] PID\ndump --pod NS/NAME|--container ID",
	.about =
		"Print the Python stack of each thread as it is now, innermost frame first, what it "
		"waits for and who holds the interpreter's lock. Needs no BPF; the target is not "
		"stopped.",
	.groups = groups,
	.examples = "  sudo pyebpf dump 1234\n"
		    "  sudo pyebpf dump $(pgrep -fo gunicorn)\n"
		    "  sudo pyebpf dump --pod shop/web\n"
		    "  sudo pyebpf dump --json 1234 | jq .\n",
};

static size_t moved(const struct outside_stacks *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->cnt; i++)
		n += s->threads[i].status == OUTSIDE_MOVED;
	return n;
}

static bool is_calm(const struct dump_reading *r)
{
	return r->waits.settled && !moved(&r->stacks);
}

static void reading_done(struct dump_reading *r)
{
	outside_stacks__done(&r->stacks);
	waits__done(&r->waits);
}

static int read_once(pid_t pid, const struct proc_mem *mem, const struct interp *in,
		     struct dump_reading *out)
{
	int err;

	*out = (struct dump_reading){ 0 };
	err = waits__before(&out->waits, pid);
	if (!err)
		err = walk_outside(mem, in, &out->stacks);
	if (!err)
		err = waits__after(&out->waits, pid, mem, in, &out->stacks);
	if (err)
		reading_done(out);
	return err;
}

/* The reading with the fewest threads that moved meanwhile. */
static int read_calm(pid_t pid, const struct proc_mem *mem, const struct interp *in,
		     struct dump_reading *best)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t end_ns = now_ns() + TRY_NS;
	int err = read_once(pid, mem, in, best);

	while (!err && !is_calm(best) && now_ns() < end_ns) {
		struct dump_reading again;

		nanosleep(&pause, NULL);
		if (read_once(pid, mem, in, &again))
			break;
		if (is_calm(&again) || moved(&again.stacks) < moved(&best->stacks)) {
			reading_done(best);
			*best = again;
		} else {
			reading_done(&again);
		}
	}
	return err;
}

static int show_process(struct outbuf *b, bool json, const struct proc_pid *pid,
			const struct interp *in, struct err *e)
{
	struct dump_process p = { .pid = pid, .in = in };
	int err = proc_mem__open(pid->pid, &p.mem);

	if (!err) {
		err = read_calm(pid->pid, &p.mem, in, &p.reading);
		if (err)
			proc_mem__close(&p.mem);
	}
	if (err == -ESRCH || (err && !proc_pid__alive(pid)))
		return err_set(e, -PYE_ETARGET, "process %d has ended", pid->given);
	if (err)
		return err_set(e, -PYE_ETARGET, "the memory of process %d cannot be read: %s",
			       pid->given, err_str(err));
	(void)thread_names__read(&p.mem, in, 0, &p.names); /* else those of the system */
	if (proc_info__read(pid->pid, &p.info))
		memset(&p.info, 0, sizeof(p.info));
	if (outbuf__total(b))
		outbuf__puts(b, json ? ",\n" : "\n");
	else if (json)
		outbuf__putc(b, '[');
	if (json)
		dump__json(&p, b);
	else
		dump__text(&p, b);
	reading_done(&p.reading);
	thread_names__done(&p.names);
	proc_mem__close(&p.mem);
	return 0;
}

static int dump(struct outbuf *b, bool json, pid_t pid, struct err *e)
{
	auto_free struct interp *in = calloc(1, sizeof(*in));
	struct proc_pid target;
	int err;

	if (!in)
		return -ENOMEM;
	err = proc_pid__open(pid, &target, e);
	if (err)
		return err;
	err = interp__find(target.pid, "sample", in, e);
	if (!err) {
		err = show_process(b, json, &target, in, e);
		interp__done(in);
	}
	proc_pid__close(&target);
	return err;
}

/* Of containers, in which not all is Python, and what ends meanwhile is no mistake. */
static int dump_containers(struct outbuf *b, const struct dump_opts *opts, struct err *e)
{
	auto_free pid_t *pids = NULL;
	size_t cnt, shown = 0;
	int err = select_container_pids(&opts->select, &pids, &cnt, e);

	for (size_t i = 0; i < cnt && !err; i++) {
		err = dump(b, opts->json, pids[i], e);
		shown += !err;
		if (err == -PYE_ENOTPYTHON || err == -PYE_ETARGET)
			err = 0;
	}
	if (err || shown)
		return err;
	err_set(e, 0, "no Python process runs in what --pod and --container name");
	err_hint(e, "pyebpf list shows the containers of Python processes");
	return -PYE_ENOTPYTHON;
}

static int dump_all(const struct dump_opts *opts, struct err *e)
{
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	struct err output = { 0 };
	int err = table_begin(&b), end_err;

	if (err)
		return err;
	for (size_t i = 0; i < opts->pids.cnt && !err; i++)
		err = dump(&b, opts->json, opts->pids.pids[i], e);
	if (!err && select_any(&opts->select))
		err = dump_containers(&b, opts, e);
	if (opts->json && outbuf__total(&b))
		outbuf__puts(&b, "]\n");
	end_err = table_end(&b, &output);
	if (err || !end_err)
		return err;
	*e = output;
	return end_err;
}

int cmd_dump(int argc, char **argv)
{
	struct dump_opts opts = { 0 };
	struct opt_rest rest;
	struct err e = { 0 };
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	for (int i = 0; i < rest.operand_cnt; i++)
		if (run_parse_pids(&opts.pids, rest.operands[i], &e))
			return err_exit_code(options_usage(&command, "%s", e.what));
	if ((!opts.pids.cnt && !select_any(&opts.select)) || rest.command_cnt)
		return err_exit_code(options_usage(&command, "want a process"));
	err = dump_all(&opts, &e);
	return cmd_end(&command, err, &e);
}
