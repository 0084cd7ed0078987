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
		if (!d->size)
			d->sets_flags = insn.compares;
		memcpy(d->code + d->size, insn.bytes, insn.size);
	}
	return 0;
}

static int refuse(struct planner *p, uint64_t at)
{
	return err_set(p->e, -PYE_EPLAN,
		       "3.%u: the instructions at 0x%lx cannot be replaced by a jump",
		       p->plan->minor, at);
}

static bool is_in(const struct disasm_range *r, uint64_t addr)
{
	return addr >= r->start && addr < r->end;
}

/* Does anything go to the middle of it? @in: what goes to that of any. */
static bool is_entered(const struct planner *p, const struct disasm_range *middle,
		       const struct disasm_branch *in, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (is_in(middle, in[i].target))
			return true;
	for (size_t i = 0; i < OPTABLE_CNT; i++)
		if (is_in(middle, p->table.targets[i]))
			return true;
	return false;
}

int plan_detours_check(struct planner *p, const struct inline_plan *out, uint32_t first)
{
	auto_free struct disasm_branch *in = NULL;
	struct disasm_range middles[INLINE_DETOURS_MAX] = { { 0, 0 } };
	size_t cnt, n = 0;
	int err;

	for (uint32_t i = first; i < out->detour_cnt; i++)
		middles[n++] = (struct disasm_range){ out->detours[i].at + 1,
						      out->detours[i].at + out->detours[i].size };
	err = code__branches(&p->code, middles, n, &in, &cnt);
	for (size_t i = 0; !err && i < n; i++)
		if (is_entered(p, &middles[i], in, cnt))
			err = refuse(p, middles[i].start - 1);
	return err;
}

int plan_detour_draft(struct planner *p, struct inline_plan *out, uint64_t at, uint64_t quiet,
		      enum inline_kind kind, const struct flow_place *frame)
{
	struct inline_detour d = {
		.at = at, .kind = (uint8_t)kind, .frame_reg = frame->reg, .frame_disp = frame->disp
	};

	if (out->detour_cnt == INLINE_DETOURS_MAX)
		return err_set(p->e, -PYE_EPLAN, "3.%u: more detours than a plan can hold",
			       p->plan->minor);
	/* written in two pieces, half of it could stay when pyebpf is killed between them */
	if (at % PAGE_BYTES > PAGE_BYTES - JUMP_SIZE || !code__is_start(&p->code, at) ||
	    frame->source != PROBE_IN_REG || collect(p, &d))
		return refuse(p, at);
	d.quiet = quiet > at + d.size ? quiet : at + d.size;
	out->detours[out->detour_cnt++] = d;
	return 0;
}

int plan_detour(struct planner *p, struct inline_plan *out, uint64_t at, uint64_t quiet,
		enum inline_kind kind, const struct flow_place *frame)
{
	int err = plan_detour_draft(p, out, at, quiet, kind, frame);

	if (err)
		return err;
	err = plan_detours_check(p, out, out->detour_cnt - 1);
	if (err)
		out->detour_cnt--;
	return err;
}
