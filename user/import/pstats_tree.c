// SPDX-License-Identifier: Apache-2.0
#include "import/pstats_tree.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	PARTS_MAX = 4 << 20, /* functions; pairs */
	NODES_MAX = 500000,
	DEPTH_MAX = TRACE_SAMPLE_FRAMES - 1,
	ON_WAY = 1,
	DONE = 2
};

#define NONE	    UINT32_MAX
#define LEAST_SHARE 1e-7 /* of all time; of what is less the callers are not shown */
#define SECONDS_MAX 1e9
#define CALLS_MAX   1e18

static int grow(void *array, uint32_t *cap, uint32_t cnt, size_t size)
{
	uint32_t more = *cap ? *cap * 2 : 64;
	void *grown;

	if (cnt < *cap)
		return 0;
	if (cnt >= PARTS_MAX)
		return -EOVERFLOW;
	grown = reallocarray(*(void **)array, more, size);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*cap = more;
	return 0;
}

int pstats_graph__init(struct pstats_graph *g)
{
	*g = (struct pstats_graph){ 0 };
	return strpool__init(&g->keys);
}

void pstats_graph__done(struct pstats_graph *g)
{
	strpool__done(&g->keys);
	free(g->funcs);
	free(g->edges);
	free(g->nodes);
	free(g->ids);
	free(g->frames);
}

int pstats_graph__func(struct pstats_graph *g, uint32_t file, uint32_t name, uint32_t line,
		       uint32_t *func)
{
	const uint32_t key[3] = { file, name, line };
	uint32_t id;
	int err = grow(&g->funcs, &g->func_cap, g->func_cnt, sizeof(*g->funcs));

	err = err ? err : strpool__add(&g->keys, (const char *)key, sizeof(key), &id);
	if (err)
		return err;
	*func = id - 1;
	if (*func == g->func_cnt)
		g->funcs[g->func_cnt++] = (struct pstats_func){ .name = name,
								.file = file,
								.line = line,
								.callers = NONE,
								.called = NONE,
								.heaviest = NONE,
								.heaviest_share = -1 };
	return 0;
}

static void add_sums(struct pstats_sums *to, const struct pstats_sums *from)
{
	to->calls = fmin(to->calls + from->calls, CALLS_MAX);
	to->self_s = fmin(to->self_s + from->self_s, SECONDS_MAX);
	to->total_s = fmin(to->total_s + from->total_s, SECONDS_MAX);
}

int pstats_graph__sums(struct pstats_graph *g, uint32_t func, const struct pstats_sums *sums)
{
	add_sums(&g->funcs[func].sums, sums);
	return 0;
}

int pstats_graph__edge(struct pstats_graph *g, uint32_t func, uint32_t caller,
		       const struct pstats_sums *sums)
{
	int err = grow(&g->edges, &g->edge_cap, g->edge_cnt, sizeof(*g->edges));
	struct pstats_edge *edge;

	if (err)
		return err;
	edge = &g->edges[g->edge_cnt];
	*edge = (struct pstats_edge){ .func = func,
				      .caller = caller,
				      .next = g->funcs[func].callers,
				      .next_called = g->funcs[caller].called };
	add_sums(&edge->sums, sums);
	g->funcs[func].callers = g->funcs[caller].called = g->edge_cnt++;
	return 0;
}

/* Depth first from one function: an edge to one that is on the way closes a circle. */
static void mark_circles(struct pstats_graph *g, uint32_t root, uint32_t *way, uint32_t *next)
{
	uint32_t depth = 0;

	way[depth++] = root;
	next[root] = g->funcs[root].called;
	g->funcs[root].seen = ON_WAY;
	while (depth) {
		uint32_t at = way[depth - 1], i = next[at];
		struct pstats_edge *edge;

		if (i == NONE) {
			g->funcs[at].seen = DONE;
			depth--;
			continue;
		}
		edge = &g->edges[i];
		next[at] = edge->next_called;
		edge->is_back = g->funcs[edge->func].seen == ON_WAY;
		if (g->funcs[edge->func].seen)
			continue;
		g->funcs[edge->func].seen = ON_WAY;
		next[edge->func] = g->funcs[edge->func].called;
		way[depth++] = edge->func;
	}
}

/* Whom nobody calls first; what is left after them are circles, entered where most of their time is. */
static int find_circles(struct pstats_graph *g)
{
	auto_free uint32_t *way = malloc((g->func_cnt + 1ull) * sizeof(*way));
	auto_free uint32_t *next = malloc((g->func_cnt + 1ull) * sizeof(*next));

	if (!way || !next)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->func_cnt; i++) {
		if (g->funcs[i].callers == NONE)
			mark_circles(g, i, way, next);
	}
	for (uint32_t i = 0; i < g->func_cnt; i++) {
		double outer = g->funcs[i].sums.calls;

		for (uint32_t e = g->funcs[i].callers; e != NONE; e = g->edges[e].next)
			outer -= g->edges[e].sums.calls;
		if (!g->funcs[i].seen && outer > 0)
			mark_circles(g, i, way, next);
	}
	for (uint32_t i = 0; i < g->func_cnt; i++) {
		if (!g->funcs[i].seen)
			mark_circles(g, i, way, next);
	}
	return 0;
}

/* By what the callers of a function share what it calls: the time of that, or calls where there is none. */
static double weight_of(const struct pstats_func *f, const struct pstats_sums *sums)
{
	return f->sums.total_s > f->sums.self_s ? fmax(sums->total_s - sums->self_s, 0)
						: sums->calls;
}

static uint64_t to_ns(double seconds)
{
	return (uint64_t)(seconds * 1e9 + 0.5);
}

/* The share of a function that was called from outside of all that the file knows. */
static double root_share(const struct pstats_func *f, double outer_calls)
{
	if (!f->has_caller || !(f->weight > 0))
		return 1;
	if (outer_calls <= 0)
		return 0;
	return weight_of(f, &f->rest) / (f->weight + weight_of(f, &f->rest));
}

static void weigh(struct pstats_graph *g, struct pstats_func *f)
{
	double outer_calls = f->sums.calls;

	f->rest = f->sums;
	for (uint32_t i = f->callers; i != NONE; i = g->edges[i].next) {
		const struct pstats_edge *e = &g->edges[i];

		outer_calls -= e->sums.calls;
		if (e->is_back)
			continue;
		f->has_caller = true;
		f->weight += weight_of(f, &e->sums);
		f->rest.calls -= e->sums.calls;
		f->rest.self_s -= e->sums.self_s;
		f->rest.total_s -= e->sums.total_s;
	}
	f->rest.calls = fmax(f->rest.calls, 0);
	f->rest.self_s = fmax(f->rest.self_s, 0);
	f->rest.total_s = fmax(f->rest.total_s, 0);
	f->calls_left = (uint64_t)f->sums.calls;
	f->self_left = to_ns(f->sums.self_s);
	f->root_share = root_share(f, outer_calls);
}

static double edge_share(const struct pstats_graph *g, const struct pstats_edge *e)
{
	const struct pstats_func *f = &g->funcs[e->func];

	if (e->is_back || !(f->weight > 0))
		return 0;
	return weight_of(f, &e->sums) / f->weight * (1 - f->root_share);
}

struct pstats_node *pstats_graph__node(struct pstats_graph *g)
{
	return grow(&g->nodes, &g->node_cap, g->node_cnt, sizeof(*g->nodes))
		       ? NULL
		       : &g->nodes[g->node_cnt++];
}

static int add_node(struct pstats_graph *g, uint32_t parent, uint32_t func, double share)
{
	struct pstats_func *f = &g->funcs[func];
	struct pstats_node *node = pstats_graph__node(g);

	if (!node)
		return -ENOMEM;
	*node = (struct pstats_node){ .parent = parent, .func = func, .share = share };
	if (parent != NONE)
		node->depth = g->nodes[parent].depth + 1;
	if (share > f->heaviest_share) {
		f->heaviest_share = share;
		f->heaviest = g->node_cnt - 1;
	}
	return 0;
}

static int push_stack(struct pstats_graph *g, struct sink *k, uint32_t node)
{
	struct trace_sample s = { .count = g->nodes[node].calls,
				  .weight_ns = g->nodes[node].self_ns,
				  .thread = g->thread };
	uint32_t cnt = 0;

	for (uint32_t i = node; i != NONE; i = g->nodes[i].parent) {
		int err = grow(&g->frames, &g->frame_cap, cnt, sizeof(*g->frames));

		if (err)
			return err;
		g->frames[cnt++] = (struct trace_frame){ .func = g->ids[g->nodes[i].func] };
	}
	for (uint32_t i = 0; i < cnt / 2; i++) {
		struct trace_frame swap = g->frames[i];

		g->frames[i] = g->frames[cnt - 1 - i];
		g->frames[cnt - 1 - i] = swap;
	}
	s.frames = g->frames;
	s.frame_cnt = cnt;
	return sink__sum(k, &s);
}

/* @sums: of the edge that leads here, of which the caller's share is this stack's. */
static void fill_node(struct pstats_graph *g, uint32_t node, const struct pstats_sums *sums,
		      double caller_share)
{
	struct pstats_func *f = &g->funcs[g->nodes[node].func];
	double share = g->nodes[node].share;
	uint64_t calls = (uint64_t)(sums->calls * caller_share + f->rest.calls * share);
	uint64_t self_ns = (uint64_t)((sums->self_s * caller_share + f->rest.self_s * share) * 1e9);

	calls = calls < f->calls_left ? calls : f->calls_left;
	self_ns = self_ns < f->self_left ? self_ns : f->self_left;
	f->calls_left -= calls;
	f->self_left -= self_ns;
	g->nodes[node].calls = calls;
	g->nodes[node].self_ns = self_ns;
}

/* Breadth first, so that what has the most time comes before the limit. */
static int make_tree(struct pstats_graph *g)
{
	static const struct pstats_sums none = { 0 };
	int err = 0;

	for (uint32_t i = 0; i < g->func_cnt && !err; i++) {
		double share = g->funcs[i].root_share;

		if (share > 0)
			err = add_node(g, NONE, i, share);
		if (share > 0 && !err)
			fill_node(g, g->node_cnt - 1, &none, 0);
	}
	for (uint32_t at = 0; at < g->node_cnt && g->node_cnt < NODES_MAX && !err; at++) {
		struct pstats_node from = g->nodes[at];
		uint32_t i = g->funcs[from.func].called;

		for (; i != NONE && !err; i = g->edges[i].next_called) {
			const struct pstats_edge *e = &g->edges[i];
			double share = from.share * edge_share(g, e);

			if (e->is_back || g->node_cnt >= NODES_MAX || from.depth >= DEPTH_MAX ||
			    e->sums.total_s * from.share < g->least_s)
				continue;
			err = add_node(g, at, e->func, share);
			if (!err)
				fill_node(g, g->node_cnt - 1, &e->sums, from.share);
		}
	}
	return err;
}

/* What was cut off and the rests of a division: to the stack with the largest share. */
static int fill_rests(struct pstats_graph *g)
{
	int err = 0;

	for (uint32_t i = 0; i < g->func_cnt && !err; i++) {
		struct pstats_func *f = &g->funcs[i];

		if (!f->calls_left && !f->self_left)
			continue;
		if (f->heaviest == NONE)
			err = add_node(g, NONE, i, 1);
		if (err)
			return err;
		g->nodes[f->heaviest].calls += f->calls_left;
		g->nodes[f->heaviest].self_ns += f->self_left;
	}
	return err;
}

static int define(struct pstats_graph *g, struct sink *k)
{
	uint32_t name, process;
	int err = sink__text(k, "all", 3, &name);

	g->ids = calloc(g->func_cnt + 1ull, sizeof(*g->ids));
	if (!g->ids)
		return -ENOMEM;
	err = err ? err : sink__process(k, 0, name, &process);
	err = err ? err : sink__thread(k, process, 0, name, &g->thread);
	for (uint32_t i = 0; i < g->func_cnt && !err; i++)
		err = sink__func(k, process, g->funcs[i].name, g->funcs[i].file, g->funcs[i].line,
				 &g->ids[i]);
	return err;
}

int pstats_graph__push(struct pstats_graph *g, struct sink *k)
{
	double all_s = 0;
	int err = define(g, k);

	err = err ? err : find_circles(g);
	for (uint32_t i = 0; i < g->func_cnt; i++) {
		weigh(g, &g->funcs[i]);
		all_s += g->funcs[i].sums.self_s;
	}
	g->least_s = all_s * LEAST_SHARE;
	err = err ? err : make_tree(g);
	err = err ? err : fill_rests(g);
	err = err ? err : pstats_graph__open_circles(g);
	if (g->has_circles_left)
		err_set(k->e, 0,
			"too many functions call each other in circles to follow them all: the totals "
			"of some are too small, their calls and self times are right");
	for (uint32_t i = 0; i < g->node_cnt && !err; i++) {
		if (g->nodes[i].calls || g->nodes[i].self_ns)
			err = push_stack(g, k, i);
	}
	return err;
}
