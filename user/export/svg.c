// SPDX-License-Identifier: Apache-2.0
/* A flame graph of a trace, in colours for the program, the standard library and packages. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outbuf.h"
#include "export/folding.h"
#include "export/summary.h"
#include "export/svg_draw.h"
#include "profile/place.h"

enum {
	BUFFER_BYTES = 64 << 10
};

struct svg {
	struct folding folding; /* first */
	struct outbuf out;
};

static void svg__done(void *self)
{
	struct svg *s = self;

	folding__done(&s->folding);
	outbuf__done(&s->out);
}

static int svg__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	struct svg *s = self;
	int err;

	err = folding__init(&s->folding, opts, FOLDING_MERGES);
	err = err ? err : outbuf__init(&s->out, BUFFER_BYTES, out->write, out->ctx);
	return err;
}

/* The class that gives a box its colour. */
static const char *class_of(void *ctx, const struct svg_box *box)
{
	const struct agg_result *r = ctx;
	const struct agg_func *f;
	const char *file, *below;

	switch (box->kind) {
	case SVG_ALL:
	case SVG_PROCESS:
	case SVG_THREAD:
		return "top";
	case SVG_GAP:
	case SVG_CUT:
		return "gap";
	case SVG_FRAME:
		break;
	}
	f = &r->funcs[r->stacks[box->index].func];
	if (f->kind != FUNC_PYTHON)
		return f->kind == FUNC_KERNEL ? "ker" : "nat";
	file = strpool__get(&r->strings, f->file);
	if (!strncmp(file, "<frozen ", 8))
		return "std";
	switch (place_of_file(file, &below)) {
	case PLACE_STDLIB:
		return "std";
	case PLACE_PACKAGES:
		return "pkg";
	case PLACE_ELSEWHERE:
		break;
	}
	return "own";
}

static void put_figures(struct outbuf *b, void *ctx, const struct svg_box *box, uint64_t all_ns)
{
	const struct agg_result *r = ctx;
	char ns[16], self[16];

	outbuf__printf(b, "\n%s (%.2f %%)", summary_duration(ns, sizeof(ns), box->ns),
		       all_ns ? 100.0 * (double)box->ns / (double)all_ns : 0);
	if (box->kind == SVG_FRAME)
		outbuf__printf(b, ", self %s, %" PRIu64 " %s%s",
			       summary_duration(self, sizeof(self), r->stacks[box->index].self_ns),
			       r->stacks[box->index].calls, r->sample_ns ? "sample" : "call",
			       r->stacks[box->index].calls == 1 ? "" : "s");
}

static void put_title(struct outbuf *b, void *ctx)
{
	const struct agg_result *r = ctx;
	uint64_t wall_ns = r->totals.end_ns > r->start_ns ? r->totals.end_ns - r->start_ns : 0;
	char line[512], first[16], second[16], own[64];
	uint64_t lost = 0;

	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += r->totals.lost[i];
	snprintf(line, sizeof(line),
		 "pyebpf flame graph: %s in Python frames in %s, %" PRIu32 " thread%s",
		 summary_duration(first, sizeof(first), r->self_ns),
		 summary_duration(second, sizeof(second), wall_ns), r->thread_cnt,
		 r->thread_cnt == 1 ? "" : "s");
	svg_put_line(b, 24, "h", line);
	if (r->sample_ns)
		snprintf(own, sizeof(own), "%s of it off the CPU",
			 summary_duration(second, sizeof(second), r->off_ns));
	else
		snprintf(own, sizeof(own), "cost of the profiler %s, %s",
			 summary_duration(second, sizeof(second), r->own_ns), summary_own(r));
	snprintf(line, sizeof(line),
		 "%" PRIu64 " %s, %" PRIu64 " lost (%.*f %%), %" PRIu64 " gaps (%s); %s%s",
		 r->totals.written, r->sample_ns ? "samples" : "events", lost, lost ? 2 : 0,
		 r->totals.generated ? 100.0 * (double)lost / (double)r->totals.generated : 0,
		 r->gap_cnt, summary_duration(first, sizeof(first), summary_gap_ns(r)), own,
		 r->totals.complete ? "" : "; the capture ends before its proper end");
	svg_put_line(b, 44, "l", line);
}

static const struct svg_legend legend[] = { { "own", "program" },
					    { "std", "standard library" },
					    { "pkg", "packages" },
					    { "gap", "stack not known" },
					    { NULL, NULL } };

static int on_end(void *self, const struct trace_totals *totals)
{
	auto_fn(svg_layout__done) struct svg_layout l = { 0 };
	struct svg *s = self;
	const struct agg_result *r = aggregate__result(s->folding.agg);
	int err = folding_end(self, totals);

	err = err ? err : svg_layout__init(&l, r);
	if (err)
		return err;
	svg_draw(&s->out, r, &l,
		 &(struct svg_paint){ .ctx = (void *)(uintptr_t)r,
				      .class_of = class_of,
				      .put_figures = put_figures,
				      .put_title = put_title,
				      .legend = legend });
	return outbuf__flush(&s->out);
}

const struct exporter export_svg = {
	.name = "svg",
	.aliases = (const char *const[]){ "flamegraph", NULL },
	.extensions = (const char *const[]){ ".svg", NULL },
	.help = "a flame graph to open in a browser, with search and zoom",
	.folds = true,
	.hint = "xdg-open @",
	.size = sizeof(struct svg),
	.init = svg__init,
	.consumer = {
		FORWARD_TO_THE_END,
		.end = on_end,
	},
	.done = svg__done,
};
