// SPDX-License-Identifier: Apache-2.0
#include "profile/callgraph.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/idmap.h"

/* The walk over all trees, depth-first. */
struct walk {
	struct callgraph *g;
	const struct agg_result *r;
	const uint32_t *group_of;
	struct idmap edges; /* caller, callee -> edge */
	uint32_t *first, *next; /* children of each stack: first[parent], then next[child] */
	uint32_t *edge_of; /* by stack: the edge that it was counted on, or AGG_NONE */
	uint32_t *nodes_on_path, *edges_on_path; /* how often each is on the way from the root */
};

static void walk_done(struct walk *w)
{
	idmap__done(&w->edges);
	free(w->first);
	free(w->next);
	free(w->edge_of);
	free(w->nodes_on_path);
	free(w->edges_on_path);
}

void callgraph__done(struct callgraph *g)
{
	free(g->nodes);
	free(g->edges);
	*g = (struct callgraph){ 0 };
}

static int walk_init(struct walk *w)
{
	const struct agg_result *r = w->r;
	uint64_t cnt = r->stack_cnt + 1ull;

	w->first = malloc(cnt * sizeof(*w->first));
	w->next = malloc(cnt * sizeof(*w->next));
	w->edge_of = malloc(cnt * sizeof(*w->edge_of));
	w->nodes_on_path = calloc(w->g->node_cnt + 1ull, sizeof(*w->nodes_on_path));
	if (!w->first || !w->next || !w->edge_of || !w->nodes_on_path)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->stack_cnt; i++)
		w->first[i] = AGG_NONE;
	for (uint32_t i = r->stack_cnt; i-- > 0;) {
		uint32_t parent = r->stacks[i].parent;

		if (parent == AGG_NONE)
			continue;
		w->next[i] = w->first[parent];
		w->first[parent] = i;
	}
	return 0;
}

static int grow_edges(struct walk *w)
{
	struct callgraph *g = w->g;
	uint32_t cap = g->edge_cap ? g->edge_cap * 2 : 256;
	uint32_t *on_path;
	struct callgraph_edge *edges;

	if (cap > AGG_NONE / 2)
		return -EOVERFLOW;
	edges = realloc(g->edges, cap * sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	g->edges = edges;
	on_path = realloc(w->edges_on_path, cap * sizeof(*on_path));
	if (!on_path)
		return -ENOMEM;
	w->edges_on_path = on_path;
	g->edge_cap = cap;
	return 0;
}

static int find_edge(struct walk *w, uint32_t caller, uint32_t callee, uint32_t *edge)
{
	struct callgraph *g = w->g;
	uint64_t key = (uint64_t)caller << 32 | callee;
	uint32_t i = idmap__find(&w->edges, key);
	int err = 0;

	if (i == IDMAP_NONE) {
		i = g->edge_cnt;
		if (i == g->edge_cap)
			err = grow_edges(w);
		err = err ? err : idmap__set(&w->edges, key, i);
		if (err)
			return err;
		g->edges[i] = (struct callgraph_edge){ .caller = caller,
						       .next = g->nodes[callee].callers };
		w->edges_on_path[i] = 0;
		g->nodes[callee].callers = i;
		g->edge_cnt++;
	}
	*edge = i;
	return 0;
}

static void add(struct callgraph_sums *sums, const struct agg_stack *s, bool outermost)
{
	sums->calls += s->calls;
	sums->self_ns += s->self_ns;
	if (!outermost)
		return;
	sums->primitive_calls += s->calls;
	sums->total_ns += s->total_ns;
}

static int enter(struct walk *w, uint32_t at)
{
	const struct agg_stack *s = &w->r->stacks[at], *parent = &w->r->stacks[s->parent];
	uint32_t group = w->group_of[s->func], edge;
	int err;

	w->g->nodes[group].stack_cnt++;
	add(&w->g->nodes[group].sums, s, !w->nodes_on_path[group]++);
	w->edge_of[at] = AGG_NONE;
	if (parent->func == AGG_NONE)
		return 0;
	err = find_edge(w, w->group_of[parent->func], group, &edge);
	if (err)
		return err;
	w->edge_of[at] = edge;
	add(&w->g->edges[edge].sums, s, !w->edges_on_path[edge]++);
	return 0;
}

static void leave(struct walk *w, uint32_t at)
{
	w->nodes_on_path[w->group_of[w->r->stacks[at].func]]--;
	if (w->edge_of[at] != AGG_NONE)
		w->edges_on_path[w->edge_of[at]]--;
}

static int walk_tree(struct walk *w, uint32_t root)
{
	uint32_t at = w->first[root];
	int err;

	while (at != AGG_NONE) {
		err = enter(w, at);
		if (err)
			return err;
		if (w->first[at] != AGG_NONE) {
			at = w->first[at];
			continue;
		}
		for (;;) {
			leave(w, at);
			if (w->next[at] != AGG_NONE || w->r->stacks[at].parent == root)
				break;
			at = w->r->stacks[at].parent;
		}
		at = w->next[at];
	}
	return 0;
}

int callgraph__init(struct callgraph *g, const struct agg_result *r, const uint32_t *group_of,
		    uint32_t group_cnt)
{
	auto_fn(walk_done) struct walk w = { .g = g, .r = r, .group_of = group_of };
	int err;

	*g = (struct callgraph){ .node_cnt = group_cnt };
	g->nodes = calloc(group_cnt + 1ull, sizeof(*g->nodes));
	if (!g->nodes)
		return -ENOMEM;
	for (uint32_t i = 0; i < group_cnt; i++)
		g->nodes[i].callers = AGG_NONE;
	err = walk_init(&w);
	for (uint32_t i = 0; i < r->stack_cnt && !err; i++) {
		if (r->stacks[i].parent == AGG_NONE)
			err = walk_tree(&w, i);
	}
	return err;
}
