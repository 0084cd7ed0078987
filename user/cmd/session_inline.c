// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "inline"
#include "cmd/session_inline.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/drop.h"
#include "cmd/run.h"
#include "cmd/session_inline_priv.h"
#include "inline/heart.h"
#include "inline/stub.h"

#define PASS_BATCHES   64 /* batches between two looks at signals */
#define FOLLOW_BATCHES 4 /* of each, when others stand still until they are looked at */
#define POLL_MS	       1
#define QUIET_MS       20
#define ROOMY_BYTES    (4u << 20) /* more than is written in POLL_MS */
#define SECOND_NS      1000000000ull
#define ADJUST_NS      2000000ull
#define PATIENCE_NS    9000000000ull /* a target waits a second more */
#define PROGRAM_NS     10000000ull /* between two looks whether it is still the same */
#define SETTLE_NS \
	SECOND_NS /* a call that is open for longer is written, however short those may be that are left out */

static void decide(void *ctx, const struct pye_verdict *verdict)
{
	const struct inline_run *r = ctx;

	for (const struct inline_member *m = r->members; m; m = m->next)
		if (m->pix == verdict->pix && m->cap)
			cap_inline__decide(m->cap, verdict);
}

static int open_capture(struct inline_run *r, int fd)
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
	r->records = (struct capture_taker){ r->as, assembler__record, assembler__steps };
	err = err ? err : limits_begin(&r->kept, r->capw, r->as);
	if (err || !filters_any(&r->t.opts->filter))
		return err;
	filters_assembler(&r->t.opts->filter, &filter);
	filter.decide = decide;
	filter.ctx = r;
	return assembler__filter(r->as, &filter);
}

static bool time_is_up(struct inline_run *r, uint64_t now)
{
	const struct session_opts *o = r->t.opts;

	if (r->kept.full || (o->duration_ns && now - r->attached_ns >= o->duration_ns))
		return true;
	return run_is_interrupted(r->t.interrupts, o->command && r->members, now,
				  &r->interrupted_ns);
}

static void totals(struct inline_run *r, uint64_t now, struct trace_totals *t)
{
	uint64_t lost[LOSS_CNT] = { 0 };

	lost[LOSS_MAP] = r->lost;
	for (const struct inline_member *m = r->members; m; m = m->next)
		lost[LOSS_MAP] += m->cap ? cap_inline__lost(m->cap) : 0;
	assembler__totals(r->as, lost, t);
	t->end_ns = t->end_ns > now ? t->end_ns : now;
}

static void kept_totals(void *ctx, uint64_t now, struct trace_totals *t)
{
	totals(ctx, now, t);
}

static uint64_t waiting_in_ring(void *ctx)
{
	const struct inline_run *r = ctx;
	uint64_t bytes = 0;

	for (const struct inline_member *m = r->members; m; m = m->next)
		if (m->cap)
			bytes += m->engine->ring_bytes / 100 * cap_inline__backlog(m->cap);
	return bytes;
}

static void flush(struct inline_run *r, uint64_t now)
{
	struct trace_totals t;

	totals(r, now, &t);
	capw__flush(r->capw, &t);
	r->flushed_ns = now;
}

static int tell_sums(struct inline_run *r, bool last, struct err *e)
{
	struct session_sums s = { .last = last, .duration_ns = now_ns() - r->attached_ns };
	struct inline_opcodes_view view;
	int err = inline_opcodes__sums(r->instructions, &view);

	if (err)
		return err;
	s.cost_ns = view.cost_ns;
	s.lost = view.lost + r->lost;
	for (const struct inline_member *m = r->members; m; m = m->next)
		s.lost += cap_inline__lost(m->cap);
	if (last)
		r->t.result->totals = (struct trace_totals){ .generated = view.cnt + s.lost,
							     .written = view.cnt,
							     .lost[LOSS_RING] = s.lost,
							     .end_ns = now_ns(),
							     .complete = true };
	return r->opcodes->sums(r->opcodes->ctx, &view, &s, e);
}

/* Of all processes, those that have ended, too. */
static int tell_counts(struct inline_run *r, bool last, struct err *e)
{
	const struct session_counted of = { .last = last,
					    .start_ns = r->start_ns,
					    .start_unix_ns = r->start_unix_ns,
					    .pid = r->t.pid.given,
					    .comm = r->info.comm,
					    .exe = r->info.exe,
					    .python = r->python };
	struct inline_count_sum *sum = NULL;
	struct inline_count_view view;
	int err = inline_count_sum__new(&sum);

	if (!err) {
		inline_count_sum__view(r->ended, &view);
		err = inline_count_sum__add(sum, &view);
	}
	for (struct inline_member *m = r->members; m && !err; m = m->next)
		err = inline_member__sum(m, sum);
	if (!err) {
		inline_count_sum__view(sum, &view);
		err = r->counts->sums(r->counts->ctx, &view, &of, e);
	}
	inline_count_sum__free(sum);
	return err;
}

/* Chunks are written, files ended and begun, sums told, as time goes on or SIGUSR1 asks. */
static void keep(struct inline_run *r, uint64_t now)
{
	struct err e = { 0 };
	int err;

	if (now - r->flushed_ns >= limits_flush_ns(&r->kept)) {
		assembler__settle(r->as, r->fed_ns < now - SETTLE_NS ? r->fed_ns : now - SETTLE_NS);
		flush(r, now);
	}
	if (r->t.dump_asked && r->opcodes && !r->instructions) {
		log_warn("nothing is recorded yet");
	} else if (r->t.dump_asked && (r->opcodes || r->counts)) {
		err = r->counts ? tell_counts(r, false, &e) : tell_sums(r, false, &e);
		if (err)
			cmd_fail("trace", err, &e);
		r->unwritten += err != 0;
	} else {
		r->kept.dumps_asked += r->t.dump_asked;
		limits_part(&r->kept);
		limits_dump(&r->kept, now);
	}
	r->t.dump_asked = false;
}

/* A clock that is slewed runs by 500 ppm faster or slower at most: that is 1 us in 2 ms. */
static void adjust(struct inline_run *r, uint64_t now)
{
	struct clock_pair pair;

	if (now < r->adjust_ns || r->counts)
		return;
	pair = clock_pair_read();
	for (struct inline_member *m = r->members; m; m = m->next)
		cap_inline__adjust(m->cap, &pair);
	r->adjust_ns = pair.ns + ADJUST_NS;
}

/* Without -s nobody tells us that the target has executed something: there is nothing to be taken out any more. */
static void look_for_exec(struct inline_run *r)
{
	struct inline_member *m = r->members;

	if (r->follow || !m || !inline__has_executed(m->engine) || !proc_pid__alive(&r->t.pid))
		return;
	log_info(
		"process %d has executed another program, where the capture ends: -s would follow it",
		r->t.pid.given);
	r->executed = true;
	inline_member__end(m, now_ns());
}

static void every_second(struct inline_run *r, uint64_t now)
{
	double events = (double)capw__written(r->capw);
	unsigned int backlog = 0, threads;

	for (struct inline_member *m = r->members; m; m = m->next) {
		unsigned int full = m->cap ? cap_inline__backlog(m->cap) : 0;

		if (m->cap)
			cap_inline__reap(m->cap);
		backlog = full > backlog ? full : backlog;
	}
	threads = assembler__threads(r->as);
	if (!r->t.opts->quiet && !r->counts && isatty(STDERR_FILENO))
		fprintf(stderr, "\r%02u:%02u | %.1fM events | %u thread%s | ring %u%%\033[K",
			(unsigned int)((now - r->start_ns) / SECOND_NS / 60),
			(unsigned int)((now - r->start_ns) / SECOND_NS % 60), events / 1e6, threads,
			threads == 1 ? "" : "s", backlog);
}

/* What a round took out of all rings is older than what the next but one does. */
static void end_round(struct inline_run *r, uint64_t now)
{
	struct inline_member *m;

	for (m = r->members; m; m = m->next)
		if (!m->read)
			return;
	r->round++;
	r->fed_ns = r->round_ns;
	r->round_ns = now;
	for (m = r->members; m; m = m->next)
		m->read = false;
}

/* Of the child alone, as when its ring is damaged: the others go on. What cannot be written, or has no memory, ends the run. */
static bool is_of_child(const struct inline_member *m, int err)
{
	return err > -PYE_ENOTPYTHON && err != -ENOMEM && m->engine != &m->run->t.engine;
}

static void drop_child(struct inline_member *m, int err)
{
	inline_family__lost(m->run, m);
	if (err != -EILSEQ) /* that is seen, and said, once more */
		log_warn("what process %d did is not whole: %s", m->pid, err_str(err));
	inline_member__detach(m);
	inline_target__say_left(m->engine, m->pid);
	inline_member__end(m, now_ns());
}

/* Take what the rings hold now. 1 when there was something. */
static int drain(struct inline_run *r, unsigned int batches)
{
	struct inline_member *m, *next;
	int any = 0;

	for (m = r->members; m; m = next) {
		int got = inline_member__drain(m, batches),
		    err = got < 0 ? got : inline_member__tend(m, !got);

		next = m->next;
		if (err && !is_of_child(m, err))
			return err;
		if (err)
			drop_child(m, err);
		any |= got > 0;
	}
	end_round(r, now_ns());
	return any;
}

/* What goes wrong with one is seen once more, and seen to, by drain(). */
void inline_run__read(struct inline_run *r)
{
	adjust(r, now_ns());
	for (struct inline_member *m = r->members; m; m = m->next)
		if (m->attached)
			inline_member__drain(m, FOLLOW_BATCHES);
	end_round(r, now_ns());
}

/* Is there more to read, or can there be soon more than fits? */
static bool is_behind(const struct inline_run *r)
{
	for (const struct inline_member *m = r->members; m; m = m->next)
		if (!m->cap || !cap_inline__is_at_end(m->cap) ||
		    m->engine->ring_bytes < ROOMY_BYTES)
			return true;
	return false;
}

/* With --count only names come; but what is followed stands still until it is looked at. */
static int pause_ms(const struct inline_run *r, bool any)
{
	if (r->counts && !r->follow)
		return any ? POLL_MS : QUIET_MS;
	return any && is_behind(r) ? 0 : POLL_MS;
}

static int loop(struct inline_run *r)
{
	uint64_t next = r->start_ns + SECOND_NS, program = 0;

	while (!r->t.ended) {
		uint64_t now = now_ns();
		int err = inline_family__look(r), any;

		if (now >= program) {
			look_for_exec(r);
			program = now + PROGRAM_NS;
		}
		if (r->executed)
			break;

		for (struct inline_member *m = r->members; m; m = m->next)
			inline__alive(m->engine);
		inline_heart__reads(r->heart);
		adjust(r, now);
		any = err ? err : drain(r, r->follow ? FOLLOW_BATCHES : PASS_BATCHES);
		if (any < 0)
			return any;
		keep(r, now);
		if (time_is_up(r, now))
			break;
		if (now >= next) {
			every_second(r, now);
			next = now + SECOND_NS;
		}
		inline_target__signals(&r->t, pause_ms(r, any));
	}
	return 0;
}

/* The last words of all. */
static void finish_members(struct inline_run *r, int err)
{
	struct inline_member *m;

	if (!err)
		inline_family__look(r);
	look_for_exec(r);
	for (m = r->members; m; m = m->next) {
		inline_member__detach(m);
		if (!err && m->next) /* the others write on, for as long as that takes */
			inline_run__read(r);
	}
	inline_family__release(r);
	for (m = r->members; m; m = m->next)
		inline_member__finals(m, err);
}

/* All processes, those that are gone, too. */
static uint64_t left_out(const struct inline_run *r)
{
	uint64_t calls = r->left_out;

	for (const struct inline_member *m = r->members; m; m = m->next)
		calls += m->cap ? cap_inline__left_out(m->cap) : 0;
	return calls;
}

/* When the last word was put back: what is done since, which can take long, is no time of the target's. */
static uint64_t end_of(const struct inline_run *r)
{
	uint64_t end = 0;

	for (const struct inline_member *m = r->members; m; m = m->next)
		if (m->engine->remote.put_back_ns > end)
			end = m->engine->remote.put_back_ns;
	return end ? end : now_ns();
}

/* Of all of them. */
static void say_stops(struct inline_run *r)
{
	for (struct inline_member *m = r->members; m; m = m->next) {
		if (m->engine == &r->t.engine)
			continue;
		inline_target__say_left(m->engine, m->pid);
		inline_target__add_stops(&r->t, m->engine->remote.stops,
					 m->engine->remote.longest_us);
	}
	inline_target__say_stops(&r->t);
}

static int finish(struct inline_run *r, int err)
{
	struct session_result *result = r->t.result;
	struct trace_totals t;
	int ended = 0;

	finish_members(r, err);
	if (r->counts && err == -EILSEQ)
		ended = err_set(r->t.e, -PYE_ETARGET,
				"the tables were damaged, by the target itself: what was counted "
				"cannot be trusted");
	else if (r->counts && err > -PYE_ENOTPYTHON && r->last_pix)
		ended = tell_counts(r, true, r->t.e);
	if (r->instructions) {
		int told;

		ended = inline_opcodes__finish(r->instructions);
		told = tell_sums(r, true, r->t.e); /* which knows why nothing can be written */
		ended = ended ? ended : told;
	}
	if (assembler__finish(r->as))
		log_debug("the last events did not fit");
	totals(r, end_of(r), &t);
	t.complete = !err;
	if (!r->counts && !r->instructions) /* else they were told with the sums */
		result->totals = t;
	result->duration_ns = t.end_ns - r->start_ns;
	result->start_unix_ns = r->start_unix_ns;
	if (!r->t.opts->quiet && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	say_stops(r);
	limits_report(&r->kept);
	if (!r->t.opts->quiet && !r->counts) /* else the sums know it */
		filters_report(&r->t.opts->filter, r->as, left_out(r));
	if (err == -EILSEQ && !r->counts)
		log_warn(
			"the ring was damaged, by the target itself: the capture ends before that");
	else if (err && err != -EILSEQ)
		log_warn("the capture ends early: %s", err_str(err));
	err = capw__finish(r->capw, &t) ?: ended;
	return r->t.opts->limits.keep_ns ? capw__dump(r->capw, r->fd) ?: err : err;
}

static void report_oddities(const struct inline_run *r)
{
	uint64_t unmatched = r->unmatched;

	run_say_odd(assembler__oddities(r->as));
	for (const struct inline_member *m = r->members; m; m = m->next)
		unmatched += m->cap ? cap_inline__unmatched(m->cap) : 0;
	if (unmatched)
		log_warn(
			"%llu ends of frames did not fit the stacks, as when a kernel probe of others hides some: they count as lost, and are shown as gaps",
			(unsigned long long)unmatched);
	if (r->t.engine.shared)
		log_debug("slow path %llu times, waited %llu times, %llu calls left out",
			  (unsigned long long)r->t.engine.shared->slow,
			  (unsigned long long)r->t.engine.shared->waits,
			  (unsigned long long)r->t.engine.shared->quiet);
}

static int check_options(const struct session_opts *o, struct err *e)
{
	if (!o->command && o->pid_cnt != 1)
		return err_set(e, -PYE_EUSAGE, "--engine inline traces one process%s",
			       o->subprocesses ? " and what it starts" : "");
	if (o->limits.overhead_pct)
		return err_set(e, -PYE_EUSAGE, "--engine inline does not go with --max-overhead");
	if (o->select)
		return err_set(e, -PYE_EUSAGE,
			       "--engine inline takes no processes that are not named (-a, --comm, "
			       "--cgroup, --container), and does not go with --host-wide");
	if (o->filter.thread)
		return err_set(e, -PYE_EUSAGE, "--engine inline does not go with --thread");
	if (o->record_rings)
		return err_set(e, -PYE_EUSAGE, "--engine inline does not go with --record-rings");
	return 0;
}

/* @list: ends with NULL */
static bool is_one_of(const char *name, const char *const *list)
{
	while (*list && strcmp(name, *list) != 0)
		list++;
	return *list;
}

static uint8_t how_recorded(const char *name, bool chosen)
{
	/* not instructions of the program: they lead to one that is dispatched anew */
	static const char *const detours[] = { "CACHE",
					       "RESERVED",
					       "DO_TRACING",
					       "ENTER_EXECUTOR",
					       "TRACE_RECORD",
					       "INSTRUMENTED_LINE",
					       "INSTRUMENTED_INSTRUCTION",
					       NULL };
	static const char *const before_resume[] = { "COPY_FREE_VARS", "MAKE_CELL",
						     "RETURN_GENERATOR", NULL };

	if (!name || is_one_of(name, detours))
		return STUB_LEAVE_ALONE;
	if (!chosen)
		return STUB_OPCODE_END;
	return is_one_of(name, before_resume) ? STUB_OPCODE_FIRST : STUB_OPCODE;
}

int inline_run__opcodes(struct inline_run *r, struct inline_member *m)
{
	unsigned int minor = m->in->layout.minor;
	const struct opcode_name *names = opcode_names(minor);
	int err;

	if (r->instructions && minor != r->minor)
		return -PYE_EVERSION;
	if (r->instructions) {
		cap_inline__take(m->cap, inline_opcodes__taker(r->instructions));
		return 0;
	}
	if (!names)
		return err_set(
			r->t.e, -PYE_EPLAN,
			"--opcodes knows CPython 3.11 to 3.15, this is 3.%u: there not every "
			"instruction goes through the dispatch table",
			minor);
	err = opcode_choose(names, minor, r->opcodes->list, r->chosen, r->t.e);
	for (unsigned int i = 0; !err && i < OPCODE_CNT; i++)
		r->chosen[i] = how_recorded(names[i].name, r->chosen[i]);
	err = err ? err
		  : inline_opcodes__new(&r->instructions, &m->in->layout, names, r->opcodes->each,
					r->opcodes->ctx);
	if (err)
		return err;
	if (r->opcodes->raw)
		inline_opcodes__keep_cost(r->instructions);
	r->minor = minor;
	cap_inline__take(m->cap, inline_opcodes__taker(r->instructions));
	return r->opcodes->begin(r->opcodes->ctx, m->in, names, r->t.pid.given);
}

/* The process that was asked for, known by now: Python, or held at its entry point. */
static int attach(struct inline_run *r)
{
	struct inline_member *m = inline_member__new(r, r->t.pid.pid, true);
	struct inline_opts opts;
	int err = m ? inline_member__open(m) : -ENOMEM;

	if (err)
		return err;
	inline_member__opts(m, &opts);
	opts.begins = r->follow ? inline_family__attaching : NULL;
	err = inline__attach(m->engine, m->pid, m->in, &opts, r->t.e);
	if (!err)
		err = inline_stacks__tell(m);
	if (!err)
		inline_member__attached(m);
	if (!err && r->instructions)
		inline_opcodes__measured(r->instructions, m->engine);
	return err ? err : r->follow ? inline_family__begin(r, m) : 0;
}

/* What is read from here on is the target's: it has no privilege to win but that of stopping processes, in a hurry. */
static int drop(struct err *e)
{
	return drop_for_good(CAPS_PROC | CAPS(CAP_SYS_NICE) | (geteuid() ? 0 : DROP_ROOT), e);
}

static int begin(struct inline_run *r, int fd)
{
	int err;

	err = inline_target__start(&r->t);
	if (!err)
		err = drop(r->t.e);
	if (err)
		return err;
	r->follow = r->t.follow;
	r->heart = inline_heart__new(PATIENCE_NS);
	err = open_capture(r, fd);
	if (!err && !r->t.let_go)
		err = r->follow && r->t.opts->command ? inline_family__begin(r, NULL) : attach(r);
	r->attached_ns = r->t.let_go ? r->t.start_ns : now_ns();
	return err;
}

void inline_run__free(struct inline_run *r)
{
	if (!r)
		return;
	inline_family__free(r);
	while (r->members)
		inline_member__forget(r->members);
	inline_opcodes__free(r->instructions);
	inline_count_sum__free(r->ended);
	inline_heart__free(r->heart);
	assembler__free(r->as);
	capw__free(r->capw);
	inline_target__done(&r->t);
	free(r);
}

static struct inline_run *new_run(const struct session_opts *opts, struct session_result *result,
				  struct err *e)
{
	struct inline_run *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	inline_target__init(&r->t, opts, result, e);
	r->kept = (struct limits_run){ .opts = &opts->limits,
				       .files = &opts->files,
				       .quiet = opts->quiet,
				       .ctx = r,
				       .totals = kept_totals,
				       .waiting = waiting_in_ring };
	return r;
}

int session_inline(const struct session_opts *opts, int fd, const struct session_opcodes *opcodes,
		   const struct session_counts *counts, struct session_result *result,
		   struct inline_run **left, struct err *e)
{
	auto_fn(inline_run__freep) struct inline_run *r = NULL;
	int err = check_options(opts, e);
	bool runs = false;

	if (err)
		return err;
	r = new_run(opts, result, e);
	if (!r)
		return -ENOMEM;
	r->fd = fd;
	r->opcodes = opcodes;
	r->counts = counts;
	err = counts ? inline_count_sum__new(&r->ended) : 0;
	err = err ? err : begin(r, fd);
	if (!err) {
		int ended = loop(r);

		err = finish(r, ended);
		if (r->refused) /* that we end it is no status of its own */
			r->t.child_status = 0;
		err = ended <= -PYE_ENOTPYTHON ? ended : err;
		/* else it turned out that it cannot be traced */
		runs = ended > -PYE_ENOTPYTHON || ended == -PYE_EOUTPUT ||
		       (counts && r->t.engine.shared &&
			!r->refused); /* whatever became of the sums */
		report_oddities(r);
		if (!err && !r->last_pix && r->t.ended)
			err = inline_target__never_python(&r->t);
		else if (!err && !r->last_pix)
			log_warn("no Python had begun when the trace ended");
	}
	if (err && !runs)
		inline_target__abandon(&r->t);
	else
		inline_target__wait(&r->t);
	if (err == -PYE_ETARGET && !runs && r->t.loaded && r->t.child_reaped)
		err = inline_target__too_soon(&r->t);
	if (!err && r->unwritten)
		err = err_set(e, -PYE_EOUTPUT, "%u of the files could not be made", r->unwritten);
	result->child_status = r->t.child_status;
	result->interrupts = r->t.interrupts;
	if (left && !inline_run__let_late_go(r)) {
		*left = r;
		r = NULL;
	}
	return err;
}
