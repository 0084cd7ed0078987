// SPDX-License-Identifier: Apache-2.0
/*
 * A flame graph as one SVG file that opens anywhere: callers on top, what they called below, widths
 * are times. A box is <g class="b KIND" data-s="START" data-n="NS" data-r="ROW"> with <title>, <rect>
 * and <text>; svg.js uses the numbers to zoom. Names are escaped twice: first what a terminal should
 * not get (which includes all that XML cannot hold), then markup.
 */
#include "export/svg_draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "export/markup.h"
#include "export/summary.h"
#include "export/svg_js.h"

enum {
	NAME_BYTES = 600,
	WIDTH = 1200,
	LEFT = 10,
	DRAWN = WIDTH - 2 * LEFT,
	TOP = 78,
	ROW = 17,
	BELOW = 50
};

#define CELL_PX 6.7 /* of a character */

/* Several that were added up have no number. */
static void put_numbered(char *out, size_t size, const char *name, uint32_t number)
{
	if (number)
		snprintf(out, size, "%.200s %" PRIu32, name, number);
	else
		snprintf(out, size, "%.200s", name);
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
		put_numbered(raw, sizeof(raw),
			     strpool__get(&r->strings, r->processes[box->index].comm),
			     r->processes[box->index].pid);
		break;
	case SVG_THREAD:
		t = &r->threads[box->index];
		put_numbered(raw, sizeof(raw), strpool__get(&r->strings, t->name), t->tid);
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
		if (f->kind != FUNC_PYTHON)
			snprintf(raw, sizeof(raw), "%.250s (%.250s)",
				 strpool__get(&r->strings, f->qualname),
				 strpool__get(&r->strings, agg_shown_file(r, f)));
		else if (agg_shown_file(r, f))
			snprintf(raw, sizeof(raw), "%.250s (%.250s:%" PRIu32 ")",
				 strpool__get(&r->strings, f->qualname),
				 strpool__get(&r->strings, agg_shown_file(r, f)), f->line);
		else
			snprintf(raw, sizeof(raw), "%.250s",
				 strpool__get(&r->strings, f->qualname));
		break;
	}
	return text_escape(out, size, raw, strlen(raw));
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

static void put_box(struct outbuf *b, const struct agg_result *r, const struct svg_box *box,
		    uint64_t all_ns, const struct svg_paint *paint)
{
	double scale = all_ns ? DRAWN / (double)all_ns : 0;
	double x = LEFT + (double)box->start_ns * scale, px = (double)box->ns * scale;
	const char *class = paint->class_of(paint->ctx, box);
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
	paint->put_figures(b, paint->ctx, box, all_ns);
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
	".nat rect{fill:#e8c4b0}.nat.s1 rect{fill:#edd0bf}.nat.s2 rect{fill:#e3b8a1}"
	".nat.s3 rect{fill:#f1dccf}.nat.s4 rect{fill:#e5beaa}"
	".ker rect{fill:#cdb5dd}.ker.s1 rect{fill:#d7c3e4}.ker.s2 rect{fill:#c3a7d6}"
	".ker.s3 rect{fill:#e0d1eb}.ker.s4 rect{fill:#c8aeda}"
	".same rect{fill:#e4e4e4}.more1 rect{fill:#ffd9cc}.more2 rect{fill:#ffb09a}.more3 rect{fill:#ff8063}"
	".more4 rect{fill:#f04e37}.less1 rect{fill:#d3e2ff}.less2 rect{fill:#a7c6ff}.less3 rect{fill:#78a5fb}"
	".less4 rect{fill:#4a7ff0}"
	".hit rect,.hit.b rect{fill:#e67be0}#reset{cursor:pointer;fill:#1a56b0}";

void svg_put_line(struct outbuf *b, int y, const char *class, const char *text)
{
	outbuf__printf(b, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, LEFT, y);
	markup_put(b, text, strlen(text));
	outbuf__puts(b, "</text>\n");
}

static void put_legend(struct outbuf *b, const struct svg_layout *l, const struct svg_paint *paint,
		       uint32_t y)
{
	char line[128], least[16];

	for (size_t i = 0; paint->legend[i].text; i++) {
		unsigned int x = LEFT + (unsigned int)i * 150;

		outbuf__printf(
			b,
			"<g class=\"%s\"><rect x=\"%u\" y=\"%" PRIu32
			"\" width=\"12\" height=\"12\"/><text class=\"l\" x=\"%u\" y=\"%" PRIu32
			"\">%s</text></g>\n",
			paint->legend[i].class, x, y, x + 18, y + 10, paint->legend[i].text);
	}
	if (!l->left_out_cnt)
		return;
	snprintf(line, sizeof(line), "%" PRIu64 " frames of less than %s are left out",
		 l->left_out_cnt, summary_duration(least, sizeof(least), l->min_ns));
	svg_put_line(b, (int)y + 28, "l", line);
}

void svg_draw(struct outbuf *b, const struct agg_result *r, const struct svg_layout *l,
	      const struct svg_paint *paint)
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
	paint->put_title(b, paint->ctx);
	outbuf__printf(
		b,
		"<text class=\"l\" id=\"details\" x=\"%d\" y=\"62\">"
		"A click zooms in, Esc resets; who is called lies below its caller.</text>\n",
		LEFT);
	outbuf__printf(
		b,
		"<text class=\"l\" id=\"reset\" x=\"%d\" y=\"44\" text-anchor=\"end\" "
		"style=\"display:none\">reset zoom</text>\n"
		"<text class=\"l\" id=\"found\" x=\"%d\" y=\"62\" text-anchor=\"end\"></text>\n",
		WIDTH - LEFT, WIDTH - LEFT);
	for (uint32_t i = 0; i < l->cnt; i++)
		put_box(b, r, &l->boxes[i], l->boxes[0].ns, paint);
	put_legend(b, l, paint, bottom + 12);
	outbuf__puts(b, "<script><![CDATA[\n");
	outbuf__puts(b, svg_js);
	outbuf__puts(b, "]]></script>\n</svg>\n");
}
