// SPDX-License-Identifier: Apache-2.0
/*
 * What a handler leads to by direct jumps. Blocks take turns: where something fails a handler jumps to code
 * that all handlers share, in which hundreds of instructions follow each other, and its own way goes on
 * behind another jump.
 */
#include "cpython/planner.h"

/* Instructions. With half as many the call on another way of 3.13's RETURN_CONST (Debian's build) comes before its own. */
#define TURN 32

static void walk_to(struct plan_walk *w, uint64_t addr)
{
	for (size_t i = 0; i < w->cnt; i++)
		if (w->turns[i].start == addr)
			return;
	if (w->cnt < PLAN_WALK_TURNS)
		w->turns[w->cnt++].start = addr;
}

struct plan_walk plan_walk_from(uint64_t addr)
{
	return (struct plan_walk){ .turns = { { .start = addr } },
				   .cnt = 1,
				   .left = PLAN_WALK_INSNS };
}

static bool is_walked(const struct plan_walk *w, uint64_t addr)
{
	for (size_t i = 0; i < w->next; i++)
		if (addr >= w->turns[i].start && addr < w->turns[i].end)
			return true;
	return false;
}

/* A block whose turn is over waits for another one. */
static bool take_turn(struct plan_walk *w)
{
	if (w->at && w->turn_left)
		return true;
	if (w->at)
		walk_to(w, w->at);
	if (w->next == w->cnt)
		return false;
	w->at = w->turns[w->next++].start;
	w->turn_left = TURN;
	return true;
}

static bool ends_a_frame(const struct endings *e, const struct insn *insn)
{
	for (size_t i = 0; i < e->end_cnt; i++)
		if (e->ends[i].at == insn->addr)
			return true;
	return insn->flow == FLOW_CALL;
}

static bool goes_on(const struct plan_walk *w, const struct insn *insn)
{
	if (w->to_ends && ends_a_frame(w->to_ends, insn))
		return false;
	return insn->flow == FLOW_NEXT || insn->flow == FLOW_COND || insn->flow == FLOW_CALL;
}

bool plan_walk(const struct planner *p, struct plan_walk *w, struct insn *insn)
{
	while (w->left && take_turn(w)) {
		uint64_t at = w->at;

		w->at = 0;
		if (is_walked(w, at) || code__insn(&p->code, at, insn))
			continue;
		w->turns[w->next - 1].end = at + insn->size;
		if (insn->target && insn->flow != FLOW_CALL)
			walk_to(w, insn->target);
		if (goes_on(w, insn))
			w->at = at + insn->size;
		w->turn_left--;
		w->left--;
		return true;
	}
	return false;
}

uint64_t plan_find_call(const struct planner *p, uint64_t start, uint64_t wanted)
{
	struct plan_walk w = plan_walk_from(start);
	struct insn insn;

	while (plan_walk(p, &w, &insn))
		if (insn.flow == FLOW_CALL && insn.target &&
		    code__resolve(&p->code, insn.target) == wanted)
			return insn.addr;
	return 0;
}
