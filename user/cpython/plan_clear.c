// SPDX-License-Identifier: Apache-2.0
/*
 * From 3.12 on one function, called with the thread state and the frame, clears every frame that ends,
 * by return or by exception. It is exported from 3.13 on; where it has no symbol it is the first
 * function that the return handler calls. Either way every return handler must be seen to call it
 * directly, and something besides them too (the unwinding): a compiler that had put a copy of it
 * into a handler would make the probe miss returns.
 */
#include "cpython/planner.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "elf/elf_file.h"

#define WALK_BLOCK_MAX 64
#define WALK_INSN_MAX  600

#define TSTATE_ARG     0
#define FRAME_ARG      1
#define ARGS_USED      3 /* mask: thread state, frame */

/* Blocks still to look at, and those seen. */
struct walk {
	uint64_t seen[WALK_BLOCK_MAX];
	size_t cnt, next;
};

static void walk_to(struct walk *w, uint64_t addr)
{
	for (size_t i = 0; i < w->cnt; i++)
		if (w->seen[i] == addr)
			return;
	if (w->cnt < WALK_BLOCK_MAX)
		w->seen[w->cnt++] = addr;
}

/* The first direct call reached from a handler by direct jumps, breadth first; with @wanted the call
 * of that function. Returns the function, 0 if there is none; @called is what the instruction, which is
 * @site, says: it may be an entry of the PLT. */
static uint64_t find_call(const struct planner *p, uint64_t start, uint64_t wanted,
			  uint64_t *called, uint64_t *site)
{
	struct walk w = { .cnt = 0 };
	unsigned int left = WALK_INSN_MAX;
	struct insn insn;

	walk_to(&w, start);
	while (w.next < w.cnt) {
		for (uint64_t at = w.seen[w.next++]; left; at += insn.size, left--) {
			if (code__insn(&p->code, at, &insn))
				break;
			if (insn.flow == FLOW_CALL && insn.target) {
				uint64_t target = code__resolve(&p->code, insn.target);

				*called = insn.target;
				*site = at;
				if (!wanted || target == wanted)
					return target;
			}
			if (insn.target && insn.flow != FLOW_CALL)
				walk_to(&w, insn.target);
			if (insn.flow == FLOW_JUMP || insn.flow == FLOW_RETURN ||
			    insn.flow == FLOW_STOP)
				break;
		}
	}
	return 0;
}

static const struct opcode_handler *next_return(const struct planner *p,
						const struct opcode_handler *op)
{
	op = op ? op + 1 : p->table.version->handlers;
	while (op->name && op->kind != PROBE_RETURN)
		op++;
	return op->name ? op : NULL;
}

static int find_function(struct planner *p, uint64_t *out)
{
	const struct opcode_handler *op = next_return(p, NULL);
	struct elf_symbol symbol;
	uint64_t called, site;

	if (!elf_file__symbol(p->elf, p->table.version->clear_symbol, &symbol)) {
		*out = symbol.vaddr;
		return 0;
	}
	*out = find_call(p, p->table.targets[op->number], 0, &called, &site);
	if (*out)
		return 0;
	return err_set(
		p->e, -PYE_EPLAN,
		"3.%u: no symbol %s, and the handler of %s (0x%lx) leads to no direct call: the "
		"ends of frames cannot be seen",
		p->plan->minor, p->table.version->clear_symbol, op->name,
		p->table.targets[op->number]);
}

static int check_returns(struct planner *p, uint64_t function, uint64_t *called)
{
	uint64_t site;

	for (const struct opcode_handler *op = next_return(p, NULL); op; op = next_return(p, op))
		if (!find_call(p, p->table.targets[op->number], function, called, &site))
			return err_set(p->e, -PYE_EPLAN,
				       "3.%u: the handler of %s (0x%lx) is not seen to call %s "
				       "(0x%lx): returns would be missed",
				       p->plan->minor, op->name, p->table.targets[op->number],
				       p->table.version->clear_symbol, function);
	return 0;
}

static bool comes_first_to(const struct planner *p, size_t number, uint64_t function, uint64_t addr)
{
	uint64_t called, site;

	return find_call(p, p->table.targets[number], function, &called, &site) && site == addr;
}

/* A call that return handlers share, which a compiler has put elsewhere: they come to it first, and no other handler does, as
 * all would to the one of the unwinding. Hardly any build has one, and all handlers take long to look through. */
static bool is_shared_by_returns(const struct planner *p, uint64_t function, uint64_t addr)
{
	size_t returns = 0, all = 0;

	for (const struct opcode_handler *op = next_return(p, NULL); op; op = next_return(p, op))
		returns += comes_first_to(p, op->number, function, addr);
	for (size_t i = 0; returns && i < OPTABLE_CNT; i++)
		all += comes_first_to(p, i, function, addr);
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

static bool ends_by_return(const struct planner *p, uint64_t function, uint64_t addr)
{
	return is_returns(p, addr) || is_shared_by_returns(p, function, addr);
}

/*
 * Its other calls are those of frames that end by an exception: a probe there says so to the one in the
 * function itself, which would else have to read the pending exception at each return.
 */
static int add_unwinding(struct planner *p, uint64_t function, uint64_t called)
{
	const struct disasm_range ranges[] = { { function, function + 1 }, { called, called + 1 } };
	auto_free struct disasm_branch *calls = NULL;
	size_t cnt, others = 0;
	int err = code__branches(&p->code, ranges, 2, &calls, &cnt);

	for (size_t i = 0; !err && i < cnt; i++) {
		struct probe_site site = { .kind = PROBE_UNWINDING,
					   .value_reg = PREG_NONE,
					   .reg = PREG_NONE,
					   .vaddr = calls[i].addr,
					   .source = PROBE_TOP,
					   .name = "exit_unwind" };

		if (ends_by_return(p, function, calls[i].addr))
			continue;
		others++;
		err = planner__add(p, &site);
	}
	if (err || others)
		return err;
	return err_set(
		p->e, -PYE_EPLAN,
		"3.%u: only return handlers call %s (0x%lx): frames that end by an exception "
		"would be missed",
		p->plan->minor, p->table.version->clear_symbol, function);
}

int plan_clear_calls(struct planner *p, struct clear_call **out, size_t *cnt)
{
	auto_free struct disasm_branch *found = NULL;
	struct disasm_range ranges[2];
	uint64_t function, called = 0;
	struct clear_call *calls;
	int err = find_function(p, &function);

	if (!err)
		err = check_returns(p, function, &called);
	if (err)
		return err;
	ranges[0] = (struct disasm_range){ function, function + 1 };
	ranges[1] = (struct disasm_range){ called, called + 1 };
	err = code__branches(&p->code, ranges, 2, &found, cnt);
	if (err)
		return err;
	calls = calloc(*cnt + 1, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	for (size_t i = 0; i < *cnt; i++)
		calls[i] = (struct clear_call){ .at = found[i].addr,
						.target = found[i].target,
						.unwinding = !ends_by_return(p, function,
									     found[i].addr) };
	*out = calls;
	return 0;
}

int plan_clear(struct planner *p)
{
	struct probe_site site = { .kind = PROBE_CLEAR, .value_reg = PREG_NONE };
	uint64_t function, called = 0;
	int err = find_function(p, &function);

	if (p->table.version
		    ->close_skips) /* probe_gen_close() asks the thread state who is at work */
		site.value_reg = machine_args[TSTATE_ARG];
	if (!err)
		err = check_returns(p, function, &called);
	if (!err)
		err = add_unwinding(p, function, called);
	if (err)
		return err;
	snprintf(site.name, sizeof(site.name), "%s", p->table.version->clear_symbol);
	return planner__function_site(p, function, FRAME_ARG, ARGS_USED, &site);
}
