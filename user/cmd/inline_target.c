// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "inline"
#include "cmd/inline_target.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cmd/run.h"
#include "cpython/inline_plan.h"
#include "inline/remote_stop.h"

void inline_target__init(struct inline_target *t, const struct session_opts *opts,
			 struct session_result *result, struct err *e)
{
	memset(t, 0, sizeof(*t));
	memset(result, 0, sizeof(*result));
	t->opts = opts;
	t->result = result;
	t->e = e;
	t->pid.fd = t->in.fd = t->signal_fd = -1;
	t->launch.go_fd = t->launch.failed_fd = -1;
}

void inline_target__describe(struct inline_target *t, pid_t pid, const struct interp *in,
			     struct proc_info *info, char *python, size_t size)
{
	if (proc_info__read(pid, info))
		memset(info, 0, sizeof(*info));
	snprintf(python, size, "3.%u%s", in->plan.minor, in->plan.free_threaded ? "t" : "");
	if (!t->result->comm[0])
		memcpy(t->result->comm, info->comm, sizeof(t->result->comm));
	t->result->pid = t->pid.given;
}

/* Not told of its stops, which others wait for. */
static bool has_ended(pid_t pid, int *status)
{
	siginfo_t info = { 0 };

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) &&
	       info.si_pid == pid && waitpid(pid, status, WNOHANG) == pid;
}

static void reap(struct inline_target *t)
{
	int status;

	if (t->opts->files.child)
		t->opts->files.child(t->opts->files.ctx);
	if (t->follow)
		return; /* it is told how its processes end */
	if (t->opts->command && !t->child_reaped && t->engine.remote.child.ended) {
		t->child_reaped = true;
		t->child_status = t->engine.remote.child.status;
	}
	if (t->opts->command && !t->child_reaped && has_ended(t->launch.pid, &status)) {
		t->child_reaped = true;
		t->child_status = status;
	}
}

static void take_signals(struct inline_target *t)
{
	struct signalfd_siginfo info;

	while (read(t->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGUSR1)
			t->dump_asked = true;
		else if (info.ssi_signo != SIGCHLD)
			t->interrupts++;
}

void inline_target__signals(struct inline_target *t, int timeout)
{
	struct pollfd fds[] = { { .fd = t->signal_fd, .events = POLLIN },
				{ .fd = t->pid.fd, .events = POLLIN } };

	poll(fds, t->pid.fd >= 0 ? 2 : 1, timeout);
	take_signals(t);
	reap(t);
	if (t->child_reaped || !proc_pid__alive(&t->pid))
		t->ended = true;
}

void inline_target__add_stops(struct inline_target *t, uint32_t stops, uint32_t longest_us)
{
	t->stops += stops;
	if (longest_us > t->longest_us)
		t->longest_us = longest_us;
}

void inline_target__say_left(const struct inline_engine *e, pid_t pid)
{
	if ((e->left_in || e->left_mapped) && inline__is_ending(e->remote.pid))
		return;
	if (e->left_in)
		log_warn(
			"the probes are still in process %d, and do nothing: it could not be stopped, as when "
			"another tracer is attached; later: pyebpf detach %d",
			pid, pid);
	else if (e->left_mapped)
		log_warn(
			"the stubs stay mapped, unused, in process %d: no thread could unmap them yet",
			pid);
}

void inline_target__say_stops(const struct inline_target *t)
{
	const struct remote *remote = &t->engine.remote;

	inline_target__say_left(&t->engine, t->pid.given);
	if (t->opts->quiet)
		return;
	fprintf(stderr, "pyebpf: the target was stopped %u times, for at most %.2f ms\n",
		remote->stops + t->stops,
		(remote->longest_us > t->longest_us ? remote->longest_us : t->longest_us) / 1000.0);
	if (t->engine.clock)
		fprintf(stderr,
			"pyebpf: the processor's time stamp counter is not steady: each event took "
			"the time to read the kernel's clock\n");
}

void inline_target__say_loaded(pid_t pid)
{
	log_info(
		"process %d loads Python while it runs: what it calls before pyebpf has seen that is not in it",
		pid);
}

static int find_interpreter(void *ctx)
{
	struct inline_target *t = ctx;
	struct err e = { 0 }, unused;
	struct inline_plan plan;
	int err;

	interp__done(&t->in); /* of a program that it is no more */
	err = interp__find_cached(t->pid.pid, "uprobe", t->cache, &t->in, &e);

	/* into the cache while it stands still: later it takes CPU time; if there is none the attach says why */
	if (!err)
		inline_plan_load_cached(t->cache, t->in.open_path, &plan, &unused);
	*t->e = e; /* nothing, if it is Python: what was before is of another program */
	/* a shell, or env, on its way to Python */
	err = err == -PYE_ETARGET ? -PYE_ENOTPYTHON : err;
	t->refused = err == -PYE_ENOTPYTHON ? 0 : err;
	return err;
}

int inline_target__never_python(struct inline_target *t)
{
	char shown[256];
	int failed = launch__failed(&t->launch);

	t->child_reaped = true;
	text_escape(shown, sizeof(shown), t->opts->command[0], strlen(t->opts->command[0]));
	if (failed)
		return err_set(t->e, failed, "cannot execute %s: %s", shown, strerror(-failed));
	err_set(t->e, -PYE_ENOTPYTHON,
		"%s is not Python, or has ended too soon: no interpreter was seen in it%s", shown,
		t->opts->subprocesses ? ", nor in what it started" : "");
	if (!t->opts->subprocesses)
		err_hint(t->e, "with -s what it starts is traced, too");
	return -PYE_ENOTPYTHON;
}

int inline_target__too_soon(struct inline_target *t)
{
	char shown[256];

	text_escape(shown, sizeof(shown), t->opts->command[0], strlen(t->opts->command[0]));
	err_set(t->e, -PYE_ETARGET,
		"%s has ended before it could be traced: it loads Python while it runs", shown);
	err_hint(t->e, "what lives longer is traced from when pyebpf has seen that");
	return -PYE_ETARGET;
}

/* Is the trace, before there is Python? */
static bool is_over(void *ctx)
{
	struct inline_target *t = ctx;

	take_signals(t);
	return t->interrupts ||
	       (t->opts->duration_ns && now_ns() - t->start_ns >= t->opts->duration_ns);
}

/* Our child, up to the entry point of the interpreter. */
static int start_command(struct inline_target *t)
{
	int status = 0, err;

	err = launch__fork(&t->launch, t->opts->command, t->opts->as_root, t->e);

	if (!err)
		err = proc_pid__open(t->launch.pid, &t->pid, t->e);
	if (!err)
		err = t->follow ? follow__seize(t->follow, t->launch.pid, t->launch.pid)
				: hold__seize(t->launch.pid);
	if (err)
		return err;
	launch__go(&t->launch);
	if (t->follow)
		return 0;
	t->start_ns = now_ns();
	err = hold__find(t->launch.pid, find_interpreter, is_over, t, &t->held, &status);
	t->let_go = err == HOLD_OVER;
	if (t->let_go)
		return 0;
	if (err == HOLD_RUNS) {
		t->loaded = true;
		inline_target__say_loaded(t->pid.given);
		return 0;
	}
	if (err != -ECHILD)
		return err;
	t->child_status = status;
	t->child_reaped = true;
	return t->refused ? t->refused : inline_target__never_python(t);
}

int inline_target__recover(pid_t pid, pid_t given, struct err *e)
{
	struct inline_found found;
	int err = inline__recover(pid, &found, e);

	if (!err && found.taken_out)
		log_info("took out what an earlier pyebpf had left in process %d", given);
	return err;
}

static int find_running(struct inline_target *t)
{
	int err = inline_target__recover(t->pid.pid, t->pid.given, t->e);

	return err ? err : interp__find(t->pid.pid, "uprobe", &t->in, t->e);
}

static int start_process(struct inline_target *t)
{
	int err = proc_pid__open(t->opts->pids[0], &t->pid, t->e);

	if (!err)
		err = find_running(t);
	if (err ==
	    -PYE_EPLAN) { /* another pyebpf may have been changing it just then: now it is seen to, or done */
		*t->e = (struct err){ 0 };
		err = find_running(t);
	}
	if (!err)
		run_say_left_out(t->pid.given, &t->in);
	return err;
}

/* A command that cannot be traced must not run, unless it has run long before that was known. That we end it is no status of its own. */
void inline_target__abandon(struct inline_target *t)
{
	if (!t->opts->command || t->launch.pid <= 0 || t->child_reaped)
		return;
	if (t->loaded) {
		inline_target__wait(t);
		return;
	}
	kill(t->launch.pid, SIGKILL);
	waitpid(t->launch.pid, NULL, __WALL);
	t->child_reaped = true;
}

void inline_target__wait(struct inline_target *t)
{
	while (t->opts->command && !t->child_reaped && t->interrupts < 2) {
		bool late = !inline_target__let_late_go(t);

		inline_target__signals(t, late ? 1 : 100);
	}
}

bool inline_target__let_late_go(struct inline_target *t)
{
	bool all = !t->follow || follow__let_late_go(t->follow);

	return remote__let_late_go(&t->engine.remote) && all;
}

int inline_target__start(struct inline_target *t)
{
	int err;

	t->signal_fd = run_signals(true);
	if (t->signal_fd < 0)
		return t->signal_fd;
	if (!proc_pid_is_ours()) {
		err_set(t->e, -PYE_EPLAN,
			"/proc is not mounted, or belongs to another pid namespace: the inline engine finds a "
			"process there by its own number");
		err_hint(t->e, "mount -t proc proc /proc");
		return -PYE_EPLAN;
	}
	err = interp_cache__new(&t->cache);
	if (!err && t->opts->subprocesses)
		err = follow__new(&t->follow);
	if (err)
		return err;
	err = t->opts->command ? start_command(t) : start_process(t);
	if (t->opts->subprocesses || !t->opts->command) /* a command has what we had */
		run_raise_files();
	return err;
}

void inline_target__unfollow(struct inline_target *t)
{
	t->engine.remote.follow = NULL;
	follow__free(t->follow);
	t->follow = NULL;
}

void inline_target__done(struct inline_target *t)
{
	inline__done(&t->engine);
	inline_target__unfollow(t);
	interp__done(&t->in);
	interp_cache__free(t->cache);
	if (t->signal_fd >= 0)
		close(t->signal_fd);
	launch__close(&t->launch);
	proc_pid__close(&t->pid);
}
