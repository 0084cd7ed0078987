// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "inline"
#include "cmd/session_inline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "assemble/assemble.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "capture/cap_inline.h"
#include "cmd/cmd.h"
#include "cmd/inline_target.h"
#include "cmd/naming.h"
#include "cmd/run.h"
#include "cpython/code_read.h"
#include "cpython/walk_outside.h"
#include "inline/stub.h"
#include "proc/mem.h"

#define RING_BYTES   ((size_t)16 << 20)
#define PASS_BATCHES 64 /* batches between two looks at signals */
#define POLL_MS	     1
#define SECOND_NS    1000000000ull
#define TORN_TRIES   200 /* stops at which a stack was between two frames */
#define TORN_US	     50
#define ADJUST_NS    5000000ull
#define PIX	     1

struct run {
	struct inline_target t;
	int fd; /* of the capture */
	struct cap_inline *cap;
	struct capw *capw;
	struct assembler *as;
	struct proc_mem mem;
	bool mem_open, attached;
	struct limits_run kept;
	uint64_t flushed_ns, adjust_ns, adjust_step;
	unsigned int torn;
	uint64_t start_ns, attached_ns;
	uint64_t naming_ns; /* when threads are looked at next for their names */
	int64_t start_unix_ns;
	const struct session_opcodes *opcodes; /* NULL: none */
	struct inline_opcodes *instructions;
	uint8_t chosen[OPCODE_CNT];
	uint64_t shim; /* code object of the interpreter's own frames; 0: none met */
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
		.arguments = r->t.opts->arguments ? r->t.opts->arguments : "",
	};
	int err;

	uname(&uts);
	r->start_ns = info.start_ns;
	r->start_unix_ns = info.start_unix_ns;
	limits_writer(&r->t.opts->limits, &writer);
	err = capw__new(&r->capw, fd, &writer, &info);
	err = err ? err : assembler__new(&r->as, r->capw);
	err = err ? err : limits_begin(&r->kept, r->capw, r->as);
	if (err || !filters_any(&r->t.opts->filter))
		return err;
	filters_assembler(&r->t.opts->filter, &filter);
	return assembler__filter(r->as, &filter);
}

static int tell_process(struct run *r)
{
	struct proc_info info;
	char python[16];
	struct assembler_process p;

	inline_target__describe(&r->t, &info, python, sizeof(python));
	p = (struct assembler_process){ .trace = { .id = PIX,
						   .pid = (uint32_t)r->t.pid.given,
						   .start_ns = r->start_ns,
						   .comm = info.comm,
						   .exe = info.exe,
						   .python = python,
						   .prefix = "" },
					.layout = &r->t.in.layout,
					.proc_pid = r->t.pid.pid };
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
	if (code_read(&r->mem, &r->t.in.layout, address, names))
		return func.id; /* shown as unreadable */
	if (names->flags & r->t.in.layout.co_hidden) {
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
	pid_t tid = tid_of(&r->t.engine, t->thread_id);
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
	read_comm(r->t.pid.pid, tid, comm, sizeof(comm));
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
		    tid_of(&r->t.engine, stacks->threads[i].thread_id))
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
	err = walk_outside(&r->mem, &r->t.in, &stacks);
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
		if (!r->opcodes)
			assembler__feed(r->as, &batch);
		any = 1;
		inline__alive(&r->t.engine);
		limits_part(&r->kept);
		if (!r->kept.full && limits_full(&r->kept)) {
			r->kept.full = true;
			break;
		}
	}
	return got < 0 ? got : any;
}

/* Events were lost: read what is left, then the stacks anew, while all threads stand still. */
static int recover_from_loss(struct run *r)
{
	int err;

	do {
		err = inline__stop_outside(&r->t.engine);
		if (err) /* it has ended; or it is so busy that we try again */
			return err == -ESRCH || err == -ETIMEDOUT ? 0 : err;
		do
			err = drain(r, PASS_BATCHES);
		while (err > 0);
		if (!err) {
			cap_inline__recount(r->cap);
			err = take_stacks(r, &r->t.engine);
		}
		if (!err)
			err = inline__restart(&r->t.engine);
		remote__resume(&r->t.engine.remote);
		if (err == -EAGAIN)
			usleep(TORN_US);
	} while (err == -EAGAIN);
	return err;
}

static bool time_is_up(const struct run *r, uint64_t now)
{
	const struct session_opts *o = r->t.opts;

	return r->t.interrupts || (o->duration_ns && now - r->attached_ns >= o->duration_ns) ||
	       r->kept.full;
}

static void totals(struct run *r, uint64_t now, struct trace_totals *t)
{
	uint64_t lost[LOSS_CNT] = { 0 };

	lost[LOSS_MAP] = cap_inline__lost(r->cap);
	assembler__totals(r->as, lost, t);
	t->end_ns = now;
}

static void kept_totals(void *ctx, uint64_t now, struct trace_totals *t)
{
	totals(ctx, now, t);
}

static uint64_t waiting_in_ring(void *ctx)
{
	const struct run *r = ctx;

	return r->t.engine.ring_bytes / 100 * cap_inline__backlog(r->cap);
}

static void flush(struct run *r, uint64_t now)
{
	struct trace_totals t;

	totals(r, now, &t);
	capw__flush(r->capw, &t);
	r->flushed_ns = now;
}

static int tell_sums(struct run *r, bool last, struct err *e)
{
	struct session_sums s = { .last = last,
				  .duration_ns = now_ns() - r->attached_ns,
				  .cost_ns = r->t.engine.opcode_cost * 1e9 /
					     (double)r->t.engine.tsc_hz };
	struct inline_opcodes_view view;
	int err = inline_opcodes__sums(r->instructions, &view);

	if (err)
		return err;
	s.lost = view.lost + cap_inline__lost(r->cap);
	return r->opcodes->sums(r->opcodes->ctx, &view, &s, e);
}

/* Chunks are written, files ended and begun, sums told, as time goes on or SIGUSR1 asks. */
static void keep(struct run *r, uint64_t now)
{
	struct err e = { 0 };
	int err;

	if (now - r->flushed_ns >= limits_flush_ns(&r->kept))
		flush(r, now);
	if (r->t.dump_asked && r->opcodes) {
		err = tell_sums(r, false, &e);
		if (err)
			cmd_fail("trace", err, &e);
	} else {
		r->kept.dumps_asked += r->t.dump_asked;
		limits_part(&r->kept);
		limits_dump(&r->kept, now);
	}
	r->t.dump_asked = false;
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
	if (!r->t.opts->quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "\r%02u:%02u | %.1fM events | %u threads | ring %u%%\033[K",
			(unsigned int)((now - r->start_ns) / SECOND_NS / 60),
			(unsigned int)((now - r->start_ns) / SECOND_NS % 60), events / 1e6,
			assembler__threads(r->as), cap_inline__backlog(r->cap));
}

static void name_threads(struct run *r, bool last)
{
	const struct naming_of of = { PIX, r->t.pid.pid, &r->t.in };

	naming_look(r->as, &of, &r->naming_ns, last);
}

static int loop(struct run *r)
{
	uint64_t next = r->start_ns + SECOND_NS;
	int any = 0, err = 0;

	while (!r->t.ended) {
		uint64_t now = now_ns();

		inline__alive(&r->t.engine);
		any = drain(r, PASS_BATCHES);
		if (any >= 0 && capw__written(r->capw))
			err = inline_target__check_jit(&r->t);
		if (any < 0 || err)
			return any < 0 ? any : err;
		if (cap_inline__is_lossy(r->cap) && !any) {
			err = recover_from_loss(r);
			if (err)
				return err;
		}
		name_threads(r, false);
		adjust(r, now);
		keep(r, now);
		if (time_is_up(r, now))
			break;
		if (now >= next) {
			every_second(r, now);
			next = now + SECOND_NS;
			if (inline__is_shared(&r->t.engine))
				return -EILSEQ;
		}
		inline_target__signals(&r->t, any ? 0 : POLL_MS);
	}
	return 0;
}

static void take_final(void *ctx, uint32_t tix, uint32_t seq)
{
	struct run *r = ctx;

	assembler__final(r->as, tix, seq);
}

static int finish(struct run *r, int err)
{
	struct session_result *result = r->t.result;
	int ended = 0;

	name_threads(r, true);
	inline__detach(&r->t.engine);
	while (!err && drain(r, PASS_BATCHES) > 0)
		;
	cap_inline__recount(r->cap);
	cap_inline__finals(r->cap, take_final, r);
	if (r->opcodes) {
		ended = inline_opcodes__finish(r->instructions);
		ended = ended ? ended : tell_sums(r, true, r->t.e);
	}
	if (assembler__finish(r->as))
		log_debug("the last events did not fit");
	totals(r, now_ns(), &result->totals);
	result->totals.complete = !err;
	result->duration_ns = result->totals.end_ns - r->start_ns;
	result->start_unix_ns = r->start_unix_ns;
	if (!r->t.opts->quiet && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	inline_target__say_stops(&r->t);
	limits_report(&r->kept);
	if (!r->t.opts->quiet)
		filters_report(&r->t.opts->filter, r->as, 0);
	if (err == -EILSEQ)
		log_warn(
			"the ring was damaged, by the target itself or by two interpreters that ran "
			"at once: the capture ends before that");
	else if (err)
		log_warn("the capture ends early: %s", err_str(err));
	err = capw__finish(r->capw, &result->totals) ?: ended;
	return r->t.opts->limits.keep_ns ? capw__dump(r->capw, r->fd) ?: err : err;
}

static void report_oddities(const struct run *r)
{
	run_say_odd(assembler__oddities(r->as));
	log_debug("slow path %llu times, waited %llu times",
		  (unsigned long long)r->t.engine.shared->slow,
		  (unsigned long long)r->t.engine.shared->waits);
}

static int check_options(const struct session_opts *o, struct err *e)
{
	if (!o->command && o->pid_cnt != 1)
		return err_set(e, -PYE_EUSAGE, "--engine inline traces one process");
	if (o->select || o->limits.overhead_pct)
		return err_set(e, -PYE_EUSAGE,
			       "--engine inline does not go with --max-overhead, or processes "
			       "that are not named");
	if (o->filter.thread)
		return err_set(e, -PYE_EUSAGE, "--engine inline does not go with --thread");
	if (o->subprocesses || o->record_rings)
		return err_set(e, -PYE_EUSAGE, "--engine inline does not go with %s",
			       o->subprocesses ? "-s" : "--record-rings");
	return 0;
}

/* Not instructions of the program: they lead to one that is dispatched anew. */
static bool is_detour(const char *name)
{
	static const char *const detours[] = { "CACHE",
					       "RESERVED",
					       "DO_TRACING",
					       "ENTER_EXECUTOR",
					       "TRACE_RECORD",
					       "INSTRUMENTED_LINE",
					       "INSTRUMENTED_INSTRUCTION" };

	for (size_t i = 0; i < sizeof(detours) / sizeof(*detours); i++)
		if (!strcmp(name, detours[i]))
			return true;
	return false;
}

static int choose_opcodes(struct run *r)
{
	unsigned int minor = r->t.in.layout.minor;
	const struct opcode_name *names = opcode_names(minor);
	int err;

	if (!names)
		return err_set(
			r->t.e, -PYE_EPLAN,
			"--opcodes knows CPython 3.11 to 3.15, this is 3.%u: there not every "
			"instruction goes through the dispatch table",
			minor);
	err = opcode_choose(names, minor, r->opcodes->list, r->chosen, r->t.e);
	for (unsigned int i = 0; !err && i < OPCODE_CNT; i++)
		r->chosen[i] = !names[i].name || is_detour(names[i].name) ? STUB_LEAVE_ALONE
			       : r->chosen[i]				  ? STUB_OPCODE
									  : STUB_OPCODE_END;
	err = err ? err
		  : inline_opcodes__new(&r->instructions, &r->t.engine, names, r->opcodes->each,
					r->opcodes->ctx);
	if (err)
		return err;
	cap_inline__take(r->cap, inline_opcodes__taker(r->instructions));
	return r->opcodes->begin(r->opcodes->ctx, &r->t.in, names, r->t.pid.given);
}

static int begin(struct run *r, int fd)
{
	struct inline_opts io = { .ring_bytes = r->t.opts->ring_bytes ? r->t.opts->ring_bytes
								      : RING_BYTES,
				  .wait = r->t.opts->wait_when_full,
				  .held = r->t.opts->command ? &r->t.held : NULL,
				  .opcodes = r->opcodes ? r->chosen : NULL,
				  .stopped = take_stacks,
				  .ctx = r };
	int err;

	err = inline_target__start(&r->t);
	if (err)
		return err;
	err = proc_mem__open(r->t.pid.pid, &r->mem);
	r->mem_open = !err;
	if (!err)
		err = open_capture(r, fd);
	if (!err)
		err = tell_process(r);
	if (!err)
		err = cap_inline__new(&r->cap, PIX, r->t.pid.pid);
	if (!err && r->opcodes)
		err = choose_opcodes(r);
	if (err)
		return err;
	cap_inline__use(r->cap, &r->t.engine);
	err = inline__attach(&r->t.engine, r->t.pid.pid, &r->t.in, &io, r->t.e);
	r->attached = !err;
	r->attached_ns = now_ns();
	return err;
}

static void done(struct run *r)
{
	cap_inline__free(r->cap);
	inline_opcodes__free(r->instructions);
	assembler__free(r->as);
	capw__free(r->capw);
	if (r->mem_open)
		proc_mem__close(&r->mem);
	inline_target__done(&r->t);
}

int session_inline(const struct session_opts *opts, int fd, const struct session_opcodes *opcodes,
		   struct session_result *result, struct err *e)
{
	struct run r = { .fd = fd, .opcodes = opcodes };
	int err = check_options(opts, e);

	if (err)
		return err;
	inline_target__init(&r.t, opts, result, e);
	r.kept = (struct limits_run){ .opts = &opts->limits,
				      .files = &opts->files,
				      .quiet = opts->quiet,
				      .ctx = &r,
				      .totals = kept_totals,
				      .waiting = waiting_in_ring };
	err = begin(&r, fd);
	if (!err) {
		int ended = loop(&r);

		err = finish(&r, ended);
		err = ended == -PYE_EPLAN ? ended : err;
		report_oddities(&r);
	}
	if (err)
		inline_target__abandon(&r.t);
	else
		inline_target__wait(&r.t);
	result->child_status = r.t.child_status;
	done(&r);
	return err;
}
