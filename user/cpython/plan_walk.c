// SPDX-License-Identifier: Apache-2.0
/* What a handler leads to by direct jumps. */
#include "cpython/planner.h"

#define WALK_INSN_MAX 600

static void walk_to(struct plan_walk *w, uint64_t addr)
{
	for (size_t i = 0; i < w->cnt; i++)
		if (w->seen[i] == addr)
			return;
	if (w->cnt < PLAN_WALK_BLOCKS)
		w->seen[w->cnt++] = addr;
}

struct plan_walk plan_walk_from(uint64_t addr)
{
	return (struct plan_walk){ .seen = { addr }, .cnt = 1, .left = WALK_INSN_MAX };
}

bool plan_walk(const struct planner *p, struct plan_walk *w, struct insn *insn)
{
	while (w->left && (w->at || w->next < w->cnt)) {
		uint64_t at = w->at ? w->at : w->seen[w->next++];

		w->at = 0;
		if (code__insn(&p->code, at, insn))
			continue;
		if (insn->target && insn->flow != FLOW_CALL)
			walk_to(w, insn->target);
		if (insn->flow != FLOW_JUMP && insn->flow != FLOW_RETURN && insn->flow != FLOW_STOP)
			w->at = at + insn->size;
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
