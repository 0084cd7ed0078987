// SPDX-License-Identifier: Apache-2.0
/*
 * --min-duration: short calls are left out. A frame that is entered waits, with all that is above it,
 * until it has lasted long enough: then it is written, with the time of its entry. One that is left
 * before is folded into its caller; so was all that it called. Those that wait are the top of the stack:
 * the capture has the others.
 */
#include <errno.h>
#include <stdlib.h>

#include "assemble/assemble_priv.h"
#include "assemble/chosen.h"

int asm_fold_settle(struct assembler *a, struct asm_thread *t, uint64_t ts)
{
	struct asm_fold *f = &t->fold;
	int err = 0;

	/* the outermost is the oldest */
	while (f->cnt && ts >= f->v[f->first].ts + a->fold_ns) {
		struct asm_waiting w = f->v[f->first++];

		f->cnt--;
		err = asm_first(err, asm_write_enter(a, t, w.ts, (enum trace_kind)w.kind, w.code));
	}
	if (!f->cnt)
		f->first = 0;
	return err;
}

int asm_fold_flush(struct assembler *a, struct asm_thread *t)
{
	return t->fold.cnt ? asm_fold_settle(a, t, UINT64_MAX) : 0;
}

static int grow(struct asm_fold *f)
{
	uint32_t size = f->size ? f->size * 2 : 32;
	struct asm_waiting *more = reallocarray(f->v, size, sizeof(*more));

	if (!more)
		return -ENOMEM;
	f->v = more;
	f->size = size;
	return 0;
}

int asm_fold_enter(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind,
		   uint32_t code)
{
	struct asm_fold *f = &t->fold;

	/* how long one has been open that was found so is not known */
	if (kind == TRACE_OPEN || (f->first + f->cnt == f->size && grow(f))) {
		uint64_t frame = t->stack[--t->depth]; /* as long as it is in neither */
		int err = asm_fold_flush(a, t);

		t->stack[t->depth++] = frame;
		return asm_first(err, asm_write_enter(a, t, ts, kind, code));
	}
	f->v[f->first + f->cnt++] =
		(struct asm_waiting){ .ts = ts, .code = code, .kind = (uint8_t)kind };
	return 0;
}

bool asm_fold_leave(struct assembler *a, struct asm_thread *t, uint64_t ts, int *err)
{
	struct asm_fold *f = &t->fold;
	struct asm_waiting *w;
	uint64_t took;

	*err = asm_fold_settle(a, t, ts);
	if (!f->cnt)
		return false;
	w = &f->v[f->first + --f->cnt];
	took = ts > w->ts ? ts - w->ts : 0;
	a->folded.calls++;
	a->folded.ns += took > w->inner_ns ? took - w->inner_ns : 0;
	if (f->cnt)
		f->v[f->first + f->cnt - 1].inner_ns += took;
	else
		f->first = 0;
	return true;
}
