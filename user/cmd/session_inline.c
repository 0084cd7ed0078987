// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "inline"
#include "cmd/session_inline.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assemble/assemble.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "capture/cap_inline.h"
#include "capture/launch.h"
#include "cmd/run.h"
#include "cpython/code_read.h"
#include "cpython/interp.h"
#include "cpython/walk_outside.h"
#include "inline/engine.h"
#include "proc/info.h"
#include "proc/mem.h"
#include "proc/pid.h"

#define RING_BYTES   ((size_t)16 << 20)
#define PASS_BATCHES 64 /* batches between two looks at signals */
#define POLL_MS	     1
#define SECOND_NS    1000000000ull
#define TORN_TRIES   200 /* stops at which a stack was between two frames */
#define TORN_US	     50
#define ADJUST_NS    5000000ull
#define PIX	     1

struct run {
	const struct session_opts *opts;
	int fd; /* of the capture */
	struct proc_pid pid;
	struct interp in;
	struct inline_engine engine;
	struct cap_inline *cap;
	struct capw *capw;
	struct assembler *as;
	struct proc_mem mem;
	bool mem_open, attached, ended, dump_asked;
	uint64_t flushed_ns, adjust_ns, adjust_step;
	int signal_fd;
	unsigned int interrupts, torn;
	uint64_t start_ns, attached_ns;
	int64_t start_unix_ns;
	struct session_result *result;
	struct launch launch;
	struct held held;
	bool child_reaped, jit_checked;
	int child_status;
	uint64_t shim; /* code object of the interpreter's own frames; 0: none met */
	struct err *e;
};

static int open_capture(struct run *r, int fd)
{
	struct assembler_filter filter;
	struct capw_opts writer;
	struct utsname uts = { 0 };
	struct trace_info info = {
		.start_ns = now_ns(),
		.start_unix_ns = wall_ns(),
		.engine = "inline",
		.version = PYEBPF_VERSION,
		.hostname = uts.nodename,
		.kernel = uts.release,
		.cpu = "",
		.cpu_cnt = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
		.arguments = r->opts->arguments ? r->opts->arguments : "",
	};
	int err;

	uname(&uts);
	r->start_ns = info.start_ns;
	r->start_unix_ns = info.start_unix_ns;
	limits_writer(&r->opts->limits, &writer);
	err = capw__new(&r->capw, fd, &writer, &info);
	err = err ? err : assembler__new(&r->as, r->capw);
	if (err || !filters_any(&r->opts->filter))
		return err;
	filters_assembler(&r->opts->filter, &filter);
	return assembler__filter(r->as, &filter);
}

static int tell_process(struct run *r)
{
	struct proc_info info;
	char python[16];
	struct assembler_process p;

	if (proc_info__read(r->pid.pid, &info))
		memset(&info, 0, sizeof(info));
	snprintf(python, sizeof(python), "3.%u%s", r->in.plan.minor,
		 r->in.plan.free_threaded ? "t" : "");
	memcpy(r->result->comm, info.comm, sizeof(r->result->comm));
	r->result->pid = r->pid.given;
	p = (struct assembler_process){ .trace = { .id = PIX,
						   .pid = (uint32_t)r->pid.given,
						   .start_ns = r->start_ns,
						   .comm = info.comm,
						   .exe = info.exe,
						   .python = python,
						   .prefix = "" },
					.layout = &r->in.layout,
					.proc_pid = r->pid.pid };
	return assembler__process(r->as, &p);
}

/* The number of a code object on a stack; all threads are stopped, so it can be read. 0: the interpreter's own,
 * which shows no frame. */
static uint32_t define(struct run *r, uint64_t address, struct code_names *names)
{
	struct trace_func func = { .process = PIX };
	bool is_new;

	if (address == r->shim)
		return 0;
	func.id = cap_inline__code(r->cap, address, &is_new);
	if (!is_new || !func.id)
		return func.id;
	if (code_read(&r->mem, &r->in.layout, address, names))
		return func.id; /* shown as unreadable */
	if (names->flags & r->in.layout.co_hidden) {
		r->shim = address; /* there is one: that of `__init__` */
		return 0;
	}
	func.line = (uint32_t)names->firstlineno;
	func.name = names->name;
	func.qualname = names->qualname;
	func.file = names->filename;
	assembler__func(r->as, &func);
	return func.id;
}

static pid_t tid_of(const struct inline_engine *e, uint64_t self)
{
	for (size_t i = 0; i < e->remote.cnt; i++)
		if (e->remote.threads[i].self == self)
			return e->remote.threads[i].tid;
	return 0;
}

static void read_comm(pid_t pid, pid_t tid, char *out, size_t size)
{
	char path[64];
	auto_fclose FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	f = fopen(path, "re");
	out[0] = 0;
	if (f && fgets(out, (int)size, f))
		out[strcspn(out, "\n")] = 0;
}

static int take_thread(struct run *r, const struct outside_thread *t, struct code_names *names)
{
	auto_free struct cap_inline_frame *frames = calloc(t->frame_cnt + 1, sizeof(*frames));
	auto_free struct assembler_frame *shown = calloc(t->frame_cnt + 1, sizeof(*shown));
	pid_t tid = tid_of(&r->engine, t->thread_id);
	uint32_t cnt = 0;
	char comm[32];
	int err;

	if (!frames || !shown)
		return -ENOMEM;
	if (!tid)
		return 0; /* made, but its thread has not begun, or has ended */
	for (uint32_t i = t->frame_cnt; i-- > 0;) {
		uint32_t code = define(r, t->frames[i].code, names);

		if (!code)
			continue;
		frames[cnt].frame = shown[cnt].frame = t->frames[i].frame;
		frames[cnt].code = shown[cnt].code = code;
		cnt++;
	}
	err = cap_inline__stack(r->cap, t->thread_id, tid, frames, cnt);
	if (err || r->attached || !cnt)
		return err;
	read_comm(r->pid.pid, tid, comm, sizeof(comm));
	return assembler__idle(r->as,
			       &(struct assembler_idle){ .id = cap_inline__new_thread(r->cap),
							 .pix = PIX,
							 .tid = (uint32_t)tid,
							 .comm = comm,
							 .ts_ns = now_ns(),
							 .frames = shown,
							 .frame_cnt = cnt });
}

/* Is a thread of those that stand still between two frames, so that its stack is not what it looks like? */
static bool is_torn(const struct run *r, const struct outside_stacks *stacks)
{
	for (size_t i = 0; i < stacks->cnt; i++)
		if (stacks->threads[i].status == OUTSIDE_MOVED &&
		    tid_of(&r->engine, stacks->threads[i].thread_id))
			return true;
	return false;
}

/* All threads stand still: their stacks, as they are. -EAGAIN: not here. */
static int take_stacks(void *ctx, struct inline_engine *e)
{
	auto_free struct code_names *names = malloc(sizeof(*names));
	struct outside_stacks stacks;
	struct run *r = ctx;
	int err;

	(void)e;
	if (!names)
		return -ENOMEM;
	err = walk_outside(&r->mem, &r->in, &stacks);
	if (err)
		return err == -EFAULT ? 0 : err; /* it has not started */
	if (is_torn(r, &stacks) && r->torn++ < TORN_TRIES)
		err = -EAGAIN;
	else
		r->torn = 0;
	for (size_t i = 0; !err && i < stacks.cnt; i++)
		err = take_thread(r, &stacks.threads[i], names);
	outside_stacks__done(&stacks);
	return err;
}

static int drain(struct run *r, unsigned int batches)
{
	struct capture_batch batch;
	int any = 0, got = 0;

	while (batches-- && (got = cap_inline_ops.next(r->cap, &batch)) > 0) {
		/* what it cannot keep, for want of memory or disk, it counts */
		assembler__feed(r->as, &batch);
		any = 1;
		inline__alive(&r->engine);
	}
	return got < 0 ? got : any;
}

/* Events were lost: read what is left, then the stacks anew, while all threads stand still. */
static int recover_from_loss(struct run *r)
{
	int err;

	do {
		err = inline__stop_outside(&r->engine);
		if (err) /* it has ended; or it is so busy that we try again */
			return err == -ESRCH || err == -ETIMEDOUT ? 0 : err;
		do
			err = drain(r, PASS_BATCHES);
		while (err > 0);
		if (!err) {
			cap_inline__recount(r->cap);
			err = take_stacks(r, &r->engine);
		}
		if (!err)
			err = inline__restart(&r->engine);
		remote__resume(&r->engine.remote);
		if (err == -EAGAIN)
			usleep(TORN_US);
	} while (err == -EAGAIN);
	return err;
}

static void reap(struct run *r)
{
	int status;

	if (r->opts->files.child)
		r->opts->files.child(r->opts->files.ctx);
	if (r->opts->command && !r->child_reaped && r->engine.remote.ended) {
		r->child_reaped = true;
		r->child_status = r->engine.remote.status;
	}
	if (r->opts->command && !r->child_reaped &&
	    waitpid(r->launch.pid, &status, WNOHANG) == r->launch.pid) {
		r->child_reaped = true;
		r->child_status = status;
	}
}

static void read_signals(struct run *r, int timeout)
{
	struct signalfd_siginfo info;
	struct pollfd fds[] = { { .fd = r->signal_fd, .events = POLLIN },
				{ .fd = r->pid.fd, .events = POLLIN } };

	poll(fds, r->pid.fd >= 0 ? 2 : 1, timeout);
	while (read(r->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGUSR1)
			r->dump_asked = true;
		else if (info.ssi_signo != SIGCHLD)
			r->interrupts++;
	reap(r);
	if (r->child_reaped || !proc_pid__alive(&r->pid))
		r->ended = true;
}

static bool time_is_up(const struct run *r, uint64_t now)
{
	const struct session_opts *o = r->opts;

	return r->interrupts || (o->duration_ns && now - r->attached_ns >= o->duration_ns) ||
	       (o->limits.max_events && capw__written(r->capw) >= o->limits.max_events);
}

static void totals(struct run *r, struct trace_totals *t)
{
	uint64_t lost[LOSS_CNT] = { 0 };

	lost[LOSS_MAP] = cap_inline__lost(r->cap);
	assembler__totals(r->as, lost, t);
	t->end_ns = now_ns();
}

static void flush(struct run *r, uint64_t now)
{
	struct trace_totals t;

	totals(r, &t);
	capw__flush(r->capw, &t);
	r->flushed_ns = now;
}

/* The flight recorder: its chunks are small beside what it keeps; and its file when SIGUSR1 asks for it. */
static void record_flight(struct run *r, uint64_t now)
{
	uint64_t keep_ns = r->opts->limits.keep_ns;
	int err;

	if (keep_ns && now - r->flushed_ns >= (keep_ns < 8 * SECOND_NS ? keep_ns / 8 : SECOND_NS))
		flush(r, now);
	if (!r->dump_asked)
		return;
	r->dump_asked = false;
	if (!keep_ns) {
		log_warn("SIGUSR1 is for --flight-recorder: nothing is written");
		return;
	}
	flush(r, now);
	err = r->opts->files.dump(r->opts->files.ctx, r->capw);
	r->dump_asked = err == -EBUSY; /* when the one before is written */
	if (err && err != -EBUSY)
		log_warn("the flight recorder cannot be written: %s", err_str(err));
}

/* What the clocks' first 5 ms said of their rate is good for a few more; then for longer and longer. */
static void adjust(struct run *r, uint64_t now)
{
	if (now < r->adjust_ns)
		return;
	if (r->adjust_ns)
		cap_inline__adjust(r->cap);
	r->adjust_step = r->adjust_step ? 2 * r->adjust_step : ADJUST_NS;
	if (r->adjust_step > SECOND_NS)
		r->adjust_step = SECOND_NS;
	r->adjust_ns = now + r->adjust_step;
}

static void every_second(struct run *r, uint64_t now)
{
	double events = (double)capw__written(r->capw);

	cap_inline__reap(r->cap);
	if (!r->opts->limits.keep_ns)
		flush(r, now);
	if (!r->opts->quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "\r%02u:%02u | %.1fM events | %u threads | ring %u%%\033[K",
			(unsigned int)((now - r->start_ns) / SECOND_NS / 60),
			(unsigned int)((now - r->start_ns) / SECOND_NS % 60), events / 1e6,
			assembler__threads(r->as), cap_inline__backlog(r->cap));
}

/* Found before its start-up, so looked at again once it runs: a JIT's traces pass by the stubs. */
static int check_jit(struct run *r)
{
	int err;

	if (!r->opts->command || r->jit_checked || !capw__written(r->capw))
		return 0;
	r->jit_checked = true;
	err = interp__check_jit(r->pid.pid, &r->in, r->e);
	return err == -PYE_EPLAN ? err : 0;
}

static int loop(struct run *r)
{
	uint64_t next = r->start_ns + SECOND_NS;
	int any = 0, err = 0;

	while (!r->ended) {
		uint64_t now = now_ns();

		inline__alive(&r->engine);
		any = drain(r, PASS_BATCHES);
		if (any >= 0)
			err = check_jit(r);
		if (any < 0 || err)
			return any < 0 ? any : err;
		if (cap_inline__is_lossy(r->cap) && !any) {
			err = recover_from_loss(r);
			if (err)
				return err;
		}
		adjust(r, now);
		record_flight(r, now);
		if (time_is_up(r, now))
			break;
		if (now >= next) {
			every_second(r, now);
			next = now + SECOND_NS;
			if (inline__is_shared(&r->engine))
				return -EILSEQ;
		}
		read_signals(r, any ? 0 : POLL_MS);
	}
	return 0;
}

static void take_final(void *ctx, uint32_t tix, uint32_t seq)
{
	struct run *r = ctx;

	assembler__final(r->as, tix, seq);
}

static void say_stops(const struct run *r)
{
	const struct remote *remote = &r->engine.remote;

	if (r->opts->quiet)
		return;
	fprintf(stderr, "pyebpf: the target was stopped %u times, for at most %.2f ms\n",
		remote->stops, remote->longest_us / 1000.0);
	if (r->engine.left_mapped)
		fprintf(stderr, "pyebpf: the stubs stay mapped: a thread is inside\n");
}

static int finish(struct run *r, int err)
{
	struct session_result *result = r->result;

	inline__detach(&r->engine);
	while (!err && drain(r, PASS_BATCHES) > 0)
		;
	cap_inline__recount(r->cap);
	cap_inline__finals(r->cap, take_final, r);
	if (assembler__finish(r->as))
		log_debug("the last events did not fit");
	totals(r, &result->totals);
	result->totals.complete = !err;
	result->duration_ns = result->totals.end_ns - r->start_ns;
	result->start_unix_ns = r->start_unix_ns;
	if (!r->opts->quiet && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	say_stops(r);
	if (!r->opts->quiet)
		filters_report(&r->opts->filter, r->as, 0);
	if (err == -EILSEQ)
		log_warn(
			"the ring was damaged, by the target itself or by two interpreters that ran "
			"at once: the capture ends before that");
	else if (err)
		log_warn("the capture ends early: %s", err_str(err));
	err = capw__finish(r->capw, &result->totals);
	return r->opts->limits.keep_ns ? capw__dump(r->capw, r->fd) ?: err : err;
}

static void report_oddities(const struct run *r)
{
	const struct assembler_oddities *odd = assembler__oddities(r->as);

	if (odd->malformed || odd->mismatched || odd->unnamed)
		log_warn("%llu malformed records, %llu frames that did not match, "
			 "%llu unreadable names",
			 (unsigned long long)odd->malformed, (unsigned long long)odd->mismatched,
			 (unsigned long long)odd->unnamed);
	log_debug("slow path %llu times, waited %llu times",
		  (unsigned long long)r->engine.shared->slow,
		  (unsigned long long)r->engine.shared->waits);
}

static int check_options(const struct session_opts *o, struct err *e)
{
	if (!o->command && o->pid_cnt != 1)
		return err_set(e, -PYE_EUSAGE, "--engine inline traces one process");
	if (o->select || o->limits.overhead_pct || o->limits.triggers.cnt ||
	    (o->limits.max_bytes && !o->limits.keep_ns) || o->limits.split.events ||
	    o->limits.split.bytes)
		return err_set(
			e, -PYE_EUSAGE,
			"--engine inline does not go with --trigger, --split, --max-overhead, "
			"--max-size without --flight-recorder, or processes that are not named");
	if (o->filter.thread)
		return err_set(e, -PYE_EUSAGE, "--engine inline does not go with --thread");
	if (o->subprocesses || o->record_rings)
		return err_set(e, -PYE_EUSAGE, "--engine inline does not go with %s",
			       o->subprocesses ? "-s" : "--record-rings");
	return 0;
}

static int find_interpreter(void *ctx)
{
	struct run *r = ctx;
	struct err e = { 0 };
	int err = interp__find(r->pid.pid, "uprobe", &r->in, &e);

	if (err)
		*r->e = e;
	/* a shell, or env, on its way to Python */
	return err == -PYE_ETARGET ? -PYE_ENOTPYTHON : err;
}

static int never_python(struct run *r)
{
	char shown[256];
	int failed = launch__failed(&r->launch);

	r->child_reaped = true;
	text_escape(shown, sizeof(shown), r->opts->command[0], strlen(r->opts->command[0]));
	if (failed)
		return err_set(r->e, failed, "cannot execute %s: %s", shown, strerror(-failed));
	return err_set(r->e, -PYE_ENOTPYTHON, "%s is not Python: no interpreter was seen in it",
		       shown);
}

/* Our child, up to the entry point of the interpreter. */
static int start_command(struct run *r)
{
	int err = launch__fork(&r->launch, r->opts->command, r->opts->as_root, r->e);

	if (!err)
		err = proc_pid__open(r->launch.pid, &r->pid, r->e);
	if (!err)
		err = hold__seize(r->launch.pid);
	if (err)
		return err;
	launch__go(&r->launch);
	err = hold__find(r->launch.pid, find_interpreter, r, &r->held, &r->child_status);
	return err == -ECHILD ? never_python(r) : err;
}

static int start_process(struct run *r)
{
	int err = proc_pid__open(r->opts->pids[0], &r->pid, r->e);
	struct inline_found found;

	if (!err)
		err = inline__recover(r->pid.pid, &found, r->e);
	if (err)
		return err;
	if (found.taken_out)
		log_info("took out what a pyebpf that was killed had left in process %d",
			 r->pid.given);
	return interp__find(r->pid.pid, "uprobe", &r->in, r->e);
}

static int begin(struct run *r, int fd)
{
	struct inline_opts io = { .ring_bytes = r->opts->ring_bytes ? r->opts->ring_bytes
								    : RING_BYTES,
				  .wait = r->opts->wait_when_full,
				  .held = r->opts->command ? &r->held : NULL,
				  .stopped = take_stacks,
				  .ctx = r };
	int err;

	r->signal_fd = run_signals(true);
	err = r->signal_fd < 0 ? r->signal_fd : 0;
	if (!err)
		err = r->opts->command ? start_command(r) : start_process(r);
	if (err)
		return err;
	err = proc_mem__open(r->pid.pid, &r->mem);
	r->mem_open = !err;
	if (!err)
		err = open_capture(r, fd);
	if (!err)
		err = tell_process(r);
	if (!err)
		err = cap_inline__new(&r->cap, PIX, r->pid.pid);
	if (err)
		return err;
	cap_inline__use(r->cap, &r->engine);
	err = inline__attach(&r->engine, r->pid.pid, &r->in, &io, r->e);
	r->attached = !err;
	r->attached_ns = now_ns();
	return err;
}

/* A command that cannot be traced must not run. */
static void abandon_command(struct run *r)
{
	if (!r->opts->command || r->launch.pid <= 0 || r->child_reaped)
		return;
	kill(r->launch.pid, SIGKILL);
	waitpid(r->launch.pid, &r->child_status, __WALL);
	r->child_reaped = true;
}

static void wait_for_child(struct run *r)
{
	while (r->opts->command && !r->child_reaped && r->interrupts < 2)
		read_signals(r, 100);
}

static void done(struct run *r)
{
	inline__done(&r->engine);
	cap_inline__free(r->cap);
	assembler__free(r->as);
	capw__free(r->capw);
	if (r->mem_open)
		proc_mem__close(&r->mem);
	interp__done(&r->in);
	if (r->signal_fd >= 0)
		close(r->signal_fd);
	launch__close(&r->launch);
	proc_pid__close(&r->pid);
}

int session_inline(const struct session_opts *opts, int fd, struct session_result *result,
		   struct err *e)
{
	struct run r = { .opts = opts, .fd = fd, .signal_fd = -1, .result = result, .e = e };
	int err = check_options(opts, e);

	if (err)
		return err;
	memset(result, 0, sizeof(*result));
	r.pid.fd = -1;
	r.in.fd = -1;
	r.launch.go_fd = r.launch.failed_fd = -1;
	err = begin(&r, fd);
	if (!err) {
		int ended = loop(&r);

		err = finish(&r, ended);
		err = ended == -PYE_EPLAN ? ended : err;
		report_oddities(&r);
	}
	if (err)
		abandon_command(&r);
	else
		wait_for_child(&r);
	result->child_status = r.child_status;
	done(&r);
	return err;
}
