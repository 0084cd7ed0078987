// SPDX-License-Identifier: Apache-2.0
/*
 * Stopping the thread that has the interpreter's lock, in place of all. Each of hundreds of threads that sleep takes some 40 us
 * to stand still and to go on, and not one of them can run Python code, or be in a stub, before it has got the lock.
 *
 * A thread state says whose it is when it was made; an embedding program can run it in another thread. So the thread that stands
 * still has to have the innermost frame on its own stack.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cpython/gil_outside.h"
#include "cpython/interp.h"
#include "inline/remote.h"
#include "proc/mem.h"
#include "proc/threads.h"

#define THREADS_MIN 16u /* fewer stand still within a millisecond */
#define MANY	    100u /* as many need more than 4 */
#define WAIT_NS	    4000000ull /* to see somebody who has it */
#define WAIT_MANY   200000000ull
#define TRIES_WRONG 3 /* of those, with a thread that does not run what it should */
#define PAUSE_US    20
#define STACK_WORDS (64u << 7) /* that are looked through: 64 KB */

/* Where the C libraries have the thread's id, from pthread_self() on. */
static const uint16_t tid_places[] = { 0x2d0 /* glibc, of struct pthread */, 0x30 /* musl */ };

static struct proc_mem memory_of(const struct remote *r)
{
	return (struct proc_mem){ .fd = r->mem, .pid = r->pid };
}

/* MANY: or more */
static unsigned int count_threads(const struct remote *r)
{
	auto_fn(threads__closep) DIR *threads = threads__open(r->pid);
	unsigned int cnt = 0;

	while (cnt < MANY && threads__next(threads))
		cnt++;
	return cnt;
}

static pid_t tid_at(const struct remote *r, uint64_t self, uint16_t place)
{
	int32_t tid = 0;

	return !remote__read(r, self + place, &tid, sizeof(tid)) && tid > 0 ? tid : 0;
}

pid_t remote__tid_of(struct remote *r, uint64_t self)
{
	if (r->tid_at)
		return tid_at(r, self, r->tid_at);
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

/* The loop that runs a frame has its address in a register that calls preserve, or on the stack. */
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

/* Does the thread that stands still have the lock of everybody, by this state? 0; -EAGAIN: no more; -ENOENT: another one runs it. */
static int check_lock(const struct remote *r, uint64_t self, uint64_t tstate)
{
	const struct proc_mem mem = memory_of(r);
	uint64_t gil, frame;

	if (r->threads[0].self != self || gil__shared(&mem, r->lock, &gil) <= 0 ||
	    !gil__is_held_by(&mem, r->lock, gil, tstate))
		return -EAGAIN;
	frame = innermost_frame(&mem, r->lock, tstate);
	return frame && has_on_stack(r, &r->threads[0], frame) ? 0 : -ENOENT;
}

/* Who has the lock now: its state, and its pthread_self(). -EAGAIN: nobody is seen to; -EOPNOTSUPP: there is more than one lock. */
static int look(const struct remote *r, uint64_t *tstate, uint64_t *self)
{
	const struct proc_mem mem = memory_of(r);
	uint64_t gil;

	if (gil__shared(&mem, r->lock, &gil) <= 0)
		return -EOPNOTSUPP;
	*tstate = gil__holder(&mem, r->lock, gil);
	if (!*tstate || proc_mem__word(&mem, *tstate + r->lock->layout.ts_thread_id, self))
		return -EAGAIN;
	return 0;
}

pid_t remote__holder(struct remote *r)
{
	uint64_t tstate, self;

	return r->lock && !look(r, &tstate, &self) ? remote__tid_of(r, self) : 0;
}

static int stop_holder(struct remote *r)
{
	uint64_t tstate, self;
	int err = look(r, &tstate, &self);
	pid_t tid = err ? 0 : remote__tid_of(r, self);

	if (!tid)
		return err ? err : -EAGAIN;
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
	unsigned int cnt = r->lock && !r->held && !r->parked && !r->follow ? count_threads(r) : 0;
	uint64_t until = now_ns() + (cnt < MANY ? WAIT_NS : WAIT_MANY);
	int err, wrong = 0;

	if (cnt < THREADS_MIN)
		return -EOPNOTSUPP;
	if (r->before)
		r->before(r->before_ctx);
	for (;;) {
		err = stop_holder(r);
		wrong += err == -ENOENT;
		if ((err != -EAGAIN && err != -ENOENT) || wrong == TRIES_WRONG || now_ns() > until)
			return err;
		usleep(PAUSE_US);
	}
}
