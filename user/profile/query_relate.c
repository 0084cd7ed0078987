// SPDX-License-Identifier: Apache-2.0
/* Callers and callees of a function, from the tree of stacks. A parent comes before its children. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "profile/query_priv.h"
#include "profile/ranking.h"

bool query_same_func(const struct agg_func *left, const struct agg_func *right)
{
	return left->file == right->file && left->qualname == right->qualname &&
	       left->line == right->line;
}

struct relate {
	const struct agg_result *all;
	uint32_t target; /* group */
	uint32_t group_cnt;
	uint32_t *group_of; /* of each function */
	uint32_t *inside; /* of each stack: times that the function is in it */
	double *own; /* of each group: what the profiler cost in a call, in ns */
	struct query_edge *callers, *callees; /* by group; the last one is that of no caller */
};

static void relate_done(struct relate *l)
{
	free(l->group_of);
	free(l->inside);
	free(l->own);
	free(l->callers);
	free(l->callees);
}

/* The profiler's own cost is known of a function, not of an edge. */
static int own_of_calls(struct relate *l)
{
	uint64_t *calls = calloc(l->group_cnt + 1ull, sizeof(*calls));

	l->own = calloc(l->group_cnt + 1ull, sizeof(*l->own));
	if (!calls || !l->own) {
		free(calls);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < l->all->func_cnt; i++) {
		l->own[l->group_of[i]] += (double)l->all->funcs[i].own_ns;
		calls[l->group_of[i]] += l->all->funcs[i].calls;
	}
	for (uint32_t g = 0; g < l->group_cnt; g++)
		l->own[g] /= calls[g] ? (double)calls[g] : 1;
	free(calls);
	return 0;
}

static int relate_init(struct relate *l, const struct query_result *r)
{
	int err;

	l->all = r->all;
	l->group_of = malloc((l->all->func_cnt + 1ull) * sizeof(*l->group_of));
	l->inside = malloc((l->all->stack_cnt + 1ull) * sizeof(*l->inside));
	if (!l->group_of || !l->inside)
		return -ENOMEM;
	err = ranking_groups(l->all, RANKING_FUNCTION, false, l->group_of, &l->group_cnt);
	if (err)
		return err;
	l->target = l->group_of[r->func];
	l->callers = calloc(l->group_cnt + 1ull, sizeof(*l->callers));
	l->callees = calloc(l->group_cnt + 1ull, sizeof(*l->callees));
	return l->callers && l->callees ? own_of_calls(l) : -ENOMEM;
}

static void add(const struct relate *l, struct query_edge *edge, const struct agg_stack *s,
		uint32_t func, bool outermost)
{
	edge->func = func;
	edge->calls += s->calls;
	edge->self_ns += s->self_ns;
	edge->total_ns += outermost ? s->total_ns : 0;
	edge->own_ns += (uint64_t)((double)s->calls * l->own[l->group_of[s->func]]);
}

static void relate(struct relate *l)
{
	const struct agg_result *all = l->all;

	for (uint32_t i = 0; i < all->stack_cnt; i++) {
		const struct agg_stack *s = &all->stacks[i];
		uint32_t caller, outside;

		l->inside[i] = 0;
		if (s->parent == AGG_NONE)
			continue;
		caller = all->stacks[s->parent].func;
		outside = l->inside[s->parent];
		l->inside[i] = outside;
		if (caller != AGG_NONE && l->group_of[caller] == l->target)
			add(l, &l->callees[l->group_of[s->func]], s, s->func, outside == 1);
		if (l->group_of[s->func] != l->target)
			continue;
		l->inside[i]++;
		add(l, &l->callers[caller == AGG_NONE ? l->group_cnt : l->group_of[caller]], s,
		    caller, !outside);
	}
}

static int by_total(const void *left, const void *right)
{
	const struct query_edge *l = left, *r = right;

	if (l->total_ns != r->total_ns)
		return l->total_ns > r->total_ns ? -1 : 1;
	if (l->calls != r->calls)
		return l->calls > r->calls ? -1 : 1;
	return l->func < r->func ? -1 : l->func > r->func;
}

static struct query_edges sorted(struct query_edge *edges, uint32_t cnt)
{
	struct query_edges out = { .edges = edges };

	for (uint32_t i = 0; i < cnt; i++) {
		if (edges[i].calls || edges[i].total_ns || edges[i].self_ns)
			edges[out.cnt++] = edges[i];
	}
	qsort(edges, out.cnt, sizeof(*edges), by_total);
	return out;
}

int query_relate(struct query_result *r)
{
	auto_fn(relate_done) struct relate l = { 0 };
	int err = relate_init(&l, r);

	if (err)
		return err;
	relate(&l);
	r->callers = sorted(take_ptr(l.callers), l.group_cnt + 1);
	r->callees = sorted(take_ptr(l.callees), l.group_cnt + 1);
	for (uint32_t i = 0; i < r->callers.cnt; i++) {
		r->calls += r->callers.edges[i].calls;
		r->self_ns += r->callers.edges[i].self_ns;
		r->total_ns += r->callers.edges[i].total_ns;
		r->own_ns += r->callers.edges[i].own_ns;
	}
	return 0;
}
