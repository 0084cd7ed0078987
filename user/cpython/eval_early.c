// SPDX-License-Identifier: Apache-2.0
#include "cpython/eval_early.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cpython/planner.h"

#define TODO_MAX   24
#define ROOTS_EACH 32 /* new values that an instruction may make */

/* A place from which instructions still are to be walked. */
struct todo {
	uint64_t addr;
	struct flow flow;
};

struct walk {
	const struct planner *p;
	const struct body *body;
	struct eval_early *out;
	struct todo *todo;
	size_t todo_cnt;
};

bool eval_may_store_frame(const struct planner *p, const struct insn *insn)
{
	return insn->op == INSN_STORE && insn->mem_size == 8 && insn->src != PREG_NONE &&
	       insn->dst != PREG_RSP && insn->disp == p->table.version->tstate_frame;
}

/* Is it the function's own frame? */
static bool stores_frame(const struct planner *p, const struct flow *f, const struct insn *insn)
{
	return eval_may_store_frame(p, insn) &&
	       f->regs[insn->src].root == machine_args[p->table.version->eval_frame_arg] &&
	       !f->regs[insn->src].disp;
}

static bool is_in(const size_t *list, size_t cnt, size_t index)
{
	for (size_t i = 0; i < cnt; i++)
		if (list[i] == index)
			return true;
	return false;
}

bool eval_early__has(const struct eval_early *e, size_t index)
{
	return is_in(e->insns, e->insn_cnt, index);
}

/* A root tells the instruction that made the value: see walk_on(). */
static struct eval_maker maker_of(const struct walk *w, struct flow_value value)
{
	struct eval_maker out = { MAKER_NONE, PREG_NONE };
	struct insn insn;
	size_t index;

	if (value.disp || value.root == FLOW_ZERO)
		return out;
	if (value.root < MACHINE_REG_CNT)
		return (struct eval_maker){ MAKER_CALLER, (uint8_t)value.root };
	index = (value.root - MACHINE_REG_CNT) / ROOTS_EACH;
	if (!code__insn(&w->p->code, w->body->insns[index].addr, &insn))
		out.reg = insn.flow == FLOW_CALL ? MACHINE_RESULT : insn.dst;
	if (out.reg != PREG_NONE)
		out.insn = index;
	return out;
}

static void note_store(struct walk *w, size_t index, struct flow_value into)
{
	struct eval_early *out = w->out;

	if (!out->store_cnt)
		out->tstate = maker_of(w, into);
	if (out->store_cnt < EARLY_STORES_MAX && !is_in(out->stores, out->store_cnt, index))
		out->stores[out->store_cnt++] = index;
}

/* Walks on from one place until the frame is stored; branches go to the list. */
static int walk_on(struct walk *w)
{
	struct todo at = w->todo[--w->todo_cnt];
	struct eval_early *out = w->out;
	struct insn insn;
	size_t index;

	for (;; at.addr += insn.size) {
		if (body__index(w->body, at.addr, &index) || eval_early__has(out, index))
			return 0;
		if (code__insn(&w->p->code, at.addr, &insn))
			return -EILSEQ;
		if (stores_frame(w->p, &at.flow, &insn)) {
			note_store(w, index, at.flow.regs[insn.dst]);
			return 0;
		}
		if (out->insn_cnt == EARLY_MAX)
			return -E2BIG;
		out->insns[out->insn_cnt++] = index;
		at.flow.next_root = MACHINE_REG_CNT + (uint32_t)index * ROOTS_EACH;
		flow__step(&at.flow, &insn);
		if (insn.flow == FLOW_COND || insn.flow == FLOW_JUMP) {
			if (insn.target && w->todo_cnt == TODO_MAX)
				return -E2BIG;
			if (insn.target)
				w->todo[w->todo_cnt++] = (struct todo){ insn.target, at.flow };
		}
		if (insn.flow == FLOW_JUMP || insn.flow == FLOW_RETURN ||
		    w->body->insns[index].flow == FLOW_STOP)
			return 0;
	}
}

int eval_early__find(const struct planner *p, const struct body *b, struct eval_early *out)
{
	auto_free struct todo *todo = calloc(TODO_MAX, sizeof(*todo));
	struct walk w = { .p = p, .body = b, .out = out, .todo = todo, .todo_cnt = 1 };
	int err = todo ? 0 : -ENOMEM;

	out->insn_cnt = out->store_cnt = 0;
	out->tstate = (struct eval_maker){ MAKER_NONE, PREG_NONE };
	if (err)
		return err;
	todo[0].addr = b->entry;
	flow__init(&todo[0].flow);
	while (!err && w.todo_cnt)
		err = walk_on(&w);
	return err;
}
