// SPDX-License-Identifier: Apache-2.0
/* The end of an aggregate: from what was collected per stack to the sums per function. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "profile/aggregate_priv.h"

/* Takes the own cost out, adds up the functions and, from the leaves on, the totals. */
static void settle(struct agg_result *r, struct agg_func *funcs, struct agg_stack *s)
{
	for (uint32_t i = 0; i < r->stack_cnt; i++) {
		uint64_t own = s[i].total_ns < s[i].self_ns ? s[i].total_ns : s[i].self_ns;

		r->own_ns += own;
		s[i].self_ns -= r->raw ? 0 : own;
		s[i].total_ns = s[i].self_ns;
		r->self_ns += s[i].self_ns;
		if (s[i].func == AGG_NONE)
			continue;
		funcs[s[i].func].self_ns += s[i].self_ns;
		funcs[s[i].func].calls += s[i].calls;
	}
	for (uint32_t i = r->stack_cnt; i-- > 0;) {
		if (s[i].parent != AGG_NONE)
			s[s[i].parent].total_ns += s[i].total_ns;
	}
}

/*
 * A function's total is the sum over the stacks whose top it is and that do not hold it further
 * down. The walk goes over the tree in depth-first order, with a count per function of how often
 * it is on the way; children of a stack are a list through next[], whose head is last_child.
 */
static int add_totals(const struct agg_result *r, struct agg_func *funcs, struct agg_stack *s)
{
	auto_free uint32_t *on_path = calloc(r->func_cnt + 1ull, sizeof(*on_path));
	auto_free uint32_t *next = malloc((r->stack_cnt + 1ull) * sizeof(*next));

	if (!on_path || !next)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->stack_cnt; i++)
		s[i].last_child = AGG_NONE;
	for (uint32_t i = r->stack_cnt; i-- > 0;) {
		if (s[i].parent == AGG_NONE)
			continue;
		next[i] = s[s[i].parent].last_child;
		s[s[i].parent].last_child = i;
	}
	for (uint32_t root = 0; root < r->stack_cnt; root++) {
		uint32_t at = root;

		if (s[root].parent != AGG_NONE)
			continue;
		for (;;) {
			if (at != root && !on_path[s[at].func]++)
				funcs[s[at].func].total_ns += s[at].total_ns;
			if (s[at].last_child != AGG_NONE) {
				at = s[at].last_child;
				continue;
			}
			while (at != root) {
				on_path[s[at].func]--;
				if (next[at] != AGG_NONE)
					break;
				at = s[at].parent;
			}
			if (at == root)
				break;
			at = next[at];
		}
	}
	return 0;
}

int agg_settle(struct agg_result *r, struct agg_func *funcs, struct agg_stack *stacks)
{
	settle(r, funcs, stacks);
	return add_totals(r, funcs, stacks);
}

static bool before(const struct agg_func *funcs, uint32_t left, uint32_t right)
{
	if (funcs[left].self_ns != funcs[right].self_ns)
		return funcs[left].self_ns > funcs[right].self_ns;
	return left < right;
}

uint32_t aggregate__top(const struct aggregate *a, uint32_t *out, uint32_t cnt)
{
	const struct agg_result *r = aggregate__result(a);
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->func_cnt && cnt; i++) {
		uint32_t at = n < cnt ? n : cnt - 1;

		if (!r->funcs[i].self_ns && !r->funcs[i].calls)
			continue;
		if (n == cnt && !before(r->funcs, i, out[at]))
			continue;
		for (; at > 0 && before(r->funcs, i, out[at - 1]); at--)
			out[at] = out[at - 1];
		out[at] = i;
		n += n < cnt;
	}
	return n;
}
