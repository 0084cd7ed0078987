// SPDX-License-Identifier: Apache-2.0
#include "export/folding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

int folding__init(struct folding *f, const struct export_opts *opts, uint32_t how)
{
	const struct aggregate_opts agg_opts = { .raw = opts->raw,
						 .full_files = opts->full_files,
						 .merge_threads = opts->merge_threads &&
								  how & FOLDING_MERGES,
						 .lines = how & FOLDING_LINES,
						 .part = how & FOLDING_STACKS };

	int err = aggregate__new(&f->agg, &agg_opts);

	f->next = (struct forward){ &aggregate_consumer, f->agg };
	return err;
}

void folding__done(struct folding *f)
{
	if (!f->given)
		aggregate__free(f->agg);
	f->agg = NULL;
}

void folding__give(struct folding *f, struct aggregate *agg)
{
	folding__done(f);
	f->agg = agg;
	f->next.self = agg;
	f->given = true;
}

int folding_end(void *self, const struct trace_totals *totals)
{
	return ((struct folding *)self)->given ? 0 : forward_end(self, totals);
}

/* A stack that was cut, with the values of all that look the same. */
struct cut_stack {
	uint64_t calls, self_ns, off_ns;
};

struct walk {
	const struct agg_result *r;
	uint32_t max_frames;
	uint32_t *depth; /* of each stack: frames */
	uint32_t *outer; /* its ancestor with max_frames / 2 frames; itself if it has fewer */
	uint32_t *funcs; /* of the stack at hand, behind the number of its thread */
	uint32_t *lines; /* of them */
	uint32_t *stacks; /* of them */
	uint32_t *child, *sibling; /* of each stack: the first one, the next one; 0: none */
	struct strpool keys;
	struct cut_stack *cuts; /* by id of keys */
	uint32_t cut_cap;
};

static void walk_done(struct walk *w)
{
	free(w->depth);
	free(w->outer);
	free(w->funcs);
	free(w->lines);
	free(w->stacks);
	free(w->child);
	free(w->sibling);
	free(w->cuts);
	strpool__done(&w->keys);
}

/* Parents come before their children: no child is stack 0. */
static void link_children(struct walk *w)
{
	for (uint32_t i = w->r->stack_cnt; i-- > 0;) {
		uint32_t parent = w->r->stacks[i].parent;

		if (parent == AGG_NONE)
			continue;
		w->sibling[i] = w->child[parent];
		w->child[parent] = i;
	}
}

/* The stack after @i in the tree below a root; AGG_NONE at its end. */
static uint32_t next_of(const struct walk *w, uint32_t i)
{
	if (w->child[i])
		return w->child[i];
	while (i != AGG_NONE && !w->sibling[i])
		i = w->r->stacks[i].parent;
	return i == AGG_NONE ? i : w->sibling[i];
}

static int walk_init(struct walk *w, const struct agg_result *r, uint32_t max_frames)
{
	*w = (struct walk){ .r = r, .max_frames = max_frames };
	w->depth = malloc((r->stack_cnt + 1ull) * sizeof(*w->depth));
	w->outer = malloc((r->stack_cnt + 1ull) * sizeof(*w->outer));
	w->funcs = malloc((max_frames + 1ull) * sizeof(*w->funcs));
	w->lines = malloc((max_frames + 1ull) * sizeof(*w->lines));
	w->stacks = malloc((max_frames + 1ull) * sizeof(*w->stacks));
	w->child = calloc(r->stack_cnt + 1ull, sizeof(*w->child));
	w->sibling = calloc(r->stack_cnt + 1ull, sizeof(*w->sibling));
	if (!w->depth || !w->outer || !w->funcs || !w->lines || !w->stacks || !w->child ||
	    !w->sibling)
		return -ENOMEM;
	link_children(w);
	for (uint32_t i = 0; i < r->stack_cnt; i++) {
		uint32_t parent = r->stacks[i].parent;

		w->depth[i] = parent == AGG_NONE ? 0 : w->depth[parent] + 1;
		w->outer[i] = w->depth[i] <= max_frames / 2 ? i : w->outer[parent];
	}
	return strpool__init(&w->keys);
}

/* Writes @cnt frames from @stack outwards, so that the last one lands before @end. */
static void copy_frames(const struct walk *w, uint32_t stack, uint32_t cnt, uint32_t *end)
{
	for (; cnt; cnt--) {
		*--end = w->r->stacks[stack].func;
		stack = w->r->stacks[stack].parent;
	}
}

static void copy_places(const struct walk *w, uint32_t i, struct folded_stack *stack)
{
	stack->stacks = w->stacks;
	stack->lines = w->r->stack_lines ? w->lines : NULL;
	for (uint32_t at = stack->func_cnt; at-- > 0; i = w->r->stacks[i].parent) {
		w->stacks[at] = i;
		if (stack->lines)
			w->lines[at] = w->r->stack_lines[i];
	}
}

static int add_cut(struct walk *w, const struct agg_stack *s)
{
	uint32_t id, cap;
	int err;

	w->funcs[0] = s->thread;
	err = strpool__add(&w->keys, (const char *)w->funcs,
			   (w->max_frames + 1ull) * sizeof(*w->funcs), &id);
	if (err)
		return err;
	if (id >= w->cut_cap) {
		struct cut_stack *grown;

		cap = w->cut_cap ? w->cut_cap * 2 : 64;
		grown = realloc(w->cuts, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + w->cut_cap, 0, (cap - w->cut_cap) * sizeof(*grown));
		w->cuts = grown;
		w->cut_cap = cap;
	}
	w->cuts[id].calls += s->calls;
	w->cuts[id].self_ns += s->self_ns;
	w->cuts[id].off_ns += s->off_ns;
	return 0;
}

static int visit(struct walk *w, uint32_t i, int (*fn)(void *, const struct folded_stack *),
		 void *ctx)
{
	const struct agg_stack *s = &w->r->stacks[i];
	uint32_t *funcs = w->funcs + 1, outer = w->max_frames / 2;
	struct folded_stack stack = { .funcs = funcs,
				      .func_cnt = w->depth[i],
				      .thread = s->thread,
				      .calls = s->calls,
				      .self_ns = s->self_ns,
				      .off_ns = s->off_ns };

	if (w->depth[i] <= w->max_frames) {
		copy_frames(w, i, w->depth[i], funcs + w->depth[i]);
		copy_places(w, i, &stack);
		return fn(ctx, &stack);
	}
	copy_frames(w, w->outer[i], outer, funcs + outer);
	funcs[outer] = FOLDING_CUT;
	copy_frames(w, i, w->max_frames - outer - 1, funcs + w->max_frames);
	return add_cut(w, s);
}

static int visit_tree(struct walk *w, uint32_t root, int (*fn)(void *, const struct folded_stack *),
		      void *ctx)
{
	int err = 0;

	for (uint32_t i = root; i != AGG_NONE && !err; i = next_of(w, i)) {
		const struct agg_stack *s = &w->r->stacks[i];

		if (s->func != AGG_NONE && (s->calls || s->self_ns))
			err = visit(w, i, fn, ctx);
	}
	return err;
}

static int visit_cuts(struct walk *w, int (*fn)(void *, const struct folded_stack *), void *ctx)
{
	int err = 0;

	for (uint32_t id = 1; id < w->keys.cnt && !err; id++) {
		const uint32_t *key = w->funcs;
		struct folded_stack stack = { .func_cnt = w->max_frames,
					      .calls = w->cuts[id].calls,
					      .self_ns = w->cuts[id].self_ns,
					      .off_ns = w->cuts[id].off_ns };

		memcpy(w->funcs, strpool__get(&w->keys, id), w->keys.strs[id].len);
		stack.thread = key[0];
		stack.funcs = key + 1;
		err = fn(ctx, &stack);
	}
	return err;
}

int folding_each(const struct agg_result *r, uint32_t max_frames,
		 int (*fn)(void *ctx, const struct folded_stack *stack), void *ctx)
{
	auto_fn(walk_done) struct walk w;
	int err = walk_init(&w, r, max_frames);

	for (uint32_t root = 0; root < r->stack_cnt && !err; root++) {
		if (r->stacks[root].parent == AGG_NONE)
			err = visit_tree(&w, root, fn, ctx);
	}
	return err ? err : visit_cuts(&w, fn, ctx);
}
