// SPDX-License-Identifier: Apache-2.0
/*
 * Up to 3.10 every Python frame runs in its own call of _PyEval_EvalFrameDefault: its start is the entry,
 * its end the return, the yield or the unwinding. (A return probe would do, but for the kernel's limit
 * of 64 nested ones.)
 */
#include "cpython/planner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cpython/eval_body.h"
#include "cpython/eval_exits.h"
#include "elf/elf_file.h"

static int add_entry(struct planner *p, uint64_t entry)
{
	unsigned int frame = p->table.version->eval_frame_arg;
	struct probe_site site = { .kind = PROBE_EVAL_ENTRY,
				   .value_reg = machine_args[frame + 1],
				   .name = "_PyEval_EvalFrameDefault" };

	return planner__function_site(p, entry, frame, 3u << frame, &site);
}

/* The way that is always right: the ret itself. */
static int add_returns(struct planner *p, const struct body *b, const char *why)
{
	planner__note(
		p,
		"The exit of every call is single-stepped, which costs some microseconds: not all "
		"ways out of the interpreter loop were found (%s).",
		why);
	for (size_t i = 0; i < b->insn_cnt; i++) {
		const struct body_insn *at = &b->insns[i];
		struct probe_site site = { .vaddr = at->addr,
					   .kind = PROBE_EVAL_EXIT,
					   .source = PROBE_TOP,
					   .reg = PREG_NONE,
					   .value_reg = MACHINE_RESULT,
					   .name = "eval_ret" };
		int err;

		if ((at->flow == FLOW_JUMP || at->flow == FLOW_COND) && at->target &&
		    !body__contains(b, at->target))
			return err_set(p->e, -PYE_EPLAN,
				       "3.%u: the interpreter loop goes on to 0x%lx from 0x%lx, "
				       "outside of it",
				       p->plan->minor, at->target, at->addr);
		err = at->flow == FLOW_RETURN ? planner__add(p, &site) : 0;
		if (err)
			return err;
	}
	return 0;
}

static int add_exits(struct planner *p, const struct body *b)
{
	auto_free struct eval_exits *exits = calloc(1, sizeof(*exits));
	int err;

	if (!exits)
		return -ENOMEM;
	err = eval_exits__find(p, b, exits);
	if (err)
		return err;
	if (exits->why[0])
		return add_returns(p, b, exits->why);
	for (size_t i = 0; i < exits->cnt && !err; i++)
		err = planner__add(p, &exits->sites[i]);
	return err;
}

int plan_eval(struct planner *p)
{
	struct elf_symbol symbol;
	struct body body;
	int err;

	if (elf_file__symbol(p->elf, "_PyEval_EvalFrameDefault", &symbol))
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u by its dispatch table (0x%lx), but without a symbol "
			       "_PyEval_EvalFrameDefault",
			       p->plan->minor, p->table.vaddr);
	err = add_entry(p, symbol.vaddr);
	if (err)
		return err;
	err = body__init(&body, p, symbol.vaddr);
	if (!err)
		err = add_exits(p, &body);
	body__done(&body);
	return err;
}
