// SPDX-License-Identifier: Apache-2.0
/*
 * The run of the agent: that of `record -a` in windows. What comes from the kernel goes into a capture in memory;
 * at the end of a window that becomes one profile for each service, in the store.
 */
#define LOG_DOMAIN "agent"
#include "cmd/agent_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "abi/limits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memfile.h"
#include "base/pages.h"
#include "base/text.h"
#include "cmd/select.h"
#include "kube/watch.h"
#include "sink/sender.h"

#define SECOND	 1000000000ull
#define FIRST_NS (10 * SECOND) /* a first profile soon after the start */
/* What the agent takes besides samples it cannot leave out: a budget below that leaves this part of them. */
#define KEEP_LEAST 0.1
/* Names of code objects that die earlier are not known: rare, and looking less often costs less. */
#define POLL_MS 50
/*
 * The rings are mapped, twice, so they are no larger than they have to be. Between two looks at them are 200 ms, and a window is
 * written meanwhile: some 20 ms of CPU, which a busy machine may make a second of. A sample of 30 frames has 560 bytes, the deepest
 * one 16.4 kB. With 5 kB for each tick of a second there is room for 9 s of the former and 0.3 s of the latter, on all CPUs at once: at
 * 99 Hz, however many processes are busy, 496 kB for each CPU. What did not fit would be counted. Waits come as they like.
 */
#define TICK_BYTES     5000u
#define RING_BYTES     (256u << 10)
#define RING_BYTES_MAX (8u << 20)
#define RING_WAITS     (4u << 20)

/* --- windows --- */

static int new_capture(void)
{
	int fd = memfile_open("pyebpf-window");

	return fd < 0 ? -errno : fd;
}

void agent_write(struct agent *a, int fd, const struct window_opts *opts, struct window_result *got)
{
	struct profiles *window;
	struct err e = { 0 };
	int err = lseek(fd, 0, SEEK_SET) ? -errno : 0;

	*got = (struct window_result){ 0 };
	err = err ? err : profiles__make(&window, fd, a->services, opts, got, &e);
	if (!err) {
		agent_store_write(a, window, got);
		return;
	}
	a->totals.unwritten++;
	log_warn("a window is not whole: %s", e.what[0] ? e.what : err_str(err));
}

static void write_window(struct agent *a, int fd)
{
	struct agent_totals *t = &a->totals;
	uint64_t begin_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct window_result got;

	agent_kube_settle(a);
	agent_write(a, fd, &a->window, &got);
	a->judge_all |= a->kube != NULL; /* names of pods come and change */
	a->window_ns = now_ns();
	t->windows++;
	t->unwanted += got.unwanted;
	t->lost += got.lost;
	if (*got.busiest)
		snprintf(a->busiest, sizeof(a->busiest), "%s", got.busiest);
	if (!agent_store_is_idle(a))
		log_info("window %" PRIu64 ": it waits for the store", t->windows);
	else if (!a->opts->quiet)
		log_info("window %" PRIu64 ": %" PRIu64 " profiles, %" PRIu64 " samples, %" PRIu64
			 " bytes, %" PRIu64 " lost",
			 t->windows, got.profiles, got.samples, got.bytes, got.lost);
	/* what the start and the window took and gave back again */
	malloc_trim(0);
	if (t->windows == 1)
		pages_forget_linking();
	if (agent_store_is_idle(
		    a)) /* of what the thread has a process that begins would have half */
		sender__check(a->sender);
	t->window_cpu_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
}

static int next_part(void *ctx)
{
	struct agent *a = ctx;
	int fd = new_capture();

	if (fd < 0) {
		log_warn("no memory for a window: %s", err_str(fd));
		return fd;
	}
	a->before = a->capture;
	a->capture = fd;
	return fd;
}

static void part_done(void *ctx)
{
	struct agent *a = ctx;

	write_window(a, a->before);
	close(a->before);
	a->before = -1;
}

/* --- processes --- */

static void on_process(void *ctx, const struct trace_process *process, pid_t pid)
{
	const struct service_facts facts = { .pid = process->pid,
					     .cgroup = "",
					     .cmdline = "",
					     .comm = process->comm,
					     .exe = process->exe,
					     .python = process->python,
					     .show_cmdline =
						     ((struct agent *)ctx)->opts->include_cmdline };
	struct agent *a = ctx;
	struct service service;

	service_of(pid, &facts, &service);
	if (services__set(a->services, process->id, pid, &service))
		log_warn("no memory for the labels of process %u", process->pid);
	a->judge_new = true;
}

static void on_forked(void *ctx, uint32_t from, uint32_t process, pid_t pid)
{
	struct agent *a = ctx;
	const struct service *service = services__get(a->services, from);
	struct service copy;

	if (!service)
		return;
	service_copy(&copy, service);
	services__set(a->services, process, pid, &copy);
	a->judge_new = true;
}

/* --- the run --- */

static void agent_done(struct agent *a)
{
	agent_side_close(a);
	session__free(a->session);
	if (a->capture >= 0)
		close(a->capture);
	services__free(a->services);
	agent_store_close(a);
	sender__stop(a->sender);
	kube__stop(a->kube);
	if (a->settings != a->first)
		agent_settings_free(a->settings);
	agent_settings_free(a->first);
}

static void set_node(struct agent *a)
{
	struct utsname uts = { 0 };

	if (a->opts->node_name && *a->opts->node_name) {
		text_escape(a->node, sizeof(a->node), a->opts->node_name,
			    strlen(a->opts->node_name));
		return;
	}
	uname(&uts);
	text_escape(a->node, sizeof(a->node), uts.nodename, strlen(uts.nodename));
}

/* So that the machines of a fleet do not end their windows, and send them, at the same moment. */
static uint64_t offset_of(const char *node, uint64_t window_ns)
{
	return hash_text(HASH_BEGIN, node) % (window_ns / SECOND) * SECOND;
}

static int open_agent(struct agent *a, struct err *e)
{
	int err;

	/* first: these have nothing of what is opened here */
	set_node(a);
	err = agent_kube_start(a, e);
	a->sinks = a->opts->sinks;
	if (!err && a->sinks.cnt)
		err = sender__start(&a->sender, a->opts->store, &a->sinks, e);
	err = err ? err : agent_store_open(a, e);
	err = err ? err : services__new(&a->services);
	if (err)
		return err;
	agent_set_labels(a);
	a->capture = new_capture();
	return a->capture < 0 ? a->capture : agent_side_open(a, e);
}

static size_t ring_bytes(const struct agent_opts *o)
{
	size_t room = RING_BYTES, ticks = (size_t)sysconf(_SC_NPROCESSORS_ONLN) * o->rate,
	       least = o->off_cpu_ns ? RING_WAITS : 0;

	while (room < RING_BYTES_MAX && (room < least || room < ticks * TICK_BYTES))
		room *= 2;
	return PYE_DEATHS_BYTES + PYE_SEEN_BYTES + room;
}

/* What came of it, and the last window. */
static int finish(struct agent *a, struct err *e)
{
	write_window(a, a->capture);
	agent_store_finish(a);
	log_info("%" PRIu64 " windows, %" PRIu64 " profiles, %" PRIu64 " samples, %" PRIu64
		 " lost, %" PRIu64 " profiles not written",
		 a->totals.windows, a->totals.profiles, a->totals.samples, a->totals.lost,
		 a->totals.unwritten);
	return a->totals.unwritten
		       ? err_set(e, -PYE_EOUTPUT, "%" PRIu64 " profiles could not be written",
				 a->totals.unwritten)
		       : 0;
}

int agent_run(const struct agent_start *start, struct agent_settings *settings, struct err *e)
{
	static const struct select_args everybody = { .all = true };
	auto_fn(agent_done) struct agent a = { .start = start,
					       .first = settings,
					       .settings = settings,
					       .opts = &settings->opts,
					       .epoll_fd = -1,
					       .capture = -1,
					       .before = -1 };
	struct session_side side = { &a, -1, agent_side_signal, agent_side_tick };
	const struct agent_opts *o = a.opts;
	struct session_result run = { 0 };
	struct session_opts so = {
		.engine = "auto",
		.select = &everybody,
		.duration_ns = o->duration_ns,
		.limits.split = { .every_ns = o->window_ns,
				  .first_ns = o->window_ns < FIRST_NS ? o->window_ns : FIRST_NS },
		.files = { .ctx = &a, .next_part = next_part, .part_done = part_done },
		.seen = { .ctx = &a, .process = on_process, .forked = on_forked },
		.ring_bytes = ring_bytes(o),
		.sample_ns = SECOND / o->rate,
		.poll_ms = POLL_MS,
		.on_cpu = true,
		.off_cpu = o->off_cpu_ns != 0,
		.wait_min_ns = o->off_cpu_ns,
		.keep_least = KEEP_LEAST,
		.quiet = true,
		.side = &side,
		.arguments = start->arguments,
	};
	int err;

	agent_problems_look(&a.problems, o);
	err = open_agent(&a, e);
	if (!err) {
		side.fd = a.epoll_fd;
		a.max_cpu_pct = so.max_cpu_pct = agent_cpu_limit(o);
		so.limits.split.offset_ns = offset_of(a.node, o->window_ns);
		err = session__new(&a.session, &so, e);
	}
	err = err ? err : session__run(a.session, a.capture, &run, e);
	if (err == -PYE_ENOTPYTHON) { /* of a machine without Python there is nothing to say */
		log_info("no Python process was seen");
		return 0;
	}
	if (!err)
		return finish(&a, e);
	if (!a.totals.windows) {
		agent_side_close(&a);
		agent_problems_stay(&a.problems, a.opts, err, e);
	}
	return err;
}
