// SPDX-License-Identifier: Apache-2.0
/*
 * Events of a thread that come in a row. As long as they are numbered without a hole, nothing waits before them and nobody chooses
 * among them, they only go onto the thread's stack and into the capture; any other one is taken as its record would be.
 */
#include "assemble/assemble_priv.h"
#include "capture/step_record.h"

#define PIECE 32u /* so many at a time: what the capture does not take is taken back */

static int one(struct assembler *a, uint32_t tix, uint32_t seq, const struct trace_step *s)
{
	struct pye_entry_rec rec;
	uint32_t bytes = step_record(s, tix, seq, 0, &rec);

	return asm_dispatch(a, &rec, bytes);
}

static bool is_plain(const struct assembler *a, const struct asm_thread *t, uint32_t tix,
		     uint32_t seq)
{
	return t && t->tix == tix && seq == (uint32_t)t->next_seq && !t->walk.pending &&
	       !a->filter && !a->watch && !t->process->frames_refused;
}

/* Onto the stack of open frames, as far as it has room and knows who leaves: that one is put where it lies already. How many. */
static uint32_t apply(struct asm_thread *t, const struct trace_step *steps, uint32_t cnt)
{
	uint32_t i, depth = t->depth;

	for (i = 0; i < cnt; i++) {
		bool leaves = trace_is_leave(steps[i].kind);
		uint32_t at = depth - leaves;

		if (at >= t->size || (leaves & (t->stack[at] != steps[i].frame)) ||
		    steps[i].func & ~PYE_CODE_ID)
			break;
		t->stack[at] = steps[i].frame;
		depth = leaves ? at : at + 1;
	}
	t->depth = depth;
	return i;
}

/* From the last one on: those that the capture did not take. */
static void undo(struct asm_thread *t, const struct trace_step *steps, uint32_t cnt)
{
	while (cnt--)
		if (trace_is_leave(steps[cnt].kind))
			t->stack[t->depth++] = steps[cnt].frame;
		else
			t->depth--;
}

/* How many of the first ones are in the capture. */
static uint32_t many(struct assembler *a, struct asm_thread *t, const struct trace_step *steps,
		     uint32_t cnt)
{
	uint32_t applied = apply(t, steps, cnt);
	uint32_t written = applied ? capw__steps(a->w, t->id, steps, applied) : 0;

	undo(t, steps + written, applied - written);
	if (!written)
		return 0;
	t->next_seq += written;
	t->last_ns = steps[written - 1].ts_ns;
	t->fresh = false;
	return written;
}

/* As many again as went well, twice: where the capture takes none, as of a thread that is hidden, nothing need be taken back. */
static uint32_t next_piece(uint32_t done, bool all)
{
	if (done < 2)
		return 1 + all;
	return 2 * done < PIECE ? 2 * done : PIECE;
}

int assembler__steps(void *ctx, uint32_t tix, uint32_t seq, const struct trace_step *steps,
		     uint32_t cnt)
{
	struct assembler *a = ctx;
	uint32_t piece = PIECE;
	int err = 0;

	for (uint32_t i = 0; i < cnt;) {
		uint32_t left = cnt - i < piece ? cnt - i : piece, done = 0;

		if (is_plain(a, a->last, tix, seq + i))
			done = many(a, a->last, steps + i, left);
		i += done;
		piece = next_piece(done, done == left);
		if (done == left)
			continue;
		err = asm_first(err, one(a, tix, seq + i, &steps[i]));
		i++;
	}
	return err;
}
