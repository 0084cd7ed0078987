// SPDX-License-Identifier: Apache-2.0
/*
 * 3.11, the exit by exception: `exit_unwind` gives back one level of recursion and then asks whether the
 * frame was entered from C (frame->is_entry). RETURN_VALUE and RETURN_GENERATOR do the same; debug
 * builds assert on the same byte elsewhere, without the recursion counter. What is left must be one
 * place; the probe is the branch after the comparison, at which the comparison's register still is the
 * frame.
 */
#include "cpython/planner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "elf/elf_file.h"

#define FUNCTION_MAX   8
#define NEAR_HANDLER   1024 /* bytes of a handler in which its own comparison may lie */
#define NEARER_HANDLER 512 /* where most do */
#define COUNTER_BEFORE 64 /* bytes before the comparison in which the counter is changed */

struct unwind {
	struct disasm_range functions[FUNCTION_MAX];
	size_t function_cnt;
	uint64_t near; /* how far from a handler's start its own comparison may be */
	uint64_t counter; /* where the recursion counter was last stored */
	struct probe_site site;
	struct unwind_place place;
	size_t found;
};

/* The functions that handlers lie in: the interpreter loop and what was moved away from it. */
static int find_functions(struct planner *p, struct unwind *u)
{
	struct elf_symbol symbol;

	for (size_t i = 0; i < OPTABLE_CNT; i++) {
		struct disasm_range r;
		size_t k = 0;

		if (code__function(&p->code, p->table.targets[i], &r.start, &r.end))
			break;
		while (k < u->function_cnt && u->functions[k].start != r.start)
			k++;
		if (k < u->function_cnt)
			continue;
		if (k == FUNCTION_MAX)
			return -ENOENT;
		u->functions[u->function_cnt++] = r;
	}
	if (u->function_cnt)
		return 0;
	if (elf_file__symbol(p->elf, "_PyEval_EvalFrameDefault", &symbol))
		return -ENOENT;
	u->functions[u->function_cnt++] =
		(struct disasm_range){ symbol.vaddr, symbol.vaddr + symbol.size };
	return 0;
}

/* Is the comparison the own one of a handler that leaves a frame? */
static bool is_handlers(const struct planner *p, uint64_t addr, uint64_t near)
{
	const struct opcode_handler *op = p->table.version->handlers;
	uint64_t nearest = 0;

	for (size_t i = 0; i < OPTABLE_CNT; i++)
		if (p->table.targets[i] <= addr && p->table.targets[i] > nearest)
			nearest = p->table.targets[i];
	for (; op->name; op++)
		if ((op->kind == PROBE_RETURN || !op->kind) &&
		    p->table.targets[op->number] == nearest && addr - nearest < near)
			return true;
	return false;
}

static bool is_counter(const struct planner *p, const struct insn *insn)
{
	return insn->op == INSN_STORE && insn->mem_size == 4 &&
	       insn->disp == p->table.version->recursion && insn->dst != PREG_RSP;
}

/* From the comparison to the branch behind it. */
static void look_at(struct planner *p, struct unwind *u, const struct insn *compare)
{
	bool counted = u->counter && compare->addr - u->counter < COUNTER_BEFORE;
	struct flow_value frame;
	struct flow_place place;
	struct insn insn;
	struct flow f;

	flow__init(&f);
	frame = f.regs[compare->src];
	for (uint64_t at = compare->addr; at - compare->addr < COUNTER_BEFORE; at += insn.size) {
		if (code__insn(&p->code, at, &insn))
			return;
		if (at != compare->addr && is_counter(p, &insn))
			counted = true;
		if (insn.flow != FLOW_NEXT)
			break;
		flow__step(&f, &insn);
	}
	if (!counted || insn.flow != FLOW_COND || is_handlers(p, compare->addr, u->near) ||
	    !flow__find(&f, frame, p->home.reg, &place))
		return;
	u->found++;
	u->place = (struct unwind_place){ .compare = compare->addr, .frame_reg = compare->src };
	u->site = (struct probe_site){ .vaddr = insn.addr,
				       .kind = PROBE_UNWIND,
				       .source = place.source,
				       .reg = place.reg,
				       .disp = place.disp,
				       .value_reg = PREG_NONE };
}

static void look_through(struct planner *p, struct unwind *u, const struct disasm_range *r)
{
	struct insn insn;

	u->counter = 0;
	for (uint64_t at = r->start; at < r->end; at += insn.size) {
		if (code__insn(&p->code, at, &insn)) {
			insn.size = 1;
			continue;
		}
		if (is_counter(p, &insn))
			u->counter = at;
		if (insn.op == INSN_TEST_BYTE && insn.disp == p->table.version->is_entry)
			look_at(p, u, &insn);
	}
}

static int find(struct planner *p, struct unwind *u)
{
	if (find_functions(p, u))
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the function around the handlers (unknown opcode at 0x%lx) "
			       "cannot be told: no unwind table and no symbol",
			       p->plan->minor, p->table.unknown);
	/* the exit may follow a handler closely, too */
	for (u->near = NEAR_HANDLER; !u->found && u->near >= NEARER_HANDLER; u->near /= 2)
		for (size_t i = 0; i < u->function_cnt; i++)
			look_through(p, u, &u->functions[i]);
	if (u->found != 1)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: %zu places instead of one look like the exit by exception "
			       "(frame->is_entry compared besides the return handlers)%s",
			       p->plan->minor, u->found,
			       u->found ? "" : ": frames that end so would be missed");
	return 0;
}

int plan_unwind_place(struct planner *p, struct unwind_place *out)
{
	struct unwind u = { .found = 0 };
	int err = find(p, &u);

	if (!err)
		*out = u.place;
	return err;
}

int plan_unwind(struct planner *p)
{
	struct unwind u = { .found = 0 };
	int err = find(p, &u);

	if (err)
		return err;
	snprintf(u.site.name, sizeof(u.site.name), "exit_unwind");
	return planner__add(p, &u.site);
}
