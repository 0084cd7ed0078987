// SPDX-License-Identifier: Apache-2.0
/*
 * The instructions are gone through from the beginning, and again from where two ways leave different things, until nothing changes: what
 * is held at an instruction only ever gets less. Stores through other registers than those of the stack are taken not to hit its words, as in
 * cpython/flow.h. A jump to an address that cannot be told may lead to every handler, and to whatever no other way leads to.
 */
#include "cpython/eval_held.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cpython/planner.h"

#define DISTANCE_MAX (1 << 20) /* of a word of the stack */
#define NO_VALUE     HELD_VALUES

struct walk {
	const struct planner *p;
	const struct body *body;
	const struct eval_switches *switches;
	const struct eval_maker *tstate;
	struct eval_held *held;
	struct eval_held anywhere; /* behind all jumps of which it is not known where they lead */
	size_t *todo;
	bool *waits; /* is it in the list? */
	size_t todo_cnt;
};

bool eval_held__in(const struct eval_held *h, uint8_t reg, enum held_value value)
{
	return reg < MACHINE_REG_CNT && h->regs[value] >> reg & 1;
}

static uint8_t value_in(const struct eval_held *h, uint8_t reg)
{
	for (unsigned int i = 0; i < HELD_VALUES; i++)
		if (eval_held__in(h, reg, (enum held_value)i))
			return (uint8_t)i;
	return NO_VALUE;
}

/* A word of the stack, or HELD_NOWHERE. */
static int32_t stack_at(const struct eval_held *h, uint8_t base, int64_t disp)
{
	int32_t from = base == PREG_RSP ? h->rsp : base == PREG_RBP ? h->rbp : HELD_NOWHERE;

	if (from == HELD_NOWHERE || disp < -DISTANCE_MAX || disp > DISTANCE_MAX ||
	    from + disp < -DISTANCE_MAX || from + disp > DISTANCE_MAX)
		return HELD_NOWHERE;
	return from + (int32_t)disp;
}

static uint8_t value_at(const struct eval_held *h, int32_t at)
{
	for (uint8_t i = 0; at != HELD_NOWHERE && i < h->slot_cnt; i++)
		if (h->slots[i] == at)
			return h->slot_values[i];
	return NO_VALUE;
}

/* Words that lie in [start, end), as far as anything does. */
static void forget(struct eval_held *h, int64_t start, int64_t end)
{
	uint8_t kept = 0;

	for (uint8_t i = 0; i < h->slot_cnt; i++) {
		if (h->slots[i] < end && h->slots[i] + 8 > start)
			continue;
		h->slots[kept] = h->slots[i];
		h->slot_values[kept++] = h->slot_values[i];
	}
	h->slot_cnt = kept;
}

static void store(struct eval_held *h, uint8_t base, int64_t disp, unsigned int size, uint8_t value)
{
	int32_t at = stack_at(h, base, disp);

	/* any word of the stack, or something else */
	if (at == HELD_NOWHERE && base == PREG_RSP)
		h->slot_cnt = 0;
	if (at == HELD_NOWHERE)
		return;
	forget(h, at, (int64_t)at + size);
	if (value == NO_VALUE || size != 8 || h->slot_cnt == HELD_SLOTS)
		return;
	h->slots[h->slot_cnt] = at;
	h->slot_values[h->slot_cnt++] = value;
}

static void step_store(struct eval_held *h, const struct body_insn *e)
{
	uint8_t value = value_in(h, e->src);

	if (e->op == INSN_PUSH) {
		h->rsp = stack_at(h, PREG_RSP, -8);
		store(h, PREG_RSP, 0, 8, value);
	} else {
		store(h, e->dst, e->disp, e->mem_size ? e->mem_size : 64, value);
	}
}

static uint8_t result(const struct eval_held *h, const struct body_insn *e)
{
	switch (e->op) {
	case INSN_COPY:
		return e->disp ? NO_VALUE : value_in(h, e->src);
	case INSN_LOAD:
		return value_at(h, stack_at(h, e->src, e->disp));
	case INSN_POP:
		return value_at(h, stack_at(h, PREG_RSP, 0));
	default:
		return NO_VALUE;
	}
}

static void step_registers(struct eval_held *h, const struct body_insn *e)
{
	int32_t stack = e->op == INSN_COPY ? stack_at(h, e->src, e->disp) : HELD_NOWHERE;
	int32_t popped = stack_at(h, PREG_RSP, 8);
	uint8_t value = result(h, e);

	for (unsigned int i = 0; i < HELD_VALUES; i++)
		h->regs[i] &= (uint16_t)~e->writes;
	if (value != NO_VALUE && e->dst < MACHINE_REG_CNT)
		h->regs[value] |= (uint16_t)(1u << e->dst);
	if (e->writes >> PREG_RSP & 1)
		h->rsp = e->op == INSN_POP && e->dst != PREG_RSP ? popped
			 : e->dst == PREG_RSP			 ? stack
								 : HELD_NOWHERE;
	if (e->writes >> PREG_RBP & 1)
		h->rbp = e->dst == PREG_RBP ? stack : HELD_NOWHERE;
}

/* What an instruction leaves. */
static void step(const struct walk *w, size_t index, struct eval_held *h)
{
	const struct body_insn *e = &w->body->insns[index];

	if (e->op == INSN_STORE || e->op == INSN_PUSH)
		step_store(h, e);
	if (e->op != INSN_PUSH)
		step_registers(h, e);
	/* below the stack lies what belongs to what is called */
	if (e->flow == FLOW_CALL)
		forget(h, INT32_MIN, h->rsp == HELD_NOWHERE ? INT32_MAX : h->rsp);
	if (index == w->tstate->insn) {
		h->regs[HELD_FRAME] &= (uint16_t) ~(1u << w->tstate->reg);
		h->regs[HELD_TSTATE] |= (uint16_t)(1u << w->tstate->reg);
	}
}

/* Keeps what both have; is it less than there was? */
static bool meet(struct eval_held *h, const struct eval_held *other)
{
	struct eval_held was = *h;
	bool less = false;

	if (!h->reached) {
		*h = *other;
		h->reached = true;
		return true;
	}
	for (unsigned int i = 0; i < HELD_VALUES; i++) {
		h->regs[i] &= other->regs[i];
		less |= h->regs[i] != was.regs[i];
	}
	h->rsp = h->rsp == other->rsp ? h->rsp : HELD_NOWHERE;
	h->rbp = h->rbp == other->rbp ? h->rbp : HELD_NOWHERE;
	h->slot_cnt = 0;
	for (uint8_t i = 0; i < was.slot_cnt; i++) {
		if (value_at(other, was.slots[i]) != was.slot_values[i])
			continue;
		h->slots[h->slot_cnt] = was.slots[i];
		h->slot_values[h->slot_cnt++] = was.slot_values[i];
	}
	return less || h->rsp != was.rsp || h->rbp != was.rbp || h->slot_cnt != was.slot_cnt;
}

static void go_to(struct walk *w, size_t index, const struct eval_held *h)
{
	if (!meet(&w->held[index], h) || w->waits[index])
		return;
	w->waits[index] = true;
	w->todo[w->todo_cnt++] = index;
}

static void go_by_table(struct walk *w, size_t index, const struct eval_held *h)
{
	size_t cnt;
	const uint32_t *to = eval_switches__of(w->switches, w->body, index, &cnt);

	/* all of these are one, or each would have to go to all of that many places */
	if (to == w->switches->others) {
		if (!meet(&w->anywhere, h))
			return;
		h = &w->anywhere;
	}
	for (size_t i = 0; i < cnt; i++)
		go_to(w, to[i], h);
}

static void go_on(struct walk *w, size_t index)
{
	const struct body_insn *insn = &w->body->insns[index];
	struct eval_held h = w->held[index];
	size_t target;

	step(w, index, &h);
	go_by_table(w, index, &h);
	if ((insn->flow == FLOW_JUMP || insn->flow == FLOW_COND) &&
	    !body__index(w->body, insn->target, &target))
		go_to(w, target, &h);
	if ((insn->flow == FLOW_NEXT || insn->flow == FLOW_COND || insn->flow == FLOW_CALL) &&
	    !body__next(w->body, index, &target))
		go_to(w, target, &h);
}

static void walk(struct walk *w, size_t entry)
{
	struct eval_held start = { .rbp = HELD_NOWHERE };

	start.regs[HELD_FRAME] =
		(uint16_t)(1u << machine_args[w->p->table.version->eval_frame_arg]);
	if (w->tstate->insn == MAKER_CALLER)
		start.regs[HELD_TSTATE] = (uint16_t)(1u << w->tstate->reg);
	go_to(w, entry, &start);
	while (w->todo_cnt) {
		size_t index = w->todo[--w->todo_cnt];

		w->waits[index] = false;
		go_on(w, index);
	}
}

int eval_held__find(const struct planner *p, const struct body *b, const struct eval_switches *s,
		    const struct eval_maker *tstate, struct eval_held **out)
{
	auto_free size_t *todo = calloc(b->insn_cnt, sizeof(*todo));
	auto_free bool *waits = calloc(b->insn_cnt, sizeof(*waits));
	auto_free struct eval_held *held = calloc(b->insn_cnt, sizeof(*held));
	struct walk w = { .p = p,
			  .body = b,
			  .switches = s,
			  .tstate = tstate,
			  .held = held,
			  .todo = todo,
			  .waits = waits };
	size_t entry;

	if (!todo || !waits || !held)
		return -ENOMEM;
	if (body__index(b, b->entry, &entry))
		return -EILSEQ;
	walk(&w, entry);
	*out = take_ptr(held);
	return 0;
}
