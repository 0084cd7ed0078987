// SPDX-License-Identifier: Apache-2.0
/*
 * The stacks of a process of an inline run, as they are while nobody runs Python code. They are read before that, too: where the lock
 * has not come to another thread since, those of all others are as they were; else those of threads that have slept. 50 threads with
 * 900 frames each take 10 ms to read, and hardly one of them runs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/order.h"
#include "cmd/session_inline_priv.h"
#include "cpython/code_read.h"
#include "inline/remote_stop.h"

#define MANY_STACKS 64u

/* The number of a code object on a stack. 0: the interpreter's own, which shows no frame. */
static uint32_t number_of(const struct inline_member *m, uint64_t address, bool *is_new)
{
	*is_new = false;
	return address == m->shim ? 0 : cap_inline__code(m->cap, address, is_new);
}

/* Its names, once; nobody can free it now. */
static void define(struct inline_member *m, uint64_t address, struct code_names *names)
{
	struct trace_func func = { .process = m->pix };
	bool is_new;

	func.id = number_of(m, address, &is_new);
	if (!is_new || !func.id || code_read(&m->mem, &m->in->layout, address, names))
		return; /* known, or shown as unreadable */
	if (names->flags & m->in->layout.co_hidden) {
		m->shim = address; /* there is one: that of `__init__` */
		return;
	}
	func.line = (uint32_t)names->firstlineno;
	func.name = names->name;
	func.qualname = names->qualname;
	func.file = names->filename;
	assembler__func(m->run->as, &func);
}

/* The last one and the one before it first: an interpreter has the youngest at its head, the kernel at its end. */
static const struct remote_thread *thread_of(struct inline_member *m, uint64_t self)
{
	const struct remote *r = &m->engine->remote;
	size_t at = m->last_thread < r->cnt ? m->last_thread : 0;

	for (size_t i = 0; i < r->cnt; i++) {
		if (r->threads[at].self == self) {
			m->last_thread = at;
			return &r->threads[at];
		}
		at = (at ? at : r->cnt) - 1;
	}
	return NULL;
}

static pid_t tid_of(struct inline_member *m, uint64_t self)
{
	struct remote *r = &m->engine->remote;
	const struct remote_thread *t = thread_of(m, self);

	if (t)
		return t->tid;
	return r->rest_runs ? remote__tid_of(r, self) : 0;
}

static void read_comm(pid_t pid, pid_t tid, char *out, size_t size)
{
	char path[64];
	auto_fclose FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	f = fopen(path, "re");
	if (f && fgets(out, (int)size, f))
		out[strcspn(out, "\n")] = 0;
}

static int tell_thread(struct inline_member *m, const struct outside_thread *t)
{
	auto_free struct cap_inline_frame *frames = calloc(t->frame_cnt + 1, sizeof(*frames));
	auto_free struct assembler_frame *shown = calloc(t->frame_cnt + 1, sizeof(*shown));
	pid_t tid = t->tid;
	uint32_t cnt = 0;
	char comm[sizeof(m->run->info.comm)];
	int err;

	if (!frames || !shown)
		return -ENOMEM;
	for (uint32_t i = t->frame_cnt; i-- > 0;) {
		bool is_new;
		uint32_t code = number_of(m, t->frames[i].code, &is_new);

		if (!code) {
			if (cnt)
				frames[cnt - 1].shim = cap_inline_shim(t->frames[i].frame);
			continue;
		}
		frames[cnt].frame = shown[cnt].frame = t->frames[i].frame;
		frames[cnt].code = shown[cnt].code = code;
		cnt++;
	}
	err = cap_inline__stack(m->cap, t->thread_id, tid, frames, cnt, t->truncated);
	if (err || m->attached || m->forked || !cnt)
		return err;
	memcpy(comm, m->run->info.comm, sizeof(comm)); /* should it have ended by now */
	read_comm(m->pid, tid, comm, sizeof(comm));
	return assembler__idle(m->run->as,
			       &(struct assembler_idle){ .id = cap_inline__new_thread(m->cap),
							 .pix = m->pix,
							 .tid = (uint32_t)tid,
							 .comm = comm,
							 .ts_ns = m->stood_ns,
							 .frames = shown,
							 .frame_cnt = cnt });
}

/* Is a thread of those that stand still between two frames, so that its stack is not what it looks like? */
static bool is_torn(struct inline_member *m, const struct outside_stacks *stacks)
{
	for (size_t i = 0; i < stacks->cnt; i++) {
		const struct remote_thread *t = thread_of(m, stacks->threads[i].thread_id);

		/* in a system call it is between no two frames */
		if (stacks->threads[i].status == OUTSIDE_MOVED && t && !t->in_call)
			return true;
	}
	return false;
}

/* Threads of other languages make and end their states without the lock: the list can have changed while it was read. */
static bool was_changed(const struct inline_engine *e, const struct outside_stacks *stacks)
{
	return e->remote.rest_runs && stacks->truncated;
}

/* What was found ahead, of the same thread: its state says which it is, from 3.11 on. */
static pid_t tid_ahead(const struct inline_member *m, const struct outside_thread *t, size_t *next)
{
	const struct outside_thread *b =
		t->native_id ? outside_stacks__find(&m->ahead.stacks, t->tstate, next) : NULL;

	return b && b->thread_id == t->thread_id && b->native_id == t->native_id ? b->tid : 0;
}

/* Of a thread that runs; of others, which have not begun, or have ended, nothing is told. */
static void look_at_thread(struct inline_member *m, struct outside_thread *t,
			   struct code_names *names, size_t *next)
{
	if (!t->known && !t->tid)
		t->tid = tid_ahead(m, t, next) ?: tid_of(m, t->thread_id);
	for (uint32_t i = t->tid ? t->frame_cnt : 0; i-- > 0;)
		if (i + 1 == t->frame_cnt || t->frames[i].code != t->frames[i + 1].code)
			define(m, t->frames[i].code, names);
}

/* One that was not stopped, where not all were. */
static bool has_not_run(struct inline_member *m, const struct outside_thread *b)
{
	struct remote *r = &m->engine->remote;

	return (r->rest_runs || !r->cnt) &&
	       asleep__has_not_run(&m->asleep, b->tid ?: remote__tid_of(r, b->thread_id));
}

static bool slept(void *ctx, const struct outside_thread *b)
{
	struct inline_member *m = ctx;
	const struct remote_thread *t = thread_of(m, b->thread_id);

	if (t && t->is == REMOTE_KEPT) /* since before the stacks were read */
		return true;
	return t ? asleep__is_still(&m->asleep, t) : has_not_run(m, b);
}

static void note_kept(struct inline_member *m)
{
	free(m->kept);
	m->kept_cnt = remote__kept(&m->engine->remote, &m->kept);
	if (m->kept_cnt)
		qsort(m->kept, m->kept_cnt, sizeof(*m->kept), order_u64);
}

/* In a stop, or before it as it seems that it will be: kept from running, or it was asleep by itself all the while. */
static bool is_kept(void *ctx, const struct outside_thread *b)
{
	struct inline_member *m = ctx;
	const struct remote_thread *t;

	if (!m->engine->remote.cnt && m->kept_cnt)
		return bsearch(&b->thread_id, m->kept, m->kept_cnt, sizeof(*m->kept), order_u64);
	t = thread_of(m, b->thread_id);
	return t ? t->is == REMOTE_KEPT : has_not_run(m, b);
}

static bool any_deep(const struct outside_stacks *stacks)
{
	for (size_t i = 0; i < stacks->cnt; i++)
		if (stacks->threads[i].frame_cnt >= OUTSIDE_KNOWN_MIN)
			return true;
	return false;
}

/* Is there much to be won by knowing who sleeps? Of those that are kept it is known. */
static bool is_sleep_worth(const struct inline_member *m)
{
	const struct outside_stacks *s = &m->ahead.stacks;

	return any_deep(s) || (s->cnt >= MANY_STACKS && !m->engine->remote.sleepers);
}

/* Of all threads, which run on. False: there is nothing to be won by it. */
static bool read_ahead(struct inline_member *m)
{
	struct outside_stacks *s = &m->ahead.stacks;

	outside_stacks__done(s);
	if (walk_outside_held(&m->mem, m->in, NULL, NULL, s) || s->truncated)
		m->turns.gil = 0;
	return m->turns.gil || any_deep(s);
}

/* Whose they are; where the lock's turns are not known all is asked in the stop. */
static void find_tids(struct inline_member *m)
{
	struct outside_stacks *s = &m->ahead.stacks;

	for (size_t i = 0; m->turns.gil && i < s->cnt; i++)
		s->threads[i].tid = remote__tid_of(&m->engine->remote, s->threads[i].thread_id);
}

/* As when they stand still: what has to be read then is known, and there is memory for it. */
static void rehearse(struct inline_member *m)
{
	struct outside_stacks stacks = { 0 };

	note_kept(m);
	m->ahead.only = 0; /* another one may run until then */
	m->ahead.rehearsed = true;
	if (!walk_outside_held(&m->mem, m->in, &m->ahead, &m->pages, &stacks))
		outside_stacks__done(&stacks);
	m->ahead.rehearsed = false;
	outside_pages__prepare(&m->pages);
}

/* What cannot be read now is read when they stand still. Which threads sleep is not asked where none is deep, or it is tried again and
 * again. */
void inline_stacks__ahead(void *ctx)
{
	struct inline_member *m = ctx;

	m->ahead.slept = slept;
	m->ahead.kept = is_kept;
	m->ahead.ctx = m;
	asleep__done(&m->asleep);
	gil__turns(&m->mem, m->in, &m->turns);
	if (!m->ahead_left && !m->turns.gil)
		outside_stacks__done(&m->ahead.stacks); /* of another stop */
	else if (!read_ahead(m))
		m->ahead_left = 0;
	else if (is_sleep_worth(m) && !asleep__note(&m->asleep, m->pid) && m->asleep.cnt)
		read_ahead(m);
	m->ahead_left -= m->ahead_left != 0;
	find_tids(m);
	rehearse(m);
}

/* The state of the only thread that has run Python code since the stacks were read ahead; 0: others may have. */
static uint64_t only_one(const struct inline_member *m)
{
	const struct gil_turns *before = &m->turns;
	struct gil_turns now;

	gil__turns(&m->mem, m->in, &now);
	return now.gil == before->gil && now.switches == before->switches &&
			       now.holder == before->holder
		       ? now.holder
		       : 0;
}

int inline_stacks__take(void *ctx, struct inline_engine *e)
{
	auto_free struct code_names *names = malloc(sizeof(*names));
	struct inline_member *m = ctx;
	struct outside_stacks stacks;
	size_t next = 0;
	int err;

	outside_stacks__done(&m->stacks);
	if (!names)
		return -ENOMEM;
	m->ahead.only = only_one(m);
	err = walk_outside_held(&m->mem, m->in, &m->ahead, &m->pages, &stacks);
	if (err)
		return err == -EFAULT ? 0 : err; /* it has not started */
	if ((is_torn(m, &stacks) || was_changed(e, &stacks)) && m->torn++ < REMOTE_TRIES) {
		outside_stacks__done(&stacks);
		return -EAGAIN;
	}
	m->torn = 0;
	for (size_t i = 0; i < stacks.cnt; i++)
		look_at_thread(m, &stacks.threads[i], names, &next);
	m->stacks = stacks;
	m->stood_ns = now_ns();
	return 0;
}

int inline_stacks__tell(struct inline_member *m)
{
	int err = 0;

	for (size_t i = 0; !err && i < m->stacks.cnt; i++)
		if (m->stacks.threads[i].tid)
			err = tell_thread(m, &m->stacks.threads[i]);
	outside_stacks__done(&m->stacks);
	inline_stacks__forget(m); /* here, as it takes a millisecond with hundreds of threads */
	return err;
}

void inline_stacks__forget(struct inline_member *m)
{
	outside_stacks__done(&m->ahead.stacks);
	outside_pages__done(&m->pages);
	asleep__done(&m->asleep);
	free(take_ptr(m->kept));
	m->kept_cnt = 0;
}
