// SPDX-License-Identifier: Apache-2.0
/*
 * From 3.12 on one function, called with the thread state and the frame, clears every frame that ends,
 * by return or by exception. It is exported from 3.13 on; where it has no symbol it is the first
 * function that the return handler calls and that asks for the frame's owner. A compiler may have put copies
 * of it where frames end (plan_ends.c), which get probes of their own. Every return handler must be seen to
 * come to a call of it or to a copy, and something besides them too (the unwinding).
 */
#include "cpython/planner.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/layouts.h"
#include "elf/elf_file.h"

#define END_BLOCK  32 /* bytes from the comparison on */

#define TSTATE_ARG 0
#define FRAME_ARG  1
#define ARGS_USED  3 /* mask: thread state, frame */

static uint16_t owner_field(const struct planner *p)
{
	const struct layout *l = layout_find(p->plan->minor, p->plan->free_threaded);

	return l ? l->py.f_owner : PYE_NO_FIELD;
}

static const struct opcode_handler *next_return(const struct planner *p,
						const struct opcode_handler *op)
{
	op = op ? op + 1 : p->table.version->handlers;
	while (op->name && op->kind != PROBE_RETURN)
		op++;
	return op->name ? op : NULL;
}

/* Does a function begin with the question whose the frame is that is its second argument? What it calls itself does not. */
static bool asks_for_owner(const struct planner *p, uint64_t function)
{
	struct flow_value frame;
	struct insn insn;
	struct flow f;

	flow__init(&f);
	frame = f.regs[machine_args[FRAME_ARG]];
	for (uint64_t at = function; at - function < PLANNER_BLOCK_MAX; at += insn.size) {
		if (code__insn(&p->code, at, &insn))
			return false;
		if (insn.op == INSN_TEST_BYTE && insn.disp == owner_field(p) &&
		    flow__is_same(f.regs[insn.src], frame))
			return true;
		if (insn.flow != FLOW_NEXT && insn.flow != FLOW_CALL)
			return false;
		flow__step(&f, &insn);
	}
	return false;
}

/* 0: it is nowhere but in copies. */
static uint64_t find_function(const struct planner *p)
{
	const struct opcode_handler *op = next_return(p, NULL);
	struct elf_symbol symbol;
	struct plan_walk w;
	struct insn insn;

	if (!elf_file__symbol(p->elf, p->table.version->clear_symbol, &symbol))
		return symbol.vaddr;
	if (!op)
		return 0;
	w = plan_walk_from(p->table.targets[op->number]);
	while (plan_walk(p, &w, &insn)) {
		uint64_t target;

		if (insn.flow != FLOW_CALL || !insn.target)
			continue;
		target = code__resolve(&p->code, insn.target);
		if (asks_for_owner(p, target))
			return target;
	}
	return 0;
}

/* What comes first on the ways of a return handler: a call of the function, or a copy, which then is one of returns. */
static bool find_ending(const struct planner *p, uint64_t handler, struct endings *e)
{
	struct plan_walk w = plan_walk_from(handler);
	struct insn insn;

	while (plan_walk(p, &w, &insn)) {
		for (size_t i = 0; i < e->end_cnt; i++)
			if (e->ends[i].at == insn.addr) {
				e->ends[i].unwinding = false;
				return true;
			}
		if (e->function && insn.flow == FLOW_CALL && insn.target &&
		    code__resolve(&p->code, insn.target) == e->function) {
			e->called = insn.target;
			return true;
		}
	}
	return false;
}

static int refuse_return(struct planner *p, const struct endings *e, const char *what,
			 const char *name, uint64_t at)
{
	return err_set(p->e, -PYE_EPLAN,
		       "3.%u: %s%s (0x%lx) is not seen to call %s (0x%lx), or to hold "
		       "a copy of it: returns would be missed",
		       p->plan->minor, what, name, at, p->table.version->clear_symbol, e->function);
}

int plan_endings(struct planner *p, struct endings *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	out->function = out->called = find_function(p);
	err = plan_frame_ends(p, &out->ends, &out->end_cnt);
	if (err)
		return err;
	for (const struct opcode_handler *op = next_return(p, NULL); op; op = next_return(p, op))
		if (!find_ending(p, p->table.targets[op->number], out))
			return refuse_return(p, out, "the handler of ", op->name,
					     p->table.targets[op->number]);
	for (size_t i = 0; i < p->return_copy_cnt; i++)
		if (!find_ending(p, p->return_copies[i], out))
			return refuse_return(p, out, "a copy of a return handler", "",
					     p->return_copies[i]);
	return 0;
}

void plan_endings_done(struct endings *e)
{
	free(e->ends);
}

static bool comes_first_to(const struct planner *p, uint64_t handler, uint64_t function,
			   uint64_t addr)
{
	return plan_find_call(p, handler, function) == addr;
}

static bool is_copys(const struct planner *p, uint64_t function, uint64_t addr)
{
	for (size_t i = 0; i < p->return_copy_cnt; i++)
		if (comes_first_to(p, p->return_copies[i], function, addr))
			return true;
	return false;
}

/* A call that return handlers share, which a compiler has put elsewhere: they come to it first, and no other handler does, as
 * all would to the one of the unwinding. Hardly any build has one, and all handlers take long to look through. */
static bool is_shared_by_returns(const struct planner *p, uint64_t function, uint64_t addr)
{
	size_t returns = 0, all = 0;

	for (const struct opcode_handler *op = next_return(p, NULL); op; op = next_return(p, op))
		returns += comes_first_to(p, p->table.targets[op->number], function, addr);
	for (size_t i = 0; returns && i < OPTABLE_CNT; i++)
		all += comes_first_to(p, p->table.targets[i], function, addr);
	return returns && all == returns;
}

/* Does an address belong to a return handler: near behind its start, no other handler or function between? */
static bool is_returns(const struct planner *p, uint64_t addr)
{
	const struct opcode_handler *op = NULL;
	uint64_t nearest = 0, start, end;

	for (size_t i = 0; i < OPTABLE_CNT; i++)
		if (p->table.targets[i] <= addr && p->table.targets[i] > nearest)
			nearest = p->table.targets[i];
	if (addr - nearest >= PLANNER_BLOCK_MAX ||
	    (!code__function(&p->code, addr, &start, &end) && start > nearest))
		return false;
	while ((op = next_return(p, op)))
		if (p->table.targets[op->number] == nearest)
			return true;
	return false;
}

/* Is it the first call of any on one of a handler's ways? */
static bool is_on_a_way(const struct planner *p, const struct endings *e, uint64_t handler,
			uint64_t addr)
{
	struct plan_walk w = plan_walk_from(handler);
	struct insn insn;

	w.to_ends = e;
	while (plan_walk(p, &w, &insn))
		if (insn.addr == addr)
			return true;
	return false;
}

/* A call of one of several that a return handler has: on a way apart for constants that are not immortal, in Debian's 3.13. What
 * fails there has called something before it comes to the unwinding. */
static bool is_one_of_several(const struct planner *p, const struct endings *e, uint64_t addr)
{
	for (const struct opcode_handler *op = next_return(p, NULL); op; op = next_return(p, op))
		if (is_on_a_way(p, e, p->table.targets[op->number], addr))
			return true;
	for (size_t i = 0; i < p->return_copy_cnt; i++)
		if (is_on_a_way(p, e, p->return_copies[i], addr))
			return true;
	return false;
}

static bool ends_by_return(const struct planner *p, const struct endings *e, uint64_t addr)
{
	return is_returns(p, addr) || is_copys(p, e->function, addr) ||
	       is_one_of_several(p, e, addr) || is_shared_by_returns(p, e->function, addr);
}

/* Where it is called from. */
static int find_calls(const struct planner *p, const struct endings *e, struct disasm_branch **out,
		      size_t *cnt)
{
	const struct disasm_range ranges[] = { { e->function, e->function + 1 },
					       { e->called, e->called + 1 } };

	*cnt = 0;
	return e->function ? code__branches(&p->code, ranges, 2, out, cnt) : 0;
}

/*
 * Its other calls are those of frames that end by an exception: a probe there says so to the one in the
 * function itself, which would else have to read the pending exception at each return.
 */
static int add_unwinding(struct planner *p, const struct endings *e, size_t *others)
{
	auto_free struct disasm_branch *calls = NULL;
	size_t cnt;
	int err = find_calls(p, e, &calls, &cnt);

	for (size_t i = 0; !err && i < cnt; i++) {
		struct probe_site site = { .kind = PROBE_UNWINDING,
					   .value_reg = PREG_NONE,
					   .reg = PREG_NONE,
					   .vaddr = calls[i].addr,
					   .source = PROBE_TOP,
					   .name = "exit_unwind" };

		if (ends_by_return(p, e, calls[i].addr))
			continue;
		(*others)++;
		err = planner__add(p, &site);
	}
	return err;
}

/* Where the probe of a copy is: at the jump behind the comparison, if that comes soon and all can be found there. */
static void find_point(const struct planner *p, const struct frame_end *end,
		       struct probe_site *site)
{
	struct flow_value frame, tstate = { 0, 0 };
	struct flow_place place, thread;
	bool needed = site->value_reg != PREG_NONE;
	struct insn insn;
	struct flow f;

	flow__init(&f);
	frame = f.regs[end->frame_reg];
	if (needed)
		tstate = f.regs[end->tstate_reg];
	for (uint64_t at = end->at; at - end->at < END_BLOCK; at += insn.size) {
		if (code__insn(&p->code, at, &insn))
			return;
		if (insn.emulated && flow__find(&f, frame, end->frame_reg, &place) &&
		    (!needed || (flow__find(&f, tstate, end->tstate_reg, &thread) &&
				 thread.source == PROBE_IN_REG && !thread.disp))) {
			site->vaddr = at;
			site->source = place.source;
			site->reg = place.reg;
			site->disp = place.disp;
			if (needed)
				site->value_reg = thread.reg;
			return;
		}
		if (insn.flow != FLOW_NEXT)
			return;
		flow__step(&f, &insn);
	}
}

static int draft_end(struct planner *p, const struct frame_end *end, struct probe_site *site)
{
	bool needed = p->table.version->close_skips; /* as add_function() */

	*site = (struct probe_site){ .kind = end->unwinding ? PROBE_UNWIND : PROBE_RETURN,
				     .value_reg = needed ? end->tstate_reg : PREG_NONE,
				     .vaddr = end->at,
				     .source = PROBE_IN_REG,
				     .reg = end->frame_reg };
	snprintf(site->name, sizeof(site->name), "%s",
		 end->unwinding ? "exit_unwind" : "frame_end");
	if (!needed || end->tstate_reg != PREG_NONE)
		return 0;
	return err_set(p->e, -PYE_EPLAN,
		       "3.%u: where a frame ends at 0x%lx the thread state is not found",
		       p->plan->minor, end->at);
}

/* The first of some jumps that goes to (from, to]; 0: none. */
static uint64_t entered_from(const struct disasm_branch *in, size_t cnt, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < cnt; i++)
		if (in[i].target > from && in[i].target <= to)
			return in[i].addr;
	return 0;
}

static int add_end(struct planner *p, const struct frame_end *end, const struct disasm_branch *in,
		   size_t cnt)
{
	struct probe_site site, moved;
	int err = draft_end(p, end, &site);
	uint64_t from = entered_from(in, cnt, end->load, end->at);

	if (!err && from)
		err = err_set(p->e, -PYE_EPLAN,
			      "3.%u: the end of a frame at 0x%lx is entered from 0x%lx: it could "
			      "not be counted exactly",
			      p->plan->minor, end->at, from);
	if (err)
		return err;
	moved = site;
	find_point(p, end, &moved);
	return planner__add(p, entered_from(in, cnt, end->at, moved.vaddr) ? &site : &moved);
}

static int add_ends(struct planner *p, const struct endings *e, size_t *others)
{
	auto_free struct disasm_range *ranges = calloc(e->end_cnt + 1, sizeof(*ranges));
	auto_free struct disasm_branch *in = NULL;
	size_t cnt = 0;
	int err = ranges ? 0 : -ENOMEM;

	if (err || !e->end_cnt)
		return err;
	for (size_t i = 0; i < e->end_cnt; i++)
		ranges[i] = (struct disasm_range){ e->ends[i].load + 1, e->ends[i].at + END_BLOCK };
	err = code__branches(&p->code, ranges, e->end_cnt, &in, &cnt);
	for (size_t i = 0; !err && i < e->end_cnt; i++) {
		*others += e->ends[i].unwinding;
		err = add_end(p, &e->ends[i], in, cnt);
	}
	return err;
}

int plan_clear_calls(struct planner *p, const struct endings *e, struct clear_call **out,
		     size_t *cnt)
{
	auto_free struct disasm_branch *found = NULL;
	struct clear_call *calls;
	int err = find_calls(p, e, &found, cnt);

	if (err)
		return err;
	calls = calloc(*cnt + 1, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	for (size_t i = 0; i < *cnt; i++)
		calls[i] = (struct clear_call){ .at = found[i].addr,
						.target = found[i].target,
						.unwinding = !ends_by_return(p, e, found[i].addr) };
	*out = calls;
	return 0;
}

static int add_function(struct planner *p, const struct endings *e)
{
	struct probe_site site = { .kind = PROBE_CLEAR, .value_reg = PREG_NONE };

	if (!e->function)
		return 0;
	if (p->table.version
		    ->close_skips) /* probe_gen_close() asks the thread state who is at work */
		site.value_reg = machine_args[TSTATE_ARG];
	snprintf(site.name, sizeof(site.name), "%s", p->table.version->clear_symbol);
	return planner__function_site(p, e->function, FRAME_ARG, ARGS_USED, &site);
}

int plan_clear(struct planner *p)
{
	struct endings *e = &p->endings;
	size_t others = 0;
	int err = plan_endings(p, e);

	if (!err)
		err = add_unwinding(p, e, &others);
	if (!err)
		err = add_ends(p, e, &others);
	if (!err && !others)
		err = err_set(p->e, -PYE_EPLAN,
			      "3.%u: only return handlers call %s (0x%lx): frames that end by an "
			      "exception would be missed",
			      p->plan->minor, p->table.version->clear_symbol, e->function);
	return err ? err : add_function(p, e);
}
