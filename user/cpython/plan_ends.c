// SPDX-License-Identifier: Apache-2.0
/*
 * From 3.12 on, where a compiler has put copies of the function that clears frames where it is called: in the
 * return handlers, and where a frame ends by an exception. Each copy makes the caller the thread's current
 * frame (it reads frame->previous, and writes that into the thread state), then asks whose the frame is
 * (frame->owner == 0). At that comparison the frame is in its register. The write may come behind it, before
 * the jump: a store leaves the flags alone.
 */
#include "cpython/planner.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cpython/layouts.h"

#define TESTS_MAX   256
#define ENDS_MAX    40
#define DECODE_MAX  ((uint64_t)256 << 10) /* bytes from a known start to a comparison */
#define LAST_CFRAME 12 /* 3.<this> */
#define FIELD_MAX   127 /* of a displacement of one byte */
#define JUMP_MAX    32 /* bytes from a comparison to its jump */

/* Of one comparison: has the frame's caller been read, and then written to somewhere else? */
struct trail {
	struct flow f;
	bool has_read, has_written;
	struct flow_value frame, caller, to;
	uint64_t load; /* where it was read */
};

static void trail_begin(struct trail *t)
{
	flow__init(&t->f);
	t->has_read = t->has_written = false;
}

/* The thread state has a field for the current frame, from 3.13 on; 3.12 keeps it in a variable that may lie anywhere. */
static bool is_to_current(const struct planner *p, const struct insn *insn)
{
	const struct layout *l = layout_find(p->plan->minor, p->plan->free_threaded);

	return p->plan->minor <= LAST_CFRAME ||
	       (l && insn->disp == l->py.ts_frame && insn->dst != PREG_RSP);
}

static void trail_step(const struct planner *p, struct trail *t, const struct insn *insn)
{
	uint16_t previous = p->table.version->previous;
	bool loads = insn->op == INSN_LOAD && insn->disp == previous && insn->src != PREG_RSP;
	struct flow_value base = t->f.regs[loads ? insn->src : 0];

	if (insn->op == INSN_STORE && insn->mem_size == 8 && insn->src < MACHINE_REG_CNT &&
	    t->has_read && flow__is_same(t->f.regs[insn->src], t->caller) &&
	    is_to_current(p, insn)) {
		t->has_written = true;
		t->to = t->f.regs[insn->dst];
	}
	flow__step(&t->f, insn);
	if (!loads)
		return;
	t->has_read = true;
	t->has_written = false;
	t->load = insn->addr;
	t->frame = base;
	t->caller = t->f.regs[insn->dst];
}

static uint8_t reg_of(const struct flow *f, struct flow_value value)
{
	struct flow_place place;

	if (!flow__find(f, value, PREG_NONE, &place) || place.source != PROBE_IN_REG || place.disp)
		return PREG_NONE;
	return place.reg;
}

/* From a comparison to its jump: is the caller written there, and no other one read? */
static bool is_written_behind(const struct planner *p, struct trail *t, const struct insn *compare)
{
	uint64_t load = t->load;
	struct insn insn = *compare;

	while (insn.flow == FLOW_NEXT) {
		trail_step(p, t, &insn);
		if (insn.addr + insn.size - compare->addr > JUMP_MAX ||
		    code__insn(&p->code, insn.addr + insn.size, &insn))
			return false;
	}
	return insn.flow == FLOW_COND && t->has_written && t->load == load;
}

static bool is_end_at(const struct planner *p, struct trail *t, const struct insn *compare,
		      struct frame_end *out)
{
	const struct flow there = t->f;

	*out = (struct frame_end){ .at = compare->addr,
				   .load = t->load,
				   .frame_reg = compare->src };
	if (!t->has_read || !flow__is_same(there.regs[compare->src], t->frame))
		return false;
	if (!t->has_written && !is_written_behind(p, t, compare))
		return false;
	out->tstate_reg = reg_of(&there, t->to);
	return true;
}

/* Is the comparison that begins at @test, or with a prefix before it, such a one? 1; 0; -ENOENT: that cannot be decoded. */
static int is_end(const struct planner *p, uint64_t test, struct frame_end *out)
{
	uint64_t start = code__start_below(&p->code, test);
	struct trail t;
	struct insn insn;

	if (!start || test - start > DECODE_MAX)
		return -ENOENT;
	trail_begin(&t);
	for (uint64_t at = start; at <= test; at += insn.size) {
		if (code__insn(&p->code, at, &insn))
			return -ENOENT;
		if (insn.op == INSN_TEST_BYTE && at + insn.size > test)
			return is_end_at(p, &t, &insn, out);
		if (insn.flow == FLOW_NEXT || insn.flow == FLOW_CALL)
			trail_step(p, &t, &insn);
		else
			trail_begin(&t);
	}
	return 0;
}

int plan_frame_ends(const struct planner *p, struct frame_end **out, size_t *cnt)
{
	const struct layout *l = layout_find(p->plan->minor, p->plan->free_threaded);
	auto_free struct frame_end *ends = calloc(ENDS_MAX, sizeof(*ends));
	auto_free uint64_t *tests = calloc(TESTS_MAX, sizeof(*tests));
	size_t found = 0, test_cnt = 0;
	int err;

	if (!ends || !tests)
		return -ENOMEM;
	if (!l || l->py.f_owner > FIELD_MAX)
		return err_set(p->e, -PYE_EPLAN, "3.%u: where a frame has its owner is not known",
			       p->plan->minor);
	err = disasm__byte_tests(p->code.disasm, (uint8_t)l->py.f_owner, tests, TESTS_MAX,
				 &test_cnt);
	for (size_t i = 0; !err && i < test_cnt; i++) {
		struct frame_end end;
		int is = is_end(p, tests[i], &end);

		if (is < 0)
			return err_set(
				p->e, -PYE_EPLAN,
				"3.%u: at 0x%lx a frame may end, in code that cannot be read",
				p->plan->minor, tests[i]);
		if (!is)
			continue;
		if (found == ENDS_MAX) {
			err = -E2BIG;
			break;
		}
		end.unwinding = true;
		ends[found++] = end;
	}
	if (err == -E2BIG)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: more copies of %s than the %u that a plan can hold, or more "
			       "that look like some",
			       p->plan->minor, p->table.version->clear_symbol, ENDS_MAX);
	if (err)
		return err;
	*cnt = found;
	*out = take_ptr(ends);
	return 0;
}
