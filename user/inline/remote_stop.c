// SPDX-License-Identifier: Apache-2.0
/*
 * Stopping threads. A stop is measured from the first thread that is seen to stand still until the last one
 * goes on. All are asked at once, but each has to get a CPU to stop on: when that takes long on a busy
 * machine those that stand still go on, and it is tried again. One in an uninterruptible sleep is waited
 * for while the others run, but not for ever.
 */
#include "inline/remote_priv.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "inline/engine_priv.h"
#include "inline/interrupted.h"
#include "inline/late.h"
#include "inline/partial.h"
#include "inline/remote_stop.h"
#include "inline/rest.h"
#include "inline/sleepers.h"
#include "proc/threads.h"

#define STOP_NS		 3000000ull /* for all threads to stand still */
#define STOP_TRIES	 30
#define LATE_TRIES	 2 /* then those that were late are kept before all others are asked */
#define PAUSES		 2 /* in which it can have stopped, had it a CPU */
#define FIRST_US	 10u /* up to 64 times as much */
#define SIGNAL_TRIES	 100 /* pauses */
#define STOP_THREADS_MAX 65536u
#define MANY_THREADS	 16

void remote_hurry(struct remote *r, bool on)
{
	if (on)
		hurry__begin(&r->hurry);
	else
		hurry__end(&r->hurry, !r->sleepers);
}

void remote__give_time(unsigned int tries)
{
	usleep(FIRST_US << (tries / 4 < 6 ? tries / 4 : 6));
}

bool remote_has_many(const struct remote *r)
{
	return remote_count_threads(r) >= MANY_THREADS;
}

void remote_begin_stop(struct remote *r)
{
	if (!r->stopped_at)
		r->stopped_at = now_ns();
}

void remote_end_stop(struct remote *r, uint64_t us)
{
	if (!r->stopped_at)
		return;
	r->stopped_at = 0;
	r->stops++;
	if (us > r->longest_us)
		r->longest_us = (uint32_t)us;
	remote_hurry(r, false);
}

void remote_note_stop(struct remote *r, uint32_t us)
{
	r->stops += us != 0;
	if (us > r->longest_us)
		r->longest_us = us;
}

int remote_look(const struct remote *r, struct remote_thread *t)
{
	struct user_regs_struct regs;
	int err = interrupted__look(t->tid, &regs, &r->slept);

	if (err)
		return err;
	t->pc = regs.rip;
	t->sp = regs.rsp;
	t->self = regs.fs_base;
	t->in_call = interrupted__waits(&regs);
	t->partial = rest__is_left(t->tid, &regs);
	memcpy(t->regs,
	       (uint64_t[15]){ regs.rax, regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi, regs.rbp,
			       regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14,
			       regs.r15 },
	       sizeof(t->regs));
	return 0;
}

void remote_note_end(struct remote *r, pid_t tid, int status)
{
	if (tid != r->pid)
		return;
	r->child.ended = true;
	r->child.status = status;
}

int remote_signal_of(const struct remote *r, pid_t tid, int status)
{
	int sig = WSTOPSIG(status);

	return status >> 16 || sig == SYSCALL_STOP ? 0
						   : interrupted__pass(tid, sig, false, &r->slept);
}

/* Until a seized and interrupted thread has stopped. A signal that was on its way is delivered first. */
int remote_await(struct remote *r, struct remote_thread *t, uint64_t deadline)
{
	uint64_t soon = now_ns() + STOP_NS;
	pid_t tid = t->tid;

	for (unsigned int pauses = 0;; pauses++) {
		int status;
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid && partial__passes(r, tid, status))
			continue;
		if (got == tid && !WIFSTOPPED(status) && !r->follow)
			remote_note_end(r, tid, status);
		if (got == tid && r->follow && status >> 16 != PTRACE_EVENT_STOP &&
		    follow__took(r->follow, tid, status))
			return -ESRCH;
		if (got < 0 || (got == tid && !WIFSTOPPED(status)))
			return -ESRCH;
		if (got == tid && status >> 16 == PTRACE_EVENT_STOP) {
			t->as_group = interrupted__is_group_stop(status);
			if (r->follow)
				follow__stood(r->follow, tid);
			return 0;
		}
		if (got ==
		    tid) { /* with any other stop it forgets that it was asked, and comes to no code of its own before the next */
			ptrace(PTRACE_INTERRUPT, tid, 0, 0);
			if (!r->follow)
				interrupted__go_on(PTRACE_CONT, tid,
						   remote_signal_of(r, tid, status));
		} else if (now_ns() > deadline || (!r->follow && now_ns() > soon &&
						   remote_is_asleep(remote__state(r->pid, tid))))
			return -ETIMEDOUT; /* the others need not stand still for one that sleeps */
		else {
			if (pauses >= PAUSES)
				hurry__lend_stop(&r->hurry, tid);
			remote_pause();
		}
		if (r->follow)
			follow__serve_vforked(r->follow);
	}
}

static bool is_known(const struct remote *r, pid_t tid)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (r->threads[i].tid == tid)
			return true;
	return false;
}

static int seize(const struct remote *r, pid_t tid)
{
	int err = 0;

	if (r->follow)
		err = follow__seize(r->follow, tid, r->pid);
	else if (!partial__has(r, tid) && ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD))
		err = -errno;
	return err == -EEXIST ? 0 : err;
}

static int grow(struct remote_thread **threads, size_t size)
{
	void *bigger = reallocarray(*threads, size, sizeof(**threads));

	if (!bigger)
		return -ENOMEM;
	*threads = bigger;
	return 0;
}

/* Also for all of them to be late. */
static int make_room(struct remote *r, size_t more)
{
	size_t size = r->size ? r->size : 64;

	while (size < r->late.cnt + r->cnt + more)
		size *= 2;
	if (size == r->size && r->late.threads)
		return 0;
	if (grow(&r->threads, size) || grow(&r->late.threads, size))
		return -ENOMEM;
	r->size = size;
	return 0;
}

/* Is it to be stopped, and not yet? */
static bool is_wanted(const struct remote *r, pid_t tid)
{
	return !is_known(r, tid) && (!r->how.only || tid == r->how.only) &&
	       !(r->sleepers && sleepers__has(r->sleepers, tid));
}

/* Has it ended? Killed while it stood still for us it was left out, and is traced until then. */
static bool is_lost(const struct remote *r, pid_t tid, int err)
{
	return err == -ESRCH || remote__is_dead(r->pid, tid) || inline_is_traced(tid);
}

/* Seized and interrupted, the leader not yet. */
int remote_seize_one(struct remote *r, pid_t tid, bool *leader)
{
	int err = make_room(r, 1);

	if (err)
		return err;
	err = seize(r, tid);
	if (err)
		return is_lost(r, tid, err) ? 0 : err;
	if (tid == r->pid)
		*leader = true;
	else
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	r->threads[r->cnt++] = (struct remote_thread){ .tid = tid };
	return 0;
}

static int seize_listed(struct remote *r, size_t limit, bool *leader)
{
	const pid_t *tids;
	size_t cnt;
	int err = 0;

	tids = sleepers__listed(r->sleepers, &cnt);
	for (size_t i = 0; !err && i < cnt && r->cnt < limit; i++)
		if (is_wanted(r, tids[i]) && threads__has(r->pid, tids[i]))
			err = remote_seize_one(r, tids[i], leader);
	return err;
}

static int seize_all(struct remote *r, size_t limit, bool *leader)
{
	auto_fn(threads__closep) DIR *threads = threads__open(r->pid);
	pid_t tid;
	int err = 0;

	if (!threads)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!err && r->cnt < limit && (tid = threads__next(threads)))
		if (is_wanted(r, tid))
			err = remote_seize_one(r, tid, leader);
	return err;
}

/*
 * Every thread that is new; they stop while we ask the others. The leader last: a signal for the process goes to a thread that was not
 * asked yet, and Python's handlers run in the leader, whose call it has to end. @listed: those that were there when sleepers were chosen,
 * which saves to list a thousand.
 */
static int seize_new(struct remote *r, size_t limit, bool listed)
{
	bool leader = false;
	int err = listed ? seize_listed(r, limit, &leader) : seize_all(r, limit, &leader);

	if (leader)
		ptrace(PTRACE_INTERRUPT, r->pid, 0, 0);
	return err;
}

/* Wait for those seized from @waited on; what ends meanwhile is left out. */
static int await_all(struct remote *r, size_t waited, uint64_t deadline)
{
	while (waited < r->cnt) {
		struct remote_thread *t = &r->threads[waited];
		int err;

		if (t->is != REMOTE_ASKED) {
			waited++;
			continue;
		}
		err = remote_await(r, t, deadline);
		if (!err) {
			remote_begin_stop(r);
			t->is = REMOTE_STANDS;
			err = remote_look(r, t);
			if (!err)
				err = partial__finish(r, t);
		}
		if (err == -ETIMEDOUT && r->how.past_blocked &&
		    remote_is_asleep(remote__state(r->pid, t->tid)))
			err = 0;
		if (err == -ESRCH)
			*t = r->threads[--r->cnt];
		else if (err)
			return err;
		else
			waited++;
	}
	return 0;
}

int remote__follow(struct remote *r)
{
	bool any = r->follow && !r->park.on;

	while (any) { /* what these start is seized by the kernel */
		auto_fn(threads__closep) DIR *threads = threads__open(r->pid);
		pid_t tid;

		any = false;
		while (threads && (tid = threads__next(threads))) {
			int err = follow__seize(r->follow, tid, r->pid);

			if (err && err != -EEXIST && !is_lost(r, tid, err))
				return err;
			any |= !err;
		}
	}
	return 0;
}

static bool is_late(const struct remote *r, pid_t tid)
{
	for (size_t i = 0; i < r->late.cnt; i++)
		if (r->late.threads[i].tid == tid)
			return true;
	return false;
}

int remote_stop_thread(struct remote *r, pid_t tid)
{
	int err = make_room(r, 1);

	if (!err && is_late(r, tid) && !remote__let_late_go(r))
		err = -ETIMEDOUT;
	if (!err && tid != r->child.held)
		err = seize(r, tid);
	if (err)
		return err;
	r->threads[0] = (struct remote_thread){ .tid = tid };
	r->cnt = 1;
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0))
		return -errno;
	/* others that are followed would not be looked at meanwhile */
	err = await_all(r, 0, now_ns() + (r->follow ? STOP_NS : REMOTE_LAST_NS));
	return !err && !r->cnt ? -ESRCH : err;
}

/* One that was killed where it stood still: its process does not end for others before we were told. Not the leader's, see remote_note_end(). */
static void await_end(const struct remote *r, pid_t tid)
{
	uint64_t deadline = now_ns() + REMOTE_LAST_NS;

	while (tid != r->pid && !waitpid(tid, NULL, __WALL | WNOHANG) && now_ns() < deadline)
		remote_pause();
}

/* Anything but that it is gone is tried once more: a thread that is not let go stands still as long as we live. */
void remote_let_go(const struct remote *r, const struct remote_thread *t, int sig)
{
	pid_t tid = t->tid;

	if (r->follow && t->as_group)
		ptrace(PTRACE_LISTEN, tid, 0, 0);
	else if (r->follow)
		follow__go(r->follow, tid, sig);
	else if (interrupted__go_on(PTRACE_DETACH, tid, sig) &&
		 (errno == ESRCH || interrupted__go_on(PTRACE_DETACH, tid, sig)))
		await_end(r, tid);
}

/* Is there a signal that any of the threads may take? */
static bool is_signal_waiting(pid_t tid)
{
	struct __ptrace_peeksiginfo_args args = { .flags = PTRACE_PEEKSIGINFO_SHARED, .nr = 1 };
	siginfo_t info;

	return ptrace(PTRACE_PEEKSIGINFO, tid, &args, &info) > 0;
}

/* It takes a signal that came meanwhile before the others can: they would not do what it would (see seize_new()). */
static void let_leader_go(struct remote *r)
{
	struct remote_thread *t = r->threads;
	bool waiting = true;

	while (t < r->threads + r->cnt && t->tid != r->pid)
		t++;
	if (r->cnt < 2 || t == r->threads + r->cnt || partial__is_to_finish(r, t))
		return;
	if (t->is == REMOTE_STANDS) {
		waiting = is_signal_waiting(t->tid);
		remote_let_go(r, t, 0);
	} else if (t->is == REMOTE_ASKED || r->follow || !late__has_gone(r, t)) {
		return;
	}
	*t = r->threads[--r->cnt];
	for (int i = 0; waiting && i < SIGNAL_TRIES && interrupted__has_signal(r->pid); i++) {
		hurry__lend_stop(&r->hurry, r->pid);
		remote_pause();
	}
}

/* Those that were not seen to stop, and have by now; the others go on by themselves. */
static void let_followed_go(struct remote *r)
{
	for (size_t i = 0; i < r->cnt; i++) {
		struct remote_thread *t = &r->threads[i];

		if (t->is == REMOTE_ASKED && !remote_await(r, t, 0)) {
			remote_look(r, t);
			remote_let_go(r, t, 0);
		}
	}
}

/* Those that were not seen to stop. Where others make calls for us these come first. */
static void let_others_go(struct remote *r)
{
	if (!r->late.cnt)
		r->late.looked_at = r->stopped_at ?: now_ns();
	for (size_t i = r->cnt; i-- > 0;)
		if (r->threads[i].is != REMOTE_STANDS && !partial__has(r, r->threads[i].tid))
			r->late.threads[r->late.cnt++] = r->threads[i];
	if (!r->caller.at_work)
		remote__let_late_go(r);
}

/* All but those that sleep. */
static void go_on(struct remote *r)
{
	r->cnt -= r->kept_cnt;
	r->kept_cnt = 0;
	hurry__lend_none(&r->hurry);
	if (r->sleepers) /* signals that they took wait for the leader now */
		sleepers__serve(r->sleepers);
	if (!r->child.held)
		let_leader_go(r);
	for (size_t i = 0; i < r->cnt; i++)
		if (r->child.held)
			ptrace(PTRACE_CONT, r->child.held, 0, 0);
		else if (r->threads[i].is == REMOTE_STANDS &&
			 !partial__is_to_finish(r, &r->threads[i]))
			remote_let_go(r, &r->threads[i], 0);
	late__unwatch(r);
	if (!r->caller.at_work) /* else the thread is not back yet */
		remote_end_stop(r, (now_ns() - r->stopped_at) / 1000);
	partial__begin_all(r);
	if (r->follow)
		let_followed_go(r);
	else if (!r->child.held) /* else it goes on by itself */
		let_others_go(r);
	remote_settle(r);
	r->cnt = 0;
	r->rest_runs = false;
}

static void let_sleepers_go(struct remote *r)
{
	int status;

	if (!r->sleepers)
		return;
	if (sleepers__let_go(r->sleepers, &status))
		remote_note_end(r, r->pid, status);
	r->sleepers = NULL;
	remote_settle(r);
	if (!r->stopped_at)
		hurry__hold_terminal(&r->hurry, false);
}

static void hold_sleepers(struct remote *r)
{
	if (!r->sleepers)
		return;
	if (sleepers__hold(r->sleepers))
		remote_begin_stop(r);
	else
		let_sleepers_go(r);
	hurry__hold_terminal(&r->hurry, true);
}

static int add_sleepers(struct remote *r)
{
	const struct remote_thread *threads;
	size_t cnt;
	int err;

	if (!r->sleepers)
		return 0;
	threads = sleepers__threads(r->sleepers, &cnt);
	err = make_room(r, cnt);
	if (err)
		return err;
	memcpy(r->threads + r->cnt, threads, cnt * sizeof(*threads));
	r->cnt += cnt;
	r->kept_cnt = cnt;
	return 0;
}

/* Where no thread is missing none need be looked for. */
static bool has_all(const struct remote *r)
{
	size_t kept = 0;

	if (r->sleepers)
		sleepers__threads(r->sleepers, &kept);
	return !r->how.only && (long)(r->cnt + kept) == remote_count_threads(r);
}

static bool all_late(const struct remote *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (r->threads[i].is != REMOTE_LATE)
			return false;
	return true;
}

/* Those that have not stopped by now, and those that were kept since they did not before. @asked: when they were */
static void note_late(struct remote *r, uint64_t asked)
{
	late__forget(r);
	for (size_t i = 0; i < r->cnt; i++) {
		struct remote_thread *t = &r->threads[i];

		if (t->is == REMOTE_LATE || (t->is == REMOTE_ASKED && remote_await(r, t, 0))) {
			if (!partial__has(r, t->tid))
				late__note(r, t->tid);
		} else if (t->is == REMOTE_ASKED) {
			r->stopped_at = r->stopped_at ?: asked;
			if (!remote_look(r, t))
				t->is = REMOTE_STANDS;
		}
	}
}

/* Those that sleep are seized already. So many, which are not waited for. */
static size_t add_late(struct remote *r)
{
	size_t cnt = r->late.cnt;

	if (cnt) { /* then none is kept */
		memcpy(r->threads, r->late.threads, cnt * sizeof(r->threads[0]));
		r->cnt = cnt;
	}
	r->late.cnt = 0;
	return cnt;
}

static int stop_some(struct remote *r, size_t limit, uint64_t ns)
{
	uint64_t deadline;
	size_t awaited;
	int err;

	if (r->child.held)
		return remote_stop_thread(r, r->child.held);
	hold_sleepers(r);
	deadline = now_ns() + ns;
	awaited = add_late(r);
	for (bool listed = r->sleepers;; listed = false) {
		size_t before = r->cnt;
		bool last;

		err = seize_new(r, limit, listed);
		last = !listed && r->cnt == before;
		if (!err)
			err = await_all(r, awaited, deadline);
		if (err || last || r->cnt >= limit || has_all(r))
			break;
		awaited = r->cnt;
	}
	if (!err && !r->cnt && r->sleepers) { /* the one that is not kept has ended */
		let_sleepers_go(r);
		return stop_some(r, limit, ns);
	}
	if (!err && !r->cnt)
		err = -ESRCH;
	if (!err && all_late(r)) /* the others have ended */
		err = -ETIMEDOUT;
	if (err == -ETIMEDOUT)
		note_late(r, deadline - ns);
	if (!err)
		err = add_sleepers(r);
	if (err)
		go_on(r);
	else
		remote_begin_stop(r); /* they could stand still anyway */
	return err;
}

struct call {
	void (*call)(void *ctx);
	void *ctx;
	bool done;
};

static void *make_call(void *arg)
{
	struct call *c = arg;

	c->call(c->ctx);
	__atomic_store_n(&c->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Another thread of ours makes it where we are who looks at what those do that are followed. */
void remote_call_before(struct remote *r)
{
	struct call c = { r->how.before, r->how.ctx, false };
	pthread_t thread;

	if (!r->how.before)
		return;
	if (!r->follow || r->park.on || thread_start(&thread, NULL, make_call, &c)) {
		r->how.before(r->how.ctx);
		return;
	}
	while (!__atomic_load_n(&c.done, __ATOMIC_ACQUIRE)) {
		remote_pause();
		if (r->sleepers)
			sleepers__look(r->sleepers);
		else
			follow__serve(r->follow, r->pid);
	}
	pthread_join(thread, NULL);
}

/* @tries: in vain */
static int try_to_stop(struct remote *r, size_t limit, int tries)
{
	int err;

	if (!r->how.past_blocked && !late__await(r))
		return -ETIMEDOUT;
	err = tries < LATE_TRIES || tries == STOP_TRIES ? 0 : late__keep(r);
	if (!err)
		return stop_some(r, limit, tries < STOP_TRIES ? STOP_NS : REMOTE_LAST_NS);
	go_on(r);
	return err;
}

static int stop_soon(struct remote *r, size_t limit)
{
	int err = 0;

	late__forget(r);
	partial__look(r);
	for (int i = 0; i <= STOP_TRIES; i++) {
		if (r->follow && !r->park.on && !follow__serve(r->follow, r->pid)) {
			err = -ESRCH;
			break;
		}
		if (r->how.before) {
			remote_hurry(r, false);
			remote_call_before(r);
		}
		remote_hurry(r, !r->late.cnt);
		err = try_to_stop(r, limit, i);
		if (err != -ETIMEDOUT)
			break;
		remote_leave_time(r, (unsigned int)(1000 + 500 * i));
	}
	if (err)
		remote_hurry(r, false);
	return err;
}

/* Those that sleep then need not stand still. How long each did to be kept counts, too. */
static void keep_sleepers(struct remote *r)
{
	int err;

	if (r->child.held || r->park.on || r->late.cnt || !remote_has_many(r))
		return;
	if (r->follow) /* we do it ourselves */
		remote_hurry(r, true);
	hurry__hold_terminal(&r->hurry, true);
	err = sleepers__keep(r, &r->sleepers);
	remote_note_stop(r, r->sleepers ? sleepers__longest_us(r->sleepers) : 0);
	if (!err)
		return;
	let_sleepers_go(r);
	hurry__hold_terminal(&r->hurry, false);
}

/* Who stands still, or waits in our code, has no call of its own that a stop would interrupt. */
static void note_slept(struct remote *r)
{
	r->slept.cnt = 0;
	if (!r->child.held && !r->park.on)
		slept__note(&r->slept, r->pid, r->how.only);
	if (r->follow)
		follow__set_slept(r->follow, &r->slept);
}

size_t remote__kept(const struct remote *r, uint64_t **selves)
{
	*selves = NULL;
	return r->sleepers ? sleepers__selves(r->sleepers, selves) : 0;
}

int remote__stop(struct remote *r)
{
	int err;

	note_slept(r);
	keep_sleepers(r);
	err = stop_soon(r, STOP_THREADS_MAX);
	if (err)
		let_sleepers_go(r);
	return err;
}

int remote__stop_past_blocked(struct remote *r)
{
	int err;

	r->how.past_blocked = true;
	err = remote__stop(r);
	r->how.past_blocked = false;
	return err;
}

int remote__stop_one(struct remote *r, pid_t tid)
{
	int err;

	r->how.only = tid;
	note_slept(r);
	err = stop_soon(r, 1);
	r->how.only = 0;
	return err;
}

void remote__resume(struct remote *r)
{
	go_on(r);
	let_sleepers_go(r);
}

void remote__close(struct remote *r)
{
	remote__resume(r);
	if (r->late.cnt)
		late__await(r);
	late__forget(r);
	partial__end(r);
	slept__free(&r->slept);
	if (r->follow)
		follow__set_slept(r->follow, NULL);
	free(r->threads);
	free(r->late.threads);
	hurry__done(&r->hurry);
	if (r->mem >= 0)
		close(r->mem);
	r->mem = -1;
	r->threads = r->late.threads = NULL;
	r->size = r->late.cnt = 0;
}
