// SPDX-License-Identifier: Apache-2.0
/*
 * Up to 3.10 every frame is a call of one function. Its beginning and its end are seen where the thread
 * state gets the frame and where it gets the frame's caller back:
 *
 *   tstate->frame = f            past the check of the recursion limit: the frame really runs
 *   tstate->frame = f->f_back    the one way out; at the load of f_back the frame is still at hand
 *
 * Not the pointer interp->eval_frame, which is in no file, is not there before start-up, and shows no end of
 * the frames that run already. Proven by the jumps of the function: nothing gets past the first to the other,
 * or past the other to a return, and nothing passes two of the latter.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cpython/eval_body.h"
#include "cpython/eval_early.h"
#include "cpython/eval_switch.h"
#include "cpython/inline_plan.h"
#include "cpython/planner.h"
#include "elf/elf_file.h"

#define F_BACK	    24
#define STRETCH_MAX 32 /* instructions between a load of f_back and its store */
#define ENTRY_MAX   256
#define EXITS_MAX   4
#define ENTRIES_MAX 3
#define HOMES_MAX   7

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
	struct entry_place entries[ENTRIES_MAX];
	size_t entry_cnt;
	struct eval_early early;
	struct flow_place frame,
		tstate; /* where the function keeps them: registers, or words of its stack */
	struct exit_place exits[EXITS_MAX];
	size_t exit_cnt;
	bool framed; /* rbp is a frame pointer, so far from rsp: */
	int64_t rbp_disp;
};

/* Where the two may be kept, by what is known where the frame is first stored. */
struct homes {
	struct flow_place at[HOMES_MAX];
	size_t cnt;
};

struct kept {
	struct homes frames, tstates;
	uint8_t reg; /* what has the frame there */
};

static int refuse(const struct eval *v, const char *what, uint64_t at)
{
	return err_set(v->p->e, -PYE_EPLAN, "3.%u: the interpreter loop (0x%lx) %s (0x%lx)",
		       v->p->plan->minor, v->body.entry, what, at);
}

/* Registers that calls leave alone, and so the compiler's choice for all of the function, or for a while; a word of its stack. */
static void find_homes(const struct flow *f, struct flow_value value, struct homes *out)
{
	static const uint8_t kept[] = { PREG_RBX, PREG_RBP, PREG_R12, PREG_R13, PREG_R14, PREG_R15 };

	out->cnt = 0;
	for (size_t i = 0; i < sizeof(kept); i++)
		if (flow__is_same(f->regs[kept[i]], value))
			out->at[out->cnt++] =
				(struct flow_place){ .source = PROBE_IN_REG, .reg = kept[i] };
	if (flow__find_slot(f, value, &out->at[out->cnt]))
		out->cnt++;
}

/* What is known anywhere in the function. */
static void flow_begin(const struct eval *v, struct flow *f)
{
	flow__init(f);
	if (v->framed)
		f->regs[PREG_RBP] = (struct flow_value){ PREG_RSP, v->rbp_disp };
}

/* The one that is kept for it, or the one that has it just here. */
static uint8_t frame_in(const struct eval *v, uint8_t reg)
{
	return v->frame.source == PROBE_IN_REG ? v->frame.reg : reg;
}

/* Straight on from the beginning. */
static int find_entry(struct eval *v, struct kept *kept)
{
	uint64_t at = v->body.entry;
	struct insn insn;
	struct flow f;

	flow__init(&f);
	for (int i = 0; i < ENTRY_MAX && !code__insn(&v->p->code, at, &insn); i++) {
		if (eval_stores_frame(v->p, &f, &insn)) {
			find_homes(&f, f.regs[insn.src], &kept->frames);
			find_homes(&f, f.regs[insn.dst], &kept->tstates);
			if (!kept->frames.cnt)
				return refuse(v, "keeps its frame nowhere", at);
			if (!kept->tstates.cnt)
				return refuse(v, "keeps the thread state nowhere", at);
			kept->reg = insn.src;
			v->framed = f.regs[PREG_RBP].root == f.regs[PREG_RSP].root;
			v->rbp_disp = f.regs[PREG_RBP].disp - f.regs[PREG_RSP].disp;
			return body__index(&v->body, at, &v->entries[0].store)
				       ? refuse(v, "goes elsewhere at once", at)
				       : 0;
		}
		flow__step(&f, &insn);
		if (insn.flow == FLOW_RETURN || insn.flow == FLOW_STOP ||
		    (insn.flow == FLOW_JUMP && !insn.target))
			break;
		at = insn.flow == FLOW_JUMP ? insn.target : at + insn.size;
	}
	return refuse(v, "does not store the frame into the thread state at its beginning", at);
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

enum stored {
	STORED_OTHER,
	STORED_FRAME,
	STORED_CALLER, /* its f_back: @out says where that was loaded */
};

/* What does an instruction store into the thread state? */
static enum stored what_is_stored(const struct eval *v, size_t store, struct exit_place *out)
{
	struct flow_value frame, tstate, caller = { .root = 0 };
	struct insn insn = { 0 };
	struct flow f;

	*out = (struct exit_place){ .store = store };
	flow_begin(v, &f);
	frame = flow__at(&f, &v->frame);
	tstate = flow__at(&f, &v->tstate);
	for (size_t i = straight_from(v, store); i <= store; i++) {
		bool loads;

		if (code__insn(&v->p->code, v->body.insns[i].addr, &insn))
			return STORED_OTHER;
		if (i == store)
			break;
		loads = insn.op == INSN_LOAD && insn.disp == F_BACK &&
			flow__is_same(f.regs[insn.src], frame);
		flow__step(&f, &insn);
		if (!loads)
			continue;
		caller = f.regs[insn.dst];
		out->load = i;
		out->frame = frame_in(v, insn.src);
	}
	if (eval_early__stores(&v->early, store))
		return STORED_FRAME;
	if (!flow__is_same(f.regs[insn.dst], tstate))
		return STORED_OTHER;
	if (out->load && flow__is_same(f.regs[insn.src], caller))
		return STORED_CALLER;
	return flow__is_same(f.regs[insn.src], frame) ? STORED_FRAME : STORED_OTHER;
}

/* The other stores: of the frame, where the compiler has made a way of its own for a rare case, or of its
 * caller. */
static int find_others(struct eval *v)
{
	struct exit_place place;
	struct insn insn;

	for (size_t i = 1; i < v->body.insn_cnt; i++) {
		if (i == v->entries[0].store ||
		    code__insn(&v->p->code, v->body.insns[i].addr, &insn) ||
		    !eval_may_store_frame(v->p, &insn))
			continue;
		switch (what_is_stored(v, i, &place)) {
		case STORED_FRAME:
			if (v->entry_cnt == ENTRIES_MAX)
				return refuse(v, "has too many beginnings", insn.addr);
			v->entries[v->entry_cnt++] =
				(struct entry_place){ i, frame_in(v, insn.src) };
			break;
		case STORED_CALLER:
			if (v->exit_cnt == EXITS_MAX)
				return refuse(v, "has too many ends", insn.addr);
			v->exits[v->exit_cnt++] = place;
			break;
		case STORED_OTHER:
			break;
		}
	}
	return 0;
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
			reach_to(r, insn->addr + insn->size);
	}
	return 0;
}

static bool leaves(const struct eval *v, const struct body_insn *insn)
{
	return insn->flow == FLOW_RETURN ||
	       ((insn->flow == FLOW_JUMP || insn->flow == FLOW_COND) && insn->target &&
		!body__contains(&v->body, insn->target));
}

static void reach_clear(struct reach *r)
{
	r->cnt = 0;
	r->anywhere = false;
	for (size_t i = 0; i < r->v->body.insn_cnt; i++)
		r->marks[i] = 0;
}

static int check_ways(const struct eval *v, struct reach *r)
{
	uint64_t at;

	/* from the beginning, not past the entry */
	reach_clear(r);
	for (size_t i = 0; i < v->entry_cnt; i++)
		r->marks[v->entries[i].store] = STOP;
	for (size_t i = 0; i < v->exit_cnt; i++)
		r->marks[v->exits[i].load] = WANTED;
	reach_to(r, v->body.entry);
	at = reach(r);
	if (at)
		return refuse(v, "has a way to its end that passes by the entry", at);
	/* from anywhere behind the entry, not past an exit */
	reach_clear(r);
	for (size_t i = 0; i < v->body.insn_cnt; i++)
		r->marks[i] = leaves(v, &v->body.insns[i]) ? WANTED : 0;
	for (size_t i = 0; i < v->exit_cnt; i++)
		r->marks[v->exits[i].load] = STOP;
	for (size_t i = 0; i < v->entry_cnt; i++)
		reach_to(r, v->body.insns[v->entries[i].store + 1].addr);
	at = reach(r);
	if (at)
		return refuse(v, "has an end that is not seen", at);
	/* from an exit on, to none and not to the entry */
	reach_clear(r);
	for (size_t i = 0; i < v->entry_cnt; i++)
		r->marks[v->entries[i].store] = WANTED;
	for (size_t i = 0; i < v->exit_cnt; i++)
		r->marks[v->exits[i].load] = WANTED;
	for (size_t i = 0; i < v->exit_cnt; i++)
		reach_to(r, v->body.insns[v->exits[i].load + 1].addr);
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

/* Are these the two that are kept all the time? Then all fits. */
static int try_homes(struct eval *v, const struct kept *kept)
{
	int err;

	v->exit_cnt = 0;
	v->entry_cnt = 1;
	v->entries[0].frame = frame_in(v, kept->reg);
	/* of those on ways that are too many, the check says */
	err = eval_early__find(v->p, &v->body, &v->tstate, &v->early);
	if (err != -ENOMEM)
		err = find_others(v);
	if (!err && !v->exit_cnt)
		err = refuse(v, "does not give the thread state the caller back", v->body.entry);
	return err ? err : check(v);
}

static int try_all(struct eval *v, const struct kept *kept)
{
	size_t frames = kept->frames.cnt, tstates = kept->tstates.cnt;
	int err = -ENOENT;

	for (size_t i = 0; err && err != -ENOMEM && i < frames * tstates; i++) {
		v->frame = kept->frames.at[i / tstates];
		v->tstate = kept->tstates.at[i % tstates];
		err = try_homes(v, kept);
	}
	return err;
}

int plan_inline_eval(struct planner *p, struct inline_plan *out)
{
	auto_free struct eval_switches *switches = calloc(1, sizeof(*switches));
	struct eval v = { .p = p, .switches = switches };
	struct kept kept = { 0 };
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
		err = eval_switches__find(p, &v.body, switches);
	if (!err)
		err = find_entry(&v, &kept);
	if (!err)
		err = try_all(&v, &kept);
	if (!err)
		err = add(&v, out);
	eval_switches__done(switches);
	body__done(&v.body);
	return err;
}
