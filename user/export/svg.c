// SPDX-License-Identifier: Apache-2.0
/*
 * A flame graph as one SVG file that opens anywhere: callers on top, what they called below, widths
 * are times. A box is <g class="b KIND" data-s="START" data-n="NS" data-r="ROW"> with <title>, <rect>
 * and <text>; svg.js uses the numbers to zoom. Names are escaped twice: first what a terminal should
 * not get (which includes all that XML cannot hold), then markup.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outbuf.h"
#include "base/text.h"
#include "export/folding.h"
#include "export/markup.h"
#include "export/summary.h"
#include "export/svg_js.h"
#include "export/svg_layout.h"
#include "profile/place.h"

enum {
	BUFFER_BYTES = 64 << 10,
	NAME_BYTES = 600,
	WIDTH = 1200,
	LEFT = 10,
	DRAWN = WIDTH - 2 * LEFT,
	TOP = 78,
	ROW = 17,
	BELOW = 50
};

#define CELL_PX 6.7 /* of a character */

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

	err = folding__init(&s->folding, opts);
	err = err ? err : outbuf__init(&s->out, BUFFER_BYTES, out->write, out->ctx);
	return err;
}

/* "qualname (file:line)" and its likes, escaped for a terminal. Return: @out. */
static const char *name_of(const struct agg_result *r, const struct svg_box *box, char *out,
			   size_t size)
{
	const struct agg_thread *t;
	const struct agg_func *f;
	char raw[NAME_BYTES];

	switch (box->kind) {
	case SVG_ALL:
		snprintf(raw, sizeof(raw), "all");
		break;
	case SVG_PROCESS:
		snprintf(raw, sizeof(raw), "%.200s %" PRIu32,
			 strpool__get(&r->strings, r->processes[box->index].comm),
			 r->processes[box->index].pid);
		break;
	case SVG_THREAD:
		t = &r->threads[box->index];
		snprintf(raw, sizeof(raw), "%.200s %" PRIu32, strpool__get(&r->strings, t->name),
			 t->tid);
		break;
	case SVG_GAP:
		t = &r->threads[box->index];
		if (t->lost)
			snprintf(raw, sizeof(raw), "[lost %" PRIu64 "]", t->lost);
		else
			snprintf(raw, sizeof(raw), "[unknown]");
		break;
	case SVG_CUT:
		snprintf(raw, sizeof(raw), "[truncated]");
		break;
	case SVG_FRAME:
		f = &r->funcs[r->stacks[box->index].func];
		if (f->short_file)
			snprintf(raw, sizeof(raw), "%.250s (%.250s:%" PRIu32 ")",
				 strpool__get(&r->strings, f->qualname),
				 strpool__get(&r->strings, f->short_file), f->line);
		else
			snprintf(raw, sizeof(raw), "%.250s",
				 strpool__get(&r->strings, f->qualname));
		break;
	}
	return text_escape(out, size, raw, strlen(raw));
}

/* The class that gives a box its colour. */
static const char *class_of(const struct agg_result *r, const struct svg_box *box)
{
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
	file = strpool__get(&r->strings, r->funcs[r->stacks[box->index].func].file);
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

/* As much of a name as fits; wide characters take two cells. Return: bytes of it. */
static size_t fitting(const char *name, double px, bool *whole)
{
	int room = (int)((px - 6) / CELL_PX), used = 0;
	size_t len = strlen(name), kept = 0, n;

	*whole = false;
	if (room < 3)
		return 0;
	for (size_t i = 0; i < len; i += n) {
		uint32_t cp;

		n = text_next(name + i, len - i, &cp);
		used += cp >= 0x1100 ? 2 : 1;
		if (used > room)
			return kept;
		if (used <= room - 2)
			kept = i + n;
	}
	*whole = true;
	return len;
}

/* Functions that lie beside each other differ a bit in shade. */
static unsigned int shade_of(const char *name)
{
	unsigned int hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash % 5;
}

static void put_figures(struct outbuf *b, const struct agg_result *r, const struct svg_box *box,
			uint64_t all_ns)
{
	char ns[16], self[16];

	outbuf__printf(b, "\n%s (%.2f %%)", summary_duration(ns, sizeof(ns), box->ns),
		       all_ns ? 100.0 * (double)box->ns / (double)all_ns : 0);
	if (box->kind == SVG_FRAME)
		outbuf__printf(b, ", self %s, %" PRIu64 " %s%s",
			       summary_duration(self, sizeof(self), r->stacks[box->index].self_ns),
			       r->stacks[box->index].calls, r->sample_ns ? "sample" : "call",
			       r->stacks[box->index].calls == 1 ? "" : "s");
}

static void put_box(struct outbuf *b, const struct agg_result *r, const struct svg_box *box,
		    uint64_t all_ns)
{
	double scale = all_ns ? DRAWN / (double)all_ns : 0;
	double x = LEFT + (double)box->start_ns * scale, px = (double)box->ns * scale;
	const char *class = class_of(r, box);
	char name[4 * NAME_BYTES];
	uint32_t y = TOP + box->row * ROW;
	bool whole;
	size_t len;

	name_of(r, box, name, sizeof(name));
	outbuf__printf(b,
		       "<g class=\"b %s s%u\" data-s=\"%" PRIu64 "\" data-n=\"%" PRIu64
		       "\" data-r=\"%" PRIu32 "\"><title>",
		       class, shade_of(name), box->start_ns, box->ns, box->row);
	markup_put(b, name, strlen(name));
	put_figures(b, r, box, all_ns);
	outbuf__printf(b,
		       "</title><rect x=\"%.3f\" y=\"%" PRIu32 "\" width=\"%.3f\" height=\"%d\"/>",
		       x, y, px, ROW - 1);
	outbuf__printf(b, "<text x=\"%.3f\" y=\"%" PRIu32 "\">", x + 3, y + 12);
	len = fitting(name, px, &whole);
	markup_put(b, name, len);
	outbuf__printf(b, "%s</text></g>\n", len && !whole ? ".." : "");
}

static const char style[] =
	"text{font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#1b1b1b}"
	".h{font:bold 15px sans-serif}.l{font:12px sans-serif;fill:#444}"
	".b{cursor:pointer}.b text{pointer-events:none}.b rect{stroke:#fff;stroke-width:.4}"
	".b:hover rect{stroke:#000;stroke-width:1}.up rect{opacity:.5}"
	".top rect{fill:#d5d8dd}.gap rect{fill:#c9b6b6}"
	".own rect{fill:#f9b872}.own.s1 rect{fill:#fbc486}.own.s2 rect{fill:#f7a95a}"
	".own.s3 rect{fill:#fdd09c}.own.s4 rect{fill:#f6b163}"
	".std rect{fill:#a9c8ea}.std.s1 rect{fill:#b7d2ef}.std.s2 rect{fill:#9cbfe6}"
	".std.s3 rect{fill:#c3daf2}.std.s4 rect{fill:#a2c4e8}"
	".pkg rect{fill:#b3d89c}.pkg.s1 rect{fill:#c0dfac}.pkg.s2 rect{fill:#a6d08c}"
	".pkg.s3 rect{fill:#cbe6ba}.pkg.s4 rect{fill:#add494}"
	".hit rect,.hit.b rect{fill:#e67be0}#reset{cursor:pointer;fill:#1a56b0}";

static void put_line(struct outbuf *b, int y, const char *class, const char *text)
{
	outbuf__printf(b, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, LEFT, y);
	markup_put(b, text, strlen(text));
	outbuf__puts(b, "</text>\n");
}

static void put_title(struct outbuf *b, const struct agg_result *r)
{
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
	put_line(b, 24, "h", line);
	if (r->sample_ns)
		snprintf(own, sizeof(own), "%s of it off the CPU",
			 summary_duration(second, sizeof(second), r->off_ns));
	else
		snprintf(own, sizeof(own), "cost of the profiler %s, %s",
			 summary_duration(second, sizeof(second), r->own_ns),
			 r->raw ? "still in the times" : "taken out");
	snprintf(line, sizeof(line),
		 "%" PRIu64 " %s, %" PRIu64 " lost (%.*f %%), %" PRIu64 " gaps (%s); %s%s",
		 r->totals.written, r->sample_ns ? "samples" : "events", lost, lost ? 2 : 0,
		 r->totals.generated ? 100.0 * (double)lost / (double)r->totals.generated : 0,
		 r->gap_cnt, summary_duration(first, sizeof(first), summary_gap_ns(r)), own,
		 r->totals.complete ? "" : "; the capture ends before its proper end");
	put_line(b, 44, "l", line);
	outbuf__printf(
		b,
		"<text class=\"l\" id=\"details\" x=\"%d\" y=\"62\">"
		"A click zooms in, Esc resets; who is called lies below its caller.</text>\n",
		LEFT);
}

static void put_legend(struct outbuf *b, const struct svg_layout *l, uint32_t y)
{
	char line[128], least[16];

	static const struct {
		const char *class, *text;
	} kinds[] = { { "own", "program" },
		      { "std", "standard library" },
		      { "pkg", "packages" },
		      { "gap", "stack not known" } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		unsigned int x = LEFT + (unsigned int)i * 150;

		outbuf__printf(
			b,
			"<g class=\"%s\"><rect x=\"%u\" y=\"%" PRIu32
			"\" width=\"12\" height=\"12\"/><text class=\"l\" x=\"%u\" y=\"%" PRIu32
			"\">%s</text></g>\n",
			kinds[i].class, x, y, x + 18, y + 10, kinds[i].text);
	}
	if (!l->left_out_cnt)
		return;
	snprintf(line, sizeof(line), "%" PRIu64 " frames of less than %s are left out",
		 l->left_out_cnt, summary_duration(least, sizeof(least), l->min_ns));
	put_line(b, (int)y + 28, "l", line);
}

static void put_svg(struct outbuf *b, const struct agg_result *r, const struct svg_layout *l)
{
	uint32_t bottom = TOP + l->row_cnt * ROW, height = bottom + BELOW;

	outbuf__printf(b,
		       "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%" PRIu32
		       "\" viewBox=\"0 0 %d %" PRIu32
		       "\" data-left=\"%d\" data-width=\"%d\" data-cell=\"%.1f\">\n",
		       WIDTH, height, WIDTH, height, LEFT, DRAWN, CELL_PX);
	outbuf__puts(b, "<title>pyebpf flame graph</title>\n<style>");
	outbuf__puts(b, style);
	outbuf__puts(b, "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
	put_title(b, r);
	outbuf__printf(
		b,
		"<text class=\"l\" id=\"reset\" x=\"%d\" y=\"44\" text-anchor=\"end\" "
		"style=\"display:none\">reset zoom</text>\n"
		"<text class=\"l\" id=\"found\" x=\"%d\" y=\"62\" text-anchor=\"end\"></text>\n",
		WIDTH - LEFT, WIDTH - LEFT);
	for (uint32_t i = 0; i < l->cnt; i++)
		put_box(b, r, &l->boxes[i], l->boxes[0].ns);
	put_legend(b, l, bottom + 12);
	outbuf__puts(b, "<script><![CDATA[\n");
	outbuf__puts(b, svg_js);
	outbuf__puts(b, "]]></script>\n</svg>\n");
}

static int on_end(void *self, const struct trace_totals *totals)
{
	auto_fn(svg_layout__done) struct svg_layout l = { 0 };
	struct svg *s = self;
	const struct agg_result *r = aggregate__result(s->folding.agg);
	int err = folding_end(self, totals);

	err = err ? err : svg_layout__init(&l, r);
	if (err)
		return err;
	put_svg(&s->out, r, &l);
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
		.begin = folding_begin,
		.process = folding_process,
		.thread = folding_thread,
		.func = folding_func,
		.event = folding_event,
		.sample = folding_sample,
		.gap = folding_gap,
		.end = on_end,
	},
	.done = svg__done,
};
