// SPDX-License-Identifier: Apache-2.0
/*
 * The stack of each thread of a process now, read from outside while it runs on. A stack that changes
 * while it is read is read again; one that never holds still is said to run.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/run.h"
#include "cpython/code_read.h"
#include "cpython/interp.h"
#include "cpython/linetable.h"
#include "cpython/walk_outside.h"
#include "proc/info.h"
#include "proc/mem.h"
#include "proc/pid.h"

#define TRIES	 20 /* of a process whose threads move */
#define PAUSE_NS 1000000

struct dump_opts {
	struct pid_list pids;
};

/* clang-format off */
static const struct opt_row rows[] = {
	{ 'p', "pid", "PID[,PID]", OPT_CUSTOM, offsetof(struct dump_opts, pids), NULL,
	  "of these processes; can be repeated", false, run_parse_pids },
	{ 0 },
};
static const struct opt_group groups[] = { { "Targets", rows, 0 }, { 0 } };
/* clang-format on */

static const struct opt_command command = {
	.name = "dump",
	.usage = "dump [-p] PID",
	.about =
		"Print the Python stack of each thread as it is now, innermost frame first. Needs no "
		"BPF; the target is not stopped.",
	.groups = groups,
	.examples = "  sudo pyebpf dump 1234\n"
		    "  sudo pyebpf dump $(pgrep -fo gunicorn)\n"
		    "  sudo pyebpf dump 1234 > stacks.txt\n",
};

static void print_text(const char *s)
{
	char shown[512];

	fputs(text_escape(shown, sizeof(shown), s, strlen(s)), stdout);
}

static void print_frame(const struct proc_mem *mem, const struct interp *in,
			const struct outside_frame *frame)
{
	auto_free struct code_names *names = malloc(sizeof(*names));
	auto_fn(linetable__done) struct linetable lines = { 0 };
	uint64_t instr = 0;
	uint32_t line = 0;

	if (!names || code_read(mem, &in->layout, frame->code, names)) {
		puts("    [unreadable code object]");
		return;
	}
	if (!linetable__read(&lines, mem, &in->layout, frame->code) &&
	    !proc_mem__read(mem, frame->frame + in->layout.f_instr, &instr,
			    in->layout.flags & PYE_LAYOUT_FRAME_OBJECT ? 4 : 8))
		line = linetable__line(&lines, &in->layout, frame->code, instr);
	fputs("    ", stdout);
	print_text(names->qualname);
	fputs(" (", stdout);
	print_text(names->filename);
	printf(":%" PRIu32 ")\n", line ? line : (uint32_t)names->firstlineno);
}

static void print_thread(const struct proc_mem *mem, const struct interp *in,
			 const struct outside_thread *t)
{
	if (t->native_id)
		printf("Thread %d\n", t->native_id);
	else
		printf("Thread 0x%" PRIx64 "\n", t->thread_id);
	if (t->status == OUTSIDE_MOVED)
		puts("    [runs: its stack changes while it is read]");
	else if (t->status != OUTSIDE_AGREED)
		puts("    [unreadable]");
	else if (!t->frame_cnt)
		puts("    [no Python frame]");
	for (uint32_t i = 0; i < t->frame_cnt; i++)
		print_frame(mem, in, &t->frames[i]);
	if (t->truncated)
		puts("    [truncated: too deep]");
}

static size_t moved(const struct outside_stacks *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->cnt; i++)
		n += s->threads[i].status == OUTSIDE_MOVED;
	return n;
}

/* The reading with the fewest threads that moved meanwhile. */
static int read_stacks(const struct proc_mem *mem, const struct interp *in,
		       struct outside_stacks *best)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	int err = walk_outside(mem, in, best);

	for (int i = 0; !err && moved(best) && i < TRIES; i++) {
		struct outside_stacks again;

		nanosleep(&pause, NULL);
		if (walk_outside(mem, in, &again))
			break;
		if (moved(&again) < moved(best)) {
			outside_stacks__done(best);
			*best = again;
		} else {
			outside_stacks__done(&again);
		}
	}
	return err;
}

static int print_process(const struct proc_pid *pid, const struct interp *in, struct err *e)
{
	struct outside_stacks stacks;
	struct proc_info info;
	struct proc_mem mem;
	int err = proc_mem__open(pid->pid, &mem);

	if (!err) {
		err = read_stacks(&mem, in, &stacks);
		if (err)
			proc_mem__close(&mem);
	}
	if (err)
		return err_set(e, -PYE_ETARGET, "the memory of process %d cannot be read: %s",
			       pid->given, strerror(-err));
	if (proc_info__read(pid->pid, &info))
		memset(&info, 0, sizeof(info));
	printf("Process %d: ", pid->given);
	print_text(info.comm);
	printf(" (CPython %s)\n", in->version);
	for (size_t i = 0; i < stacks.cnt; i++) {
		putchar('\n');
		print_thread(&mem, in, &stacks.threads[i]);
	}
	if (stacks.truncated)
		puts("\n[the list of threads changed while it was read]");
	outside_stacks__done(&stacks);
	proc_mem__close(&mem);
	return 0;
}

static int dump(pid_t pid, struct err *e)
{
	auto_free struct interp *in = calloc(1, sizeof(*in));
	struct proc_pid target;
	int err;

	if (!in)
		return -ENOMEM;
	err = proc_pid__open(pid, &target, e);
	if (err)
		return err;
	err = interp__find(target.pid, "auto", in, e);
	if (!err) {
		err = print_process(&target, in, e);
		interp__done(in);
	}
	proc_pid__close(&target);
	return err;
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
	if (!opts.pids.cnt || rest.command_cnt)
		return err_exit_code(options_usage(&command, "want a process"));
	for (size_t i = 0; i < opts.pids.cnt && !err; i++) {
		if (i)
			putchar('\n');
		err = dump(opts.pids.pids[i], &e);
	}
	return err ? cmd_fail(command.name, err, &e) : 0;
}
