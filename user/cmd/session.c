// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "trace"
#include "cmd/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "capture/cap_waits.h"
#include "cmd/latency.h"
#include "cmd/naming.h"
#include "cmd/run.h"
#include "cmd/select.h"
#include "cmd/session_priv.h"
#include "proc/info.h"
#include "symbol/symbols.h"

#define POLL_MS		 5
#define POLL_SAMPLES_MS	 10 /* code objects are named by then, before most that die are gone */
#define POLL_KNOWN_MS	 50 /* when all that is sampled has been seen before, for so long: */
#define KNOWN_NS	 (500 * 1000000ull)
#define KNOWN_POLLS	 4 /* so many times rarer, where another time is asked for */
#define KNOWN_RATE_NS	 1000000u /* and samples are not nearer to one another than this */
#define BUSY_PCT	 5 /* of a ring full: read on at once */
#define PASS_BATCHES	 64 /* batches between two looks at signals and processes */
#define PROGRESS_NS	 1000000000ull
#define SETTLE_NS	 1000000000ull /* older records than this are not in the rings */
#define PROGRESS_FILE_NS (10 * 1000000000ull)

enum pye_counter {
#define PYE_COUNTER(name, number, text) CNT_##name = (number),
#include "abi/counters.def"
#undef PYE_COUNTER
};

static int watch_signals(struct session *s)
{
	struct epoll_event ev = { .events = EPOLLIN };

	s->signal_fd = run_signals(true);
	if (s->signal_fd < 0)
		return s->signal_fd;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		return -errno;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->signal_fd, &ev) ||
	    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, cap_bpf__control_fd(s->cap), &ev))
		return -errno;
	if (s->opts.view && s->opts.view->fd >= 0 &&
	    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->opts.view->fd, &ev))
		return -errno;
	if (s->opts.side && s->opts.side->fd >= 0 &&
	    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->opts.side->fd, &ev))
		return -errno;
	return 0;
}

/* Fewer programs, less for the verifier to do. A command and its children are held while more are loaded;
 * processes that are not named and children of one that runs are not, and can be of any version. */
static uint32_t families(const struct session *s)
{
	uint32_t mask = 0;

	if (s->selection || (s->opts.subprocesses && !s->opts.command))
		return BPF_ALL;
	for (size_t i = 0; i < s->target_cnt; i++)
		mask |= cap_bpf_families(&s->targets[i]->in.plan);
	return mask;
}

/* What runs is Python, and can be traced. Whatever else is left out; of what is Python it is said why. */
static int add_running(struct session *s, pid_t pid)
{
	struct err e = { 0 };
	struct interp in;
	struct target *t;
	int err = interp__find_cached(pid, s->opts.engine, s->execs.cache, &in, &e);

	if (err == -PYE_ENOTPYTHON || err == -PYE_ETARGET)
		return 0;
	t = err ? NULL : target_add(s, pid, &e);
	if (t) {
		t->in = in;
		t->ran = t->has_interp = true;
		err = target_vet(s, t, &e);
		t->ended = err != 0;
	} else if (!err) { /* it has ended meanwhile */
		interp__done(&in);
		return errno == ENOMEM ? -ENOMEM : 0;
	}
	if (err && err != -ENOMEM)
		log_warn("process %d is not traced: %s", pid, e.what);
	return err == -ENOMEM ? err : 0;
}

/* -s: what the processes that were asked for have started so far. */
static int find_descendants(struct session *s)
{
	pid_t pids[PROC_DESCENDANTS_MAX];
	int err = 0;

	if (!proc_pid_is_ours()) {
		log_warn(
			"/proc belongs to another pid namespace: children that run already are not traced");
		return 0;
	}
	for (size_t i = 0; i < s->opts.pid_cnt; i++) {
		int cnt = run_descendants(s->opts.pids[i], pids, true);

		for (int k = 0; k < cnt && !err; k++)
			if (!target_by_pid(s, pids[k]))
				err = add_running(s, pids[k]);
	}
	return err;
}

/* With -p: every target must be one that can be traced before anything is placed. What they execute mostly runs in the
 * same files, and then is found at once. */
static int find_targets(struct session *s, struct err *e)
{
	struct interp_cache **cache = &s->execs.cache;
	int err = interp_cache__new(cache);

	if (err)
		return err;
	run_raise_files();
	for (size_t i = 0; i < s->opts.pid_cnt; i++) {
		struct target *t = target_add(s, s->opts.pids[i], e);

		if (!t)
			return errno ? -errno : -PYE_ETARGET;
		t->asked = true;
		err = interp__find_cached(t->pid.pid, s->opts.engine, *cache, &t->in, e);
		if (err == -PYE_ENOTPYTHON) /* is one of its children? */
			err = interp__find(t->pid.pid, s->opts.engine, &t->in, e);
		t->has_interp = !err;
		if (!err)
			err = target_vet(s, t, e);
		if (err)
			return err;
	}
	return s->opts.subprocesses ? find_descendants(s) : 0;
}

/* Nobody should find out one by one what is missing: loading the programs comes after the targets. */
static void add_missing(struct err *e)
{
	uint64_t missing = caps_missing(CAPS_BPF);
	char text[160];
	size_t at = strlen(e->what);

	if (!missing)
		return;
	snprintf(e->what + at, sizeof(e->what) - at, "; for the probes %s, too",
		 caps_text(text, sizeof(text), missing));
	caps_advise(e, missing | caps_missing(CAPS(CAP_SYS_PTRACE)));
}

static int open_record(struct session *s, struct err *e)
{
	int err;

	s->record = fopen(s->opts.record_rings, "wxe");
	err = s->record ? replay_begin(s->record) : -errno;
	return err ? err_set(e, -PYE_EOUTPUT, "the rings cannot be recorded: %s", strerror(-err))
		   : 0;
}

void session_record(struct session *s, const struct replay_item *item, const void *data)
{
	if (s->record)
		replay_put(s->record, item, data);
}

static void kept_totals(void *ctx, uint64_t now, struct trace_totals *out)
{
	session_totals(ctx, now, out);
}

static uint64_t waiting_in_rings(void *ctx)
{
	const struct session *s = ctx;

	return s->opts.ring_bytes / 100 * cap_bpf__backlog(s->cap);
}

int session__new(struct session **out, const struct session_opts *opts, struct err *e)
{
	struct cap_bpf_opts cap = { .ring_bytes = opts->ring_bytes,
				    .launch = opts->command != NULL,
				    .select = opts->select != NULL,
				    .sample_ns = opts->sample_ns,
				    .on_cpu = opts->on_cpu,
				    .off_cpu = opts->off_cpu,
				    .wait_min_ns = opts->wait_min_ns,
				    .gil_only = opts->gil_only,
				    .native = opts->native,
				    .max_cpu_pct = opts->max_cpu_pct,
				    .keep_least = opts->keep_least,
				    .budget = opts->limits.overhead_pct != 0,
				    .filter = filters_kernel(&opts->filter),
				    .force_classic = opts->force_classic,
				    .table_max = (uint32_t)opts->table_max };
	struct session *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->opts = *opts;
	s->kept = (struct limits_run){ .opts = &s->opts.limits,
				       .files = &s->opts.files,
				       .quiet = opts->quiet,
				       .ctx = s,
				       .totals = kept_totals,
				       .waiting = waiting_in_rings };
	s->launch.go_fd = s->launch.failed_fd = s->signal_fd = s->epoll_fd = -1;
	err = native_begin(s, e);
	err = err ? err : find_targets(s, e);
	if (err == -PYE_EPRIV)
		add_missing(e);
	if (!err && opts->select)
		err = select_new(s, e);
	if (!err && opts->record_rings)
		err = open_record(s, e);
	cap.families = families(s);
	if (!err)
		err = cap_bpf__new(&s->cap, &cap, e);
	if (!err)
		err = budget_check(s, e);
	if (!err) {
		cap_bpf__calibrate(s->cap);
		err = watch_signals(s);
	}
	if (err) {
		session__free(s);
		return err;
	}
	*out = s;
	return 0;
}

void session__free(struct session *s)
{
	if (!s)
		return;
	cap_bpf__free(s->cap);
	assembler__free(s->as);
	symbols__free(s->symbols);
	capw__free(s->capw);
	targets_free(s);
	select_free(s);
	if (s->record)
		fclose(s->record);
	launch__close(&s->launch);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s);
}

static void record_batch(struct session *s, const struct capture_batch *batch)
{
	session_record(s,
		       &(struct replay_item){ .kind = REPLAY_BATCH,
					      .len = (uint32_t)batch->len,
					      .ring = batch->ring,
					      .round = batch->round },
		       batch->data);
}

static bool next_deaths(void *session, struct capture_batch *batch)
{
	struct session *s = session;

	if (!cap_bpf__deaths(s->cap, batch))
		return false;
	record_batch(s, batch);
	return true;
}

int session_open_capture(struct session *s, const struct probe_plan *plan)
{
	struct utsname uts = { 0 };
	struct trace_info info = {
		.start_ns = now_ns(),
		.start_unix_ns = wall_ns(),
		.engine = s->opts.sample_ns ? "sample" : plan->engine,
		.sample_ns = s->opts.sample_ns,
		.version = PYEBPF_VERSION,
		.hostname = uts.nodename,
		.kernel = uts.release,
		.cpu = "",
		.cpu_cnt = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
		.arguments = s->opts.arguments ? s->opts.arguments : "",
	};
	struct capw_opts opts;
	int err;

	uname(&uts);
	cap_bpf__cost(s->cap, plan, &info.cost);
	/* with a selection the run may have begun before its first process came */
	if (!s->selection)
		s->start_ns = info.start_ns;
	s->start_unix_ns = info.start_unix_ns;
	limits_writer(&s->opts.limits, &opts);
	err = capw__new(&s->capw, s->fd, &opts, &info);
	err = err ? err : assembler__new(&s->as, s->capw);
	if (!err && s->opts.sample_ns)
		assembler__sampling(s->as, next_deaths, s);
	if (!err && s->symbols)
		assembler__native(s->as, s->symbols);
	err = err ? err : filters_begin(s);
	err = err ? err : latency_begin(s);
	return err ? err : limits_begin(&s->kept, s->capw, s->as);
}

static int start_command(struct session *s, struct err *e)
{
	struct target *t;
	int err = launch__fork(&s->launch, s->opts.command, s->opts.as_root, e);

	if (err)
		return err;
	t = target_add(s, s->launch.pid, e);
	if (!t)
		return -ESRCH;
	t->asked = t->launched = true;
	err = cap_bpf__hold(s->cap, s->launch.pid, e);
	if (!err)
		err = session_drop(s, e);
	if (!err)
		launch__go(&s->launch);
	return err;
}

static int start(struct session *s, struct err *e)
{
	if (s->opts.command)
		return start_command(s, e);
	if (s->selection) {
		int err = select_start(s, e);

		return err ? err : session_drop(s, e);
	}
	for (size_t i = 0; i < s->target_cnt; i++) {
		struct target *t = s->targets[i];
		int err = t->ended ? 0 : target_start(s, t, e);

		if (err && (t->asked || err == -ENOMEM || err == -PYE_EOUTPUT))
			return err;
		if (err && proc_pid__alive(&t->pid))
			log_warn("process %d is not traced: %s", t->pid.given, e->what);
		t->ended |= err != 0;
		if (!t->ended && !s->opts.sample_ns)
			idle_begin(t);
	}
	return session_drop(s, e);
}

static void reap(struct session *s)
{
	int status;

	if (s->opts.files.child)
		s->opts.files.child(s->opts.files.ctx);

	if (s->launch.pid > 0 && !s->child_reaped &&
	    waitpid(s->launch.pid, &status, WNOHANG) == s->launch.pid) {
		s->child_reaped = true;
		s->child_status = status;
	}
}

static void read_signals(struct session *s)
{
	const struct session_side *side = s->opts.side;
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (side && side->signal(side->ctx, (int)info.ssi_signo))
			continue;
		if (info.ssi_signo == SIGUSR1)
			s->kept.dumps_asked++;
		else if (info.ssi_signo != SIGCHLD)
			s->interrupts++;
	}
	reap(s);
}

/* Take what the rings hold now. 1 when there was something. */
static int drain(struct session *s, size_t batches)
{
	struct capture_batch batch;
	int any = 0;

	if (cap_bpf__crowded(s->cap))
		assembler__suspect(s->as);
	while (batches-- && cap_bpf_ops.next(s->cap, &batch) > 0) {
		/* a process that has records here was announced before them */
		int err = targets_control(s);

		if (err)
			return err;
		record_batch(s, &batch);
		/* what it cannot keep, for want of memory or disk, it counts */
		assembler__feed(s->as, &batch);
		any = 1;
		limits_part(&s->kept);
		if (!s->kept.full && limits_full(&s->kept)) {
			s->kept.full = true;
			break;
		}
	}
	return any;
}

static void progress(struct session *s, uint64_t now, uint64_t *next)
{
	static const char *const units[] = { "", "k", "M", "G" };
	double events = s->capw ? (double)capw__written(s->capw) : 0;
	unsigned int unit = 0, elapsed = (unsigned int)((now - s->start_ns) / 1000000000u), threads;
	bool tty;

	if (s->opts.quiet || now < *next)
		return;
	tty = isatty(STDERR_FILENO);
	*next = now + (tty ? PROGRESS_NS : PROGRESS_FILE_NS);
	while (events >= 1000 && unit < 3) {
		events /= 1000;
		unit++;
	}
	threads = s->as ? assembler__threads(s->as) : 0;
	fprintf(stderr, "%s%02u:%02u | %.1f%s %s | %u thread%s | ring %u%% | lost %llu%s",
		tty ? "\r" : "pyebpf: ", elapsed / 60, elapsed % 60, events, units[unit],
		s->opts.sample_ns ? "samples" : "events", threads, threads == 1 ? "" : "s",
		cap_bpf__backlog(s->cap), (unsigned long long)cap_bpf__counter(s->cap, 0),
		tty ? "\033[K" : "\n");
}

static bool time_is_up(const struct session *s, uint64_t now, uint64_t *interrupted)
{
	if (s->opts.duration_ns && now - s->start_ns >= s->opts.duration_ns)
		return true;
	if (s->kept.full)
		return true;
	return run_is_interrupted(s->interrupts, s->opts.command, now, interrupted);
}

void session_totals(const struct session *s, uint64_t now, struct trace_totals *out)
{
	uint64_t lost[LOSS_CNT];

	cap_bpf__losses(s->cap, lost);
	assembler__totals(s->as, lost, out);
	out->end_ns = now;
}

void session_flush(struct session *s, uint64_t now)
{
	struct trace_totals totals;

	session_totals(s, now, &totals);
	/* a full disk is reported at the end, with the number of events it cost */
	capw__flush(s->capw, &totals);
}

/* What is new has to be named soon. A process that comes wakes us. */
static int samples_wait_ms(struct session *s, uint64_t now)
{
	uint64_t news = s->control_cnt + (s->as ? assembler__codes_read(s->as) : 0);

	if (news != s->news) {
		s->news = news;
		s->news_ns = now;
	}
	if (s->opts.poll_ms)
		return now - s->news_ns < KNOWN_NS ? s->opts.poll_ms
						   : KNOWN_POLLS * s->opts.poll_ms;
	if (now - s->news_ns < KNOWN_NS || s->opts.sample_ns < KNOWN_RATE_NS)
		return POLL_SAMPLES_MS;
	return POLL_KNOWN_MS;
}

/* Records wait in their rings while we sleep: that costs less than looking all the time. */
static int wait_ms(struct session *s, uint64_t now)
{
	if (s->as && (cap_bpf__backlog(s->cap) >= BUSY_PCT || cap_bpf__crowded(s->cap)))
		return 0;
	return s->opts.sample_ns ? samples_wait_ms(s, now) : POLL_MS;
}

/* Samples up to @now were taken out of the rings. 1: the run ends. */
static int view(struct session *s, uint64_t now, uint64_t *next)
{
	const struct session_view *v = s->opts.view;
	int err = v->input(v->ctx);

	if (err || now < *next)
		return err;
	*next = now + v->every_ns;
	if (s->capw) {
		waiting_look(s);
		if (s->opts.off_cpu)
			assembler__waiting_so_far(s->as, now);
		session_flush(s, now);
	}
	return v->show(v->ctx, s->capw, now);
}

static int loop(struct session *s)
{
	uint64_t next_progress = s->start_ns + PROGRESS_NS,
		 next_flush = s->start_ns + limits_flush_ns(&s->kept), next_view = s->start_ns;
	uint64_t interrupted = 0;
	struct epoll_event events[4];
	int err, drained;

	for (;;) {
		uint64_t now;

		err = targets_control(s);
		if (err)
			return err;
		now = now_ns(); /* not before: what was started may have set start_ns */
		drained = s->as ? drain(s, PASS_BATCHES) : 0;
		if (drained < 0)
			return drained;
		if (s->capw)
			limits_part(&s->kept);
		budget_tick(s, now, !drained);
		naming_look_all(s, false);
		cap_bpf__look(s->cap, now);
		cap_bpf__budget(s->cap, now);
		/* calls are there, so the interpreter has started */
		if (s->opts.command && !s->opts.sample_ns && s->capw && capw__written(s->capw) &&
		    (err = targets_check_jit(s)))
			return err;
		if (time_is_up(s, now, &interrupted) || !targets_alive(s))
			return 0;
		if (s->opts.filter.latency)
			latency_live(s, now);
		else
			progress(s, now, &next_progress);
		if (s->capw && now >= next_flush) {
			/* what happened a second ago survives a SIGKILL */
			idle_show(s);
			assembler__settle(s->as, now - SETTLE_NS);
			session_flush(s, now);
			next_flush = now + limits_flush_ns(&s->kept);
		}
		limits_dump(&s->kept, now);
		if (s->opts.side)
			s->opts.side->tick(s->opts.side->ctx, now);
		if (s->opts.view && (err = view(s, now, &next_view)))
			return err > 0 ? 0 : err;
		epoll_wait(s->epoll_fd, events, 4, wait_ms(s, now));
		read_signals(s);
	}
}

void session__load(const struct session *s, struct session_load *out)
{
	*out = (struct session_load){
		.bpf_ns = cap_bpf__counter(s->cap, CNT_SAMPLE_NS),
		.samples = cap_bpf__counter(s->cap, CNT_SAMPLES),
		.skipped = cap_bpf__skipped(s->cap),
		.unwanted = cap_bpf__unwanted(s->cap),
		.short_waits = cap_bpf__counter(s->cap, CNT_WAIT_SHORT),
		.short_waits_ns = cap_bpf__counter(s->cap, CNT_WAIT_SHORT_NS),
		.no_state = cap_bpf__counter(s->cap, CNT_SAMPLE_NO_STATE),
		.faults = cap_bpf__counter(s->cap, CNT_SAMPLE_FAULT),
		.deep = cap_bpf__counter(s->cap, CNT_SAMPLE_DEEP),
		.keep = cap_bpf__keep(s->cap),
		.backlog_pct = cap_bpf__backlog(s->cap),
	};
	cap_bpf__losses(s->cap, out->lost);
}

void session__limit(struct session *s, uint32_t max_cpu_pct)
{
	cap_bpf__limit(s->cap, max_cpu_pct);
}

void session__wait_min(struct session *s, uint64_t ns)
{
	cap_bpf__wait_min(s->cap, ns);
}

void session__want(struct session *s, uint32_t process, pid_t pid, bool wanted)
{
	cap_bpf__want(s->cap, pid, process, wanted);
}

void session__beside(struct session *s, uint64_t cpu_ns)
{
	cap_bpf__beside(s->cap, cpu_ns);
}

static void take_final(void *ctx, uint32_t tix, uint32_t seq)
{
	struct session *s = ctx;
	const struct replay_final final = { tix, seq, s->detached_ns };

	session_record(s, &(struct replay_item){ .kind = REPLAY_FINAL, .len = sizeof(final) },
		       &final);
	assembler__final(s->as, tix, seq, final.until_ns);
}

/* Probes out, rings empty, every thread's final number known: then the counters are exact. */
static int finish(struct session *s, struct session_result *result)
{
	uint64_t lost[LOSS_CNT];
	int err;

	idle_show(s);
	waiting_show(s);
	naming_look_all(s, true);
	s->detached_ns = now_ns();
	cap_bpf__detach(s->cap);
	cap_bpf__send_waits(s->cap);
	targets_release(s);
	while (drain(s, PASS_BATCHES) > 0 && s->interrupts < 2)
		read_signals(s);
	cap_bpf__finals(s->cap, take_final, s);
	drain(s, PASS_BATCHES); /* the last words of threads that ended meanwhile */
	assembler__still_waiting(s->as, now_ns());
	budget_finish(s, now_ns());
	err = assembler__finish(s->as);
	cap_bpf__losses(s->cap, lost);
	session_record(s, &(struct replay_item){ .kind = REPLAY_LOSSES, .len = sizeof(lost) },
		       lost);
	assembler__totals(s->as, lost, &result->totals);
	result->totals.end_ns = now_ns();
	result->totals.complete = true;
	result->duration_ns = result->totals.end_ns - s->start_ns;
	result->start_unix_ns = s->start_unix_ns;
	err = capw__finish(s->capw, &result->totals) ?: err;
	return s->opts.limits.keep_ns ? capw__dump(s->capw, s->fd) ?: err : err;
}

static void report_oddities(const struct session *s)
{
	static const char *const names[] = {
#define PYE_COUNTER(name, number, text) [number] = #name,
#include "abi/counters.def"
#undef PYE_COUNTER
	};

	if (s->opts.max_cpu_pct && cap_bpf__skipped(s->cap))
		log_info(
			"%llu samples were left out for --max-cpu; the next ones stand for their time",
			(unsigned long long)cap_bpf__skipped(s->cap));
	run_say_odd(assembler__oddities(s->as));
	execs_report(s);
	if (cap_bpf__counter(s->cap, CNT_PROC_FULL))
		log_warn("%llu children were not traced: too many processes at once",
			 (unsigned long long)cap_bpf__counter(s->cap, CNT_PROC_FULL));
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		log_debug("counter %s: %llu", names[i],
			  (unsigned long long)cap_bpf__counter(s->cap, i));
}

static void wait_for_child(struct session *s, struct session_result *result)
{
	if (!s->opts.command)
		return;
	while (!s->child_reaped && s->interrupts < 2) {
		struct epoll_event event;

		epoll_wait(s->epoll_fd, &event, 1, 100);
		read_signals(s);
	}
	result->child_status = s->child_status;
}

/* A command that cannot be traced must not run: it was held before its first instruction. */
static void abandon_command(struct session *s)
{
	if (!s->opts.command || s->launch.pid <= 0)
		return;
	if (s->child_reaped)
		return; /* the number may be another one's by now */
	kill(s->launch.pid, SIGKILL);
	waitpid(s->launch.pid, &s->child_status, 0);
}

/* The command ended, or we were interrupted, before an interpreter was seen in it. */
static int never_python(struct session *s, struct session_result *result, struct err *e)
{
	char shown[256];
	int failed;

	if (!s->opts.command)
		return select_nothing(s, e);
	text_escape(shown, sizeof(shown), s->opts.command[0], strlen(s->opts.command[0]));
	targets_release(s);
	wait_for_child(s, result);
	failed = launch__failed(&s->launch);
	if (failed)
		return err_set(e, failed, "cannot execute %s: %s", shown, strerror(-failed));
	err_set(e, 0, "%s is not Python: no interpreter was seen in it, nor in what it started",
		shown);
	err_hint(e, "pyebpf list shows the Python processes of this machine");
	return -PYE_ENOTPYTHON;
}

int session__run(struct session *s, int fd, struct session_result *result, struct err *e)
{
	int err;

	memset(result, 0, sizeof(*result));
	s->fd = fd;
	s->start_ns = now_ns();
	err = start(s, e);
	if (!err)
		err = loop(s);
	if (s->refused)
		*e = s->refusal;
	if (err) {
		abandon_command(s);
		targets_release(s);
		return err;
	}
	if (!s->capw)
		return never_python(s, result, e);
	if (!s->opts.quiet && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	err = finish(s, result);
	report_oddities(s);
	limits_report(&s->kept);
	if (!s->opts.quiet)
		native_report(s);
	if (!s->opts.quiet)
		filters_report(&s->opts.filter, s->as, cap_bpf__filtered(s->cap));
	wait_for_child(s, result);
	result->interrupts = s->interrupts;
	memcpy(result->comm, s->comm, sizeof(result->comm));
	if (s->target_cnt)
		result->pid = s->targets[0]->pid.given;
	return err;
}
