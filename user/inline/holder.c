// SPDX-License-Identifier: Apache-2.0
/*
 * Stopping the thread that has the interpreter's lock, in place of all. Each of hundreds of threads that sleep takes some 40 us
 * to stand still and to go on, and not one of them can run Python code, or be in a stub, before it has got the lock.
 *
 * A thread state says whose it is when it was made; an embedding program can run it in another thread, or in two by turns, and
 * what it says is true of neither. That the thread that stands still runs it is proven by the thread itself: by the state that it has as its
 * own (3.12 on, where its place is known), or since it is in the middle of the function that runs frames, which takes the lock, and
 * has this one.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cpython/gil_outside.h"
#include "cpython/interp.h"
#include "inline/remote_priv.h"
#include "inline/remote_stop.h"
#include "proc/mem.h"
#include "proc/self_tid.h"
#include "proc/threads.h"

#define WAIT_NS	      200000000ull /* to see somebody who has it */
#define AGAIN_NS      5000000000ull /* and then for so long only */
#define WAIT_AGAIN_NS 4000000ull
#define TRIES_MIN     8 /* in any case: where others have the CPUs one can take all of that time */
#define STOPS_MAX     60 /* that were in vain, some 50 us of one thread each */
#define PAUSE_US      20u
#define PAUSE_SHIFT   7u
#define STACK_WORDS   1024u /* that are looked through */

static const uint16_t tid_places[] = { GLIBC_TID, MUSL_TID };

static pid_t tid_at(const struct remote *r, uint64_t self, uint16_t place)
{
	int32_t tid = 0;

	return !remote__read(r, self + place, &tid, sizeof(tid)) && tid > 0 ? tid : 0;
}

pid_t remote__tid_of(struct remote *r, uint64_t self)
{
	if (r->tid_at) {
		pid_t tid = tid_at(r, self, r->tid_at);

		/* one that has ended can have left any number */
		return tid && syscall(SYS_tgkill, r->pid, tid, 0) && errno == ESRCH ? 0 : tid;
	}
	for (size_t i = 0; i < sizeof(tid_places) / sizeof(tid_places[0]); i++) {
		struct proc_thread thread;
		pid_t tid = tid_at(r, self, tid_places[i]);

		if (!tid || threads__one(r->pid, tid, &thread))
			continue;
		r->tid_at = tid_places[i];
		return tid;
	}
	return 0;
}

static uint64_t innermost_frame(const struct proc_mem *mem, const struct interp *in,
				uint64_t tstate)
{
	const struct pye_pylayout *l = &in->layout;
	uint64_t frame;

	if (proc_mem__word(mem, tstate + l->ts_frame, &frame) || !frame)
		return 0;
	if (l->flags & PYE_LAYOUT_CFRAME && proc_mem__word(mem, frame + l->cframe_frame, &frame))
		return 0;
	return frame;
}

/* Where it runs it is in a register, or on the stack, which is this function's. */
static bool has_on_stack(const struct remote *r, const struct remote_thread *t, uint64_t frame)
{
	auto_free uint64_t *words = malloc(STACK_WORDS * sizeof(*words));
	ssize_t got;

	for (size_t i = 0; i < sizeof(t->regs) / sizeof(t->regs[0]); i++)
		if (t->regs[i] == frame)
			return true;
	got = words ? remote__read_some(r, t->sp & ~7ull, words, STACK_WORDS * sizeof(*words)) : 0;
	for (ssize_t i = 0; i < got / 8; i++)
		if (words[i] == frame)
			return true;
	return false;
}

/* Is a thread that stands still the one that runs a state? */
static bool runs(const struct remote *r, const struct remote_thread *t, uint64_t tstate)
{
	const struct proc_mem mem = remote__memory(r);
	const struct remote_lock *l = &r->lock;
	uint64_t word;

	if (l->tstate_tls)
		return !proc_mem__word(&mem, t->self + (uint64_t)(int64_t)l->tstate_tls, &word) &&
		       word == tstate;
	word = t->pc - l->loop < l->loop_bytes ? innermost_frame(&mem, l->in, tstate) : 0;
	return word && has_on_stack(r, t, word);
}

/* The lock of all interpreters. -EOPNOTSUPP: there is more than one; -EAGAIN: there may be soon. */
static int find_lock(const struct remote *r, uint64_t *gil)
{
	const struct proc_mem mem = remote__memory(r);
	unsigned int none;

	if (gil__shared(&mem, r->lock.in, gil, &none) <= 0)
		return -EOPNOTSUPP;
	return none ? -EAGAIN : 0;
}

static bool is_held(const struct remote *r, uint64_t tstate)
{
	const struct proc_mem mem = remote__memory(r);
	uint64_t gil;

	return !find_lock(r, &gil) && gil__is_held_by(&mem, r->lock.in, gil, tstate);
}

/* Does the thread that stands still have the lock of everybody, by this state? 0; -EAGAIN: no more; -ENOENT: that is not proven. */
static int check_lock(const struct remote *r, uint64_t self, uint64_t tstate)
{
	const struct remote_thread *t = &r->threads[0];

	if (t->self != self || !is_held(r, tstate))
		return -EAGAIN;
	if (!runs(r, t, tstate))
		return -ENOENT;
	return is_held(r, tstate) ? 0 : -EAGAIN;
}

/* Who has the lock now: its state, and its pthread_self(). -EAGAIN: nobody is seen to; -EOPNOTSUPP: there is more than one lock. */
static int look(const struct remote *r, uint64_t *tstate, uint64_t *self)
{
	const struct proc_mem mem = remote__memory(r);
	const struct interp *in = r->lock.in;
	uint64_t gil;
	int err = find_lock(r, &gil);

	if (err)
		return err;
	*tstate = gil__holder(&mem, in, gil);
	if (!*tstate || proc_mem__word(&mem, *tstate + in->layout.ts_thread_id, self))
		return -EAGAIN;
	return 0;
}

pid_t remote__holder(struct remote *r)
{
	uint64_t tstate, self;

	return r->lock.in && !look(r, &tstate, &self) ? remote__tid_of(r, self) : 0;
}

static int stop_holder(struct remote *r, unsigned int *stops)
{
	uint64_t tstate, self;
	int err = look(r, &tstate, &self);
	pid_t tid = err ? 0 : remote__tid_of(r, self);

	if (!tid)
		return err ? err : -EAGAIN;
	(*stops)++;
	remote_hurry(r, true);
	err = remote_stop_thread(r, tid);
	if (!err)
		err = check_lock(r, self, tstate);
	if (err) {
		remote__resume(r);
		remote_hurry(r, false);
	}
	r->rest_runs = !err;
	return err;
}

int remote__stop_holder(struct remote *r)
{
	bool longer = now_ns() - r->lock.waited_ns > AGAIN_NS;
	unsigned int tries = 0, stops = 0, unproven = 0;
	uint64_t since;
	int err;

	if (!r->lock.in || r->child.held || r->park.on || !remote_has_many(r))
		return -EOPNOTSUPP;
	remote_call_before(r);
	since = now_ns();
	for (;;) {
		if (r->follow && !follow__serve(r->follow, r->pid))
			return -ESRCH;
		err = stop_holder(r, &stops);
		unproven += err == -ENOENT;
		if (err == -ESRCH) /* that thread has ended */
			err = -EAGAIN;
		if ((err != -EAGAIN && err != -ENOENT) || stops == STOPS_MAX)
			break;
		if (++tries >= TRIES_MIN && now_ns() - since > (longer ? WAIT_NS : WAIT_AGAIN_NS))
			break;
		/* it may be in a call of C, and come out of that */
		remote_leave_time(r, PAUSE_US << (unproven < PAUSE_SHIFT ? unproven : PAUSE_SHIFT));
	}
	if (err && longer)
		r->lock.waited_ns = now_ns();
	return err;
}

int remote__stop_python(struct remote *r)
{
	int err = remote__stop_holder(r);

	return err && err != -ESRCH ? remote__stop(r) : err;
}
