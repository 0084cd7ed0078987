// SPDX-License-Identifier: Apache-2.0
/*
 * The open frames of a thread, here and in the capture, which stay the same in number: what the capture
 * refuses does not stay open here either.
 */
#include <errno.h>
#include <stdlib.h>

#include "assemble/assemble_priv.h"
#include "assemble/chosen.h"
#include "base/likely.h"
#include "base/pages.h"

#define DEPTH_MAX (1u << 20)
#define WALK_KEPT 256u /* frames that a thread may keep room for */

static int grow(struct asm_thread *t)
{
	uint32_t size = t->size ? t->size * 2 : 64;
	uint64_t *more;

	if (size > DEPTH_MAX)
		return -E2BIG;
	more = pages_resize(t->stack, t->size * sizeof(*more), size * sizeof(*more));
	if (!more)
		return -ENOMEM;
	t->stack = more;
	t->size = size;
	return 0;
}

void asm_walk_trim(struct asm_thread *t)
{
	if (t->walk.size <= WALK_KEPT || t->walk.pending)
		return;
	free(t->walk.frames);
	t->walk.frames = NULL;
	t->walk.size = t->walk.cnt = 0;
}

/* A code object whose definition did not arrive or found no room keeps its place in the stack. */
static int enter_unreadable(struct assembler *a, struct asm_thread *t, uint64_t ts,
			    enum trace_kind kind)
{
	int err = capw__enter(a->w, t->id, ts, kind, ASM_UNREADABLE);

	a->odd.unnamed += capw__depth(a->w, t->id) + t->fold.cnt == t->depth;
	return err;
}

/* The capture has failed: the event may be in it all the same (the chunk before was not written). */
static int refused(struct assembler *a, struct asm_thread *t, uint64_t ts, bool counts, int err)
{
	if (err != -EINVAL && capw__depth(a->w, t->id) + t->fold.cnt == t->depth)
		return err;
	if (t->watch_top)
		asm_watch_gap(a, t, GAP_LOSS);
	a->odd.mismatched++;
	a->unusable += counts + t->fold.cnt;
	t->fold.cnt = t->fold.first = 0;
	t->depth = capw__depth(a->w, t->id);
	if (t->depth)
		asm_gap(a, t, ts, GAP_LOSS, counts);
	return err == -EINVAL || err == -E2BIG ? 0 : err;
}

int asm_write_enter(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind,
		    uint32_t code)
{
	int err = capw__enter(a->w, t->id, ts, kind, code);

	if (unlikely(err == -EINVAL))
		err = enter_unreadable(a, t, ts, kind);
	return unlikely(err) ? refused(a, t, ts, kind != TRACE_OPEN, err) : 0;
}

int asm_enter(struct assembler *a, struct asm_thread *t, uint64_t ts, uint64_t frame,
	      enum trace_kind kind, uint32_t code)
{
	uint32_t depth;
	int err = 0;

	code &= PYE_CODE_ID;
	if (unlikely(a->filter) && asm_filter_enter(a, t, frame, kind, code))
		return 0;
	if (unlikely(t->depth == t->size)) {
		err = grow(t);
		if (err) {
			t->depth++; /* other than the capture's, as if that had refused it */
			return refused(a, t, ts, kind != TRACE_OPEN, err);
		}
	}
	if (unlikely(t->fold.cnt))
		err = asm_fold_settle(a, t, ts);
	t->stack[t->depth++] = frame;
	depth = t->depth;
	err = asm_first(err, unlikely(a->fold_ns) ? asm_fold_enter(a, t, ts, kind, code)
						  : asm_write_enter(a, t, ts, kind, code));
	if (unlikely(a->watch) && !err && t->depth == depth)
		asm_watch_enter(a, t, ts, kind, code);
	return err;
}

int asm_leave(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind)
{
	int err = 0;

	if (unlikely(t->watch_top == t->depth))
		asm_watch_leave(a, t, ts, kind);
	if (unlikely(t->fold.cnt) && asm_fold_leave(a, t, ts, &err)) {
		t->depth--;
		return err;
	}
	if (unlikely(!t->depth)) {
		a->unusable++; /* what was below it could not be kept, and so it was not */
		return err;
	}
	t->depth--;
	err = asm_first(err, capw__leave(a->w, t->id, ts, kind));
	return unlikely(err) ? refused(a, t, ts, true, err) : 0;
}

int asm_gap(struct assembler *a, struct asm_thread *t, uint64_t until, enum trace_gap_reason reason,
	    uint64_t lost)
{
	struct trace_gap g = { .ts_ns = t->last_ns,
			       .until_ns = until,
			       .lost = lost,
			       .thread = t->id,
			       .reason = (uint8_t)reason };
	int err;

	asm_fold_flush(a, t);
	if (t->watch_top)
		asm_watch_gap(a, t, reason);
	t->hidden.cnt = 0;
	err = capw__gap(a->w, &g);
	/* as the capture has it: without memory the gap may not be there */
	t->depth = err ? capw__depth(a->w, t->id) : 0;
	return err == -EINVAL ? 0 : err;
}
