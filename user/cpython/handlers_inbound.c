// SPDX-License-Identifier: Apache-2.0
/*
 * A probe in a handler counts right only if nothing but dispatch leads to it. One thing else may: another
 * entry handler (a specialised RESUME that gives up continues in the general one), directly or by way of
 * a few instructions that the compiler moved away. Both then report the same frame, and the BPF program
 * drops the second. That is only taken where the frame is read from its home, which holds it on both ways.
 */
#include "cpython/handlers.h"

#include <errno.h>
#include <stdlib.h>

#include "elf/elf_file.h"

#define HANDLER_SIZE_MAX 4096 /* a jump from further behind a handler's start is not its own */
#define ENTRY_INSNS	 80 /* an entry handler gives up soon */
#define STUB_SIZE_MAX	 32 /* bytes of what a compiler moves away between a jump and its target */

/* Parts of entry handlers lie apart, where they are functions. */
static void mark_entrys(const struct planner *p, struct handlers *h, uint64_t entry)
{
	struct plan_walk w = plan_walk_from(entry);
	struct insn insn;

	w.left = ENTRY_INSNS;
	while (plan_walk(p, &w, &insn))
		for (size_t i = 0; insn.target && i < h->inbound_cnt; i++)
			if (h->inbound[i].addr == insn.addr)
				h->is_entrys[i] = true;
}

int handlers__find_inbound(struct planner *p, struct handlers *h)
{
	struct disasm_range ranges[HANDLER_MAX];
	int err;

	for (size_t i = 0; i < h->cnt; i++)
		ranges[i] = (struct disasm_range){ h->items[i].start, h->items[i].point + 1 };
	err = code__branches(&p->code, ranges, h->cnt, &h->inbound, &h->inbound_cnt);
	if (err || !p->plan->tail_call)
		return err;
	h->is_entrys = calloc(h->inbound_cnt + 1, sizeof(*h->is_entrys));
	if (!h->is_entrys)
		return -ENOMEM;
	for (size_t i = 0; i < h->cnt; i++)
		if (h->items[i].op->kind == PROBE_RESUME)
			mark_entrys(p, h, h->items[i].start);
	return 0;
}

/* Does an address belong to an entry handler, by the table? */
static bool is_entrys(const struct planner *p, const struct handlers *h, uint64_t addr)
{
	uint64_t nearest = 0;

	for (size_t i = 0; i < OPTABLE_CNT; i++)
		if (p->table.targets[i] <= addr && p->table.targets[i] > nearest)
			nearest = p->table.targets[i];
	for (size_t i = 0; i < h->cnt; i++)
		if (h->items[i].start <= addr && h->items[i].start > nearest)
			nearest = h->items[i].start; /* a copy */
	for (size_t i = 0; i < h->cnt; i++)
		if (h->items[i].start == nearest)
			return h->items[i].op->kind == PROBE_RESUME &&
			       addr - nearest < HANDLER_SIZE_MAX;
	return false;
}

/* Does the code from @start lead straight to a jump at @from, leaving the frame in its home? */
static bool is_straight(const struct planner *p, const struct flow_place *home, uint64_t start,
			uint64_t from)
{
	struct flow_value frame;
	struct insn insn;
	struct flow f;
	uint64_t at;

	flow__init(&f);
	frame = flow__at(&f, home);
	for (at = start; at < from; at += insn.size) {
		if (code__insn(&p->code, at, &insn) || insn.flow != FLOW_NEXT)
			return false;
		flow__step(&f, &insn);
	}
	return at == from && flow__is_same(flow__at(&f, home), frame);
}

/* A jump that lies apart: straight-line code that only entry handlers jump to. */
static bool is_entrys_stub(const struct planner *p, const struct handlers *h, uint64_t from)
{
	struct disasm_range range = { from - STUB_SIZE_MAX, from + 1 };
	uint64_t start = UINT64_MAX;
	struct disasm_branch *in;
	struct insn before;
	size_t cnt;
	bool ok;

	if (code__branches(&p->code, &range, 1, &in, &cnt))
		return false;
	for (size_t i = 0; i < cnt; i++)
		if (in[i].target < start && is_straight(p, &h->home, in[i].target, from))
			start = in[i].target;
	ok = start != UINT64_MAX && code__is_start(&p->code, start) &&
	     !code__before(&p->code, start, &before) &&
	     (before.flow == FLOW_JUMP || before.flow == FLOW_RETURN || before.flow == FLOW_STOP);
	for (size_t i = 0; i < cnt; i++)
		if (in[i].target >= start && !is_entrys(p, h, in[i].addr))
			ok = false;
	free(in);
	return ok;
}

static bool is_allowed(const struct planner *p, const struct handlers *h, const struct handler *it,
		       uint64_t from)
{
	if (it->guard && from == it->guard)
		return true;
	if (it->op->kind != PROBE_RESUME || !flow_place__is_same(&it->frame, &h->home))
		return false;
	return is_entrys(p, h, from) || is_entrys_stub(p, h, from);
}

/* BOLT leaves a jump where a function was that it has moved: what comes by it is not run any more, or was moved itself. */
static bool is_leftover(const struct planner *p, uint64_t from)
{
	const struct elf_section *s = elf_file__section_by_name(p->elf, ".bolt.org.text");
	uint64_t start, end;

	return s && from - s->vaddr < s->size && !code__function(&p->code, from, &start, &end) &&
	       start == from;
}

/* Would a jump to the start of a handler be seen by who has changed the word of the table that leads there? */
static bool is_known(const struct planner *p, const struct handlers *h, const struct handler *it,
		     size_t number)
{
	uint64_t from = h->inbound[number].addr;

	for (size_t i = 0; i < h->guarded_cnt; i++)
		if (h->guarded[i] == from)
			return true;
	return (it->op->kind == PROBE_RESUME && h->is_entrys[number]) || is_leftover(p, from);
}

uint64_t handlers__intruder(struct planner *p, const struct handlers *h, const struct handler *it)
{
	struct insn before;

	for (size_t i = 0; i < h->inbound_cnt; i++) {
		const struct disasm_branch *b = &h->inbound[i];

		if (b->target < it->start || b->target > it->point)
			continue;
		/* a function is begun: the opcode is run, whoever comes there */
		if (b->target == it->start && p->plan->tail_call && !it->guard) {
			if (!is_known(p, h, it, i))
				p->past_table = b->addr;
			continue;
		}
		if (!is_allowed(p, h, it, b->addr))
			return b->addr;
	}
	/* Fallen into? A call there is one that does not come back. */
	if (code__before(&p->code, it->start, &before))
		return it->start;
	if (before.size && (before.flow == FLOW_NEXT || before.flow == FLOW_COND) &&
	    !is_allowed(p, h, it, before.addr))
		return before.addr;
	return 0;
}
