// SPDX-License-Identifier: Apache-2.0
#include "inline/partial.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "inline/remote_priv.h"
#include "inline/rest.h"
#include "inline/slept.h"

#define UNTOLD	    0x7f /* a status that is no end */
#define PARTIAL_NS  1000000000ull /* that the rest may take */
#define BRIEF_NS    40000000ull /* where others stand still that were asked with it */
#define PARTIAL_MAX 128

/* One that does the rest. */
struct partial {
	struct rest rest;
	bool asked; /* to stop, as it takes too long */
};

bool partial__waits_whole(pid_t pid, pid_t tid)
{
	struct user_regs_struct regs;

	return slept__read_call(pid, tid, &regs) && !rest__has_parts(&regs);
}

bool partial__is_to_finish(const struct remote *r, const struct remote_thread *t)
{
	return t->stopped && t->partial && !t->as_group && !r->follow && !r->held;
}

static bool begin(struct partial *p, pid_t tid)
{
	p->asked = false;
	return rest__begin(&p->rest, tid);
}

/* 0: it has not come to an end yet; 1: it stands still, behind its call, or before a signal: @status; -1: it has ended, which waitpid() may
 * have told. */
static int look(struct partial *p, int *status)
{
	pid_t got = waitpid(p->rest.tid, status, __WALL | WNOHANG);

	if (!got)
		return 0;
	if (got != p->rest.tid)
		*status = UNTOLD;
	if (got != p->rest.tid || !WIFSTOPPED(*status))
		return -1;
	return !rest__goes_on(&p->rest, *status, !p->asked);
}

static void ask(struct partial *p)
{
	p->asked = true;
	ptrace(PTRACE_INTERRUPT, p->rest.tid, 0, 0);
}

/* As look(), when it has; it is asked to stop when it takes longer than @ns. 0: it does not. */
static int await(struct partial *p, uint64_t ns, int *status)
{
	uint64_t now = now_ns(), asks = now + ns, deadline = asks + PARTIAL_NS;
	int got;

	for (; !(got = look(p, status)) && now < deadline; now = now_ns()) {
		if (now > asks) {
			ask(p);
			asks = deadline;
		}
		remote_pause();
	}
	return got;
}

static bool is_alone(const struct remote *r)
{
	return r->cnt == 1 && (r->only || remote_count_threads(r) == 1);
}

/* It stands still in any way then, or it was asked to. */
static int finish_followed(struct remote *r, struct remote_thread *t)
{
	int err = follow__finish(r->follow, t->tid);

	return err == -EAGAIN ? remote_await(r, t, now_ns() + REMOTE_LAST_NS) : err;
}

static int finish(struct remote *r, struct remote_thread *t, struct partial *p)
{
	int status, sig, got = await(p, PARTIAL_NS, &status);

	if (got < 0 && !WIFSTOPPED(status))
		remote_note_end(r, t->tid, status);
	if (got <= 0)
		return got ? -ESRCH : -ETIMEDOUT;
	t->as_group = status >> 16 && WSTOPSIG(status) != SIGTRAP;
	sig = remote_signal_of(r, t->tid, status);
	if (!sig)
		return 0;
	ptrace(PTRACE_CONT, t->tid, 0, sig);
	ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
	return remote_await(r, t, now_ns() + REMOTE_LAST_NS);
}

int partial__finish(struct remote *r, struct remote_thread *t)
{
	struct partial p;
	int err;

	if (!t->partial || t->as_group || r->held || !is_alone(r) ||
	    (!r->follow && !begin(&p, t->tid)))
		return 0;
	t->stopped = false;
	r->stopped_at = 0;
	err = r->follow ? finish_followed(r, t) : finish(r, t, &p);
	if (err)
		return err;
	remote_begin_stop(r);
	t->stopped = true;
	return remote_look(r, t);
}

bool partial__let_go(const struct remote *r, const struct remote_thread *t, int *status)
{
	struct partial p;
	int got = 0;

	if (!t->partial || t->as_group || !begin(&p, t->tid))
		remote_let_go(r, t, 0);
	else
		got = await(&p, BRIEF_NS, status);
	if (got > 0)
		remote_let_go(r, t, remote_signal_of(r, t->tid, *status));
	return got >= 0 || WIFSTOPPED(*status);
}

/* So many at once; others are told of the part. */
struct partials {
	uint64_t asks, deadline; /* when they are asked to stop, and not waited for any more */
	size_t cnt;
	struct partial of[PARTIAL_MAX];
};

bool partial__begin(struct remote *r, const struct remote_thread *t)
{
	struct partials *all;

	if (!t->partial || t->as_group || r->follow || r->held)
		return false;
	if (!r->partials)
		r->partials = calloc(1, sizeof(*r->partials));
	all = r->partials;
	if (!all || all->cnt == PARTIAL_MAX || !begin(&all->of[all->cnt], t->tid))
		return false;
	if (!all->cnt++) {
		all->asks = now_ns() + PARTIAL_NS;
		all->deadline = all->asks + PARTIAL_NS;
	}
	return true;
}

void partial__look(struct remote *r)
{
	struct partials *all = r->partials;
	size_t left = 0;

	for (size_t i = 0; all && i < all->cnt; i++) {
		struct partial *p = &all->of[i];
		int status, got = look(p, &status);

		if (!got)
			all->of[left++] = *p;
		else if (got > 0)
			ptrace(PTRACE_DETACH, p->rest.tid, 0,
			       remote_signal_of(r, p->rest.tid, status));
		else if (!WIFSTOPPED(status))
			remote_note_end(r, p->rest.tid, status);
	}
	if (all)
		all->cnt = left;
}

/* Room is made for all that there are. */
static void leave_late(struct remote *r)
{
	struct partials *all = r->partials;

	for (size_t i = 0; i < all->cnt && r->late_cnt < r->size; i++)
		r->late_threads[r->late_cnt++] =
			(struct remote_thread){ .tid = all->of[i].rest.tid };
	all->cnt = 0;
}

void partial__await(struct remote *r)
{
	struct partials *all = r->partials;

	while (all && all->cnt) {
		uint64_t now = now_ns();

		if (now > all->deadline) {
			leave_late(r);
			return;
		}
		if (now > all->asks) {
			for (size_t i = 0; i < all->cnt; i++)
				ask(&all->of[i]);
			all->asks = UINT64_MAX;
		}
		partial__look(r);
		if (all->cnt)
			remote_pause();
	}
}

void partial__begin_all(struct remote *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (partial__is_to_finish(r, &r->threads[i]) && !partial__begin(r, &r->threads[i]))
			remote_let_go(r, &r->threads[i], 0);
}
