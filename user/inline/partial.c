// SPDX-License-Identifier: Apache-2.0
#include "inline/partial.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "inline/interrupted.h"
#include "inline/remote_priv.h"
#include "inline/remote_stop.h"
#include "inline/rest.h"
#include "inline/slept.h"

#define REST_NS	 1000000000ull /* that the rest may take where it is waited for, */
#define BRIEF_NS 40000000ull /* and where others stand still that were asked with it; */
#define SOON_NS \
	3000000ull /* and before we do anything else: it goes on as soon as it is over, then */
#define PARTIAL_MAX 128
#define UNTOLD	    0x7f /* a status that is no end */

/* Those that do the rest of a call. So many at once; others are told of the part. */
struct partials {
	size_t cnt;
	struct rest of[PARTIAL_MAX];
};

bool partial__waits_whole(pid_t pid, pid_t tid)
{
	struct user_regs_struct regs;

	return slept__read_call(pid, tid, &regs) && !rest__has_parts(&regs);
}

bool partial__waits_in_parts(pid_t pid, pid_t tid)
{
	struct user_regs_struct regs;

	return slept__read_call(pid, tid, &regs) && rest__has_parts(&regs);
}

bool partial__is_to_finish(const struct remote *r, const struct remote_thread *t)
{
	return t->is == REMOTE_STANDS && t->partial && !t->as_group && !r->follow && !r->child.held;
}

static struct rest *find(const struct remote *r, pid_t tid)
{
	struct partials *all = r->partials;

	for (size_t i = 0; all && i < all->cnt; i++)
		if (all->of[i].tid == tid)
			return &all->of[i];
	return NULL;
}

static void drop(struct remote *r, struct rest *rest)
{
	*rest = r->partials->of[--r->partials->cnt];
}

bool partial__has(const struct remote *r, pid_t tid)
{
	return r->follow ? follow__is_in_rest(r->follow, tid) : find(r, tid) != NULL;
}

/* A signal that its process takes no notice of has woken it, as it is traced; or a stop was given up meanwhile. */
static bool is_nothing(const struct rest *rest, int status)
{
	int sig = WSTOPSIG(status);

	if (status >> 16)
		return sig == SIGTRAP;
	return sig != SYSCALL_STOP && !interrupted__pass(rest->tid, sig, false, NULL);
}

/* 0: it does the rest yet; 1: it stands still, as its call is over, or before a signal, or by SIGSTOP: @status; -1: it has ended, which @status says, or
 * somebody else was told: UNTOLD. @more: where it was interrupted it begins anew */
static int look(struct rest *rest, bool more, int *status)
{
	pid_t got = waitpid(rest->tid, status, __WALL | WNOHANG);

	if (!got)
		return 0;
	if (got != rest->tid)
		*status = UNTOLD;
	if (got != rest->tid || !WIFSTOPPED(*status))
		return -1;
	if (rest__goes_on(rest, *status, more))
		return 0;
	return !(more && is_nothing(rest, *status) && rest__begin(rest, rest->tid));
}

/* The same, for so long. */
static int look_for(struct rest *rest, uint64_t ns, bool more, int *status)
{
	uint64_t deadline = now_ns() + ns;
	int got;

	do {
		remote_pause();
		got = look(rest, more, status);
	} while (!got && now_ns() < deadline);
	return got;
}

bool partial__passes(struct remote *r, pid_t tid, int status)
{
	struct rest *rest = r->follow ? NULL : find(r, tid);
	bool over = true, passes;

	if (r->follow)
		return follow__passes(r->follow, tid, status);
	passes = rest && WIFSTOPPED(status) && rest__ask_on(rest, status, &over);
	if (rest && over)
		drop(r, rest);
	return passes;
}

static bool is_alone(const struct remote *r)
{
	return r->cnt == 1 && (r->how.only || remote_count_threads(r) == 1);
}

/* As follow__finish(), of one that is not followed. */
static int finish(struct remote *r, struct remote_thread *t)
{
	struct rest *rest;
	int status, got;

	if (!partial__begin(r, t))
		return 0;
	rest = find(r, t->tid);
	got = look_for(rest, REST_NS, true, &status);
	if (got)
		drop(r, rest);
	if (got < 0 && !WIFSTOPPED(status))
		remote_note_end(r, t->tid, status);
	if (got < 0)
		return -ESRCH;
	t->as_group = got && interrupted__is_group_stop(status);
	if (t->as_group || (got && WSTOPSIG(status) == SYSCALL_STOP))
		return 0;
	if (got)
		interrupted__go_on(PTRACE_CONT, t->tid, remote_signal_of(r, t->tid, status));
	ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
	return -EAGAIN;
}

int partial__finish(struct remote *r, struct remote_thread *t)
{
	int err;

	if (!t->partial || t->as_group || r->child.held || !is_alone(r))
		return 0;
	t->is = REMOTE_ASKED;
	r->stopped_at = 0;
	err = r->follow ? follow__finish(r->follow, t->tid) : finish(r, t);
	if (err == -EAGAIN)
		err = remote_await(r, t, now_ns() + REMOTE_LAST_NS);
	if (err)
		return err;
	remote_begin_stop(r);
	t->is = REMOTE_STANDS;
	return remote_look(r, t);
}

int partial__let_go(const struct remote *r, const struct remote_thread *t, int *status)
{
	struct rest rest;
	int got;

	if (!t->partial || t->as_group || !rest__begin(&rest, t->tid)) {
		remote_let_go(r, t, 0);
		return 1;
	}
	got = look_for(&rest, BRIEF_NS, true, status);
	if (!got) {
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
		got = look_for(&rest, REST_NS, false, status);
	}
	if (got > 0)
		remote_let_go(r, t, remote_signal_of(r, t->tid, *status));
	return got < 0 && WIFSTOPPED(*status) ? 1 : got;
}

bool partial__begin(struct remote *r, const struct remote_thread *t)
{
	struct partials *all;

	if (!t->partial || t->as_group || r->follow || r->child.held)
		return false;
	if (!r->partials)
		r->partials = calloc(1, sizeof(*r->partials));
	all = r->partials;
	if (!all || all->cnt == PARTIAL_MAX || !rest__begin(&all->of[all->cnt], t->tid))
		return false;
	all->cnt++;
	return true;
}

static void look_at_all(struct remote *r, bool more)
{
	struct partials *all = r->partials;

	for (size_t i = 0; all && i < all->cnt;) {
		const struct remote_thread t = { .tid = all->of[i].tid };
		int status, got = look(&all->of[i], more, &status);

		if (!got) {
			i++;
			continue;
		}
		drop(r, &all->of[i]);
		if (got > 0)
			remote_let_go(r, &t, remote_signal_of(r, t.tid, status));
		else if (!WIFSTOPPED(status))
			remote_note_end(r, t.tid, status);
	}
}

void partial__look(struct remote *r)
{
	look_at_all(r, true);
}

static void await(struct remote *r, uint64_t ns, bool more)
{
	uint64_t start = now_ns();

	while (r->partials && r->partials->cnt && now_ns() - start < ns) {
		look_at_all(r, more);
		if (r->partials->cnt)
			remote_pause();
	}
}

void partial__await(struct remote *r)
{
	await(r, SOON_NS, true);
}

void partial__end(struct remote *r)
{
	await(r, REST_NS, true);
	for (size_t i = 0; r->partials && i < r->partials->cnt; i++)
		ptrace(PTRACE_INTERRUPT, r->partials->of[i].tid, 0, 0);
	await(r, REST_NS, false);
	free(r->partials);
	r->partials = NULL;
}

void partial__begin_all(struct remote *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (partial__is_to_finish(r, &r->threads[i]) && !partial__begin(r, &r->threads[i]))
			remote_let_go(r, &r->threads[i], 0);
}
