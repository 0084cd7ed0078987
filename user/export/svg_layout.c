// SPDX-License-Identifier: Apache-2.0
#include "export/svg_layout.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

static uint32_t count_wide(const struct agg_result *r, uint64_t min_ns)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < r->stack_cnt; i++)
		cnt += r->stacks[i].func != AGG_NONE && r->stacks[i].total_ns >= min_ns;
	return cnt;
}

static void choose_least(struct svg_layout *l, const struct agg_result *r)
{
	uint32_t all = count_wide(r, 1), cnt = all;

	l->min_ns = 1;
	while (cnt > SVG_BOXES_MAX) {
		/* below that share nothing can be seen without zooming in a lot */
		l->min_ns = l->min_ns == 1 ? r->self_ns / 1000000 + 2 : l->min_ns * 2;
		cnt = count_wide(r, l->min_ns);
	}
	l->left_out_cnt = all - cnt;
}

static uint32_t add(struct svg_layout *l, enum svg_kind kind, uint32_t index, uint32_t parent,
		    uint64_t ns)
{
	struct svg_box *box = &l->boxes[l->cnt];

	*box = (struct svg_box){ .kind = kind, .index = index, .parent = parent, .ns = ns };
	box->row = l->cnt ? l->boxes[parent].row + 1 : 0;
	if (l->row_cnt <= box->row)
		l->row_cnt = box->row + 1;
	return l->cnt++;
}

/* Processes and threads that have time, and the gaps of the threads. @thread_box: of each thread. */
static int add_threads(struct svg_layout *l, const struct agg_result *r, const uint64_t *thread_ns,
		       uint32_t *thread_box)
{
	auto_free uint64_t *process_ns = calloc(r->process_cnt + 1ull, sizeof(*process_ns));
	auto_free uint32_t *process_box = calloc(r->process_cnt + 1ull, sizeof(*process_box));

	if (!process_ns || !process_box)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->thread_cnt; i++) {
		process_ns[r->threads[i].process] += thread_ns[i];
		l->boxes[0].ns += thread_ns[i];
	}
	for (uint32_t i = 0; i < r->process_cnt; i++) {
		if (process_ns[i])
			process_box[i] = add(l, SVG_PROCESS, i, 0, process_ns[i]);
	}
	for (uint32_t i = 0; i < r->thread_cnt; i++) {
		if (!thread_ns[i])
			continue;
		thread_box[i] =
			add(l, SVG_THREAD, i, process_box[r->threads[i].process], thread_ns[i]);
		if (r->threads[i].gap_ns)
			add(l, SVG_GAP, i, thread_box[i], r->threads[i].gap_ns);
	}
	return 0;
}

static int add_frames(struct svg_layout *l, const struct agg_result *r, const uint32_t *thread_box)
{
	auto_free uint32_t *box_of = malloc((r->stack_cnt + 1ull) * sizeof(*box_of));

	if (!box_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->stack_cnt; i++) {
		const struct agg_stack *s = &r->stacks[i];
		uint32_t parent;

		box_of[i] = AGG_NONE;
		if (s->parent == AGG_NONE) {
			box_of[i] = thread_box[s->thread];
			continue;
		}
		parent = box_of[s->parent];
		if (parent == AGG_NONE || s->total_ns < l->min_ns)
			continue;
		if (l->boxes[parent].row + 2 < SVG_ROWS_MAX)
			box_of[i] = add(l, SVG_FRAME, i, parent, s->total_ns);
		else
			add(l, SVG_CUT, i, parent, s->total_ns);
	}
	return 0;
}

static int by_place(const void *left, const void *right)
{
	const struct svg_box *l = *(const struct svg_box *const *)left;
	const struct svg_box *r = *(const struct svg_box *const *)right;

	if (l->parent != r->parent)
		return l->parent < r->parent ? -1 : 1;
	if (l->ns != r->ns)
		return l->ns > r->ns ? -1 : 1;
	return l < r ? -1 : l > r;
}

/* A parent has its place before its children, since its own parent comes before it. */
static int place(struct svg_layout *l)
{
	auto_free struct svg_box **order = malloc((l->cnt + 1ull) * sizeof(*order));
	uint64_t at = 0;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 1; i < l->cnt; i++)
		order[i - 1] = &l->boxes[i];
	if (l->cnt)
		qsort(order, l->cnt - 1, sizeof(*order), by_place);
	for (uint32_t i = 0; i + 1 < l->cnt; i++) {
		if (!i || order[i]->parent != order[i - 1]->parent)
			at = l->boxes[order[i]->parent].start_ns;
		order[i]->start_ns = at;
		at += order[i]->ns;
	}
	return 0;
}

int svg_layout__init(struct svg_layout *l, const struct agg_result *r)
{
	auto_free uint64_t *thread_ns = calloc(r->thread_cnt + 1ull, sizeof(*thread_ns));
	auto_free uint32_t *thread_box = calloc(r->thread_cnt + 1ull, sizeof(*thread_box));
	int err;

	*l = (struct svg_layout){ 0 };
	if (!thread_ns || !thread_box)
		return -ENOMEM;
	choose_least(l, r);
	l->boxes = calloc(1ull + r->process_cnt + 2ull * r->thread_cnt + SVG_BOXES_MAX,
			  sizeof(*l->boxes));
	if (!l->boxes)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->stack_cnt; i++) {
		if (r->stacks[i].parent == AGG_NONE)
			thread_ns[r->stacks[i].thread] += r->stacks[i].total_ns;
	}
	for (uint32_t i = 0; i < r->thread_cnt; i++)
		thread_ns[i] += r->threads[i].gap_ns;
	add(l, SVG_ALL, 0, 0, 0);
	err = add_threads(l, r, thread_ns, thread_box);
	err = err ? err : add_frames(l, r, thread_box);
	err = err ? err : place(l);
	if (err)
		svg_layout__done(l);
	return err;
}

void svg_layout__done(struct svg_layout *l)
{
	free(l->boxes);
	*l = (struct svg_layout){ 0 };
}
