// SPDX-License-Identifier: Apache-2.0
/*
 * Slots are words addressed through the stack pointer or, below it, through the frame pointer. Stores
 * through other registers are taken not to hit them: the variables of interest are locals of the
 * interpreter loop whose address is not taken.
 */
#include "cpython/flow.h"

#include <string.h>

static struct flow_value fresh(struct flow *f)
{
	return (struct flow_value){ f->next_root++, 0 };
}

void flow__init(struct flow *f)
{
	memset(f, 0, sizeof(*f));
	for (uint32_t i = 0; i < MACHINE_REG_CNT; i++)
		f->regs[i].root = i;
	f->next_root = MACHINE_REG_CNT;
}

bool flow__is_same(struct flow_value a, struct flow_value b)
{
	return a.root == b.root && a.disp == b.disp;
}

bool flow_place__is_same(const struct flow_place *a, const struct flow_place *b)
{
	return a->source == b->source && a->reg == b->reg && a->disp == b->disp;
}

static bool is_slot(uint8_t base, int64_t disp)
{
	return base == PREG_RSP || (base == PREG_RBP && disp < 0);
}

static struct flow_value address(const struct flow *f, uint8_t base, int64_t disp)
{
	struct flow_value v = f->regs[base];

	v.disp += disp;
	return v;
}

static struct flow_value load_slot(struct flow *f, struct flow_value at)
{
	struct flow_value value;

	for (size_t i = 0; i < f->slot_cnt; i++)
		if (flow__is_same(f->slots[i].at, at))
			return f->slots[i].value;
	value = fresh(f);
	if (f->slot_cnt < FLOW_SLOT_MAX)
		f->slots[f->slot_cnt++] = (struct flow_slot){ at, value };
	return value;
}

/* Forgets what overlaps the stored bytes, then remembers @value if it is a whole word. */
static void store_slot(struct flow *f, struct flow_value at, int64_t size,
		       const struct flow_value *value)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->slot_cnt; i++) {
		int64_t apart = f->slots[i].at.disp - at.disp;

		if (f->slots[i].at.root == at.root && apart < size && apart > -8)
			continue;
		f->slots[kept++] = f->slots[i];
	}
	f->slot_cnt = kept;
	if (value && f->slot_cnt < FLOW_SLOT_MAX)
		f->slots[f->slot_cnt++] = (struct flow_slot){ at, *value };
}

static void step_store(struct flow *f, const struct insn *insn)
{
	if (!is_slot(insn->dst, insn->disp))
		return;
	store_slot(f, address(f, insn->dst, insn->disp), insn->mem_size ? insn->mem_size : 64,
		   insn->src != PREG_NONE && insn->mem_size == 8 ? &f->regs[insn->src] : NULL);
}

static void step_push(struct flow *f, const struct insn *insn)
{
	struct flow_value value = insn->src == PREG_NONE ? fresh(f) : f->regs[insn->src];

	f->regs[PREG_RSP].disp -= 8;
	store_slot(f, f->regs[PREG_RSP], 8, &value);
}

/* The value that the instruction gives its destination; a fresh one unless it is followed. */
static struct flow_value result(struct flow *f, const struct insn *insn)
{
	switch (insn->op) {
	case INSN_COPY:
		return address(f, insn->src, insn->disp);
	case INSN_ZERO:
		return (struct flow_value){ FLOW_ZERO, 0 };
	case INSN_LOAD:
		if (is_slot(insn->src, insn->disp))
			return load_slot(f, address(f, insn->src, insn->disp));
		return fresh(f);
	case INSN_POP:
		return load_slot(f, f->regs[PREG_RSP]);
	default:
		return fresh(f);
	}
}

void flow__step(struct flow *f, const struct insn *insn)
{
	bool followed = insn->op == INSN_COPY || insn->op == INSN_ZERO || insn->op == INSN_LOAD ||
			insn->op == INSN_POP;
	struct flow_value value = { 0, 0 };

	if (insn->op == INSN_STORE)
		step_store(f, insn);
	if (insn->op == INSN_PUSH) {
		step_push(f, insn);
		return;
	}
	if (followed)
		value = result(f, insn);
	for (uint8_t i = 0; i < MACHINE_REG_CNT; i++)
		if (insn->writes >> i & 1 && !(insn->op == INSN_POP && i == PREG_RSP))
			f->regs[i] = fresh(f);
	if (insn->op == INSN_POP)
		f->regs[PREG_RSP].disp += 8;
	if (followed && insn->dst != PREG_NONE)
		f->regs[insn->dst] = value;
}

struct flow_value flow__at(struct flow *f, const struct flow_place *place)
{
	struct flow_value at = address(f, place->reg, place->disp);

	return place->source == PROBE_IN_SLOT ? load_slot(f, at) : at;
}

static bool find_register(const struct flow *f, struct flow_value value, uint8_t reg,
			  struct flow_place *out)
{
	int64_t disp = value.disp - f->regs[reg].disp;

	if (f->regs[reg].root != value.root || disp < INT32_MIN || disp > INT32_MAX)
		return false;
	*out = (struct flow_place){ PROBE_IN_REG, reg, (int32_t)disp };
	return true;
}

bool flow__find_slot(const struct flow *f, struct flow_value value, struct flow_place *out)
{
	static const uint8_t bases[] = { PREG_RSP, PREG_RBP };

	for (size_t i = 0; i < f->slot_cnt; i++) {
		/* A word inside the object itself is no local variable. */
		if (!flow__is_same(f->slots[i].value, value) || f->slots[i].at.root == value.root)
			continue;
		for (size_t k = 0; k < sizeof(bases); k++) {
			int64_t disp = f->slots[i].at.disp - f->regs[bases[k]].disp;

			if (f->regs[bases[k]].root != f->slots[i].at.root || disp < INT32_MIN ||
			    disp > INT32_MAX)
				continue;
			*out = (struct flow_place){ PROBE_IN_SLOT, bases[k], (int32_t)disp };
			return true;
		}
	}
	return false;
}

bool flow__find(const struct flow *f, struct flow_value value, uint8_t prefer,
		struct flow_place *out)
{
	if (prefer < MACHINE_REG_CNT && find_register(f, value, prefer, out))
		return true;
	for (uint8_t i = 0; i < MACHINE_REG_CNT; i++)
		if (i != PREG_RSP && find_register(f, value, i, out))
			return true;
	return flow__find_slot(f, value, out);
}
