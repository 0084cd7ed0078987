// SPDX-License-Identifier: Apache-2.0
/*
 * A burst: every call of some processes for some seconds. A forked child is a run of `trace` of its own, into a
 * capture in memory; when it has ended the agent makes profiles of it, as of a window. The child has nothing of
 * the agent's but a copy of its memory, and dies with it: then the kernel takes its probes out.
 */
#define LOG_DOMAIN "agent"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memfile.h"
#include "base/text.h"
#include "cmd/agent_priv.h"
#include "cpython/interp.h"

#define SECOND	   1000000000ull
#define HOUR_NS	   (3600 * SECOND)
#define PIDS_MAX   64
#define RING_BYTES (16u << 20)

enum {
	CAPTURE_FD = 3,
	REPORT_FD = 4
};

struct burst {
	pid_t child;
	int capture, report; /* descriptors */
	pid_t pids[PIDS_MAX];
	size_t pid_cnt;
	uint64_t duration_ns, begin_ns; /* 0: its probes are not placed yet */
};

static void burst__free(struct burst *b)
{
	if (!b)
		return;
	if (b->capture >= 0)
		close(b->capture);
	if (b->report >= 0)
		close(b->report);
	free(b);
}

static void burst__freep(struct burst **b)
{
	burst__free(*b);
}

/* --- the child --- */

static bool child_signal(void *ctx, int number)
{
	(void)ctx;
	return number == SIGHUP || number == SIGUSR1;
}

/* One byte when all probes are in place. */
static void child_tick(void *ctx, uint64_t now_ns)
{
	bool *told = ctx;

	(void)now_ns;
	if (!*told && write(REPORT_FD, "+", 1) == 1)
		*told = true;
}

/* Those that have ended meanwhile, or are no Python, are left out; when none is left the last one says why. */
static size_t keep_traceable(pid_t *pids, size_t cnt, int *err, struct err *e)
{
	auto_free struct interp *in = malloc(sizeof(*in));
	size_t kept = 0;

	*err = in ? 0 : -ENOMEM;
	for (size_t i = 0; in && i < cnt; i++) {
		int one = interp__find(pids[i], "auto", in, e);

		if (one) {
			*err = one;
			continue;
		}
		interp__done(in);
		pids[kept++] = pids[i];
	}
	return kept;
}

static int trace_calls(struct burst *b, const struct agent_opts *o, const char *arguments,
		       struct err *e)
{
	auto_fn(session__freep) struct session *session = NULL;
	struct session_result result;
	bool told = false;
	const struct session_side side = { &told, -1, child_signal, child_tick };
	struct session_opts so = {
		.engine = "auto",
		.pids = b->pids,
		.duration_ns = b->duration_ns,
		.limits = { .max_bytes = o->burst_bytes },
		.ring_bytes = RING_BYTES,
		.quiet = true,
		.side = &side,
		.arguments = arguments,
	};
	int err;

	so.pid_cnt = keep_traceable(b->pids, b->pid_cnt, &err, e);
	if (!so.pid_cnt)
		return err;
	err = session__new(&session, &so, e);
	return err ? err : session__run(session, CAPTURE_FD, &result, e);
}

static void __attribute__((noreturn))
child_main(struct burst *b, const struct agent_opts *o, const char *arguments)
{
	int capture = fcntl(b->capture, F_DUPFD_CLOEXEC, 10);
	int report = fcntl(b->report, F_DUPFD_CLOEXEC, 10);
	struct err e = { 0 };
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(capture, CAPTURE_FD) < 0 || dup2(report, REPORT_FD) < 0)
		_exit(1);
	close_range(REPORT_FD + 1, ~0u, 0);
	log_set_level(LOG_ERR);
	err = trace_calls(b, o, arguments, &e);
	if (err) {
		const char *why = e.what[0] ? e.what : err_str(err);

		if (write(REPORT_FD, why, strlen(why)) < 0)
			_exit(2);
	}
	_exit(err ? 1 : 0);
}

static int fork_child(struct agent *a, struct burst *b)
{
	int report[2];

	b->capture = memfile_open("pyebpf-burst");
	if (b->capture < 0 || pipe2(report, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	b->report = report[1];
	b->child = fork();
	if (!b->child)
		child_main(b, a->opts, a->start->arguments);
	close(report[1]);
	b->report = report[0];
	return b->child < 0 ? -errno : 0;
}

/* --- which processes --- */

struct wanted {
	struct agent *agent;
	struct burst *burst;
	const char *name;
};

/* What was taken down can be of a process that has ended, or that executes something else now. */
static bool is_still(const struct agent *a, pid_t pid, const struct service *service,
		     const char *name)
{
	const struct store_label *l = service->labels;
	const struct service_facts facts = {
		.cgroup = "",
		.cmdline = "",
		.comm = label_value(l, service->label_cnt, "__meta_thread_comm"),
		.exe = label_value(l, service->label_cnt, "__meta_process_executable_path"),
		.python = label_value(l, service->label_cnt, "python"),
	};
	struct service now, shaped;

	if (kill(pid, 0))
		return false;
	service_of(pid, &facts, &now);
	return service_apply(&a->rules, &now, &shaped) &&
	       !strcmp(label_value(shaped.labels, shaped.label_cnt, STORE_SERVICE), name);
}

static int add_wanted(void *ctx, pid_t pid, const struct service *service)
{
	const struct wanted *w = ctx;
	struct burst *b = w->burst;
	struct service shaped;

	if (!service_apply(&w->agent->rules, service, &shaped) ||
	    strcmp(label_value(shaped.labels, shaped.label_cnt, STORE_SERVICE), w->name) != 0 ||
	    !is_still(w->agent, pid, service, w->name))
		return 0;
	for (size_t i = 0; i < b->pid_cnt; i++)
		if (b->pids[i] == pid)
			return 0;
	b->pids[b->pid_cnt++] = pid;
	return b->pid_cnt == PIDS_MAX;
}

static int choose(struct agent *a, struct burst *b, const struct request *r, struct err *e)
{
	const char *name = *r->service		    ? r->service
			   : a->opts->burst_service ? a->opts->burst_service
						    : a->busiest;
	char shown[256];

	if (r->pid) {
		struct service shaped;
		const struct service *known = services__by_pid(a->services, r->pid);

		snprintf(a->burst_what, sizeof(a->burst_what), "process %d", (int)r->pid);
		if (!known || !service_apply(&a->rules, known, &shaped))
			return err_set(e, -PYE_ETARGET, "process %d is none that is profiled",
				       (int)r->pid);
		b->pids[b->pid_cnt++] = r->pid;
		return 0;
	}
	text_escape(shown, sizeof(shown), name, strlen(name));
	snprintf(a->burst_what, sizeof(a->burst_what), "service %.80s", shown);
	services__each(a->services, add_wanted, &(struct wanted){ a, b, name });
	return b->pid_cnt ? 0
			  : err_set(e, -PYE_ETARGET, "no process of service %.80s is running",
				    *shown ? shown : "(none is known yet)");
}

/* --- the agent --- */

/* The budget is a bucket that fills in an hour. */
static int64_t fill(struct agent *a, uint64_t now_ns)
{
	uint64_t budget = a->opts->burst_budget_ns, passed = now_ns - a->burst_filled_ns;

	if (!a->burst_filled_ns || passed > HOUR_NS)
		passed = HOUR_NS;
	a->burst_tokens_ns += (int64_t)((double)budget * (double)passed / (double)HOUR_NS);
	if (a->burst_tokens_ns > (int64_t)budget)
		a->burst_tokens_ns = (int64_t)budget;
	a->burst_filled_ns = now_ns;
	return a->burst_tokens_ns;
}

static int may_begin(struct agent *a, uint64_t duration_ns, struct err *e)
{
	int64_t left_ns = fill(a, now_ns());

	if (a->burst)
		return err_set(e, -EBUSY, "a burst of %s is running", a->burst_what);
	if (a->state != AGENT_RUNNING)
		return err_set(e, -EPERM, "the agent is switched off");
	if (duration_ns > a->opts->burst_max_ns)
		return err_set(e, -EINVAL, "bursts are at most %.0f s long (burst_max)",
			       (double)a->opts->burst_max_ns / 1e9);
	if ((int64_t)duration_ns > left_ns)
		return err_set(e, -EBUSY, "%.0f s are left of the budget for bursts (burst_budget)",
			       (double)left_ns / 1e9);
	return 0;
}

int agent_burst(struct agent *a, const struct request *r, struct control_conn *conn, struct err *e)
{
	auto_fn(burst__freep) struct burst *b = calloc(1, sizeof(*b));
	uint64_t duration_ns = r->duration_ns ? r->duration_ns : a->opts->burst_ns;
	int err;

	if (!b)
		return -ENOMEM;
	b->capture = b->report = -1;
	b->duration_ns = duration_ns;
	err = may_begin(a, duration_ns, e);
	err = err ? err : choose(a, b, r, e);
	if (err)
		return err;
	err = fork_child(a, b);
	if (err)
		return err_set(e, err, "a burst cannot begin: %s", err_str(err));
	a->burst_tokens_ns -= (int64_t)duration_ns;
	a->burst_conn = conn;
	a->burst = take_ptr(b);
	log_info("a burst of %s begins: %zu processes, %.0f s", a->burst_what, a->burst->pid_cnt,
		 (double)duration_ns / 1e9);
	return 0;
}

static void __attribute__((format(printf, 2, 3))) tell(struct agent *a, const char *fmt, ...)
{
	char text[1200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (a->burst_conn)
		control__say(a->burst_conn, text);
}

/* Calls are told apart from samples by a label: their numbers do not add up. */
static void write_calls(struct agent *a)
{
	struct store_label labels[AGENT_LABELS_MAX + 2];
	struct window_opts opts = a->window;
	struct window_result got = { 0 };

	memcpy(labels, a->window.labels, opts.label_cnt * sizeof(labels[0]));
	for (uint32_t i = 0; i < opts.label_cnt; i++)
		if (!strcmp(labels[i].name, AGENT_TYPE_LABEL))
			labels[i].value = "calls";
	opts.labels = labels;
	opts.by_pid = true;
	agent_write(a, a->burst->capture, &opts, &got);
	a->totals.bursts++;
	a->totals.burst_calls += got.samples;
	a->totals.burst_lost += got.lost;
	log_info("a burst of %s: %" PRIu64 " profiles, %" PRIu64 " events, %" PRIu64 " lost",
		 a->burst_what, got.profiles, got.samples, got.lost);
	tell(a, "done: %" PRIu64 " profiles, %" PRIu64 " events, %" PRIu64 " lost\n", got.profiles,
	     got.samples, got.lost);
}

static void end_burst(struct agent *a)
{
	if (a->burst_conn)
		control__end(a->burst_conn);
	a->burst_conn = NULL;
	burst__free(a->burst);
	a->burst = NULL;
}

static void fail_burst(struct agent *a, const char *why)
{
	char shown[1024];

	text_escape(shown, sizeof(shown), why, strlen(why));
	a->totals.bursts_failed++;
	log_warn("a burst of %s has failed: %s", a->burst_what, shown);
	tell(a, "error: %s\n", shown);
}

static void read_report(struct agent *a, char *why, size_t size)
{
	struct burst *b = a->burst;
	ssize_t n = read(b->report, why, size - 1);

	why[n > 0 ? n : 0] = '\0';
	if (*why != '+')
		return;
	b->begin_ns = now_ns();
	tell(a, "running: %s, %.0f s\n", a->burst_what, (double)b->duration_ns / 1e9);
	memmove(why, why + 1, strlen(why));
}

void agent_burst_tick(struct agent *a, uint64_t now)
{
	char why[800] = "";
	int status;

	(void)now;
	if (!a->burst)
		return;
	read_report(a, why, sizeof(why));
	if (!*why && waitpid(a->burst->child, &status, WNOHANG) != a->burst->child)
		return;
	if (*why) /* it is about to end */
		waitpid(a->burst->child, &status, 0);
	else
		read_report(a, why, sizeof(why));
	if (*why || !WIFEXITED(status) || WEXITSTATUS(status))
		fail_burst(a, *why ? why : "it was killed");
	else
		write_calls(a);
	end_burst(a);
}

void agent_burst_stop(struct agent *a)
{
	if (!a->burst)
		return;
	kill(a->burst->child, SIGKILL);
	waitpid(a->burst->child, NULL, 0);
	fail_burst(a, "the agent ends");
	end_burst(a);
}
