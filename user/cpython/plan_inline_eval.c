// SPDX-License-Identifier: Apache-2.0
/*
 * Up to 3.10 every frame is a call of one function. Its beginning and its end are seen where the thread
 * state gets the frame and where it gets the frame's caller back:
 *
 *   tstate->frame = f            past the check of the recursion limit: the frame really runs
 *   tstate->frame = f->f_back    the one way out; at the load of f_back the frame is still at hand
 *
 * Not the pointer interp->eval_frame, which is in no file, is not there before start-up, and shows no end of
 * the frames that run already. What is stored where is proven by what holds the two on all ways
 * (cpython/eval_held.h), and by the jumps of the function: nothing gets past the first to the other, or past the
 * other to a return, and nothing passes two of either.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cpython/eval_body.h"
#include "cpython/eval_early.h"
#include "cpython/eval_held.h"
#include "cpython/eval_switch.h"
#include "cpython/inline_plan.h"
#include "cpython/planner.h"
#include "elf/elf_file.h"

#define F_BACK	    24
#define STRETCH_MAX 32 /* instructions between a load of f_back and its store */
#define EXITS_MAX   4
#define ENTRIES_MAX 3

/* Instructions of the body. @frame: the register that has it, at the store of an entry, from the load of an exit on */
struct entry_place {
	size_t store;
	uint8_t frame;
};

struct exit_place {
	size_t load, store;
	uint8_t frame;
};

struct eval {
	struct planner *p;
	struct body body;
	struct eval_switches *switches;
	struct eval_held *held; /* for each instruction of the body */
	struct entry_place entries[ENTRIES_MAX];
	size_t entry_cnt;
	struct exit_place exits[EXITS_MAX];
	size_t exit_cnt;
};

static int refuse(const struct eval *v, const char *what, uint64_t at)
{
	return err_set(v->p->e, -PYE_EPLAN, "3.%u: the interpreter loop (0x%lx) %s (0x%lx)",
		       v->p->plan->minor, v->body.entry, what, at);
}

/* A register that has the frame: one that calls leave alone, and so the compiler's choice for longer, or the one at hand. */
static uint8_t frame_in(const struct eval *v, size_t index, uint8_t reg)
{
	static const uint8_t kept[] = { PREG_RBX, PREG_RBP, PREG_R12, PREG_R13, PREG_R14, PREG_R15 };

	for (size_t i = 0; i < sizeof(kept); i++)
		if (eval_held__in(&v->held[index], kept[i], HELD_FRAME))
			return kept[i];
	return reg;
}

/* From where on nothing but going straight on leads to an instruction. */
static size_t straight_from(const struct eval *v, size_t to)
{
	size_t cnt;

	for (size_t i = to; i && to - i < STRETCH_MAX; i--) {
		const struct body_insn *before = &v->body.insns[i - 1];

		uint64_t addr = v->body.insns[i].addr;

		body__edges(&v->body, addr, &cnt);
		if (cnt || before->flow != FLOW_NEXT || before->addr + before->size != addr ||
		    eval_switches__lead_to(v->switches, &v->body, addr))
			return i;
	}
	return to < STRETCH_MAX ? 0 : to - STRETCH_MAX;
}

/* Where was the frame's f_back loaded that an instruction stores? False: it is something else. */
static bool find_load(const struct eval *v, size_t store, struct exit_place *out)
{
	struct flow_value caller = { .root = FLOW_ZERO };
	struct insn insn = { 0 };
	struct flow f;

	*out = (struct exit_place){ .store = store };
	flow__init(&f);
	for (size_t i = straight_from(v, store); i <= store; i++) {
		if (code__insn(&v->p->code, v->body.insns[i].addr, &insn))
			return false;
		if (i == store)
			break;
		flow__step(&f, &insn);
		if (insn.op != INSN_LOAD || insn.disp != F_BACK ||
		    !eval_held__in(&v->held[i], insn.src, HELD_FRAME))
			continue;
		caller = f.regs[insn.dst];
		out->load = i;
		out->frame = frame_in(v, i, insn.src);
	}
	return caller.root != FLOW_ZERO && flow__is_same(f.regs[insn.src], caller);
}

static int add_entry(struct eval *v, size_t store, uint8_t reg)
{
	if (v->entry_cnt == ENTRIES_MAX)
		return refuse(v, "has too many beginnings", v->body.insns[store].addr);
	v->entries[v->entry_cnt++] = (struct entry_place){ store, frame_in(v, store, reg) };
	return 0;
}

/* What is stored into the thread state: the frame, more than once where the compiler has made a way of its own for a rare case, or its
 * caller. */
static int find_places(struct eval *v)
{
	struct exit_place place;
	struct insn insn;
	int err = 0;

	for (size_t i = 0; !err && i < v->body.insn_cnt; i++) {
		if (v->body.insns[i].op != INSN_STORE ||
		    !eval_held__in(&v->held[i], v->body.insns[i].dst, HELD_TSTATE) ||
		    code__insn(&v->p->code, v->body.insns[i].addr, &insn) ||
		    !eval_may_store_frame(v->p, &insn))
			continue;
		if (eval_held__in(&v->held[i], insn.src, HELD_FRAME)) {
			err = add_entry(v, i, insn.src);
		} else if (find_load(v, i, &place)) {
			if (v->exit_cnt == EXITS_MAX)
				return refuse(v, "has too many ends", insn.addr);
			v->exits[v->exit_cnt++] = place;
		}
	}
	return err;
}

enum {
	SEEN = 1,
	STOP = 2, /* control is not followed from here */
	WANTED = 4,
};

struct reach {
	const struct eval *v;
	uint8_t *marks; /* for each instruction */
	size_t *list;
	size_t cnt;
	bool anywhere; /* has it come to where a jump may lead anywhere? */
};

static void reach_index(struct reach *r, size_t index)
{
	if (r->marks[index] & SEEN)
		return;
	r->marks[index] |= SEEN;
	r->list[r->cnt++] = index;
}

static void reach_to(struct reach *r, uint64_t addr)
{
	size_t index;

	if (!body__index(&r->v->body, addr, &index))
		reach_index(r, index);
}

static void reach_behind(struct reach *r, size_t index)
{
	size_t next;

	if (!body__next(&r->v->body, index, &next))
		reach_index(r, next);
}

static void reach_by_table(struct reach *r, size_t jump)
{
	size_t cnt;
	const uint32_t *to = eval_switches__of(r->v->switches, &r->v->body, jump, &cnt);

	if (to == r->v->switches->others) {
		if (r->anywhere)
			return;
		r->anywhere = true;
	}
	for (size_t i = 0; i < cnt; i++)
		reach_index(r, to[i]);
}

/* Follows the jumps from what is in the list; address of something wanted that it gets to, or 0. */
static uint64_t reach(struct reach *r)
{
	for (size_t i = 0; i < r->cnt; i++) {
		const struct body_insn *insn = &r->v->body.insns[r->list[i]];

		if (r->marks[r->list[i]] & WANTED)
			return insn->addr;
		if (r->marks[r->list[i]] & STOP)
			continue;
		reach_by_table(r, r->list[i]);
		if (insn->target && insn->flow != FLOW_CALL)
			reach_to(r, insn->target);
		if (insn->flow == FLOW_NEXT || insn->flow == FLOW_COND || insn->flow == FLOW_CALL)
			reach_behind(r, r->list[i]);
	}
	return 0;
}

static bool leaves(const struct eval *v, const struct body_insn *insn)
{
	return insn->flow == FLOW_RETURN ||
	       ((insn->flow == FLOW_JUMP || insn->flow == FLOW_COND) && insn->target &&
		!body__contains(&v->body, insn->target));
}

/* @entry, @exit: marks of the stores of the frame, and of the loads of its caller */
static void reach_begin(struct reach *r, uint8_t entry, uint8_t exit)
{
	const struct eval *v = r->v;

	r->cnt = 0;
	r->anywhere = false;
	memset(r->marks, 0, v->body.insn_cnt);
	for (size_t i = 0; i < v->entry_cnt; i++)
		r->marks[v->entries[i].store] = entry;
	for (size_t i = 0; i < v->exit_cnt; i++)
		r->marks[v->exits[i].load] = exit;
}

static void reach_behind_entries(struct reach *r)
{
	for (size_t i = 0; i < r->v->entry_cnt; i++)
		reach_behind(r, r->v->entries[i].store);
}

static int check_ways(const struct eval *v, struct reach *r)
{
	uint64_t at;

	reach_begin(r, STOP, WANTED);
	reach_to(r, v->body.entry);
	at = reach(r);
	if (at)
		return refuse(v, "has a way to its end that passes by the entry", at);
	reach_begin(r, WANTED, STOP);
	reach_behind_entries(r);
	at = reach(r);
	if (at)
		return refuse(v, "begins twice", at);
	reach_begin(r, 0, STOP);
	for (size_t i = 0; i < v->body.insn_cnt; i++)
		r->marks[i] |= leaves(v, &v->body.insns[i]) ? WANTED : 0;
	reach_behind_entries(r);
	at = reach(r);
	if (at)
		return refuse(v, "has an end that is not seen", at);
	reach_begin(r, WANTED, WANTED);
	for (size_t i = 0; i < v->exit_cnt; i++)
		reach_behind(r, v->exits[i].load);
	at = reach(r);
	return at ? refuse(v, "goes on after its end", at) : 0;
}

static int check(const struct eval *v)
{
	auto_free uint8_t *marks = calloc(v->body.insn_cnt, 1);
	auto_free size_t *list = calloc(v->body.insn_cnt, sizeof(*list));
	struct reach r = { .v = v, .marks = marks, .list = list };

	return marks && list ? check_ways(v, &r) : -ENOMEM;
}

/* Where the first instructions from the load on can give way: as long as the frame is at hand, any does as well as that. */
static int add_exit(const struct eval *v, struct inline_plan *out, const struct exit_place *exit)
{
	const struct flow_place frame = { .source = PROBE_IN_REG, .reg = exit->frame };
	uint64_t stored = v->body.insns[exit->store].addr + 1;
	struct insn insn = { 0 };
	int err = -ENOENT;

	for (size_t i = exit->load; err && i <= exit->store; i++) {
		if (insn.writes & 1u << exit->frame)
			break;
		err = plan_detour_draft(v->p, out, v->body.insns[i].addr, stored, INLINE_EVAL_EXIT,
					&frame);
		if (code__insn(&v->p->code, v->body.insns[i].addr, &insn))
			break;
	}
	return err;
}

/* Jumps by tables into the middle, of which plan_detours_check() knows but those of the dispatch table. */
static int check_middles(const struct eval *v, const struct inline_plan *out)
{
	for (uint32_t i = 0; i < out->detour_cnt; i++) {
		const struct inline_detour *d = &out->detours[i];

		for (uint64_t at = d->at + 1; at < d->at + d->size; at++)
			if (eval_switches__lead_to(v->switches, &v->body, at))
				return refuse(v, "has a case in the middle of what gives way", at);
	}
	return 0;
}

static int add(const struct eval *v, struct inline_plan *out)
{
	int err = 0;

	for (size_t i = 0; !err && i < v->entry_cnt; i++) {
		const struct flow_place frame = { .source = PROBE_IN_REG,
						  .reg = v->entries[i].frame };

		err = plan_detour_draft(v->p, out, v->body.insns[v->entries[i].store].addr, 0,
					INLINE_EVAL_ENTRY, &frame);
	}
	for (size_t i = 0; !err && i < v->exit_cnt; i++)
		err = add_exit(v, out, &v->exits[i]);
	if (!err)
		err = check_middles(v, out);
	return err ? err : plan_detours_check(v->p, out, 0);
}

static int find_held(struct eval *v)
{
	auto_free struct eval_early *early = calloc(1, sizeof(*early));
	int err = early ? eval_early__find(v->p, &v->body, early) : -ENOMEM;

	if (err == -ENOMEM)
		return err;
	/* of ways that are too many, the check says */
	if (!early->store_cnt)
		return refuse(v, "does not store the frame into the thread state at its beginning",
			      v->body.entry);
	if (early->tstate.insn == MAKER_NONE)
		return refuse(v, "has the thread state from nowhere",
			      v->body.insns[early->stores[0]].addr);
	err = eval_held__find(v->p, &v->body, v->switches, &early->tstate, &v->held);
	return err == -EILSEQ ? refuse(v, "has no beginning", v->body.entry) : err;
}

static int find(struct eval *v)
{
	int err = eval_switches__find(v->p, &v->body, v->switches);

	if (err == -E2BIG)
		return refuse(v, "has more switches, or cases, than can be followed",
			      v->body.entry);
	if (!err)
		err = find_held(v);
	if (!err)
		err = find_places(v);
	if (!err && !v->entry_cnt)
		err = refuse(v, "does not store the frame into the thread state", v->body.entry);
	if (!err && !v->exit_cnt)
		err = refuse(v, "does not give the thread state the caller back", v->body.entry);
	return err ? err : check(v);
}

int plan_inline_eval(struct planner *p, struct inline_plan *out)
{
	auto_free struct eval_switches *switches = calloc(1, sizeof(*switches));
	struct eval v = { .p = p, .switches = switches };
	struct elf_symbol symbol;
	int err;

	if (!switches)
		return -ENOMEM;
	if (!p->plan->tstate_current)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the variable with the thread state is not found",
			       p->plan->minor);
	if (elf_file__symbol(p->elf, "_PyEval_EvalFrameDefault", &symbol))
		return -ENOENT;
	err = body__init(&v.body, p, symbol.vaddr);
	if (!err)
		err = find(&v);
	if (!err)
		err = add(&v, out);
	eval_switches__done(switches);
	free(v.held);
	body__done(&v.body);
	return err;
}
