// SPDX-License-Identifier: Apache-2.0
/*
 * From 3.11 on Python-to-Python calls stay inside the interpreter loop, so the probes sit in the
 * handlers of the opcodes that every call, return or yield runs. Where in a handler: at the first
 * instruction of its first basic block that the kernel emulates, provided that nothing jumps in between
 * (then it is reached exactly once per opcode), else at its first byte, single-stepped.
 *
 * Where the frame is: each handler stores the instruction pointer into it, at a known offset. The base
 * of that store, followed back to the handler's first byte, is one and the same register or stack slot
 * in all handlers of a file, its home. From the home it is followed forward to the probe.
 *
 * Yields leave the frame before the end of that basic block, so the register may hold the caller by then.
 * Whatever else leads to the frame is taken: the generator that contains it, or a copy. That a register
 * is a copy shows where the block, after it has read the caller from frame->previous, puts NULL there
 * through that register.
 */
#include "cpython/handlers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int collect(struct planner *p, struct handlers *h)
{
	const struct opcode_handler *op = p->table.version->handlers;

	for (; op->name && h->cnt < HANDLER_MAX; op++) {
		uint64_t start = p->table.targets[op->number];
		bool shared = false;

		for (size_t i = 0; i < h->cnt; i++) {
			if (h->items[i].start != start)
				continue;
			shared = true;
			if (h->items[i].op->kind != op->kind)
				return err_set(p->e, -PYE_EPLAN,
					       "3.%u: %s and %s share one handler (0x%lx)",
					       p->plan->minor, h->items[i].op->name, op->name,
					       start);
		}
		if (!shared)
			h->items[h->cnt++] = (struct handler){ .op = op, .start = start };
	}
	for (size_t i = 0; i < h->cnt; i++)
		for (size_t k = 0; k < OPTABLE_CNT; k++) {
			op = p->table.version->handlers;
			while (op->name && op->number != k)
				op++;
			if (!op->name && p->table.targets[k] == h->items[i].start)
				return err_set(p->e, -PYE_EPLAN,
					       "3.%u: opcode %zu shares the handler of %s (0x%lx)",
					       p->plan->minor, k, h->items[i].op->name,
					       h->items[i].start);
		}
	return 0;
}

/* The register or stack slot that held a value at the start of what @f followed. */
static bool place_at_start(const struct flow *f, struct flow_value value, struct flow_place *out)
{
	if (value.disp)
		return false;
	if (value.root < MACHINE_REG_CNT) {
		*out = (struct flow_place){ PROBE_IN_REG, (uint8_t)value.root, 0 };
		return true;
	}
	for (size_t i = 0; i < f->slot_cnt; i++) {
		const struct flow_slot *slot = &f->slots[i];

		if (!flow__is_same(slot->value, value) ||
		    (slot->at.root != PREG_RSP && slot->at.root != PREG_RBP))
			continue;
		*out = (struct flow_place){ PROBE_IN_SLOT, (uint8_t)slot->at.root,
					    (int32_t)slot->at.disp };
		return true;
	}
	return false;
}

bool plan_instr_store(const struct planner *p, uint64_t start, struct flow *f, struct insn *store)
{
	uint16_t instr_ptr = p->table.version->instr_ptr;

	for (uint64_t at = start; at - start < PLANNER_BLOCK_MAX; at += store->size) {
		if (code__insn(&p->code, at, store))
			return false;
		if (store->op == INSN_STORE && store->disp == instr_ptr && store->dst != PREG_RSP &&
		    store->mem_size == 8 && store->src != PREG_NONE)
			return true;
		if (store->flow != FLOW_NEXT && store->flow != FLOW_CALL)
			return false;
		flow__step(f, store);
	}
	return false;
}

/* -ENOENT: the first basic block has no store of the instruction pointer. */
static int find_home(const struct planner *p, uint64_t start, struct flow_place *out)
{
	struct insn store;
	struct flow f;

	flow__init(&f);
	return plan_instr_store(p, start, &f, &store) && place_at_start(&f, f.regs[store.dst], out)
		       ? 0
		       : -ENOENT;
}

static int find_homes(struct planner *p, struct handlers *h)
{
	const struct handler *first = NULL;

	for (size_t i = 0; i < h->cnt; i++) {
		struct flow_place home;

		if (find_home(p, h->items[i].start, &home)) {
			if (!h->items[i].guard)
				continue;
			return err_set(
				p->e, -PYE_EPLAN,
				"3.%u: the copy of the handler of %s at 0x%lx does not store "
				"the instruction pointer: where its frame is cannot be told",
				p->plan->minor, h->items[i].op->name, h->items[i].start);
		}
		if (first && !flow_place__is_same(&home, &h->home))
			return err_set(
				p->e, -PYE_EPLAN,
				"3.%u: the handlers of %s (0x%lx) and %s (0x%lx) do not hold "
				"the frame in the same place",
				p->plan->minor, first->op->name, first->start, h->items[i].op->name,
				h->items[i].start);
		if (!first) {
			first = &h->items[i];
			h->home = home;
		}
	}
	if (!first)
		return err_set(
			p->e, -PYE_EPLAN,
			"3.%u: no handler stores the instruction pointer into the frame in "
			"its first basic block (looked at %zu, first %s at 0x%lx)",
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): no version has none */
			p->plan->minor, h->cnt, h->items[0].op->name, h->items[0].start);
	return 0;
}

/* Follows frame->previous for the copies of the frame that a yield works on. */
struct copies {
	bool caller_read;
	bool found;
	struct flow_value value;
};

static void step_copies(struct copies *c, const struct planner *p, const struct flow *f,
			struct flow_value frame, const struct insn *insn)
{
	uint16_t previous = p->table.version->previous;
	struct flow_value base;

	if (insn->disp != previous)
		return;
	if (insn->op == INSN_LOAD && flow__is_same(f->regs[insn->src], frame))
		c->caller_read = true;
	if (insn->op != INSN_STORE || !insn->zero || insn->mem_size != 8 || !c->caller_read)
		return;
	base = f->regs[insn->dst];
	if (base.root < MACHINE_REG_CNT && base.root != PREG_RSP && base.root != frame.root &&
	    !base.disp) {
		c->found = true;
		c->value = base;
	}
}

/* First emulated instruction of the first basic block at which the frame can be found; else the
 * handler's start. */
static void find_point(struct planner *p, const struct flow_place *home, struct handler *it)
{
	struct copies copies = { .found = false };
	struct flow_value frame;
	struct insn insn;
	struct flow f;

	it->point = it->start;
	it->frame = *home;
	flow__init(&f);
	frame = flow__at(&f, home);
	for (uint64_t at = it->start; at - it->start < PLANNER_BLOCK_MAX; at += insn.size) {
		struct flow_place place;

		if (code__insn(&p->code, at, &insn))
			return;
		if (insn.emulated &&
		    (flow__find(&f, frame, home->reg, &place) ||
		     (copies.found && flow__find(&f, copies.value, PREG_NONE, &place)))) {
			it->point = at;
			it->frame = place;
			return;
		}
		if (insn.flow != FLOW_NEXT && insn.flow != FLOW_CALL)
			return;
		if (it->op->kind == PROBE_YIELD)
			step_copies(&copies, p, &f, frame, &insn);
		flow__step(&f, &insn);
	}
}

static bool is_wanted(const struct planner *p, const struct handler *it)
{
	return it->op->kind &&
	       (it->op->kind != PROBE_RETURN || p->table.version->exit == EXIT_HANDLERS);
}

static int add_handler(struct planner *p, const struct handlers *h, struct handler *it)
{
	struct probe_site site = { .kind = it->op->kind, .value_reg = PREG_NONE };
	uint64_t from = handlers__intruder(p, h, it);

	if (from && it->point != it->start) {
		it->point = it->start;
		it->frame = h->home;
		from = handlers__intruder(p, h, it);
	}
	if (from)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the handler of %s (0x%lx) is entered from 0x%lx, besides by "
			       "dispatch: its events could not be counted exactly",
			       p->plan->minor, it->op->name, it->start, from);
	site.vaddr = it->point;
	site.source = it->frame.source;
	site.reg = it->frame.reg;
	site.disp = it->frame.disp;
	snprintf(site.name, sizeof(site.name), "%s", it->op->name);
	return planner__add(p, &site);
}

static int plan_all(struct planner *p, struct handlers *h)
{
	int err = collect(p, h);

	if (!err && p->plan->tail_call)
		err = handlers__add_copies(p, h);
	if (!err)
		err = find_homes(p, h);
	if (!err)
		p->home = h->home;
	for (size_t i = 0; !err && i < h->cnt; i++)
		find_point(p, &h->home, &h->items[i]);
	if (!err)
		err = handlers__find_inbound(p, h);
	for (size_t i = 0; !err && i < h->cnt; i++)
		if (is_wanted(p, &h->items[i]))
			err = add_handler(p, h, &h->items[i]);
	return err;
}

int plan_handlers(struct planner *p)
{
	auto_free struct handlers *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	err = plan_all(p, h);
	free(h->inbound);
	free(h->is_entrys);
	return err;
}
