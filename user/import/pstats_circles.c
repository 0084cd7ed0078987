// SPDX-License-Identifier: Apache-2.0
/*
 * Functions that call each other in circles. The tree has each function once on a way, so what runs below the call that
 * closes a circle is found above it: the caller's total lacks it. How much that is the file says, in the total. So much
 * of the called function's own time, with what it calls, is moved below its caller. That is exact for two functions;
 * of larger circles those in between get it too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "import/pstats_tree.h"

#define NONE	 UINT32_MAX
#define WORK_MAX 300000000ull /* looks at nodes; circles past it stay as they are */

struct circles {
	struct pstats_graph *g;
	uint64_t *sub_ns; /* of each node: with all below it */
	uint8_t *has; /* of each node: the caller is on the way to it (1), is below it (2) */
	uint32_t *copy; /* of each node; NONE */
	uint32_t cap, cnt; /* cnt: of nodes when they were looked at; those behind are new */
	uint64_t work;
};

enum {
	NODES_MAX = 1 << 20, /* beyond, nothing is moved: that takes new ones */
	ABOVE = 1,
	BELOW = 2
};

static void circles__done(struct circles *c)
{
	free(c->sub_ns);
	free(c->has);
	free(c->copy);
}

static int make_room(struct circles *c)
{
	uint32_t cnt = c->g->node_cnt;

	if (cnt <= c->cap)
		return 0;
	circles__done(c);
	*c = (struct circles){ .g = c->g, .work = c->work, .cap = cnt * 2 };
	c->sub_ns = malloc(c->cap * sizeof(*c->sub_ns));
	c->has = malloc(c->cap * sizeof(*c->has));
	c->copy = malloc(c->cap * sizeof(*c->copy));
	return c->sub_ns && c->has && c->copy ? 0 : -ENOMEM;
}

/* A parent has a smaller index than its children. Return: the total of @func in the tree. */
static uint64_t look(struct circles *c, uint32_t func)
{
	const struct pstats_node *nodes = c->g->nodes;
	uint64_t total_ns = 0;

	for (uint32_t i = 0; i < c->g->node_cnt; i++) {
		uint32_t parent = nodes[i].parent;

		c->sub_ns[i] = nodes[i].self_ns;
		c->has[i] = parent != NONE && (nodes[parent].func == func || c->has[parent]) ? ABOVE
											     : 0;
	}
	for (uint32_t i = c->g->node_cnt; i-- > 0;) {
		uint32_t parent = nodes[i].parent;

		if (nodes[i].func == func && !(c->has[i] & ABOVE))
			total_ns += c->sub_ns[i];
		if (parent == NONE)
			continue;
		c->sub_ns[parent] += c->sub_ns[i];
		if (nodes[i].func == func || c->has[i] & BELOW)
			c->has[parent] |= BELOW;
	}
	c->work += c->g->node_cnt;
	return total_ns;
}

/* The nearest node of @func above a node. */
static uint32_t above(struct circles *c, uint32_t node, uint32_t func)
{
	do {
		node = c->g->nodes[node].parent;
		c->work++;
	} while (node != NONE && c->g->nodes[node].func != func);
	return node;
}

/* What is left of them stays as it is. */
static bool is_spent(const struct circles *c)
{
	return c->work >= WORK_MAX || c->g->node_cnt > NODES_MAX;
}

static bool is_own(const struct circles *c, uint32_t node, uint32_t func)
{
	return c->g->nodes[node].func != func && !(c->has[node] & BELOW);
}

/* A part of @node goes to a new one below @parent. */
static int split(struct circles *c, uint32_t node, uint32_t parent, double part)
{
	struct pstats_node *from = &c->g->nodes[node], *to;
	struct pstats_node moved = { .parent = parent,
				     .func = from->func,
				     .calls = (uint64_t)((double)from->calls * part),
				     .self_ns = (uint64_t)((double)from->self_ns * part) };

	from->calls -= moved.calls;
	from->self_ns -= moved.self_ns;
	to = pstats_graph__node(c->g);
	if (!to)
		return -ENOMEM;
	*to = moved;
	c->copy[node] = c->g->node_cnt - 1;
	return 0;
}

/* Of what is @top's own, in regard of a @caller below it, so much goes below @node. */
static int move(struct circles *c, uint32_t top, uint32_t node, uint32_t caller, double ns)
{
	double own_ns = (double)c->g->nodes[top].self_ns, part;
	int err;

	c->work += c->cnt - top;
	for (uint32_t i = top + 1; i < c->cnt; i++) {
		if (c->g->nodes[i].parent == top && is_own(c, i, caller))
			own_ns += (double)c->sub_ns[i];
	}
	if (!(own_ns > 0))
		return 0;
	part = ns < own_ns ? ns / own_ns : 1;
	memset(c->copy, 0xff, c->cnt * sizeof(*c->copy));
	err = split(c, top, node, part);
	for (uint32_t i = top + 1; i < c->cnt && !err; i++) {
		uint32_t parent = c->g->nodes[i].parent;

		if (parent != NONE && c->copy[parent] != NONE && is_own(c, i, caller))
			err = split(c, i, c->copy[parent], part);
	}
	c->work += c->cnt;
	return err;
}

static int open_circle(struct circles *c, const struct pstats_edge *e)
{
	double want_ns = c->g->funcs[e->caller].sums.total_s * 1e9, all_ns = 0, lacks_ns;
	int err = make_room(c);

	if (err)
		return err;
	c->cnt = c->g->node_cnt;
	lacks_ns = want_ns - (double)look(c, e->caller);
	for (uint32_t i = 0; i < c->cnt && !is_spent(c); i++) {
		if (c->g->nodes[i].func == e->caller && !(c->has[i] & ABOVE) &&
		    above(c, i, e->func) != NONE)
			all_ns += (double)c->sub_ns[i];
	}
	if (lacks_ns < 1 || !(all_ns > 0))
		return 0;
	for (uint32_t i = 0; i < c->cnt && !err && !is_spent(c); i++) {
		uint32_t top;

		if (c->g->nodes[i].func != e->caller || c->has[i] & ABOVE)
			continue;
		top = above(c, i, e->func);
		if (top != NONE)
			err = move(c, top, i, e->caller, lacks_ns * (double)c->sub_ns[i] / all_ns);
	}
	return err;
}

int pstats_graph__open_circles(struct pstats_graph *g)
{
	auto_fn(circles__done) struct circles c = { .g = g };
	int err = 0;

	for (uint32_t i = 0; i < g->edge_cnt && !err && !is_spent(&c); i++) {
		if (g->edges[i].is_back && g->edges[i].func != g->edges[i].caller)
			err = open_circle(&c, &g->edges[i]);
	}
	g->has_circles_left = is_spent(&c);
	return err;
}
