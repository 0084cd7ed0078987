// SPDX-License-Identifier: Apache-2.0
#include "export/svg_diff.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "export/summary.h"
#include "export/svg_draw.h"
#include "profile/diff_tree.h"

struct picture {
	const struct diff *d;
	struct diff_tree tree;
	uint64_t most_ns; /* the largest change of a stack's self time */
};

static uint64_t distance(uint64_t left, uint64_t right)
{
	return left > right ? left - right : right - left;
}

static const char *class_of(void *ctx, const struct svg_box *box)
{
	static const char *const more[] = { "same", "more1", "more2", "more3", "more4" };
	static const char *const less[] = { "same", "less1", "less2", "less3", "less4" };
	static const double from[] = { 0.005, 0.05, 0.2, 0.5 };
	const struct picture *p = ctx;
	uint64_t before, after;
	unsigned int level = 0;
	double share;

	if (box->kind != SVG_FRAME)
		return box->kind == SVG_CUT ? "gap" : "top";
	before = p->tree.self_ns[0][box->index];
	after = p->tree.self_ns[1][box->index];
	share = p->most_ns ? (double)distance(before, after) / (double)p->most_ns : 0;
	if (p->tree.is_noise[p->tree.all.stacks[box->index].func])
		return "same";
	while (level < 4 && share >= from[level])
		level++;
	return after > before ? more[level] : less[level];
}

static void put_change(struct outbuf *b, const char *what, uint64_t before, uint64_t after)
{
	char first[16], second[16], change[16];

	outbuf__printf(b, "\n%s: %s before, %s after (%s%s", what,
		       summary_duration(first, sizeof(first), before),
		       summary_duration(second, sizeof(second), after), after < before ? "-" : "+",
		       summary_duration(change, sizeof(change), distance(before, after)));
	if (before)
		outbuf__printf(b, ", %+.1f %%",
			       100.0 * ((double)after - (double)before) / (double)before);
	outbuf__puts(b, ")");
}

static void put_figures(struct outbuf *b, void *ctx, const struct svg_box *box, uint64_t all_ns)
{
	const struct picture *p = ctx;

	(void)all_ns;
	if (box->kind != SVG_FRAME && box->kind != SVG_CUT)
		return;
	put_change(b, "total", p->tree.total_ns[0][box->index], p->tree.total_ns[1][box->index]);
	put_change(b, "self", p->tree.self_ns[0][box->index], p->tree.self_ns[1][box->index]);
	if (box->kind == SVG_FRAME && p->tree.is_noise[p->tree.all.stacks[box->index].func])
		outbuf__puts(b, "\nof this function the change is no more than noise");
}

static void put_title(struct outbuf *b, void *ctx)
{
	const struct picture *p = ctx;
	char line[256], first[16], second[16];

	snprintf(line, sizeof(line), "pyebpf diff: %s in Python frames before, %s after",
		 summary_duration(first, sizeof(first), p->d->side[0]->self_ns),
		 summary_duration(second, sizeof(second), p->d->side[1]->self_ns));
	svg_put_line(b, 24, "h", line);
	svg_put_line(b, 44, "l",
		     "A box is as wide as the larger of its two times; its colour is the change of "
		     "its self time.");
}

static const struct svg_legend legend[] = { { "more4", "more time" },
					    { "less4", "less time" },
					    { "same", "no more than noise" },
					    { NULL, NULL } };

int svg_diff(struct outbuf *b, const struct diff *d)
{
	struct picture p = { .d = d };
	auto_fn(svg_layout__done) struct svg_layout l = { 0 };
	int err = diff_tree__init(&p.tree, d);

	for (uint32_t i = 0; i < p.tree.all.stack_cnt && !err; i++) {
		uint64_t change = distance(p.tree.self_ns[0][i], p.tree.self_ns[1][i]);

		p.most_ns = change > p.most_ns ? change : p.most_ns;
	}
	err = err ? err : svg_layout__init(&l, &p.tree.all);
	if (!err)
		svg_draw(b, &p.tree.all, &l,
			 &(struct svg_paint){ .ctx = &p,
					      .class_of = class_of,
					      .put_figures = put_figures,
					      .put_title = put_title,
					      .legend = legend });
	diff_tree__done(&p.tree);
	return err ? err : outbuf__flush(b);
}
