// SPDX-License-Identifier: Apache-2.0
/* The end of an aggregate: from what was collected per stack to the sums per function. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/aggregate_priv.h"

/* What the profiler cost in a stack. Each of its calls keeps 1 ns: what was called is in every graph, also where the
 * measured cost of a probe is more than the call took. */
static uint64_t own_part(const struct agg_stack *s, uint64_t cost)
{
	uint64_t most = s->self_ns > s->calls ? s->self_ns - s->calls : 0;

	return cost < most ? cost : most;
}

/* Takes the own cost out, adds up the functions and, from the leaves on, the totals. */
static void settle(struct agg_result *r, struct agg_func *funcs, struct agg_stack *s)
{
	for (uint32_t i = 0; i < r->stack_cnt; i++) {
		uint64_t cost = s[i].total_ns, own = own_part(&s[i], cost);

		r->own_ns += own;
		s[i].self_ns -= r->raw ? 0 : own;
		s[i].total_ns = s[i].self_ns;
		r->self_ns += s[i].self_ns;
		if (s[i].func == AGG_NONE)
			continue;
		funcs[s[i].func].self_ns += s[i].self_ns;
		funcs[s[i].func].calls += s[i].calls;
		funcs[s[i].func].own_ns += cost;
	}
	for (uint32_t i = r->stack_cnt; i-- > 0;) {
		if (s[i].parent != AGG_NONE)
			s[s[i].parent].total_ns += s[i].total_ns;
	}
}

/* Children of a stack are a list: first[parent], then next[child]. */
static void link_children(const struct agg_result *r, const struct agg_stack *s, uint32_t *first,
			  uint32_t *next)
{
	for (uint32_t i = 0; i < r->stack_cnt; i++)
		first[i] = AGG_NONE;
	for (uint32_t i = r->stack_cnt; i-- > 0;) {
		if (s[i].parent == AGG_NONE)
			continue;
		next[i] = first[s[i].parent];
		first[s[i].parent] = i;
	}
}

/* One tree, depth-first, with a count per group of how often it is on the way. */
static void add_tree(const struct agg_stack *s, uint32_t root, const uint32_t *first,
		     const uint32_t *next, const uint32_t *group_of, uint32_t *on_path,
		     uint64_t *total_ns)
{
	uint32_t at = root;

	for (;;) {
		uint32_t group = at == root ? AGG_NONE : group_of[s[at].func];

		if (group != AGG_NONE && !on_path[group]++)
			total_ns[group] += s[at].total_ns;
		if (first[at] != AGG_NONE) {
			at = first[at];
			continue;
		}
		while (at != root) {
			group = group_of[s[at].func];
			if (group != AGG_NONE)
				on_path[group]--;
			if (next[at] != AGG_NONE)
				break;
			at = s[at].parent;
		}
		if (at == root)
			return;
		at = next[at];
	}
}

int agg_group_totals(const struct agg_result *r, const uint32_t *group_of, uint32_t group_cnt,
		     uint64_t *total_ns)
{
	auto_free uint32_t *on_path = calloc(group_cnt + 1ull, sizeof(*on_path));
	auto_free uint32_t *first = malloc((r->stack_cnt + 1ull) * sizeof(*first));
	auto_free uint32_t *next = malloc((r->stack_cnt + 1ull) * sizeof(*next));

	if (!on_path || !first || !next)
		return -ENOMEM;
	memset(total_ns, 0, group_cnt * sizeof(*total_ns));
	link_children(r, r->stacks, first, next);
	for (uint32_t root = 0; root < r->stack_cnt; root++) {
		if (r->stacks[root].parent == AGG_NONE)
			add_tree(r->stacks, root, first, next, group_of, on_path, total_ns);
	}
	return 0;
}

static int add_totals(const struct agg_result *r, struct agg_func *funcs)
{
	auto_free uint32_t *self = malloc((r->func_cnt + 1ull) * sizeof(*self));
	auto_free uint64_t *total_ns = malloc((r->func_cnt + 1ull) * sizeof(*total_ns));
	int err;

	if (!self || !total_ns)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->func_cnt; i++)
		self[i] = i;
	err = agg_group_totals(r, self, r->func_cnt, total_ns);
	for (uint32_t i = 0; i < r->func_cnt && !err; i++)
		funcs[i].total_ns = total_ns[i];
	return err;
}

int agg_settle(struct agg_result *r, struct agg_func *funcs, struct agg_stack *stacks, bool totals)
{
	settle(r, funcs, stacks);
	r->stacks = stacks;
	return totals ? add_totals(r, funcs) : 0;
}
