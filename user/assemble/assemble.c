// SPDX-License-Identifier: Apache-2.0
#include "assemble/assemble.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assemble/assemble_priv.h"

#define DEPTH_MAX (1u << 20)
#define WALK_MAX  (PYE_WALK_MAX + PYE_WALK_FRAMES)

int assembler__new(struct assembler **out, struct capw *w)
{
	struct assembler *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->w = w;
	*out = a;
	return 0;
}

static void thread_free(struct assembler *a, struct asm_thread *t)
{
	if (a->last == t)
		a->last = NULL;
	HASH_DEL(a->threads, t);
	free(t->stack);
	free(t->walk.frames);
	free(t);
}

void assembler__free(struct assembler *a)
{
	struct asm_thread *t, *next;

	if (!a)
		return;
	HASH_ITER(hh, a->threads, t, next)
	thread_free(a, t);
	asm_processes_free(a);
	names_free(&a->names);
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

static int on_thread(struct assembler *a, const struct pye_thread_rec *rec)
{
	struct asm_thread *t = find_idle(a, rec->pix, rec->tid);

	if (t) {
		/* it runs now: its records come under another number */
		HASH_DEL(a->threads, t);
		a->idle_cnt--;
		t->idle = false;
		t->tix = rec->head.tix;
		HASH_ADD(hh, a->threads, tix, sizeof(t->tix), t);
		return 0;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->tix = t->id = rec->head.tix;
	t->fresh = true;
	t->process = asm_process_get(a, rec->pix, rec->pid);
	if (!t->process || thread_find(a, t->tix)) {
		free(t);
		a->odd.malformed++;
		return 0;
	}
	memcpy(t->name, rec->comm, PYE_COMM);
	t->last_ns = rec->head.ts_ns;
	t->trace = (struct trace_thread){ .id = t->tix,
					  .process = rec->pix,
					  .tid = rec->tid,
					  .is_main = rec->tid == rec->pid,
					  .start_ns = rec->head.ts_ns,
					  .name = t->name };
	HASH_ADD(hh, a->threads, tix, sizeof(t->tix), t);
	return capw__thread(a->w, &t->trace);
}

int assembler__func(struct assembler *a, const struct trace_func *func)
{
	return capw__func(a->w, func);
}

static int stack_push(struct asm_thread *t, uint64_t frame)
{
	if (t->depth == t->size) {
		uint32_t size = t->size ? t->size * 2 : 64;
		uint64_t *more;

		if (size > DEPTH_MAX)
			return -E2BIG;
		more = realloc(t->stack, size * sizeof(*more));
		if (!more)
			return -ENOMEM;
		t->stack = more;
		t->size = size;
	}
	t->stack[t->depth++] = frame;
	return 0;
}

static int enter(struct assembler *a, struct asm_thread *t, uint64_t ts, uint64_t frame,
		 enum trace_kind kind, uint32_t code)
{
	int err = stack_push(t, frame);

	if (!err)
		err = capw__enter(a->w, t->id, ts, kind, code & PYE_CODE_ID);
	if (err == -EINVAL || err == -E2BIG) {
		/* a code object whose definition did not arrive: the stack is not known any more */
		a->odd.mismatched++;
		if (kind != TRACE_OPEN)
			a->unusable++;
		return 0;
	}
	return err;
}

static int gap(struct assembler *a, struct asm_thread *t, uint64_t until,
	       enum trace_gap_reason reason, uint64_t lost)
{
	struct trace_gap g = { .ts_ns = t->last_ns,
			       .until_ns = until,
			       .lost = lost,
			       .thread = t->id,
			       .reason = (uint8_t)reason };

	t->depth = 0;
	return capw__gap(a->w, &g);
}

static int release_held(struct assembler *a, struct asm_thread *t)
{
	static const enum trace_kind kinds[] = { TRACE_CALL, TRACE_RESUME, TRACE_THROW,
						 TRACE_CALL };
	const struct pye_entry_rec *rec = &t->entry;

	t->held = false;
	return enter(a, t, rec->head.ts_ns, rec->head.frame, kinds[rec->head.sub & 3], rec->code);
}

/* A walk whose whole stack is shown: from its root up. */
static int apply_whole(struct assembler *a, struct asm_thread *t, uint64_t ts)
{
	int err = 0;

	for (uint32_t i = t->walk.cnt; !err && i-- > 0;)
		err = enter(a, t, ts, t->walk.frames[i].frame, TRACE_OPEN, t->walk.frames[i].code);
	return err;
}

/* Frames between the known top and the event: something was thrown into them. */
static int apply_thrown(struct assembler *a, struct asm_thread *t, uint64_t ts)
{
	int err = 0;

	if (!t->depth || t->stack[t->depth - 1] != t->walk.anchor) {
		a->odd.mismatched++;
		err = gap(a, t, ts, GAP_SWITCH, 0);
	}
	a->inferred += t->walk.cnt;
	for (uint32_t i = t->walk.cnt; !err && i-- > 0;)
		err = enter(a, t, ts, t->walk.frames[i].frame, TRACE_THROW, t->walk.frames[i].code);
	return err;
}

/* Was what we saw of an idle thread from outside what it found when it ran again? */
static bool same_stack(const struct asm_thread *t)
{
	if (!t->depth || t->walk.cnt != t->depth)
		return false;
	for (uint32_t i = 0; i < t->depth; i++)
		if (t->stack[i] != t->walk.frames[t->depth - 1 - i].frame)
			return false;
	return true;
}

/*
 * What must be done before an event: events missing in front of it are a gap, frames that a walk
 * found are shown.
 */
static int prepare(struct assembler *a, struct asm_thread *t, const struct pye_head *head)
{
	uint32_t missing = head->seq - t->next_seq;
	int err = 0;

	if (t->held)
		err = release_held(a, t);
	if (!err && missing) {
		a->holes += missing;
		err = gap(a, t, head->ts_ns, GAP_LOSS, missing);
	}
	t->next_seq = head->seq + 1;
	if (!err && t->walk.pending) {
		t->walk.pending = false;
		if (t->walk.flags & PYE_WALK_ANCHORED)
			return apply_thrown(a, t, head->ts_ns);
		if (!missing && t->fresh && same_stack(t)) {
			t->fresh = false;
			return 0;
		}
		if (t->fresh && !t->depth && t->process->late) {
			t->last_ns = t->process->trace.start_ns;
			err = gap(a, t, head->ts_ns, GAP_ATTACH, 0);
		} else if (!missing && (!t->fresh || t->depth))
			err = gap(a, t, head->ts_ns,
				  t->fresh			      ? GAP_ATTACH
				  : t->walk.reason == PYE_WALK_SWITCH ? GAP_SWITCH
								      : GAP_LOSS,
				  0);
		if (!err)
			err = apply_whole(a, t, head->ts_ns);
	}
	t->fresh = false;
	return err;
}

int assembler__idle(struct assembler *a, const struct assembler_idle *idle)
{
	struct asm_process *p = asm_process_get(a, idle->pix, 0);
	struct asm_thread *t;
	int err;

	for (t = a->threads; t; t = t->hh.next)
		if (t->process->pix == idle->pix && t->trace.tid == idle->tid)
			return 0;
	t = p ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return -ENOMEM;
	t->tix = t->id = idle->id;
	t->process = p;
	t->fresh = t->idle = true;
	t->last_ns = idle->ts_ns;
	snprintf(t->name, sizeof(t->name), "%s", idle->comm);
	t->trace = (struct trace_thread){ .id = t->id,
					  .process = p->pix,
					  .tid = idle->tid,
					  .is_main = idle->tid == p->pid,
					  .start_ns = idle->ts_ns,
					  .name = t->name };
	HASH_ADD(hh, a->threads, tix, sizeof(t->tix), t);
	a->idle_cnt++;
	err = capw__thread(a->w, &t->trace);
	for (uint32_t i = 0; !err && i < idle->frame_cnt; i++)
		err = enter(a, t, idle->ts_ns, idle->frames[i].frame, TRACE_OPEN,
			    idle->frames[i].code);
	return err;
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
	if (rec->head.seq != t->next_seq || t->walk.pending || t->held)
		err = prepare(a, t, &rec->head);
	else
		t->next_seq++;
	t->fresh = false;
	t->last_ns = rec->head.ts_ns;
	if (!err && t->process->frames_refused) {
		t->entry = *rec;
		t->held = true;
		return 0;
	}
	if (err)
		return err;
	return enter(a, t, rec->head.ts_ns, rec->head.frame, kinds[rec->head.sub & 3], rec->code);
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
	if (rec->head.sub == PYE_EXIT_REFUSED && t->held && rec->head.seq == t->next_seq &&
	    t->entry.head.frame == rec->head.frame) {
		t->held = false;
		t->next_seq++;
		a->refused += 2;
		return 0;
	}
	if (rec->head.seq != t->next_seq || t->walk.pending || t->held)
		err = prepare(a, t, &rec->head);
	else
		t->next_seq++;
	t->last_ns = rec->head.ts_ns;
	if (err)
		return err;
	if (!t->depth || t->stack[t->depth - 1] != rec->head.frame) {
		a->odd.mismatched++;
		a->unusable++;
		return t->depth ? gap(a, t, rec->head.ts_ns, GAP_SWITCH, 1) : 0;
	}
	t->depth--;
	return capw__leave(a->w, t->id, rec->head.ts_ns, kinds[rec->head.sub & 3]);
}

static int on_walk(struct assembler *a, const struct pye_walk_rec *rec)
{
	struct asm_thread *t = thread_find(a, rec->head.tix);
	struct asm_walk *w;

	if (!t || rec->cnt > PYE_WALK_FRAMES) {
		a->odd.malformed++;
		return 0;
	}
	w = &t->walk;
	if (rec->head.sub & PYE_WALK_FIRST)
		w->cnt = 0;
	if (w->cnt + rec->cnt > w->size) {
		uint32_t size = w->size ? w->size * 2 : 64;
		struct pye_walk_frame *more;

		if (size > 2 * WALK_MAX)
			return 0;
		more = realloc(w->frames, size * sizeof(*more));
		if (!more)
			return -ENOMEM;
		w->frames = more;
		w->size = size;
	}
	memcpy(w->frames + w->cnt, rec->frames, rec->cnt * sizeof(rec->frames[0]));
	w->cnt += rec->cnt;
	w->flags = rec->head.sub;
	w->reason = rec->reason;
	w->anchor = rec->head.frame;
	w->pending = rec->head.sub & (PYE_WALK_ROOT | PYE_WALK_ANCHORED);
	return 0;
}

/* The thread has no more records: what is missing up to its final number was lost. */
static int thread_end(struct assembler *a, struct asm_thread *t, uint32_t seq, uint64_t ts)
{
	uint32_t missing = seq - t->next_seq;
	int err = 0;

	if (t->held)
		err = release_held(a, t);
	if (missing) {
		a->holes += missing;
		if (!err)
			err = gap(a, t, ts, GAP_LOSS, missing);
	}
	a->numbered += seq - t->numbered;
	t->numbered = seq;
	t->next_seq = seq;
	return err;
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
	t->trace.end_ns = rec->head.ts_ns;
	memcpy(t->name, rec->comm, PYE_COMM);
	if (!err)
		err = capw__thread(a->w, &t->trace);
	capw__retire_thread(a->w, t->id);
	thread_free(a, t);
	return err;
}

void assembler__final(struct assembler *a, uint32_t tix, uint32_t seq)
{
	struct asm_thread *t = thread_find(a, tix);

	if (t) {
		thread_end(a, t, seq, t->last_ns);
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
	if (t->held && !err)
		err = release_held(a, t);
	return err;
}

/*
 * A code object is gone, but events of other threads that used it can still lie in their rings. Each
 * ring is read in turns, so after as many batches as all rings can hold nothing is left of them.
 */
#define RETIRE_BATCHES 4096

static void retire_due(struct assembler *a)
{
	while (a->retired_cnt && a->batches - a->retired[a->retired_at].batch > RETIRE_BATCHES) {
		capw__retire_func(a->w, a->retired[a->retired_at].code);
		a->retired_at = (a->retired_at + 1) % ASM_RETIRED_MAX;
		a->retired_cnt--;
	}
}

void asm_retire(struct assembler *a, uint32_t code)
{
	struct asm_retired *r;

	/* full: it stays known to the end of the trace, which costs memory only */
	if (a->retired_cnt == ASM_RETIRED_MAX)
		return;
	r = &a->retired[(a->retired_at + a->retired_cnt++) % ASM_RETIRED_MAX];
	r->code = code;
	r->batch = a->batches;
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
		return sizeof(struct pye_thread_end_rec);
	case PYE_REC_RETIRE:
		return sizeof(struct pye_retire_rec);
	default:
		return SIZE_MAX;
	}
}

static int dispatch(struct assembler *a, const void *rec, uint32_t len)
{
	const struct pye_head *head = rec;
	unsigned int kind = len >= sizeof(*head) ? head->kind : 0;

	if (len < least_size(kind)) {
		a->odd.malformed++;
		return 0;
	}
	switch (kind) {
	case PYE_REC_ENTRY:
		return on_entry(a, rec);
	case PYE_REC_EXIT:
		return on_exit_rec(a, rec);
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
	case PYE_REC_WALK:
		return on_walk(a, rec);
	case PYE_REC_THREAD:
		return on_thread(a, rec);
	case PYE_REC_THREAD_END:
		return on_thread_end(a, rec);
	case PYE_REC_RETIRE:
		asm_retire(a, ((const struct pye_retire_rec *)rec)->code);
		return 0;
	default:
		return 0;
	}
}

int assembler__feed(struct assembler *a, const struct capture_batch *batch)
{
	int err = 0, first = 0;
	const void *rec;
	size_t at = 0;
	uint32_t len;

	a->batches++;
	retire_due(a);
	while ((rec = capture_record(batch, &at, &len))) {
		err = dispatch(a, rec, len);
		if (err && !first)
			first = err;
	}
	return first;
}

void assembler__totals(const struct assembler *a, const uint64_t kernel[LOSS_CNT],
		       struct trace_totals *out)
{
	uint64_t numbered = a->numbered;
	struct trace_totals t = { 0 };
	const struct asm_thread *thread;

	for (thread = a->threads; thread; thread = thread->hh.next)
		numbered += thread->next_seq - thread->numbered - thread->held;
	t.written = capw__written(a->w);
	if (kernel)
		memcpy(t.lost, kernel, sizeof(t.lost));
	/* what was numbered and is not here was lost on the way, whatever the kernel counted */
	if (t.lost[LOSS_READ] > a->holes)
		t.lost[LOSS_READ] = a->holes;
	t.lost[LOSS_RING] = a->holes - t.lost[LOSS_READ];
	t.lost[LOSS_USER] = a->unusable + capw__lost(a->w);
	/* counted on its own, by the numbers that the kernel gave: written + lost must be the same */
	t.generated = numbered + a->inferred - a->refused + t.lost[LOSS_MAP] + t.lost[LOSS_KERNEL];
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
