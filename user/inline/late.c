// SPDX-License-Identifier: Apache-2.0
#include "inline/late.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "inline/interrupted.h"
#include "inline/partial.h"
#include "inline/remote_priv.h"
#include "inline/remote_stop.h"

#define LATE_MAX   16
#define KEEP_NS	   3000000ull /* for those that come out of a call to come to the next one */
#define BLOCKED_MS 30 /* that a thread in an uninterruptible sleep is waited for, at each try */

/* Where one of them is. */
enum place {
	ASKED, /* to stop, and has not yet */
	OUTSIDE, /* of calls: it would stop at once */
	IN_CALL, /* it stops where that ends */
	STANDS /* stopped by SIGSTOP */
};

struct late {
	bool watched; /* where they are followed: what they do is told here */
	uint64_t looked_at; /* the last time; a thread has stood still for that long at most, */
	uint64_t longest_ns; /* which was this once */
	unsigned int cnt;
	struct one {
		pid_t tid;
		enum place place;
		bool told; /* @status of waitpid(), where they are followed */
		int status;
	} ones[LATE_MAX];
};

static void ask(pid_t tid)
{
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
}

/* Is it where a call begins? To be let go there would end that with EINTR. */
static bool is_sent_on(pid_t tid, int status)
{
	if (WSTOPSIG(status) != SYSCALL_STOP || !interrupted__begins_call(tid) ||
	    ptrace(PTRACE_SYSCALL, tid, 0, 0))
		return false;
	ask(tid);
	return true;
}

/* It cannot be let go before it has stopped; perhaps a signal stops it first. */
bool late__has_gone(struct remote *r, struct remote_thread *t)
{
	char state = remote__state(r->pid, t->tid);
	int status, sig;
	pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);

	if (got != t->tid) /* the leader's end is told behind those of all others */
		return got || (t->tid == r->pid && (state == 'Z' || state == 'X'));
	if (!WIFSTOPPED(status)) {
		remote_note_end(r, t->tid, status);
		return true;
	}
	if (is_sent_on(t->tid, status))
		return false;
	sig = remote_signal_of(r, t->tid, status);
	t->as_group = interrupted__is_group_stop(status);
	if (!sig)
		remote_look(r, t);
	if (sig || !partial__begin(r, t))
		remote_let_go(r, t, sig);
	return true;
}

void late__look(struct remote *r)
{
	size_t left = 0, cnt = r->late.cnt;
	uint64_t now;

	partial__look(r);
	for (size_t i = 0; i < cnt; i++)
		if (!late__has_gone(r, &r->late.threads[i]))
			r->late.threads[left++] = r->late.threads[i];
	r->late.cnt = left;
	now = now_ns();
	if (left < cnt)
		remote_note_stop(r, (uint32_t)((now - r->late.looked_at) / 1000));
	r->late.looked_at = now;
}

static bool all_sleep(const struct remote *r)
{
	for (size_t i = 0; i < r->late.cnt; i++)
		if (!remote_is_asleep(remote__state(r->pid, r->late.threads[i].tid)))
			return false;
	return true;
}

/* False: some sleep where nothing wakes them, or do not come for long. */
static bool await_gone(struct remote *r)
{
	uint64_t deadline = now_ns() + REMOTE_LAST_NS;

	for (;;) {
		late__look(r);
		if (!r->late.cnt) {
			partial__await(r);
			return true;
		}
		if (all_sleep(r) || now_ns() > deadline)
			return false;
		remote_pause();
	}
}

bool remote__let_late_go(struct remote *r)
{
	bool hurried = r->hurry.first, gone;

	partial__look(r);
	if (!r->late.cnt)
		return true;
	remote_hurry(r, true); /* those that have stopped stand still until we look */
	for (size_t i = 0; i < r->late.cnt; i++)
		ask(r->late.threads[i].tid);
	gone = await_gone(r);
	if (!hurried)
		remote_hurry(r, false);
	return gone;
}

/* A thread that is followed is let go by whoever looks at it: it is only waited for. */
bool late__await(struct remote *r)
{
	for (int ms = 0; r->follow ? remote__blocked_one(r->pid) : !remote__let_late_go(r); ms++) {
		if (ms == BLOCKED_MS)
			return false;
		remote_leave_time(r, 1000);
	}
	return true;
}

void late__note(struct remote *r, pid_t tid)
{
	if (!r->late.last) /* without memory for it all are stopped as if nobody were late */
		r->late.last = calloc(1, sizeof(*r->late.last));
	if (r->late.last && r->late.last->cnt < LATE_MAX)
		r->late.last->ones[r->late.last->cnt++] = (struct one){ .tid = tid };
}

static void on_news(void *ctx, pid_t tid, int status)
{
	struct late *late = ctx;

	for (unsigned int i = 0; i < late->cnt; i++)
		if (late->ones[i].tid == tid) {
			late->ones[i].told = true;
			late->ones[i].status = status;
		}
}

static void watch(struct remote *r)
{
	struct follow_keeper keeper = { .tell = on_news, .ctx = r->late.last };

	if (!r->follow)
		return;
	r->late.last->watched = true;
	follow__set_keeper(r->follow, &keeper);
	for (unsigned int i = 0; i < r->late.last->cnt; i++)
		follow__keep(r->follow, r->late.last->ones[i].tid, true);
}

void late__unwatch(struct remote *r)
{
	if (!r->late.last || !r->late.last->watched)
		return;
	r->late.last->watched = false;
	follow__set_keeper(r->follow, &(struct follow_keeper){ 0 });
}

void late__forget(struct remote *r)
{
	late__unwatch(r);
	free(r->late.last);
	r->late.last = NULL;
}

/* What waitpid() says, once. -1: it has ended untold; 0: nothing yet; 1 */
static int news_of(const struct remote *r, struct one *one, int *status)
{
	pid_t got;

	if (r->follow) {
		*status = one->status;
		got = one->told;
		one->told = false;
		return got;
	}
	got = waitpid(one->tid, status, __WALL | WNOHANG);
	return got > 0 ? 1 : got;
}

/* Something else than a stop that it was asked for, or of a call. It may be told of somebody else by that. False: it has ended */
static bool pass_on(struct remote *r, struct one *one, int status)
{
	struct follow *f = r->follow;

	one->place = ASKED; /* it forgets that it was asked */
	if (f) {
		follow__keep(f, one->tid, false);
		follow__took(f, one->tid, status);
		follow__keep(f, one->tid, true);
	} else if (WIFSTOPPED(status)) {
		interrupted__go_on(PTRACE_CONT, one->tid, remote_signal_of(r, one->tid, status));
	} else {
		remote_note_end(r, one->tid, status);
	}
	if (WIFSTOPPED(status))
		ask(one->tid);
	return WIFSTOPPED(status);
}

/* Does it begin a call, and none that makes or ends threads, or goes to other code? */
static bool may_be_kept(pid_t tid)
{
	static const uint16_t others[] = { SYS_clone, SYS_clone3,     SYS_fork,
					   SYS_vfork, SYS_execve,     SYS_execveat,
					   SYS_exit,  SYS_exit_group, SYS_rt_sigreturn };
	struct user_regs_struct regs;

	if (!interrupted__begins_call(tid) || ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return false;
	return !INTERRUPTED_IS_ONE(regs.orig_rax, others);
}

static void note_stop(struct late *late)
{
	uint64_t took = now_ns() - late->looked_at;

	if (took > late->longest_ns)
		late->longest_ns = took;
}

/* It stands where a call begins or ends, or as it was asked to. False: it has ended. */
static bool goes_on(struct remote *r, struct remote_thread *t, struct one *one, int status)
{
	bool was_in_call = one->place == IN_CALL;

	if (r->follow && status >> 16)
		follow__stood(r->follow, one->tid);
	t->as_group = interrupted__is_group_stop(status);
	one->place = t->as_group ? STANDS : OUTSIDE;
	t->is = t->as_group ? REMOTE_STANDS : REMOTE_ASKED;
	if (!was_in_call && WSTOPSIG(status) == SYSCALL_STOP && may_be_kept(one->tid))
		t->is = REMOTE_LATE;
	if (remote_look(r, t))
		return false;
	if (t->is == REMOTE_LATE) {
		t->in_call = true;
		one->place = IN_CALL;
	}
	/* what follows it does the rest when all go on */
	if (t->partial && t->is != REMOTE_LATE && r->follow) {
		one->place = STANDS;
		t->is = REMOTE_STANDS;
	}
	if (one->place == STANDS)
		return true;
	if ((t->is == REMOTE_LATE || !partial__begin(r, t)) &&
	    ptrace(PTRACE_SYSCALL, one->tid, 0, 0))
		return false;
	note_stop(r->late.last);
	return true;
}

/* False: it has ended. */
static bool look(struct remote *r, struct remote_thread *t, struct one *one)
{
	int status, got = news_of(r, one, &status);

	if (got <= 0)
		return !got;
	if (partial__passes(r, one->tid, status))
		return true;
	if (WIFSTOPPED(status) &&
	    (status >> 16 == PTRACE_EVENT_STOP || WSTOPSIG(status) == SYSCALL_STOP))
		return goes_on(r, t, one, status);
	return pass_on(r, one, status);
}

/* Was it asked, where nothing wakes it? It counts as stopped where the caller says so. */
static bool sleeps(const struct remote *r, const struct one *one)
{
	return one->place == ASKED && remote_is_asleep(remote__state(r->pid, one->tid));
}

/* All of them, once; those that have ended are left out. So many are at a place. */
static void look_at_all(struct remote *r, unsigned int *asked, unsigned int *outside)
{
	struct late *late = r->late.last;

	*asked = *outside = 0;
	for (unsigned int i = 0; i < late->cnt;) {
		struct one *one = &late->ones[i];

		if (!look(r, &r->threads[i], one)) {
			*one = late->ones[--late->cnt];
			r->threads[i] = r->threads[--r->cnt];
			continue;
		}
		*asked += one->place == ASKED && !(r->how.past_blocked && sleeps(r, one));
		*outside += one->place == OUTSIDE;
		i++;
	}
}

static bool any_sleeps(const struct remote *r)
{
	for (unsigned int i = 0; i < r->late.last->cnt; i++)
		if (sleeps(r, &r->late.last->ones[i]))
			return true;
	return false;
}

/* Until all are in calls, or those that are not do not come to one. 0 or a negative errno */
static int await_calls(struct remote *r)
{
	uint64_t now = now_ns(), start = now, asked_at = now;

	r->late.last->looked_at = now;
	for (;; now = now_ns()) {
		unsigned int asked, outside;

		look_at_all(r, &asked, &outside);
		r->late.last->looked_at = now;
		asked_at = asked ? now : asked_at;
		if (!asked && (!outside || now - asked_at > KEEP_NS))
			return 0;
		if (now - start > REMOTE_LAST_NS ||
		    (now - start > KEEP_NS && !r->how.past_blocked && any_sleeps(r)))
			return -ETIMEDOUT;
		if (r->follow && !follow__serve(r->follow, r->pid))
			return -ESRCH;
		remote_pause();
	}
}

/* The ones as r->threads, in the same order. */
static int seize_all(struct remote *r)
{
	struct late *late = r->late.last;
	unsigned int cnt = late->cnt;
	bool leader = false;

	late->cnt = 0;
	for (unsigned int i = 0; i < cnt; i++) {
		pid_t tid = late->ones[i].tid;
		int err = 0;

		if (!partial__has(r, tid))
			err = remote_seize_one(r, tid, &leader);
		if (err)
			return err;
		if (r->cnt > late->cnt)
			late->ones[late->cnt++] = (struct one){ .tid = tid };
	}
	if (leader)
		ask(r->pid);
	return 0;
}

/* They are asked to stop with all others. */
static void ask_those_outside(const struct remote *r)
{
	for (unsigned int i = 0; i < r->late.last->cnt; i++) {
		const struct one *one = &r->late.last->ones[i];

		if (one->place != OUTSIDE)
			continue;
		if (r->follow)
			follow__keep(r->follow, one->tid, false);
		ask(one->tid);
	}
}

/* What others do meanwhile is looked at; that of this one is, too, then: it goes on, and is asked again. */
static int await_alone(struct remote *r, struct remote_thread *t)
{
	uint64_t deadline = now_ns() + REMOTE_LAST_NS;
	int err;

	while ((err = remote_await(r, t, 0)) == -ETIMEDOUT && now_ns() < deadline) {
		char state = remote__state(r->pid, t->tid);

		if (remote_is_asleep(state))
			return err;
		if (r->follow && !follow__serve(r->follow, r->pid))
			return -ESRCH;
		if (r->follow && state != 't')
			ask(t->tid);
		remote_pause();
	}
	if (err)
		return err;
	remote_begin_stop(r);
	t->is = REMOTE_STANDS;
	err = remote_look(r, t);
	return err ? err : partial__finish(r, t);
}

int late__keep(struct remote *r)
{
	bool alone = r->how.only || remote_count_threads(r) == 1;
	int err;

	if (!r->late.last || !r->late.last->cnt || r->late.cnt || r->park.on || r->child.held ||
	    (r->follow && r->sleepers))
		return 0;
	if (!alone && r->late.last->cnt >= remote_count_threads(r)) /* one has to stop */
		return 0;
	err = seize_all(r);
	if (err || !r->cnt)
		return err;
	if (alone)
		return await_alone(r, &r->threads[0]);
	watch(r);
	err = await_calls(r);
	remote_note_stop(r, (uint32_t)(r->late.last->longest_ns / 1000));
	if (!err)
		ask_those_outside(r);
	return err;
}
