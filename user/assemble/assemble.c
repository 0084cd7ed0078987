// SPDX-License-Identifier: Apache-2.0
#include "assemble/assemble.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assemble/assemble_priv.h"
#include "assemble/chosen.h"
#include "assemble/native.h"
#include "base/likely.h"
#include "base/pages.h"
#include "capfile/format.h"

#define WALK_MAX (PYE_WALK_MAX + PYE_WALK_FRAMES)

int assembler__new(struct assembler **out, struct capw *w)
{
	struct assembler *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->w = w;
	*out = a;
	return 0;
}

void asm_thread_free(struct assembler *a, struct asm_thread *t)
{
	if (a->last == t)
		a->last = NULL;
	if (t->idle)
		a->idle_cnt--;
	t->process->thread_cnt--;
	HASH_DEL(a->threads, t);
	pages_free(t->stack, t->size * sizeof(*t->stack));
	free(t->walk.frames);
	free(t->off);
	free(t->native);
	free(t->given);
	free(t->hidden.v);
	free(t->fold.v);
	free(t);
}

void assembler__free(struct assembler *a)
{
	struct asm_thread *t, *next;

	if (!a)
		return;
	HASH_ITER(hh, a->threads, t, next)
	asm_thread_free(a, t);
	asm_processes_free(a);
	names_free(&a->names);
	asm_watch_free(a->watch);
	asm_filter_free(a->filter);
	free(a);
}

static struct asm_thread *thread_find(struct assembler *a, uint32_t tix)
{
	struct asm_thread *t = a->last;

	if (t && t->tix == tix)
		return t;
	HASH_FIND(hh, a->threads, &tix, sizeof(tix), t);
	if (t)
		a->last = t;
	return t;
}

static struct asm_thread *find_idle(struct assembler *a, uint32_t pix, uint32_t tid)
{
	struct asm_thread *t;

	if (!a->idle_cnt)
		return NULL;
	for (t = a->threads; t; t = t->hh.next)
		if (t->idle && t->process->pix == pix && t->trace.tid == tid)
			return t;
	return NULL;
}

/* A thread is new to the capture, too. */
static int thread_add(struct assembler *a, struct asm_thread *t)
{
	int err;

	t->fresh = true;
	t->trace.name = t->name;
	a->threads_seen++;
	t->process->thread_cnt++;
	t->process->unnamed++;
	HASH_ADD(hh, a->threads, tix, sizeof(t->tix), t);
	err = capw__thread(a->w, &t->trace);
	if (err != -ENOMEM)
		return err;
	asm_retire_all(a);
	return capw__thread(a->w, &t->trace);
}

static int on_thread(struct assembler *a, const struct pye_thread_rec *rec)
{
	struct asm_thread *t;

	if (thread_find(a, rec->head.tix)) {
		a->odd.malformed++;
		return 0;
	}
	t = find_idle(a, rec->pix, rec->tid);
	if (t) {
		/* it runs now: its records come under another number */
		HASH_DEL(a->threads, t);
		a->idle_cnt--;
		t->idle = false;
		t->tix = rec->head.tix;
		HASH_ADD(hh, a->threads, tix, sizeof(t->tix), t);
		return asm_still_waiting(a, t, rec->head.ts_ns);
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->process = asm_process_get(a, rec->pix, rec->pid);
	if (!t->process) {
		free(t);
		return -ENOMEM;
	}
	t->tix = t->id = rec->head.tix;
	memcpy(t->name, rec->comm, PYE_COMM);
	t->last_ns = rec->head.ts_ns;
	t->trace = (struct trace_thread){ .id = t->tix,
					  .process = rec->pix,
					  .tid = rec->tid,
					  .is_main = rec->tid == rec->pid,
					  .start_ns = rec->head.ts_ns };
	return thread_add(a, t);
}

int assembler__func(struct assembler *a, const struct trace_func *func)
{
	struct asm_process *p = asm_process_get(a, func->process, 0);
	int err = p ? asm_func_new(a, func, 0) : -ENOMEM;

	return err ? err : asm_process_code(p, func->id);
}

static int release_held(struct assembler *a, struct asm_thread *t)
{
	static const enum trace_kind kinds[] = { TRACE_CALL, TRACE_RESUME, TRACE_THROW,
						 TRACE_CALL };
	const struct pye_entry_rec *rec = &t->entry;

	t->held = false;
	return asm_enter(a, t, rec->head.ts_ns, rec->head.frame, kinds[rec->head.sub & 3],
			 rec->code);
}

/* The frames of a walk, from its bottom up, onto the stack as it is. The number of those that got there. */
static uint32_t apply(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind,
		      int *err)
{
	uint32_t n = 0, depth = t->depth + t->hidden.cnt;

	while (n < t->walk.cnt) {
		const struct pye_walk_frame *frame = &t->walk.frames[t->walk.cnt - 1 - n];

		*err = asm_first(*err, asm_enter(a, t, ts, frame->frame, kind, frame->code));
		if (t->depth + t->hidden.cnt != depth + n + 1)
			return n + 1; /* one was refused: nothing is known below the next */
		n++;
	}
	return n;
}

/* Frames between the known top and the event: something was thrown into them. */
static int apply_thrown(struct assembler *a, struct asm_thread *t, uint64_t ts)
{
	uint32_t n;
	int err = 0;
	bool top = t->depth && t->stack[t->depth - 1] == t->walk.anchor;

	if (!top && (!a->filter || asm_filter_is_shown(t, t->walk.anchor))) {
		a->odd.mismatched++;
		err = asm_gap(a, t, ts, GAP_SWITCH, 0);
	}
	n = apply(a, t, ts, TRACE_THROW, &err);
	a->inferred += t->walk.cnt;
	a->unusable += t->walk.cnt - n;
	return err;
}

/* A walk of thrown frames whose event does not come next: it was lost, or another walk precedes it. */
static int flush_thrown(struct assembler *a, struct asm_thread *t)
{
	if (!t->walk.pending || !(t->walk.flags & PYE_WALK_ANCHORED))
		return 0;
	t->walk.pending = false;
	return apply_thrown(a, t, t->last_ns);
}

/* Was what we saw of an idle thread from outside what it found when it ran again? */
static bool same_stack(const struct assembler *a, const struct asm_thread *t)
{
	uint32_t at = 0;

	for (uint32_t i = t->walk.cnt; i-- > 0;) {
		if (a->filter && asm_filter_hides(a, t->walk.frames[i].code, at))
			continue;
		if (at == t->depth || t->stack[at++] != t->walk.frames[i].frame)
			return false;
	}
	return t->depth && at == t->depth;
}

static enum trace_gap_reason reason_of(const struct asm_thread *t)
{
	if (t->fresh)
		return GAP_ATTACH;
	return t->walk.reason == PYE_WALK_SWITCH ? GAP_SWITCH : GAP_LOSS;
}

/* The walk before an event whose number has come without a hole, or with one: `lost`. */
static int apply_walk(struct assembler *a, struct asm_thread *t, const struct pye_head *head,
		      bool lost)
{
	int err = 0;

	t->walk.pending = false;
	if (t->walk.seq != head->seq)
		return 0; /* it was for an event that was lost */
	if (t->walk.flags & PYE_WALK_ANCHORED)
		return apply_thrown(a, t, head->ts_ns);
	if (!lost && t->fresh && same_stack(a, t))
		return 0;
	if (t->fresh && !t->depth && t->process->late) {
		t->last_ns = t->process->trace.start_ns;
		err = asm_gap(a, t, head->ts_ns, GAP_ATTACH, 0);
	} else if (!lost && (t->depth || (!t->fresh && !t->shown_off))) {
		err = asm_gap(a, t, head->ts_ns, reason_of(t), 0);
	}
	t->shown_off = false;
	if (t->walk.flags & PYE_WALK_CUT) /* what lies below is not known */
		err = asm_first(err, asm_enter(a, t, head->ts_ns, 0, TRACE_OPEN, ASM_UNREADABLE));
	if (t->walk.flags & PYE_WALK_CUT && asm_filter_has_depth(a))
		return err;
	apply(a, t, head->ts_ns, TRACE_OPEN, &err);
	return err;
}

/*
 * What must be done before an event: events missing in front of it are a gap, frames that a walk
 * found are shown.
 */
static int prepare(struct assembler *a, struct asm_thread *t, const struct pye_head *head)
{
	uint32_t missing = head->seq - (uint32_t)t->next_seq;
	int err = 0;

	if (t->held)
		err = release_held(a, t);
	if (t->walk.seq != head->seq)
		err = asm_first(err, flush_thrown(a, t));
	if (missing) {
		a->holes += missing;
		err = asm_first(err, asm_gap(a, t, head->ts_ns, GAP_LOSS, missing));
	}
	t->next_seq += missing;
	if (t->walk.pending)
		err = asm_first(err, apply_walk(a, t, head, missing));
	asm_walk_trim(t);
	t->fresh = false;
	return err;
}

int assembler__idle(struct assembler *a, const struct assembler_idle *idle)
{
	struct asm_process *p = asm_process_get(a, idle->pix, 0);
	struct asm_thread *t;
	int err;

	if (!asm_filter_idle(a, idle))
		return 0;
	for (t = a->threads; t; t = t->hh.next)
		if (t->process->pix == idle->pix && t->trace.tid == idle->tid)
			return 0;
	t = p ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return -ENOMEM;
	t->tix = t->id = idle->id;
	t->process = p;
	t->idle = true;
	t->last_ns = idle->ts_ns;
	snprintf(t->name, sizeof(t->name), "%s", idle->comm);
	t->trace = (struct trace_thread){ .id = t->id,
					  .process = p->pix,
					  .tid = idle->tid,
					  .is_main = idle->tid == p->pid,
					  .start_ns = idle->ts_ns };
	a->idle_cnt++;
	err = thread_add(a, t);
	for (uint32_t i = 0; i < idle->frame_cnt; i++)
		err = asm_first(err, asm_enter(a, t, idle->ts_ns, idle->frames[i].frame, TRACE_OPEN,
					       idle->frames[i].code));
	return err;
}

int assembler__waiter(struct assembler *a, const struct assembler_waiter *waiter,
		      const struct pye_sample_rec *rec)
{
	const struct assembler_idle idle = { .id = waiter->id,
					     .pix = waiter->pix,
					     .tid = waiter->tid,
					     .comm = waiter->comm,
					     .ts_ns = waiter->since_ns };
	struct asm_thread *t;
	int err;

	if (find_idle(a, waiter->pix, waiter->tid))
		return 0;
	err = assembler__idle(a, &idle);
	t = thread_find(a, waiter->id);
	return err || !t ? err : asm_waiting_since(a, t, rec);
}

void asm_idle_end(struct assembler *a, const struct asm_process *p)
{
	struct asm_thread *t, *next;

	if (!a->idle_cnt)
		return;
	HASH_ITER(hh, a->threads, t, next)
	{
		if (!t->idle || t->process != p)
			continue;
		t->trace.end_ns = p->trace.end_ns;
		capw__thread(a->w, &t->trace);
		capw__retire_thread(a->w, t->id);
		asm_thread_free(a, t);
	}
}

static int on_entry(struct assembler *a, const struct pye_entry_rec *rec)
{
	static const enum trace_kind kinds[] = { TRACE_CALL, TRACE_RESUME, TRACE_THROW,
						 TRACE_CALL };
	struct asm_thread *t = thread_find(a, rec->head.tix);
	int err = 0;

	if (!t) {
		a->odd.malformed++;
		return 0;
	}
	if (rec->head.seq != (uint32_t)t->next_seq || t->walk.pending || t->held)
		err = prepare(a, t, &rec->head);
	t->next_seq++;
	t->fresh = false;
	t->last_ns = rec->head.ts_ns;
	if (t->process->frames_refused) {
		t->entry = *rec;
		t->held = true;
		return err;
	}
	return asm_first(err, asm_enter(a, t, rec->head.ts_ns, rec->head.frame,
					kinds[rec->head.sub & 3], rec->code));
}

static int on_exit_rec(struct assembler *a, const struct pye_exit_rec *rec)
{
	static const enum trace_kind kinds[] = { TRACE_RETURN, TRACE_YIELD, TRACE_UNWIND,
						 TRACE_UNWIND };
	struct asm_thread *t = thread_find(a, rec->head.tix);
	int err = 0;

	if (!t) {
		a->odd.malformed++;
		return 0;
	}
	if (rec->head.sub == PYE_EXIT_REFUSED && t->held &&
	    rec->head.seq == (uint32_t)t->next_seq && t->entry.head.frame == rec->head.frame) {
		t->held = false;
		t->next_seq++;
		a->refused += 2;
		return 0;
	}
	if (rec->head.seq != (uint32_t)t->next_seq || t->walk.pending || t->held)
		err = prepare(a, t, &rec->head);
	t->next_seq++;
	t->fresh = false;
	if (t->depth && t->stack[t->depth - 1] == rec->head.frame) {
		t->last_ns = rec->head.ts_ns;
		return asm_first(err, asm_leave(a, t, rec->head.ts_ns, kinds[rec->head.sub & 3]));
	}
	if (a->filter && asm_filter_leave(a, t, rec->head.frame)) {
		t->last_ns = rec->head.ts_ns;
		return err;
	}
	a->odd.mismatched++;
	a->unusable++;
	if (t->depth)
		err = asm_first(err, asm_gap(a, t, rec->head.ts_ns, GAP_SWITCH, 1));
	t->last_ns = rec->head.ts_ns;
	return err;
}

/* What comes before a sample: records that were lost. */
static int sample_begin(struct assembler *a, struct asm_thread *t, const struct pye_head *head)
{
	uint32_t missing = head->seq - (uint32_t)t->next_seq;
	int err = 0;

	if (missing) {
		a->holes += missing;
		err = asm_gap(a, t, head->ts_ns, GAP_LOSS, missing);
	}
	t->next_seq += missing + 1ull;
	t->fresh = false;
	t->last_ns = head->ts_ns;
	return err;
}

static int on_sample(struct assembler *a, const struct pye_sample_rec *rec, uint32_t len)
{
	struct asm_thread *t = thread_find(a, rec->head.tix);
	uint32_t cnt = rec->cnt < PYE_SAMPLE_FRAMES ? rec->cnt : PYE_SAMPLE_FRAMES;
	int err;

	if (!t || len < PYE_SAMPLE_HEAD + cnt * sizeof(rec->frames[0])) {
		a->odd.malformed++;
		return 0;
	}
	err = sample_begin(a, t, &rec->head);
	if (rec->state == PYE_SAMPLE_OFF)
		return asm_first(err, asm_sample_keep(a, t, rec));
	return asm_first(err, asm_sample(a, t, rec));
}

static int on_wait(struct assembler *a, const struct pye_wait_rec *rec)
{
	struct asm_thread *t = thread_find(a, rec->head.tix);
	int err;

	if (!t) {
		a->odd.malformed++;
		return 0;
	}
	err = sample_begin(a, t, &rec->head);
	return asm_first(err, asm_wait(a, t, rec));
}

static int on_walk(struct assembler *a, const struct pye_walk_rec *rec)
{
	struct asm_thread *t = thread_find(a, rec->head.tix);
	struct asm_walk *w;
	int err = 0;

	if (!t || rec->cnt > PYE_WALK_FRAMES) {
		a->odd.malformed++;
		return 0;
	}
	w = &t->walk;
	if (rec->head.sub & PYE_WALK_FIRST) {
		if (t->held)
			err = release_held(a, t);
		err = asm_first(err, flush_thrown(a, t));
		w->cnt = 0;
	}
	if (w->cnt + rec->cnt > w->size) {
		uint32_t size = w->size ? w->size * 2 : 64;
		struct pye_walk_frame *more;

		if (size > 2 * WALK_MAX)
			return err;
		more = realloc(w->frames, size * sizeof(*more));
		if (!more)
			return -ENOMEM;
		w->frames = more;
		w->size = size;
	}
	for (uint32_t i = 0; i < rec->cnt; i++)
		if (!(rec->frames[i].owner & PYE_OWNER_QUIET))
			w->frames[w->cnt++] = rec->frames[i];
	w->seq = rec->head.seq;
	w->flags = rec->head.sub;
	w->reason = rec->reason;
	w->anchor = rec->head.frame;
	w->pending = rec->head.sub & (PYE_WALK_ROOT | PYE_WALK_ANCHORED | PYE_WALK_CUT);
	if (!a->filter || !w->pending)
		return err;
	/* its event can be one that is held back: others would come with a stack that is long gone */
	err = asm_first(err, prepare(a, t, &rec->head));
	t->last_ns = rec->head.ts_ns;
	return err;
}

/* The thread has no more records: what is missing up to its final number was lost. */
static int thread_end(struct assembler *a, struct asm_thread *t, uint32_t seq, uint64_t ts)
{
	uint32_t missing = seq - (uint32_t)t->next_seq;
	int err = 0;

	if (t->held)
		err = release_held(a, t);
	err = asm_first(err, flush_thrown(a, t));
	if (missing) {
		a->holes += missing;
		err = asm_first(err, asm_gap(a, t, ts, GAP_LOSS, missing));
	}
	t->next_seq += missing;
	return err;
}

int asm_off_end(struct assembler *a, struct asm_thread *t, uint64_t until)
{
	int err = t->held ? release_held(a, t) : 0;

	if (t->last_ns < t->process->off_ns)
		t->last_ns = t->process->off_ns;
	t->shown_off = true;
	return asm_first(err, asm_gap(a, t, until, GAP_WINDOW, 0));
}

static int on_thread_end(struct assembler *a, const struct pye_thread_end_rec *rec)
{
	struct asm_thread *t = thread_find(a, rec->head.tix);
	int err;

	if (!t) {
		/* it was never announced: all its events were lost */
		a->holes += rec->head.seq;
		a->numbered += rec->head.seq;
		return 0;
	}
	err = thread_end(a, t, rec->head.seq, rec->head.ts_ns);
	a->numbered += t->next_seq;
	if (t->process->off_ns)
		err = asm_first(err, asm_off_end(a, t, rec->head.ts_ns));
	/* its number can come again, after exec at once: that thread has another stack */
	t->last_ns = rec->head.ts_ns;
	if (t->depth)
		err = asm_first(err, asm_gap(a, t, rec->head.ts_ns, GAP_END, 0));
	t->trace.end_ns = rec->head.ts_ns;
	memcpy(t->name, rec->comm, PYE_COMM);
	err = asm_first(err, capw__thread(a->w, &t->trace));
	capw__retire_thread(a->w, t->id);
	asm_thread_free(a, t);
	return err;
}

/* With a filter by names: the thread is recorded from here on, or not any more. */
static int on_rename(struct assembler *a, const struct pye_thread_end_rec *rec)
{
	struct asm_thread *t = thread_find(a, rec->head.tix);
	int err;

	if (!t)
		return 0;
	err = thread_end(a, t, rec->head.seq, rec->head.ts_ns);
	memcpy(t->name, rec->comm, PYE_COMM);
	asm_name_again(t);
	err = asm_first(err, capw__thread(a->w, &t->trace));
	if (rec->head.sub && !t->shown_off)
		return err; /* it was recorded before */
	if (!rec->head.sub)
		t->last_ns = rec->head.ts_ns;
	err = asm_first(err, asm_gap(a, t, rec->head.ts_ns, GAP_WINDOW, 0));
	t->shown_off = true;
	t->last_ns = rec->head.ts_ns;
	return err;
}

void assembler__final(struct assembler *a, uint32_t tix, uint32_t seq, uint64_t until_ns)
{
	struct asm_thread *t = thread_find(a, tix);

	if (t) {
		thread_end(a, t, seq, until_ns > t->last_ns ? until_ns : t->last_ns);
		return;
	}
	a->holes += seq;
	a->numbered += seq;
}

int assembler__finish(struct assembler *a)
{
	struct asm_thread *t, *next;
	int err = 0;

	HASH_ITER(hh, a->threads, t, next)
	{
		if (t->held)
			err = asm_first(err, release_held(a, t));
		err = asm_first(err, asm_fold_flush(a, t));
	}
	return asm_first(err, asm_processes_end(a));
}

int assembler__settle(struct assembler *a, uint64_t ts_ns)
{
	struct asm_thread *t, *next;
	int err = 0;

	HASH_ITER(hh, a->threads, t, next)
	if (t->fold.cnt)
		err = asm_first(err, asm_fold_settle(a, t, ts_ns));
	return err;
}

const struct assembler_folded *assembler__folded(const struct assembler *a)
{
	return &a->folded;
}

/* A code object is gone, but events of other threads that used it can still lie in their rings. */
static void retire_oldest(struct assembler *a)
{
	const struct asm_retired *r = &a->retired[a->retired_at];

	asm_process_gone(a, r->pix, r->code);
	asm_func_gone(a, r->code);
	a->retired_at = (a->retired_at + 1) % ASM_RETIRED_MAX;
	a->retired_cnt--;
}

void asm_retire(struct assembler *a, uint32_t pix, uint32_t code)
{
	if (a->retired_cnt == ASM_RETIRED_MAX)
		retire_oldest(a);
	a->retired[(a->retired_at + a->retired_cnt++) % ASM_RETIRED_MAX] =
		(struct asm_retired){ .code = code, .pix = pix, .round = a->round };
}

void asm_retire_all(struct assembler *a)
{
	while (a->retired_cnt)
		retire_oldest(a);
}

static size_t least_size(unsigned int kind)
{
	switch (kind) {
	case PYE_REC_ENTRY:
		return sizeof(struct pye_entry_rec);
	case PYE_REC_EXIT:
		return sizeof(struct pye_exit_rec);
	case PYE_REC_DEF:
		return sizeof(struct pye_def_rec);
	case PYE_REC_STR:
		return sizeof(struct pye_str_rec);
	case PYE_REC_WALK:
		return sizeof(struct pye_walk_rec);
	case PYE_REC_THREAD:
		return sizeof(struct pye_thread_rec);
	case PYE_REC_THREAD_END:
	case PYE_REC_RENAME:
		return sizeof(struct pye_thread_end_rec);
	case PYE_REC_RETIRE:
		return sizeof(struct pye_retire_rec);
	case PYE_REC_SAMPLE:
		return PYE_SAMPLE_HEAD;
	case PYE_REC_WAIT:
		return sizeof(struct pye_wait_rec);
	case PYE_REC_NATIVE:
		return PYE_NATIVE_HEAD;
	default:
		return SIZE_MAX;
	}
}

RARELY int on_other(struct assembler *a, const void *rec, uint32_t len)
{
	const struct pye_head *head = rec;
	unsigned int kind = len >= sizeof(*head) ? head->kind : 0;

	if (len < least_size(kind) || head->ts_ns > CAP_TS_MAX) {
		a->odd.malformed++;
		return 0;
	}
	switch (kind) {
	case PYE_REC_DEF:
		return names_define(a, rec);
	case PYE_REC_STR: {
		const struct pye_str_rec *str = rec;

		if (str->data_len > len - sizeof(*str)) {
			a->odd.malformed++;
			return 0;
		}
		return names_string(a, str);
	}
	case PYE_REC_SAMPLE:
		return on_sample(a, rec, len);
	case PYE_REC_WAIT:
		return on_wait(a, rec);
	case PYE_REC_NATIVE:
		return asm_native(a, thread_find(a, head->tix), rec, len);
	case PYE_REC_WALK:
		return on_walk(a, rec);
	case PYE_REC_THREAD:
		return on_thread(a, rec);
	case PYE_REC_THREAD_END:
		return on_thread_end(a, rec);
	case PYE_REC_RENAME:
		return on_rename(a, rec);
	case PYE_REC_RETIRE: {
		const struct pye_retire_rec *gone = rec;

		asm_retire(a, gone->pix, gone->code);
		return 0;
	}
	default:
		return 0;
	}
}

int asm_dispatch(struct assembler *a, const void *rec, uint32_t len)
{
	const struct pye_head *head = rec;
	unsigned int kind = len >= sizeof(*head) && head->ts_ns <= CAP_TS_MAX ? head->kind : 0;

	/* nearly all are these */
	if (kind == PYE_REC_ENTRY && len >= sizeof(struct pye_entry_rec))
		return on_entry(a, rec);
	if (kind == PYE_REC_EXIT)
		return on_exit_rec(a, rec);
	return on_other(a, rec, len);
}

int assembler__record(void *a, const void *rec, uint32_t len)
{
	return asm_dispatch(a, rec, len);
}

int assembler__feed(struct assembler *a, const struct capture_batch *batch)
{
	const void *rec;
	size_t at = 0;
	uint32_t len;
	int err = 0;

	a->batches++;
	if (batch->round != a->round || a->ended_new) {
		a->round = batch->round;
		asm_forget_dead(a);
		while (a->retired_cnt && asm_settled(a, a->retired[a->retired_at].round))
			retire_oldest(a);
		err = asm_processes_forget(a);
	}
	while ((rec = capture_record(batch, &at, &len)))
		err = asm_first(err, asm_dispatch(a, rec, len));
	return err;
}

void assembler__totals(const struct assembler *a, const uint64_t kernel[LOSS_CNT],
		       struct trace_totals *out)
{
	uint64_t numbered = a->numbered;
	struct trace_totals t = { 0 };
	struct assembler_filtered filtered;
	const struct asm_thread *thread;

	for (thread = a->threads; thread; thread = thread->hh.next) {
		numbered += thread->next_seq - thread->held;
		t.end_ns = thread->last_ns > t.end_ns ? thread->last_ns : t.end_ns;
	}
	t.written = capw__written(a->w);
	if (kernel)
		memcpy(t.lost, kernel, sizeof(t.lost));
	/* what was numbered and is not here was lost on the way, whatever the kernel counted */
	if (t.lost[LOSS_READ] > a->holes)
		t.lost[LOSS_READ] = a->holes;
	t.lost[LOSS_RING] = a->holes - t.lost[LOSS_READ];
	t.lost[LOSS_USER] = a->unusable + capw__lost(a->w);
	/* counted on its own, by the numbers that the kernel gave: written + lost must be the same */
	assembler__filtered(a, &filtered);
	t.generated = numbered + a->inferred - a->refused - filtered.events - 2 * a->folded.calls +
		      t.lost[LOSS_MAP] + t.lost[LOSS_KERNEL];
	/* those that wait for how long they take are not generated yet */
	for (thread = a->threads; thread; thread = thread->hh.next)
		t.generated -= thread->fold.cnt;
	*out = t;
}

uint32_t assembler__threads(const struct assembler *a)
{
	return HASH_COUNT(a->threads);
}

const struct assembler_oddities *assembler__oddities(const struct assembler *a)
{
	return &a->odd;
}
