// SPDX-License-Identifier: Apache-2.0
/* Instructions that can give way to a jump. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cpython/inline_plan.h"
#include "cpython/planner.h"

#define JUMP_SIZE  5
#define PAGE_BYTES 4096

/* Whole instructions, enough for a jump. */
static int collect(struct planner *p, struct inline_detour *d)
{
	struct insn insn;

	for (d->size = 0; d->size < JUMP_SIZE; d->size += insn.size) {
		if (d->jump || code__insn(&p->code, d->at + d->size, &insn) ||
		    d->size + insn.size > INLINE_DETOUR_BYTES || insn.pointer)
			return -ENOENT;
		if (insn.flow == FLOW_COND && insn.target) {
			d->jump = insn.size;
			d->cond = insn.cond;
			d->target = insn.target;
		} else if (insn.flow != FLOW_NEXT) {
			return -ENOENT;
		}
		memcpy(d->code + d->size, insn.bytes, insn.size);
	}
	return 0;
}

/* Does anything go to the middle of it? */
static int check_inbound(struct planner *p, const struct inline_detour *d)
{
	const struct disasm_range middle = { d->at + 1, d->at + d->size };
	auto_free struct disasm_branch *branches = NULL;
	size_t cnt;
	int err = code__branches(&p->code, &middle, 1, &branches, &cnt);

	if (err)
		return err;
	for (size_t i = 0; i < OPTABLE_CNT; i++)
		if (p->table.targets[i] - middle.start < middle.end - middle.start)
			return -ENOENT;
	return cnt ? -ENOENT : 0;
}

int plan_detour(struct planner *p, struct inline_plan *out, uint64_t at, uint64_t quiet,
		enum inline_kind kind, const struct flow_place *frame)
{
	struct inline_detour d = {
		.at = at, .kind = (uint8_t)kind, .frame_reg = frame->reg, .frame_disp = frame->disp
	};
	int err = -ENOENT;

	if (out->detour_cnt == INLINE_DETOURS_MAX)
		return err_set(p->e, -PYE_EPLAN, "3.%u: more detours than a plan can hold",
			       p->plan->minor);
	/* written in two pieces, half of it could stay when pyebpf is killed between them */
	if (at % PAGE_BYTES <= PAGE_BYTES - JUMP_SIZE && code__is_start(&p->code, at) &&
	    frame->source == PROBE_IN_REG)
		err = collect(p, &d);
	if (!err)
		err = check_inbound(p, &d);
	if (err == -ENOENT)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the instructions at 0x%lx cannot be replaced by a jump",
			       p->plan->minor, at);
	d.quiet = quiet > at + d.size ? quiet : at + d.size;
	if (!err)
		out->detours[out->detour_cnt++] = d;
	return err;
}
