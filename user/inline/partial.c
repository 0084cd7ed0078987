// SPDX-License-Identifier: Apache-2.0
#include "inline/partial.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "inline/interrupted.h"
#include "inline/remote_priv.h"
#include "inline/slept.h"

#define UNTOLD	    0x7f /* a status that is no end */
#define PARTIAL_NS  1000000000ull /* that the rest may take */
#define BRIEF_NS    40000000ull /* where others stand still that were asked with it */
#define PARTIAL_MAX 128

/* One that does the rest. */
struct partial {
	pid_t tid;
	struct user_regs_struct whole; /* as it stood, rax: what is done */
	bool asked; /* to stop, as it takes too long */
};

/* Which registers change when a part is done: up with it, and down. */
struct moves {
	unsigned long long *at, *left, *offset; /* offset: in a file, or NULL */
};

static bool find_moves(struct user_regs_struct *regs, struct moves *m)
{
	*m = (struct moves){ &regs->rsi, &regs->rdx, NULL };
	switch (regs->orig_rax) {
	case SYS_pwrite64:
		m->offset = &regs->r10;
		return true;
	case SYS_write:
	case SYS_sendto:
		return true;
	case SYS_recvfrom:
		return regs->r10 & MSG_WAITALL;
	case SYS_sendfile:
		*m = (struct moves){
			NULL, &regs->r10, NULL
		}; /* where it is says the file, or the kernel writes it */
		return true;
	case SYS_getrandom:
		*m = (struct moves){ &regs->rdi, &regs->rsi, NULL };
		return true;
	}
	return false;
}

bool partial__is_left(const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	struct moves m;

	return (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax > 0 && find_moves(&copy, &m) &&
	       regs->rax < *m.left;
}

bool partial__waits_whole(pid_t pid, pid_t tid)
{
	struct user_regs_struct regs;
	struct moves m;

	return slept__read_call(pid, tid, &regs) && !find_moves(&regs, &m);
}

bool partial__is_to_finish(const struct remote *r, const struct remote_thread *t)
{
	return t->stopped && t->partial && !t->as_group && !r->follow && !r->held;
}

/* It does the rest from here on. False: it stands still as it was, or has ended. */
static bool begin(struct partial *p, pid_t tid)
{
	struct user_regs_struct rest;
	struct moves m;

	if (ptrace(PTRACE_GETREGS, tid, 0, &p->whole) || !partial__is_left(&p->whole) ||
	    interrupted__has_signal(tid))
		return false;
	p->tid = tid;
	p->asked = false;
	rest = p->whole;
	find_moves(&rest, &m);
	if (m.at)
		*m.at += p->whole.rax;
	if (m.offset)
		*m.offset += p->whole.rax;
	*m.left -= p->whole.rax;
	rest.rax = p->whole.orig_rax;
	rest.rip -= SYSCALL_LEN;
	return !ptrace(PTRACE_SETREGS, tid, 0, &rest) && !ptrace(PTRACE_SYSCALL, tid, 0, 0);
}

/* What it has done by now. Was it interrupted once more, and not by a signal? */
static bool add_more(struct partial *p)
{
	struct user_regs_struct regs;
	struct moves m;

	find_moves(&p->whole, &m);
	if (ptrace(PTRACE_GETREGS, p->tid, 0, &regs) || regs.rip != p->whole.rip ||
	    regs.orig_rax != p->whole.orig_rax)
		return false;
	if (regs.rax > *m.left - p->whole.rax) /* an error */
		return interrupted__waits(&regs);
	p->whole.rax += regs.rax;
	return regs.rax && p->whole.rax < *m.left;
}

/* 0: it has not come to an end yet; 1: it stands still, behind its call, or before a signal: @status; -1: it has ended, which waitpid() may
 * have told. */
static int look(struct partial *p, int *status)
{
	pid_t got = waitpid(p->tid, status, __WALL | WNOHANG);
	bool again;

	if (!got)
		return 0;
	if (got != p->tid)
		*status = UNTOLD;
	if (got != p->tid || !WIFSTOPPED(*status))
		return -1;
	if (WSTOPSIG(*status) == SYSCALL_STOP && interrupted__begins_call(p->tid))
		return ptrace(PTRACE_SYSCALL, p->tid, 0, 0) ? -1 : 0;
	again = add_more(p) && WSTOPSIG(*status) == SYSCALL_STOP && !p->asked;
	if (ptrace(PTRACE_SETREGS, p->tid, 0, &p->whole))
		return -1;
	return again && begin(p, p->tid) ? 0 : 1;
}

static void ask(struct partial *p)
{
	p->asked = true;
	ptrace(PTRACE_INTERRUPT, p->tid, 0, 0);
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

int partial__finish(struct remote *r, struct remote_thread *t)
{
	int got, status, sig, err = 0;
	struct partial p;

	if (!partial__is_to_finish(r, t) || !is_alone(r) || !begin(&p, t->tid))
		return 0;
	t->stopped = false;
	r->stopped_at = 0;
	got = await(&p, PARTIAL_NS, &status);
	if (got < 0 && !WIFSTOPPED(status))
		remote_note_end(r, t->tid, status);
	if (got <= 0)
		return got ? -ESRCH : -ETIMEDOUT;
	t->as_group = status >> 16 && WSTOPSIG(status) != SIGTRAP;
	sig = remote_signal_of(r, t->tid, status);
	if (sig) {
		ptrace(PTRACE_CONT, t->tid, 0, sig);
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
		err = remote_await(r, t, now_ns() + REMOTE_LAST_NS);
	}
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
			ptrace(PTRACE_DETACH, p->tid, 0, remote_signal_of(r, p->tid, status));
		else if (!WIFSTOPPED(status))
			remote_note_end(r, p->tid, status);
	}
	if (all)
		all->cnt = left;
}

/* Room is made for all that there are. */
static void leave_late(struct remote *r)
{
	struct partials *all = r->partials;

	for (size_t i = 0; i < all->cnt && r->late_cnt < r->size; i++)
		r->late_threads[r->late_cnt++] = (struct remote_thread){ .tid = all->of[i].tid };
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
