// SPDX-License-Identifier: Apache-2.0
#include "cpython/wait_outside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/wait.h"
#include "base/cleanup.h"
#include "cpython/gil_outside.h"
#include "cpython/interp.h"
#include "cpython/walk_outside.h"
#include "proc/call.h"
#include "proc/info.h"
#include "proc/mem.h"
#include "proc/self_tid.h"
#include "proc/threads.h"

/* The C library keeps a thread's id in the block that pthread_self() points to, glibc mostly here. It is
 * looked for, in this many bytes of the first so many threads. */
#define SELF_BYTES   1024
#define SELF_THREADS 16

struct waits_task {
	struct proc_thread thread;
	int err; /* of the call */
	struct proc_call call;
	bool taken; /* it is known whose it is */
};

static int by_own_tid(const void *a, const void *b)
{
	const struct waits_task *x = a, *y = b;

	return (x->thread.own_tid > y->thread.own_tid) - (x->thread.own_tid < y->thread.own_tid);
}

static struct waits_task *find_task(const struct outside_waits *w, int64_t own_tid)
{
	struct waits_task key;

	if (own_tid <= 0 || own_tid > INT32_MAX || !w->task_cnt)
		return NULL;
	key.thread.own_tid = (pid_t)own_tid;
	return bsearch(&key, w->tasks, w->task_cnt, sizeof(key), by_own_tid);
}

int waits__before(struct outside_waits *w, pid_t pid)
{
	auto_free struct proc_thread *threads = NULL;
	size_t cnt = 0;
	int err;

	*w = (struct outside_waits){ 0 };
	err = threads__list(pid, &threads, &cnt);
	if (err < 0)
		return err;
	w->tasks = calloc(cnt, sizeof(*w->tasks));
	if (!w->tasks)
		return -ENOMEM;
	w->task_cnt = cnt;
	for (size_t i = 0; i < cnt; i++) {
		w->tasks[i].thread = threads[i];
		w->tasks[i].err = proc_call__read(pid, threads[i].tid, &w->tasks[i].call);
	}
	qsort(w->tasks, cnt, sizeof(*w->tasks), by_own_tid);
	return 0;
}

/* Without a call a thread that waits for memory is not to be woken; others are stopped, say. */
static enum pye_off_reason reason_without_call(pid_t pid)
{
	struct proc_info info;

	return proc_info__read(pid, &info) || info.state == 'T' || info.state == 't'
		       ? PYE_OFF_OTHER
		       : PYE_OFF_FAULT;
}

static bool same_call(const struct proc_call *a, const struct proc_call *b)
{
	return a->waits == b->waits && a->nr == b->nr && a->sp == b->sp && a->pc == b->pc &&
	       memcmp(a->args, b->args, sizeof(a->args)) == 0;
}

static void say_why(const struct proc_mem *mem, const struct interp *in, pid_t pid, uint64_t gil,
		    const struct waits_task *task, struct outside_wait *out)
{
	struct proc_call again;
	enum pye_off_reason reason;

	out->tid = task->thread.tid;
	out->own_tid = task->thread.own_tid;
	memcpy(out->comm, task->thread.comm, sizeof(out->comm));
	out->known = !task->err && !proc_call__read(pid, task->thread.tid, &again);
	if (!out->known || !again.waits)
		return;
	reason = pye_wait_reason(again.nr, again.args[0], again.args[1]);
	if (reason == PYE_OFF_LOCK && gil__is_word(mem, in, gil, again.args[0]))
		out->reason = PYE_OFF_GIL; /* it wakes every few milliseconds to ask for it */
	else if (same_call(&task->call, &again))
		out->reason = reason == PYE_OFF_FAULT ? reason_without_call(pid) : reason;
	if (out->reason == PYE_OFF_LOCK)
		out->futex = again.args[0];
}

typedef int32_t self_block[SELF_BYTES / 4];

/* How many different threads the words number @k of the blocks name. */
static uint32_t count_named(const struct outside_waits *w, const self_block *blocks, uint32_t cnt,
			    uint32_t k)
{
	const struct waits_task *named[SELF_THREADS];
	uint32_t named_cnt = 0, i;

	for (uint32_t block = 0; block < cnt; block++) {
		const struct waits_task *task = find_task(w, blocks[block][k]);

		for (i = 0; i < named_cnt && named[i] != task; i++)
			;
		if (task && i == named_cnt)
			named[named_cnt++] = task;
	}
	return named_cnt;
}

/* Where a block of pthread_self() holds the thread's id: there most blocks name threads, and each another
 * one. In a small pid namespace other words look like ids too. */
static uint32_t find_self_offset(const struct outside_waits *w, const struct proc_mem *mem,
				 const struct outside_stacks *stacks)
{
	uint32_t cnt = 0, best = GLIBC_TID / 4, most;
	self_block blocks[SELF_THREADS];

	for (size_t i = 0; i < stacks->cnt && cnt < SELF_THREADS; i++)
		if (!proc_mem__read(mem, stacks->threads[i].thread_id, blocks[cnt], SELF_BYTES))
			cnt++;
	most = count_named(w, blocks, cnt, best);
	for (uint32_t k = 0; k < SELF_BYTES / 4; k++) {
		uint32_t named = count_named(w, blocks, cnt, k);

		if (named > most) {
			most = named;
			best = k;
		}
	}
	return 4 * best;
}

/* The task of a thread: by the id that its state holds, which old versions do not and a fork can leave
 * behind, or by that of the C library. */
static struct waits_task *task_of(const struct outside_waits *w, const struct proc_mem *mem,
				  const struct outside_thread *t, uint32_t self_offset)
{
	struct waits_task *task = find_task(w, t->native_id);
	int32_t own_tid;

	if (!task && !proc_mem__read(mem, t->thread_id + self_offset, &own_tid, sizeof(own_tid)))
		task = find_task(w, own_tid);
	if (!task || task->taken)
		return NULL;
	task->taken = true;
	return task;
}

/* Marks who holds each lock. Return: nobody is seen to hold it and to wait for it. */
static bool mark_holders(struct outside_waits *w, const struct proc_mem *mem,
			 const struct interp *in, const struct outside_stacks *stacks)
{
	uint64_t is = 0, holder = 0;
	bool settled = true;

	for (size_t i = 0; i < stacks->cnt; i++) {
		const struct outside_thread *t = &stacks->threads[i];

		if (t->interp != is) /* threads of one interpreter follow each other */
			holder = gil__holder(mem, in, gil__of(mem, in, t->interp));
		is = t->interp;
		w->threads[i].holds_gil = holder == t->tstate;
		if (w->threads[i].holds_gil && w->threads[i].reason == PYE_OFF_GIL) {
			w->threads[i].reason = PYE_OFF_NONE; /* it has got it since */
			settled = false;
		}
	}
	return settled;
}

int waits__after(struct outside_waits *w, pid_t pid, const struct proc_mem *mem,
		 const struct interp *in, const struct outside_stacks *stacks)
{
	uint32_t self_offset = find_self_offset(w, mem, stacks);

	w->threads = calloc(stacks->cnt + 1, sizeof(*w->threads));
	if (!w->threads)
		return -ENOMEM;
	for (size_t i = 0; i < stacks->cnt; i++) {
		const struct outside_thread *t = &stacks->threads[i];
		struct waits_task *task = task_of(w, mem, t, self_offset);

		if (task)
			say_why(mem, in, pid, gil__of(mem, in, t->interp), task, &w->threads[i]);
	}
	w->settled = mark_holders(w, mem, in, stacks);
	return 0;
}

void waits__done(struct outside_waits *w)
{
	free(w->tasks);
	free(w->threads);
	*w = (struct outside_waits){ 0 };
}
