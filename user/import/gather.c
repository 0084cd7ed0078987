// SPDX-License-Identifier: Apache-2.0
#include "import/gather.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int grow(void *array, uint32_t *cap, uint32_t want, size_t size)
{
	uint32_t more = *cap ? *cap : 64;
	void *grown;

	if (want < *cap)
		return 0;
	while (more <= want)
		more *= 2;
	grown = reallocarray(*(void **)array, more, size);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*cap = more;
	return 0;
}

static int too_many(struct gather *g, const char *what)
{
	return err_set(g->k->e, -PYE_EFORMAT, "the profile has more %s than pyebpf reads", what);
}

int gather__init(struct gather *g, struct sink *k)
{
	int err;

	*g = (struct gather){ .k = k };
	err = grow(&g->nodes, &g->node_cap, 0, sizeof(*g->nodes));
	if (!err)
		g->nodes[g->node_cnt++] = (struct gather_node){ 0 };
	return err;
}

void gather__done(struct gather *g)
{
	free(g->frames);
	free(g->nodes);
	free(g->threads);
	free(g->rows);
	free(g->way);
	free(g->stack);
	idmap__done(&g->children);
	idmap__done(&g->funcs);
}

int gather__frame(struct gather *g, const struct gather_frame *frame)
{
	int err = grow(&g->frames, &g->frame_cap, g->frame_cnt, sizeof(*g->frames));

	if (err)
		return err;
	if (g->frame_cnt == GATHER_NODES_MAX)
		return too_many(g, "frames");
	g->frames[g->frame_cnt++] = *frame;
	return 0;
}

int gather__thread(struct gather *g, const struct gather_thread *thread, uint32_t *index)
{
	int err = grow(&g->threads, &g->thread_cap, g->thread_cnt, sizeof(*g->threads));

	if (err)
		return err;
	*index = g->thread_cnt;
	g->threads[g->thread_cnt++] = *thread;
	return 0;
}

int gather__row(struct gather *g, const struct gather_row *row)
{
	int err = grow(&g->rows, &g->row_cap, g->row_cnt, sizeof(*g->rows));

	if (err)
		return err;
	if (g->row_cnt == GATHER_ROWS_MAX)
		return too_many(g, "samples");
	g->rows[g->row_cnt++] = *row;
	return 0;
}

int gather__node(struct gather *g, uint32_t parent, uint32_t frame, uint32_t *node)
{
	uint64_t key = (uint64_t)parent << 32 | frame;
	int err;

	*node = idmap__find(&g->children, key);
	if (*node != IDMAP_NONE)
		return 0;
	if (g->node_cnt == GATHER_NODES_MAX)
		return too_many(g, "stacks");
	if (g->nodes[parent].depth == SINK_DEPTH_MAX)
		return too_many(g, "frames on a stack");
	err = grow(&g->nodes, &g->node_cap, g->node_cnt, sizeof(*g->nodes));
	err = err ? err : idmap__set(&g->children, key, g->node_cnt);
	if (err)
		return err;
	*node = g->node_cnt;
	g->nodes[g->node_cnt++] = (struct gather_node){ .parent = parent,
							.frame = frame,
							.depth = g->nodes[parent].depth + 1 };
	return 0;
}

static int func_of(struct gather *g, uint32_t process, uint32_t node, uint32_t *id)
{
	uint32_t frame = g->nodes[node].frame;
	uint64_t key = (uint64_t)process << 32 | frame;
	const struct gather_frame *f;
	int err;

	*id = idmap__find(&g->funcs, key);
	if (*id != IDMAP_NONE)
		return 0;
	if (frame >= g->frame_cnt)
		return err_set(g->k->e, -PYE_EFORMAT,
			       "a stack has frame %" PRIu32 " of a profile with %" PRIu32, frame,
			       g->frame_cnt);
	f = &g->frames[frame];
	err = sink__func(g->k, process, f->name, f->file, f->first_line, id);
	return err ? err : idmap__set(&g->funcs, key, *id);
}

/* The nodes between @from, which is not one of them, and @to, outermost first, are in g->way. */
static int find_way(struct gather *g, uint32_t from, uint32_t to, uint32_t *cnt)
{
	uint32_t n = g->nodes[to].depth - g->nodes[from].depth;
	int err = grow(&g->way, &g->way_cap, n, sizeof(*g->way));

	if (err)
		return err;
	*cnt = n;
	for (; n; to = g->nodes[to].parent)
		g->way[--n] = to;
	return 0;
}

static uint32_t common_of(const struct gather *g, uint32_t a, uint32_t b)
{
	const struct gather_node *n = g->nodes;

	while (n[a].depth > n[b].depth)
		a = n[a].parent;
	while (n[b].depth > n[a].depth)
		b = n[b].parent;
	for (; a != b; b = n[b].parent)
		a = n[a].parent;
	return a;
}

static int put_event(struct gather *g, const struct gather_thread *t, uint64_t ts_ns, uint32_t node,
		     enum trace_kind kind)
{
	struct trace_event event = { .ts_ns = ts_ns,
				     .thread = t->id,
				     .depth = g->nodes[node].depth - 1,
				     .kind = (uint8_t)kind };
	int err = func_of(g, t->process, node, &event.func);

	return err ? err : sink__event(g->k, &event);
}

static int put_step(struct gather *g, const struct gather_row *row)
{
	struct gather_thread *t = &g->threads[row->thread];
	uint32_t common = common_of(g, t->at, row->node), cnt;
	int err = 0;

	for (uint32_t at = t->at; at != common && !err; at = g->nodes[at].parent)
		err = put_event(g, t, row->ts_ns, at, TRACE_RETURN);
	err = err ? err : find_way(g, common, row->node, &cnt);
	for (uint32_t i = 0; !err && i < cnt; i++)
		err = put_event(g, t, row->ts_ns, g->way[i], TRACE_CALL);
	t->at = row->node;
	return err;
}

static int put_sample(struct gather *g, const struct gather_row *row)
{
	const struct gather_thread *t = &g->threads[row->thread];
	struct trace_sample s = { .ts_ns = row->ts_ns,
				  .weight_ns = row->weight_ns,
				  .count = row->count,
				  .thread = t->id };
	int err = find_way(g, 0, row->node, &s.frame_cnt);

	err = err ? err : grow(&g->stack, &g->stack_cap, s.frame_cnt, sizeof(*g->stack));
	for (uint32_t i = 0; !err && i < s.frame_cnt; i++) {
		err = func_of(g, t->process, g->way[i], &g->stack[i].func);
		if (!err)
			g->stack[i].line = g->frames[g->nodes[g->way[i]].frame].line;
	}
	s.frames = g->stack;
	return err ? err : sink__sample(g->k, &s);
}

static int by_time(const void *a, const void *b)
{
	const struct gather_row *l = *(const struct gather_row *const *)a;
	const struct gather_row *r = *(const struct gather_row *const *)b;

	if (l->ts_ns != r->ts_ns)
		return l->ts_ns < r->ts_ns ? -1 : 1;
	return l < r ? -1 : l > r; /* the order of the file */
}

static int define_threads(struct gather *g)
{
	int err = 0;

	for (uint32_t i = 0; i < g->thread_cnt && !err; i++) {
		struct gather_thread *t = &g->threads[i];

		err = sink__process(g->k, t->pid, t->comm, &t->process);
		err = err ? err : sink__thread(g->k, t->process, t->tid, t->name, &t->id);
	}
	return err;
}

int gather__push(struct gather *g)
{
	const struct gather_row **order;
	bool sorted = true;
	int err = define_threads(g);

	if (err)
		return err;
	order = malloc((g->row_cnt + 1ull) * sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->row_cnt; i++) {
		order[i] = &g->rows[i];
		sorted = sorted && (!i || g->rows[i - 1].ts_ns <= g->rows[i].ts_ns);
	}
	if (!sorted)
		qsort(order, g->row_cnt, sizeof(*order), by_time);
	for (uint32_t i = 0; i < g->row_cnt && !err; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as many as were put in above */
		err = order[i]->is_step ? put_step(g, order[i]) : put_sample(g, order[i]);
	free(order);
	return err;
}
