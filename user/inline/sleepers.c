// SPDX-License-Identifier: Apache-2.0
#include "inline/sleepers.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/thread.h"
#include "inline/interrupted.h"
#include "inline/lender.h"
#include "inline/partial.h"
#include "inline/remote_priv.h"
#include "inline/remote_stop.h"
#include "proc/threads.h"

#define PASS_NS	   1000000000ull /* until one that did not is let go: nobody stands still for it */
#define SERVE_NS   50000ull
#define SIGNALS_NS 20000000ull /* until no signal waits that may be the first thread's */
#define KEEP_NS	   500000000ull /* for all; the others are not kept */
#define NEWS	   (__WALL | __WNOTHREAD | WNOHANG) /* of waitpid() */
#define GONE_TRIES 1000
#define PASSES	   10 /* so often they are asked, on a busy machine */

enum phase {
	KEEPING,
	SERVING,
	HOLDING,
	ENDED
};

struct sleepers {
	const struct remote *r;
	pid_t tid; /* of our thread */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum phase wanted, is;
	bool failed; /* one is not let go: all are by the end of the thread */
	bool signalled; /* a signal may have come, which wakes more than one */
	bool ended; /* the process: */
	int status;
	unsigned int passing; /* so many are traced and not kept: they come to one more stop */
	struct remote_thread *threads;
	size_t cnt;
	pid_t *listed; /* all that there were */
	uint32_t listed_cnt, listed_size;
	pid_t *late; /* these did not stop in time: they are asked again */
	uint32_t late_cnt;
	uint64_t *room; /* of remote_stack() */
	uint64_t longest_ns;
};

static bool is_interrupted(pid_t tid, struct user_regs_struct *regs)
{
	return !ptrace(PTRACE_GETREGS, tid, 0, regs) &&
	       (interrupted__ends(regs) || interrupted__waits(regs));
}

/* Has something ended its call that may be a signal? Then the call is begun anew if no handler runs, as the kernel does it. */
static bool was_interrupted(const struct sleepers *s, pid_t tid)
{
	struct user_regs_struct regs;

	return is_interrupted(tid, &regs) &&
	       (!interrupted__ends(&regs) || !interrupted__begin_anew(tid, &regs, &s->r->slept));
}

/* What a thread did, or the kernel to it alone, or where whom it is for is not known. */
static bool is_its_own(const siginfo_t *info)
{
	switch (info->si_signo) {
	case SIGPIPE:
	case SIGXFSZ:
	case SIGSEGV:
	case SIGBUS:
	case SIGFPE:
	case SIGILL:
	case SIGTRAP:
	case SIGSYS:
		return true;
	}
	return info->si_code < 0; /* tgkill(), timers, queues */
}

/*
 * A signal for the process, which the first thread would have taken, but that it stood still, or that another one was on its way just
 * then: its call may have to end by it. So it is sent to that, and this one takes none.
 */
static bool hands_on(const struct sleepers *s, pid_t tid, int sig)
{
	pid_t first = s->r->pid;
	siginfo_t info;

	return tid != first && !ptrace(PTRACE_GETSIGINFO, tid, 0, &info) && !is_its_own(&info) &&
	       !interrupted__blocks(first, sig) && !syscall(SYS_tgkill, first, first, sig);
}

/* It goes on as if it had not been kept. */
static void release(const struct sleepers *s, pid_t tid, int sig)
{
	struct follow *f = s->r->follow;

	if (f) {
		follow__keep(f, tid, false);
		follow__go(f, tid, sig);
	} else {
		interrupted__go_on(PTRACE_DETACH, tid, sig);
	}
}

/* What it does is none of ours, where it is followed. */
static void hand_back(struct sleepers *s, pid_t tid, int status)
{
	struct follow *f = s->r->follow;

	follow__keep(f, tid, false);
	s->failed |= follow__took(f, tid, status) && !follow__runs(f, s->r->pid);
}

static void note_end(struct sleepers *s, pid_t tid, int status)
{
	if (s->r->follow)
		hand_back(s, tid, status);
	if (tid != s->r->pid)
		return;
	s->ended = true;
	s->status = status;
}

/* It was looked at, and goes on. */
static void go_on(struct sleepers *s, const struct remote_thread *t)
{
	int status, got;

	if (s->r->follow) {
		release(s, t->tid, 0); /* with its rest */
		return;
	}
	got = partial__let_go(s->r, t, &status);
	s->passing += !got;
	if (got < 0)
		note_end(s, t->tid, status);
}

/* One that is not kept, or no more. */
static void let_go(struct sleepers *s, pid_t tid, int status)
{
	bool in_call = WSTOPSIG(status) == SYSCALL_STOP;
	bool signalled = !(status >> 16) && !in_call;
	int sig = signalled ? interrupted__pass(tid, WSTOPSIG(status), false, &s->r->slept) : 0;
	bool handed_on = sig && hands_on(s, tid, sig);
	struct remote_thread t = { .tid = tid };
	struct user_regs_struct regs;

	if (s->r->follow && status >> 16) {
		hand_back(s, tid, status);
		return;
	}
	s->signalled |= signalled || (in_call && tid == s->r->pid && is_interrupted(tid, &regs));
	/* the call that it was asked in goes on; who was kept before, and is followed, stops at the end of it */
	if (status >> 16 == PTRACE_EVENT_STOP || (in_call && s->r->follow) || (signalled && !sig))
		remote_look(s->r, &t);
	/* it may come to a signal that is not its own: traced it stops there once more, or in the call that it makes again */
	if ((in_call || handed_on) && tid != s->r->pid && was_interrupted(s, tid) &&
	    !ptrace(PTRACE_SYSCALL, tid, 0, 0)) {
		s->passing++;
		return;
	}
	if (sig && !handed_on)
		release(s, tid, sig);
	else
		go_on(s, &t);
}

/* As asked; one that is followed, and was kept before, at the end of its call. */
static bool has_stopped(const struct sleepers *s, int status)
{
	return status >> 8 == (PTRACE_EVENT_STOP << 8 | SIGTRAP) ||
	       (s->r->follow && status >> 8 == SYSCALL_STOP);
}

/* Has it stopped? Otherwise it has ended, or is let go, now or where it stops later. */
static bool stands(struct sleepers *s, pid_t tid, uint64_t deadline)
{
	int status;
	pid_t got;

	while (!(got = waitpid(tid, &status, __WALL | WNOHANG)) && now_ns() < deadline)
		remote_pause();
	if (got == tid && WIFSTOPPED(status) && has_stopped(s, status))
		return true;
	if (got == tid && WIFSTOPPED(status))
		let_go(s, tid, status);
	else if (got == tid)
		note_end(s, tid, status);
	else if (!got) {
		s->passing++;
		s->late[s->late_cnt++] = tid;
	} else if (s->r->follow) {
		follow__keep(s->r->follow, tid, false);
	}
	return false;
}

static bool goes_to(pid_t tid)
{
	return !ptrace(PTRACE_SYSCALL, tid, 0, 0);
}

/* Does it wait? Then it begins its call anew, and stops there once more. */
static bool waits(struct sleepers *s, pid_t tid)
{
	struct remote_thread t = { .tid = tid };

	if (!remote_look(s->r, &t) && t.in_call && goes_to(tid))
		return true;
	go_on(s, &t);
	return false;
}

/* NULL: it is not kept */
static struct remote_thread *find(const struct sleepers *s, pid_t tid)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (s->threads[i].tid == tid)
			return &s->threads[i];
	return NULL;
}

/* One that was asked before, and came late, can be kept since. */
static bool seize(const struct sleepers *s, pid_t tid)
{
	struct follow *f = s->r->follow;
	int err;

	if (find(s, tid) || (f && follow__is_in_rest(f, tid)))
		return false;
	if (!f)
		return !ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD);
	err = follow__seize(f, tid, s->r->pid);
	follow__keep(f, tid, !err || err == -EEXIST);
	return !err || err == -EEXIST;
}

static unsigned int ask(const struct sleepers *s, pid_t *asked, const pid_t *tids, unsigned int cnt)
{
	unsigned int asked_cnt = 0;

	for (unsigned int i = 0; i < cnt; i++) {
		if (!threads__has(s->r->pid, tids[i]) || !seize(s, tids[i]))
			continue;
		ptrace(PTRACE_INTERRUPT, tids[i], 0, 0);
		asked[asked_cnt++] = tids[i];
	}
	return asked_cnt;
}

/* One that is not kept either comes to its last stop. */
static void forget(struct sleepers *s, pid_t tid)
{
	struct remote_thread *t = find(s, tid);

	if (!t) {
		s->passing--;
		return;
	}
	free((void *)t->stack);
	*t = s->threads[--s->cnt];
}

/* Its stack does not change while it waits: what is looked for on it in a stop is found now. Signals' frames are in one piece. */
static void read_stack(const struct sleepers *s, struct remote_thread *t)
{
	size_t cnt, frame_end = 0, n = 0;
	const uint64_t *words = remote_stack(s->r, t, s->room, &cnt);
	uint64_t *out = malloc((2 * cnt + 1) * sizeof(*out));

	for (size_t i = REMOTE_FRAME_REGS; out && i + 2 < cnt; i++)
		if (remote_is_signal_frame(words + i)) {
			size_t at = i - REMOTE_FRAME_REGS;

			for (at = at > frame_end ? at : frame_end; at <= i + 2; at++)
				out[n++] = words[at];
			frame_end = i + 3;
		}
	for (size_t i = 0; out && i < cnt; i++)
		if (words[i] - s->r->watched.start < s->r->watched.end - s->r->watched.start)
			out[n++] = words[i];
	t->stack = out ? realloc(out, (n + 1) * sizeof(*out)) : NULL;
	t->stack_words = n;
}

/* Does it stand where its call begins (anew)? Then it waits in it from here on. To detach it here would end the call with EINTR. */
static bool is_kept(struct sleepers *s, pid_t tid)
{
	struct remote_thread t = { .tid = tid, .is = REMOTE_KEPT };

	if (!interrupted__begins_call(tid) || remote_look(s->r, &t) || !goes_to(tid))
		return false;
	t.in_call = true;
	read_stack(s, &t);
	s->threads[s->cnt++] = t;
	return true;
}

static void take_news(struct sleepers *s, pid_t tid, int status)
{
	forget(s, tid);
	if (!WIFSTOPPED(status))
		note_end(s, tid, status);
	else if (status >> 8 != SYSCALL_STOP || !is_kept(s, tid))
		let_go(s, tid, status);
}

/* Does a signal end its call, perhaps another one's? */
static bool was_woken(pid_t tid, int status)
{
	struct user_regs_struct regs;

	return status >> 8 == SYSCALL_STOP && is_interrupted(tid, &regs);
}

/* Of the first thread, which need not be one of those. */
static void tell(struct sleepers *s, pid_t tid, int status)
{
	if (s->r->follow)
		follow__took(s->r->follow, tid, status);
	else
		take_news(s, tid, status);
}

/*
 * The signals that have woken others, before these go on: one of them would take what the first thread was woken for, which would begin
 * its call anew meanwhile, and wait on. Unless it stands still for somebody else.
 */
static void let_first_take(struct sleepers *s)
{
	uint64_t deadline = now_ns() + SIGNALS_NS;
	pid_t first = s->r->pid;
	int status;

	while (now_ns() < deadline && interrupted__has_signal(first)) {
		bool stands = remote__state(first, first) == 't';

		if (waitpid(first, &status, NEWS) == first)
			tell(s, first, status);
		else if (stands)
			break;
		remote_pause();
	}
}

static void on_news(void *ctx, pid_t tid, int status)
{
	struct sleepers *s = ctx;

	if (tid != s->r->pid && was_woken(tid, status))
		let_first_take(s);
	take_news(s, tid, status);
}

/* Those that come to their calls wait in them, those that come out of them go. Was there any? (Where they are followed that is not said.) */
static bool serve(struct sleepers *s)
{
	bool any = false;
	int status;
	pid_t tid;

	if (s->r->follow) {
		s->failed |= !follow__serve(s->r->follow, s->r->pid);
		return false;
	}
	for (; (tid = waitpid(-1, &status, NEWS)) > 0; any = true)
		on_news(s, tid, status);
	return any;
}

static void note_stop(struct sleepers *s, uint64_t since)
{
	uint64_t took = now_ns() - since;

	if (took > s->longest_ns)
		s->longest_ns = took;
}

/* Until each is kept or let go. None stands still for longer than until it is looked for. */
static void await_passing(struct sleepers *s)
{
	uint64_t since = now_ns(), deadline = since + PASS_NS;

	for (;;) {
		serve(s);
		note_stop(s, since);
		if (!s->passing || s->failed)
			return;
		since = now_ns();
		if (since > deadline) {
			s->failed = true;
			return;
		}
		remote_pause();
	}
}

/* Of hundreds to ask all takes milliseconds, in which nobody is to stand still. */
static bool anybody_runs(struct sleepers *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		if (remote__state(s->r->pid, s->threads[i].tid) == 'R')
			return true;
		if (i % REMOTE_BATCH == 0)
			serve(s);
	}
	return serve(s);
}

/* One that was woken for it, and has had no CPU yet, would take it untraced, or find that its call has ended with EINTR. Who is followed
 * stays traced. */
static void await_signals(struct sleepers *s)
{
	uint64_t deadline = now_ns() + SIGNALS_NS;

	while (!s->failed && now_ns() < deadline &&
	       (interrupted__has_signal(s->r->pid) ||
		(s->signalled && !s->r->follow && anybody_runs(s)))) {
		remote_pause();
		await_passing(s);
	}
}

/* There is room for them. */
static void keep_some(struct sleepers *s, const pid_t *tids, unsigned int cnt)
{
	uint64_t since = now_ns();
	pid_t asked[REMOTE_BATCH];
	unsigned int asked_cnt = ask(s, asked, tids, cnt);

	for (unsigned int i = 0; i < asked_cnt; i++)
		if (stands(s, asked[i], since + REMOTE_STAND_NS) && waits(s, asked[i]))
			s->passing++;
	note_stop(s, since);
	await_passing(s);
}

static int list(struct sleepers *s)
{
	auto_fn(threads__closep) DIR *threads = threads__open(s->r->pid);
	pid_t tid;

	while ((tid = threads__next(threads))) {
		if (GROW(s->listed, s->listed_size, s->listed_cnt))
			return -ENOMEM;
		s->listed[s->listed_cnt++] = tid;
	}
	return 0;
}

/* Whom a stop would interrupt in the middle of its work stops with those that are not kept, and does the rest then. */
static bool may_be_kept(const struct sleepers *s, pid_t tid)
{
	return remote__state(s->r->pid, tid) == 'S' && partial__waits_whole(s->r->pid, tid);
}

/* One that makes calls for us meanwhile, or has Python's lock: not the first thread, and if there is another one, none that has a call's rest to do. */
static pid_t choose_spare(const struct sleepers *s)
{
	pid_t spare = 0;

	for (uint32_t i = 0; i < s->listed_cnt; i++) {
		if (s->listed[i] == s->r->pid)
			continue;
		if (!partial__waits_in_parts(s->r->pid, s->listed[i]))
			return s->listed[i];
		spare = spare ? spare : s->listed[i];
	}
	return spare;
}

/* Those that sleep; the first thread last, since a signal for the process goes to another one while it stands still. There is room. */
static uint32_t choose(const struct sleepers *s, pid_t *out)
{
	pid_t spare = choose_spare(s);
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < s->listed_cnt; i++) {
		pid_t tid = s->listed[i];

		if (tid != s->r->pid && tid != spare && may_be_kept(s, tid))
			out[cnt++] = tid;
	}
	if (cnt && may_be_kept(s, s->r->pid))
		out[cnt++] = s->r->pid;
	return cnt;
}

static void keep_all(struct sleepers *s)
{
	uint64_t deadline = now_ns() + KEEP_NS;
	auto_free pid_t *tids = NULL;
	uint32_t cnt;

	s->room = malloc(REMOTE_STACK_BYTES);
	s->failed = !s->room || list(s);
	tids = s->failed ? NULL : calloc(s->listed_cnt + 1, sizeof(*tids));
	cnt = tids ? choose(s, tids) : 0;
	s->failed = !cnt;
	if (s->failed)
		return;
	s->threads = calloc(cnt, sizeof(s->threads[0]));
	s->late = calloc(cnt, sizeof(s->late[0]));
	s->failed = !s->threads || !s->late;
	for (int pass = 0; pass < PASSES && cnt && !s->failed; pass++) {
		for (uint32_t i = 0; i < cnt && !s->failed && now_ns() < deadline;
		     i += REMOTE_BATCH)
			keep_some(s, tids + i, cnt - i < REMOTE_BATCH ? cnt - i : REMOTE_BATCH);
		cnt = s->late_cnt;
		memcpy(tids, s->late, cnt * sizeof(*tids));
		s->late_cnt = 0;
	}
}

static void *run(void *arg)
{
	struct sched_param fifo = { .sched_priority = LENDER_PRIORITY };
	struct sleepers *s = arg;

	/* whoever stands still waits for us, and is only waited for in naps, where that is permitted */
	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &fifo);
	prctl(PR_SET_TIMERSLACK, 1);
	keep_all(s);
	pthread_mutex_lock(&s->lock);
	s->tid = gettid();
	s->is = SERVING;
	while (s->wanted != ENDED && !s->failed) {
		if (s->wanted == SERVING || s->is == SERVING)
			await_passing(s);
		if (s->failed)
			break;
		s->is = s->wanted;
		pthread_cond_broadcast(&s->changed);
		if (s->wanted == SERVING)
			thread_wait_until(&s->changed, &s->lock, now_ns() + SERVE_NS);
		else
			pthread_cond_wait(&s->changed, &s->lock);
	}
	s->is = ENDED;
	pthread_cond_broadcast(&s->changed);
	if (!s->failed)
		await_passing(s);
	await_signals(s);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* The same where they are followed, by the thread that we are. */
static bool come_to(struct sleepers *s, enum phase phase)
{
	pthread_mutex_lock(&s->lock);
	if (!s->failed && s->is != phase)
		await_passing(s);
	if (phase == ENDED)
		await_signals(s);
	s->is = s->failed ? ENDED : phase;
	pthread_mutex_unlock(&s->lock);
	return s->is == phase;
}

/* Did it come to that? Else none is kept. */
static bool want(struct sleepers *s, enum phase phase)
{
	bool is;

	if (s->r->follow)
		return come_to(s, phase);
	pthread_mutex_lock(&s->lock);
	s->wanted = phase;
	pthread_cond_broadcast(&s->changed);
	while (s->is != phase && s->is != ENDED)
		pthread_cond_wait(&s->changed, &s->lock);
	is = s->is == phase;
	pthread_mutex_unlock(&s->lock);
	return is;
}

static void done(struct sleepers *s)
{
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	for (size_t i = 0; i < s->cnt; i++)
		free((void *)s->threads[i].stack);
	free(s->threads);
	free(s->listed);
	free(s->late);
	free(s->room);
	free(s);
}

static int begin(struct sleepers *s)
{
	struct follow *f = s->r->follow;

	if (!f)
		return thread_start(&s->thread, NULL, run, s);
	follow__set_keeper(f, &(struct follow_keeper){ .tell = on_news, .ctx = s });
	keep_all(s);
	return 0;
}

int sleepers__keep(const struct remote *r, struct sleepers **out)
{
	struct sleepers *s = calloc(1, sizeof(*s));
	int err;

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->r = r;
	s->wanted = SERVING;
	pthread_mutex_init(&s->lock, NULL);
	thread_cond_init(&s->changed);
	err = begin(s);
	if (err) {
		done(s);
		return err;
	}
	*out = s;
	return want(s, SERVING) ? 0 : -EAGAIN;
}

bool sleepers__hold(struct sleepers *s)
{
	if (!want(s, HOLDING))
		return false;
	if (s->cnt)
		qsort(s->threads, s->cnt, sizeof(s->threads[0]), order_pid);
	return true;
}

void sleepers__serve(struct sleepers *s)
{
	want(s, SERVING);
}

const struct remote_thread *sleepers__threads(const struct sleepers *s, size_t *cnt)
{
	*cnt = s->cnt;
	return s->threads;
}

bool sleepers__has(const struct sleepers *s, pid_t tid)
{
	return s->cnt && bsearch(&tid, s->threads, s->cnt, sizeof(s->threads[0]), order_pid);
}

const pid_t *sleepers__listed(const struct sleepers *s, size_t *cnt)
{
	*cnt = s->listed_cnt;
	return s->listed;
}

size_t sleepers__selves(struct sleepers *s, uint64_t **out)
{
	size_t cnt;

	pthread_mutex_lock(&s->lock);
	*out = s->cnt ? calloc(s->cnt, sizeof(**out)) : NULL;
	cnt = *out ? s->cnt : 0;
	for (size_t i = 0; i < cnt; i++)
		(*out)[i] = s->threads[i].self;
	pthread_mutex_unlock(&s->lock);
	return cnt;
}

void sleepers__look(struct sleepers *s)
{
	pthread_mutex_lock(&s->lock);
	serve(s);
	pthread_mutex_unlock(&s->lock);
}

uint32_t sleepers__longest_us(struct sleepers *s)
{
	uint64_t ns;

	pthread_mutex_lock(&s->lock);
	ns = s->longest_ns;
	pthread_mutex_unlock(&s->lock);
	return (uint32_t)(ns / 1000);
}

/* A thread that is joined may not have let them go yet; one that does not exist any more has. */
static void await_end(pid_t tid)
{
	for (int i = 0; i < GONE_TRIES && !syscall(SYS_tgkill, getpid(), tid, 0); i++)
		remote_pause();
}

bool sleepers__let_go(struct sleepers *s, int *status)
{
	bool ended;

	if (!s)
		return false;
	want(s, ENDED);
	if (s->r->follow) {
		follow__set_keeper(s->r->follow, &(struct follow_keeper){ 0 });
	} else {
		pthread_join(s->thread, NULL);
		await_end(s->tid);
	}
	ended = s->ended;
	*status = s->status;
	done(s);
	return ended;
}
