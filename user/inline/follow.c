// SPDX-License-Identifier: Apache-2.0
#include "inline/follow.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uthash.h>

#include "base/clock.h"
#include "base/grow.h"
#include "inline/engine_priv.h"
#include "inline/interrupted.h"
#include "inline/remote_priv.h"
#include "inline/remote_stop.h"
#include "inline/rest.h"
#include "inline/slept.h"
#include "inline/sock_time_out.h"

#define RELEASE_NS 2000000000ull
#define REST_NS \
	1000000000ull /* that the rest of a call may take then, or where it is waited for; */
#define BRIEF_NS 200000000ull /* and while somebody stands still, of whom follow__next() tells */
#define STRAY_NS 20000000ull /* who was born is told of by its parent within that */
#define OPTIONS                                                                                \
	(PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | \
	 PTRACE_O_TRACESYSGOOD)

struct follow_tid {
	pid_t tid, pid; /* pid 0: not looked at yet */
	bool watched;
	bool kept; /* what it does is told to the keeper */
	bool leaves; /* it was asked to stop, to be let go */
	bool vforked; /* it stands still where it was born, or soon will, and its parent sleeps until it executes something */
	bool in_rest; /* it does the rest of a call */
	bool awaited, stands; /* and is to stand still behind it; does it? */
	struct rest rest;
	UT_hash_handle hh;
};

struct follow {
	struct follow_tid *tids;
	unsigned int vforked_cnt; /* of these */
	struct follow_event *queue; /* what came while a stop was waited for */
	uint32_t queue_cnt, queue_size;
	struct follow_keeper keeper;
	const struct slept *slept;
	bool released;
	uint64_t rest_until; /* who is let go for good does it before; 0: it is not waited for */
	struct told { /* by waitpid(), and not looked at yet */
		pid_t tid;
		int status;
	} * told;
	uint32_t told_cnt, told_size;
	pid_t stray; /* traced, and nobody has told of it; 0: none */
	uint64_t stray_since;
};

int follow__new(struct follow **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static struct follow_tid *find(const struct follow *f, pid_t tid)
{
	struct follow_tid *t;

	HASH_FIND_INT(f->tids, &tid, t);
	return t;
}

bool follow__has(const struct follow *f, pid_t pid)
{
	/* the kernel traces it from its birth on, which its parent may not have told yet */
	return find(f, pid) || inline_is_traced(pid);
}

static struct follow_tid *add(struct follow *f, pid_t tid, pid_t pid)
{
	struct follow_tid *t = find(f, tid);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = tid;
	t->pid = pid;
	HASH_ADD_INT(f->tids, tid, t);
	return t;
}

static void drop(struct follow *f, struct follow_tid *t)
{
	f->vforked_cnt -= t->vforked;
	HASH_DEL(f->tids, t);
	free(t);
}

void follow__free(struct follow *f)
{
	struct follow_tid *t, *next;

	if (!f)
		return;
	if (!f->released)
		follow__release(f);
	HASH_ITER(hh, f->tids, t, next)
	drop(f, t);
	free(f->queue);
	free(f->told);
	free(f);
}

int follow__seize(struct follow *f, pid_t tid, pid_t pid)
{
	struct follow_tid *t = find(f, tid);

	if (t) {
		t->pid = pid;
		return -EEXIST;
	}
	if (ptrace(PTRACE_SEIZE, tid, 0, OPTIONS))
		return -errno;
	return add(f, tid, pid) ? 0 : -ENOMEM;
}

/* Anything but that it is gone is tried once more: a thread that is not let go stands still as long as we live. */
static int ask(enum __ptrace_request request, pid_t tid, void *data)
{
	if (!ptrace(request, tid, 0, data))
		return 0;
	return errno == ESRCH || ptrace(request, tid, 0, data) ? -errno : 0;
}

static bool begin_rest(struct follow_tid *t)
{
	t->in_rest = !t->watched && rest__begin(&t->rest, t->tid);
	return t->in_rest;
}

bool follow__is_in_rest(const struct follow *f, pid_t tid)
{
	const struct follow_tid *t = find(f, tid);

	return t && t->in_rest;
}

bool follow__passes(struct follow *f, pid_t tid, int status)
{
	struct follow_tid *t = find(f, tid);
	bool over, passes;

	if (!t || !t->in_rest || !WIFSTOPPED(status))
		return false;
	passes = rest__ask_on(&t->rest, status, &over);
	t->in_rest = !over;
	return passes;
}

void follow__go(struct follow *f, pid_t tid, int sig)
{
	struct follow_tid *t = find(f, tid);

	if (!t || sig || !begin_rest(t))
		ask(t && t->watched ? PTRACE_SYSCALL : PTRACE_CONT, tid, (void *)(intptr_t)sig);
}

void follow__watch(struct follow *f, pid_t pid, bool on)
{
	struct follow_tid *t = find(f, pid);

	if (t)
		t->watched = on;
}

void follow__set_slept(struct follow *f, const struct slept *slept)
{
	f->slept = slept;
}

void follow__set_keeper(struct follow *f, const struct follow_keeper *keeper)
{
	struct follow_tid *t;

	f->keeper = *keeper;
	for (t = f->tids; t && !keeper->tell; t = t->hh.next)
		t->kept = false;
}

void follow__keep(struct follow *f, pid_t tid, bool on)
{
	struct follow_tid *t = find(f, tid);

	if (t)
		t->kept = on;
}

static bool is_birth(int status)
{
	int event = status >> 16;

	return event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	       event == PTRACE_EVENT_CLONE;
}

/* Something was started by a thread that stands still. */
static void note_born(struct follow *f, pid_t tid, int status)
{
	bool vforked = status >> 16 == PTRACE_EVENT_VFORK;
	unsigned long born = 0;
	struct follow_tid *t = NULL;

	if (!ask(PTRACE_GETEVENTMSG, tid, &born) && born)
		t = add(f, (pid_t)born, 0);
	if (t && vforked && !t->pid && !t->vforked) {
		t->vforked = true;
		f->vforked_cnt++;
	}
}

/* It shares its parent's memory, so it is nobody's business before it executes something. */
static void vforked_goes(struct follow *f, struct follow_tid *t)
{
	t->pid = inline_process_of(t->tid);
	t->vforked = false;
	f->vforked_cnt--;
	follow__go(f, t->tid, 0);
}

/* After an exec() one thread is left, under the number of the process. */
static void only_first(struct follow *f, pid_t pid)
{
	struct follow_tid *t, *next;

	HASH_ITER(hh, f->tids, t, next)
	if (t->pid == pid && t->tid != pid)
		drop(f, t);
	t = add(f, pid, pid);
	if (t)
		t->watched = t->in_rest = false;
}

static bool on_end(struct follow *f, struct follow_tid *t, int status, struct follow_event *out)
{
	bool last = t->tid == t->pid || !t->pid;

	*out = (struct follow_event){ .what = FOLLOW_ENDED, .pid = t->tid, .status = status };
	drop(f, t);
	return last;
}

/* What it gets of a stop by a signal; at the end of a call (it was kept in it) that is interrupted as if it had been asked to stop: none. */
static int signal_of(const struct follow *f, pid_t tid, int sig)
{
	struct user_regs_struct regs;

	if (sig != SYSCALL_STOP)
		return interrupted__pass(tid, sig, true, f->slept);
	interrupted__look(tid, &regs, f->slept);
	return 0;
}

/* Has it only to do with the rest of its call? */
static bool is_of_rest(struct follow_tid *t, int status)
{
	if (!t->in_rest)
		return false;
	if (rest__goes_on(&t->rest, status, true))
		return true;
	t->in_rest = false;
	if (WSTOPSIG(status) != SYSCALL_STOP)
		return false;
	t->stands = t->awaited;
	if (!t->awaited)
		ask(PTRACE_CONT, t->tid, NULL);
	return true;
}

/* One stop of a thread. True: @out is somebody's business. */
static bool on_stop(struct follow *f, struct follow_tid *t, int status, struct follow_event *out)
{
	int event = status >> 16, sig = WSTOPSIG(status);
	struct user_regs_struct regs;
	pid_t tid = t->tid;

	*out = (struct follow_event){ .what = FOLLOW_STOP, .pid = tid, .status = status };
	if (is_of_rest(t, status))
		return false;
	if (is_birth(status)) {
		note_born(f, tid, status);
		follow__go(f, tid, 0);
		return false;
	}
	switch (event) {
	case PTRACE_EVENT_EXEC:
		only_first(f, tid);
		return true;
	case PTRACE_EVENT_STOP:
		if (t->vforked) {
			vforked_goes(f, t);
			return false;
		}
		if (t->pid) {
			if (sig != SIGTRAP)
				ask(PTRACE_LISTEN, tid, NULL);
			else if (!interrupted__look(tid, &regs, f->slept))
				follow__go(f, tid, 0);
			return false;
		}
		t->pid = inline_process_of(tid);
		out->what = FOLLOW_BORN;
		if (t->pid == tid)
			return true;
		follow__go(f, tid, 0);
		return false;
	}
	if (sig == SIGTRAP || (sig == SYSCALL_STOP && t->watched))
		return true;
	follow__go(f, tid, signal_of(f, tid, sig));
	return false;
}

static bool handle(struct follow *f, pid_t tid, int status, struct follow_event *out)
{
	struct follow_tid *t = find(f, tid);

	if (!t)
		return false;
	if (t->kept) {
		f->keeper.tell(f->keeper.ctx, tid, status);
		return false;
	}
	return WIFSTOPPED(status) ? on_stop(f, t, status, out) : on_end(f, t, status, out);
}

/* Without memory for it, it goes on, and nobody is told. */
static void put_off(struct follow *f, const struct follow_event *event)
{
	if (!GROW(f->queue, f->queue_size, f->queue_cnt))
		f->queue[f->queue_cnt++] = *event;
	else if (event->what != FOLLOW_ENDED)
		follow__go(f, event->pid, 0);
}

bool follow__took(struct follow *f, pid_t tid, int status)
{
	struct follow_event event;

	if (!handle(f, tid, status, &event))
		return false;
	if (event.what == FOLLOW_STOP && event.status >> 8 == SIGTRAP) {
		follow__go(f, tid, SIGTRAP); /* its own */
		return false;
	}
	put_off(f, &event);
	return true;
}

void follow__serve_vforked(struct follow *f)
{
	struct follow_tid *t, *next;
	int status;

	if (!f->vforked_cnt)
		return;
	HASH_ITER(hh, f->tids, t, next)
	{
		pid_t tid = t->tid;

		if (t->vforked && waitpid(tid, &status, __WALL | WNOHANG) == tid)
			follow__took(f, tid, status);
	}
}

/* Of all that this thread of ours traces, or has started: to ask for each of hundreds takes 0.3 ms. 0: none has news. */
static pid_t whose_news(void)
{
	const int what = WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL | __WNOTHREAD;
	siginfo_t info = { 0 };

	return waitid(P_ALL, 0, &info, what) ? 0 : info.si_pid;
}

/* False: nothing was, or there is no memory; it is asked for again. */
static bool take_news(struct follow *f, pid_t tid)
{
	struct told *told;

	if (GROW(f->told, f->told_size, f->told_cnt))
		return false;
	told = &f->told[f->told_cnt];
	told->tid = tid;
	if (waitpid(tid, &told->status, __WALL | WNOHANG) != tid)
		return false;
	/* it can have been killed by the time it is looked at */
	if (WIFSTOPPED(told->status) && is_birth(told->status))
		note_born(f, tid, told->status);
	f->told_cnt++;
	return true;
}

/* All of it first: whoever is told of one can have others go, or end. */
static void ask_for_news(struct follow *f)
{
	struct follow_tid *t;
	pid_t tid;

	f->told_cnt = 0;
	while ((tid = whose_news()) && find(f, tid) && take_news(f, tid))
		;
	/* that of somebody else hides the others' */
	for (t = tid ? f->tids : NULL; t; t = t->hh.next)
		take_news(f, t->tid);
}

bool follow__runs(const struct follow *f, pid_t pid)
{
	for (uint32_t i = 0; i < f->queue_cnt; i++)
		if (f->queue[i].pid == pid && f->queue[i].what != FOLLOW_BORN)
			return false;
	return true;
}

bool follow__serve(struct follow *f, pid_t pid)
{
	ask_for_news(f);
	for (uint32_t i = 0; i < f->told_cnt; i++)
		follow__took(f, f->told[i].tid, f->told[i].status);
	return follow__runs(f, pid);
}

void follow__stood(struct follow *f, pid_t tid)
{
	struct follow_tid *t = find(f, tid);

	if (t && !t->pid)
		t->pid = inline_process_of(tid);
	if (t && t->in_rest)
		rest__end(&t->rest);
	if (t)
		t->in_rest = false;
}

int follow__finish(struct follow *f, pid_t tid)
{
	uint64_t start = now_ns(), ns = REST_NS;
	struct follow_tid *t = find(f, tid);
	pid_t pid = t ? t->pid : 0;
	bool runs;

	if (!t || !begin_rest(t))
		return 0;
	t->awaited = true;
	t->stands = false;
	for (runs = true; runs && t && t->in_rest && now_ns() - start < ns; t = find(f, tid)) {
		remote_pause();
		runs = follow__serve(f, pid);
		ns = f->queue_cnt ? BRIEF_NS : REST_NS;
	}
	if (t)
		t->awaited = false;
	if (!runs || (t && t->stands))
		return runs ? 0 : -ESRCH;
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	return -EAGAIN;
}

/*
 * Its parent was killed before it had told of it: the kernel traces it all the same, and says so to nobody but us. It stands still until it is
 * let go, or is dead, and its process does not end for others, until we were told.
 */
static bool adopt_stray(struct follow *f, uint64_t patience_ns)
{
	pid_t tid = whose_news();

	if (!tid || find(f, tid) || !inline_is_traced(tid)) {
		f->stray = 0;
		return false;
	}
	if (f->stray != tid) {
		f->stray = tid;
		f->stray_since = now_ns();
	}
	return now_ns() - f->stray_since >= patience_ns && add(f, tid, 0);
}

static int next_of_known(struct follow *f, struct follow_event *out)
{
	struct follow_tid *t, *next;
	int status;

	HASH_ITER(hh, f->tids, t, next)
	{
		pid_t tid = t->tid, got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid && handle(f, tid, status, out))
			return 1;
		if (got < 0 && errno == ECHILD && on_end(f, t, -1, out))
			return 1;
	}
	return 0;
}

int follow__next(struct follow *f, struct follow_event *out)
{
	int got;

	if (f->queue_cnt) {
		*out = f->queue[0];
		memmove(f->queue, f->queue + 1, --f->queue_cnt * sizeof(*f->queue));
		return 1;
	}
	while (!(got = next_of_known(f, out)) && adopt_stray(f, STRAY_NS))
		;
	return got;
}

/* False: not yet. */
static bool let_go(struct follow *f, struct follow_tid *t)
{
	struct follow_event event;
	struct user_regs_struct regs;
	int status, sig = 0;
	pid_t tid = t->tid, got = waitpid(tid, &status, __WALL | WNOHANG);

	if (!got)
		return false;
	if (got < 0 || !WIFSTOPPED(status)) {
		if (on_end(f, t, got < 0 ? -1 : status, &event))
			put_off(f, &event);
		return true;
	}
	if (t->in_rest && rest__goes_on(&t->rest, status, now_ns() < f->rest_until))
		return false;
	t->in_rest = false;
	if (WSTOPSIG(status) == SYSCALL_STOP && interrupted__begins_call(tid)) {
		ask(PTRACE_CONT, tid, NULL); /* let go there it would end with EINTR */
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		return false;
	}
	if (is_birth(status))
		note_born(f, tid, status);
	else if (status >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8))
		interrupted__look(tid, &regs, f->slept);
	else if (!(status >> 16))
		sig = signal_of(f, tid, WSTOPSIG(status));
	if (!sig && WSTOPSIG(status) != SYSCALL_STOP && !interrupted__is_group_stop(status) &&
	    now_ns() < f->rest_until && begin_rest(t)) {
		t->leaves = false;
		return false;
	}
	ask(PTRACE_DETACH, tid, (void *)(intptr_t)sig);
	if (!t->pid && !t->vforked && inline_process_of(tid) == tid)
		put_off(f, &(struct follow_event){ .what = FOLLOW_BORN, .pid = tid });
	drop(f, t);
	return true;
}

/* They stand still, and have told why. */
static void let_queued_go(struct follow *f)
{
	for (uint32_t i = 0; i < f->queue_cnt; i++) {
		struct follow_tid *t = find(f, f->queue[i].pid);

		if (!t || f->queue[i].what == FOLLOW_ENDED)
			continue;
		ask(PTRACE_DETACH, t->tid, NULL);
		drop(f, t);
	}
}

/* Some more of them; what is new stops by itself. */
static void ask_some(struct follow *f)
{
	struct follow_tid *t, *next;
	unsigned int cnt = 0;

	HASH_ITER(hh, f->tids, t, next)
	if (t->pid && !t->leaves && !(t->in_rest && now_ns() < f->rest_until) &&
	    cnt++ < REMOTE_BATCH) {
		t->leaves = true;
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
	}
}

/* Those that stand still. True: there are some that were asked, and do not yet. */
static bool let_some_go(struct follow *f)
{
	struct follow_tid *t, *next;
	bool late = false;

	HASH_ITER(hh, f->tids, t, next)
	late |= t->leaves && !let_go(f, t);
	if (whose_news()) /* of those that were not asked, too */
		HASH_ITER(hh, f->tids, t, next)
	let_go(f, t);
	return late;
}

/* As that. What has gone since @looked, when we looked last, stood still for so long at most. */
static bool look(struct follow *f, uint64_t *looked, uint64_t *longest)
{
	unsigned int cnt = HASH_COUNT(f->tids);
	bool late = let_some_go(f);
	uint64_t now = now_ns();

	if (HASH_COUNT(f->tids) != cnt && now - *looked > *longest)
		*longest = now - *looked;
	*looked = now;
	return late;
}

static void note_slept(const struct follow *f, struct slept *slept)
{
	for (const struct follow_tid *t = f->tids; t; t = t->hh.next)
		if (t->tid == t->pid)
			slept__add(slept, t->pid, 0);
}

uint32_t follow__release(struct follow *f)
{
	struct slept slept = { 0 };
	uint64_t start, asked, looked, longest = 0;

	note_slept(f, &slept);
	f->slept = &slept;
	start = asked = looked = now_ns();
	f->rest_until = start + REST_NS;
	f->released = true;
	let_queued_go(f);
	/* where nobody is left who could tell of one it is not waited for */
	for (; (f->tids || adopt_stray(f, 0)) && asked - start < RELEASE_NS; asked = now_ns()) {
		ask_some(f);
		while (look(f, &looked, &longest) && looked - asked < REMOTE_STAND_NS)
			remote_pause();
		if (f->tids) /* some may be about to be born */
			remote_pause();
	}
	f->slept = NULL;
	for (uint64_t until = asked + SOCK_TIME_OUT_NS;
	     !sock_time_outs__give_back_seen(slept.socks) && asked < until; asked = now_ns())
		remote_pause();
	slept__free(&slept);
	return (uint32_t)(longest / 1000);
}

bool follow__let_late_go(struct follow *f)
{
	adopt_stray(f, 0);
	ask_some(f);
	let_some_go(f);
	return !f->tids;
}
