// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that were waiting when the recording began and still are: the kernel side has never seen them.
 * Their stacks are read from outside, twice, and shown for all the time.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cmd/session_priv.h"
#include "cpython/lock_outside.h"
#include "cpython/walk_outside.h"
#include "proc/mem.h"

struct waiting {
	struct session *s;
	struct target *t;
	struct proc_mem mem;
	struct outside_stacks stacks;
};

/* As the kernel side would have taken it: of a deep stack the frames in the middle are left out. */
static void take(struct waiting *w, const struct outside_thread *thread, struct pye_sample_rec *rec)
{
	const uint32_t half = PYE_SAMPLE_FRAMES / 2;
	uint32_t cnt = thread->frame_cnt;

	rec->head.sub = !cnt		    ? PYE_SAMPLE_NO_FRAMES
			: thread->truncated ? PYE_SAMPLE_DEEP
					    : PYE_SAMPLE_OK;
	rec->cnt = cnt;
	if (cnt && rec->reason == PYE_OFF_LOCK)
		rec->lock = lock_where(&w->mem, thread->frames[0].frame, rec->futex);
	for (uint32_t i = 0; i < cnt; i++) {
		const struct outside_frame *from;
		uint64_t instr = 0;

		if (cnt > PYE_SAMPLE_FRAMES && i == half)
			i = cnt - half;
		from = &thread->frames[i];
		proc_mem__read(&w->mem, from->frame + w->t->in.layout.f_instr, &instr,
			       w->t->in.layout.flags & PYE_LAYOUT_FRAME_OBJECT ? 4 : 8);
		rec->frames[i < half ? i : half + i % half] =
			(struct pye_sample_frame){ from->code, instr };
	}
}

static int on_waiter(void *ctx, const struct pye_waiter *waiter)
{
	struct waiting *w = ctx;
	auto_free struct pye_sample_rec *rec = NULL;
	struct assembler_waiter to = { .pix = waiter->pix,
				       .tid = waiter->tid,
				       .comm = waiter->comm,
				       .since_ns = w->s->start_ns };

	if (waiter->pix != w->t->pix || waiter->tix || waiter->reason == PYE_OFF_NONE)
		return 0;
	for (size_t i = 0; i < w->stacks.cnt; i++) {
		const struct outside_thread *thread = &w->stacks.threads[i];

		if (thread->thread_id != waiter->fsbase || thread->status != OUTSIDE_AGREED)
			continue;
		rec = calloc(1, sizeof(*rec));
		if (!rec)
			return -ENOMEM;
		rec->state = PYE_SAMPLE_OFF;
		rec->reason = (uint8_t)waiter->reason;
		rec->futex = waiter->futex;
		take(w, thread, rec);
		to.id = cap_bpf__new_thread(w->s->cap);
		return assembler__waiter(w->s->as, &to, rec);
	}
	return 0;
}

static void show(struct session *s, struct target *t)
{
	struct waiting w = { .s = s, .t = t };

	if (!t->pix || !t->has_interp || t->ended || proc_mem__open(t->pid.pid, &w.mem))
		return;
	t->waiters_shown = true;
	if (!walk_outside(&w.mem, &t->in, &w.stacks)) {
		cap_bpf__waiting(s->cap, on_waiter, &w);
		outside_stacks__done(&w.stacks);
	}
	proc_mem__close(&w.mem);
}

void waiting_show(struct session *s)
{
	for (size_t i = 0; s->opts.off_cpu && i < s->target_cnt; i++)
		show(s, s->targets[i]);
}

void waiting_look(struct session *s)
{
	for (size_t i = 0; s->opts.off_cpu && i < s->target_cnt; i++)
		if (!s->targets[i]->waiters_shown)
			show(s, s->targets[i]);
}
