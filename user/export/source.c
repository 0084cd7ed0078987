// SPDX-License-Identifier: Apache-2.0
/*
 * The program's source as one page that runs no script: beside each line its self and total time, the more the
 * warmer, and before each function its callers and callees as links. What is hostile in names and sources is
 * text_escape()d, then markup; the page's policy allows its own style and nothing else.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outbuf.h"
#include "export/export.h"
#include "export/markup.h"
#include "export/source_file.h"
#include "export/summary.h"
#include "profile/annotate.h"
#include "profile/forward.h"
#include "profile/place.h"

enum {
	BUFFER_BYTES = 64 << 10,
	FILES_MAX = 400, /* shown with their lines */
	LINES_MAX = 60000, /* of the page: a browser shows more only slowly */
	AROUND = 4, /* lines around one with time, where a file is not shown whole */
	EDGES_MAX = 30, /* callers, and callees, of a function */
	LEVELS = 10, /* of warmth */
};

struct source {
	struct forward next; /* to the lines; first */
	struct lines *lines;
	struct outbuf out;
	int64_t start_unix_ns;
};

/* What is drawn. */
struct page {
	struct outbuf *b;
	struct annotate a;
	uint32_t *callees; /* by group: the first edge whose caller it is; AGG_NONE */
	uint32_t *next_callee; /* by edge */
	uint64_t most_ns; /* self time of a line */
	uint32_t line_cnt; /* drawn so far */
	uint32_t shown_cnt; /* files with their lines */
	int64_t start_unix_ns;
};

static void source__done(void *self)
{
	struct source *s = self;

	lines__free(s->lines);
	outbuf__done(&s->out);
}

static int source__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	const struct aggregate_opts agg_opts = { .raw = opts->raw };
	struct source *s = self;
	int err = lines__new(&s->lines, LINES_OF_FILES, &agg_opts);

	s->next = (struct forward){ &lines_consumer, s->lines };
	return err ? err : outbuf__init(&s->out, BUFFER_BYTES, out->write, out->ctx);
}

static const char style[] =
	"body{font:14px/1.4 sans-serif;margin:16px;color:#1b1b1b;background:#fff}"
	"table{border-collapse:collapse}td,th{padding:1px 10px;text-align:right}"
	"td:last-child,th:last-child{text-align:left}"
	".l{display:flex;font:12px/1.45 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
	".l>*{flex:none}.n{width:6ch;text-align:right;color:#777;text-decoration:none;padding-right:1ch}"
	".t{width:10ch;text-align:right;padding-right:1ch}.l code{font:inherit}"
	".cut{color:#777;font-size:12px;padding-left:28ch}.why{color:#7a4b00;background:#fff3c4;padding:2px 6px}"
	"details{margin-left:28ch;font-size:12px;color:#345}summary{cursor:pointer}"
	"details ul{margin:2px 0 4px 0;padding-left:2ch;list-style:none}"
	"h2{font:bold 15px sans-serif;margin:28px 0 4px;word-break:break-all}"
	".l:target,details:target>summary,h2:target{outline:2px solid #1a56b0}"
	".h1{background:#fffaf3}.h2{background:#fff3e2}.h3{background:#ffeacd}.h4{background:#ffdfb6}"
	".h5{background:#ffd29c}.h6{background:#ffc27f}.h7{background:#ffae63}.h8{background:#ff964c}"
	".h9{background:#ff7a3c}";

static const char *text_of(const struct page *p, uint32_t id)
{
	return strpool__get(&p->a.r->strings, id);
}

static void put_text(struct page *p, uint32_t id)
{
	const struct strpool_str *str = &p->a.r->strings.strs[id];

	markup_shown(p->b, str->s, str->len);
}

static void put_ns(struct page *p, const char *before, uint64_t ns, const char *after)
{
	char text[16];

	outbuf__printf(p->b, "%s%s%s", before, summary_duration(text, sizeof(text), ns), after);
}

static void put_cell(struct page *p, uint64_t ns)
{
	if (ns)
		put_ns(p, "<span class=\"t\">", ns, "</span>");
	else
		outbuf__puts(p->b, "<span class=\"t\"></span>");
}

static const char *unit(const struct page *p)
{
	return p->a.r->sample_ns ? "sample" : "call";
}

static void put_count(struct page *p, uint64_t cnt)
{
	outbuf__printf(p->b, "%" PRIu64 " %s%s", cnt, unit(p), cnt == 1 ? "" : "s");
}

/* 0: none; from 1 on three powers of ten below the warmest. */
static unsigned int warmth(const struct page *p, uint64_t ns)
{
	double share = p->most_ns ? (double)ns / (double)p->most_ns : 0;
	double level = LEVELS - 1 + log10(share > 0 ? share : 1e-9) * (LEVELS - 2) / 3;

	return !ns ? 0 : level < 1 ? 1 : (unsigned int)level;
}

static void put_edge(struct page *p, uint32_t group, const struct callgraph_sums *sums)
{
	uint32_t i = p->a.func_of_group[group];

	outbuf__printf(p->b, "<li><a href=\"#F%" PRIu32 "\">", i);
	put_text(p, p->a.r->funcs[p->a.funcs[i].index].qualname);
	outbuf__puts(p->b, "</a> ");
	put_count(p, sums->calls);
	put_ns(p, ", total ", sums->total_ns, "</li>");
}

static void put_callers(struct page *p, uint32_t group)
{
	const struct callgraph *g = &p->a.graph;
	uint32_t cnt = 0, e = g->nodes[group].callers;

	if (e == AGG_NONE)
		return;
	outbuf__puts(p->b, "called by<ul>");
	for (; e != AGG_NONE && cnt < EDGES_MAX; e = g->edges[e].next, cnt++)
		put_edge(p, g->edges[e].caller, &g->edges[e].sums);
	outbuf__puts(p->b, e == AGG_NONE ? "</ul>" : "<li>and others</li></ul>");
}

/* The callee of an edge is the group in whose list it is; next_callee has it behind the edges. */
static void put_callees(struct page *p, uint32_t group, const uint32_t *callee_of)
{
	const struct callgraph *g = &p->a.graph;
	uint32_t cnt = 0, e = p->callees[group];

	if (e == AGG_NONE)
		return;
	outbuf__puts(p->b, "calls<ul>");
	for (; e != AGG_NONE && cnt < EDGES_MAX; e = p->next_callee[e], cnt++)
		put_edge(p, callee_of[e], &g->edges[e].sums);
	outbuf__puts(p->b, e == AGG_NONE ? "</ul>" : "<li>and others</li></ul>");
}

static void put_func(struct page *p, uint32_t i, const uint32_t *callee_of)
{
	const struct annotate_func *f = &p->a.funcs[i];
	const struct callgraph_node *n = &p->a.graph.nodes[f->group];

	outbuf__printf(p->b, "<details id=\"F%" PRIu32 "\"><summary>", i);
	put_text(p, p->a.r->funcs[f->index].qualname);
	outbuf__puts(p->b, ": ");
	put_count(p, n->sums.calls);
	put_ns(p, ", self ", n->sums.self_ns, "");
	put_ns(p, ", total ", n->sums.total_ns, "</summary>");
	put_callers(p, f->group);
	put_callees(p, f->group, callee_of);
	outbuf__puts(p->b, "</details>\n");
}

static void put_line(struct page *p, uint32_t file, uint32_t number, const struct ranking_row *row,
		     const struct source_line *text)
{
	uint64_t self_ns = row ? row->self_ns : 0, total_ns = row ? row->total_ns : 0;

	p->line_cnt++;
	outbuf__printf(p->b, "<div class=\"l h%u\" id=\"f%" PRIu32 "l%" PRIu32 "\"",
		       warmth(p, self_ns), file, number);
	if (row)
		outbuf__printf(p->b, " data-self=\"%" PRIu64 "\" data-total=\"%" PRIu64 "\"",
			       self_ns, total_ns);
	outbuf__printf(p->b, "><a class=\"n\" href=\"#f%" PRIu32 "l%" PRIu32 "\">%" PRIu32 "</a>",
		       file, number, number);
	put_cell(p, self_ns);
	put_cell(p, total_ns);
	outbuf__puts(p->b, "<code>");
	if (text)
		markup_shown(p->b, text->s, text->len);
	outbuf__puts(p->b, "</code></div>\n");
}

static const struct source_line no_line = { "[line not known]", 16 };

/* Walks over what a file has, line by line. */
struct walk {
	const struct annotate_file *file;
	uint32_t row, func; /* the next ones */
};

/* Whether one of the next lines has something, or one of the last had. @near: the last that had. */
static bool is_near(const struct page *p, const struct walk *w, uint32_t number, uint32_t near)
{
	const struct annotate_file *f = w->file;

	if (near && number - near <= AROUND)
		return true;
	if (w->row < f->line_cnt && p->a.lines.rows[f->line_at + w->row].line <= number + AROUND)
		return true;
	return w->func < f->func_cnt &&
	       p->a.r->funcs[p->a.funcs[f->func_at + w->func].index].line <= number + AROUND;
}

static void put_source(struct page *p, uint32_t file, const struct source_file *text,
		       const uint32_t *callee_of, bool whole)
{
	struct walk w = { .file = &p->a.files[file] };
	const struct annotate_file *f = w.file;
	uint32_t near = 0, left_out = 0;

	/* of some samples the file is known and the line is not */
	if (f->line_cnt && !p->a.lines.rows[f->line_at].line)
		put_line(p, file, 0, &p->a.lines.rows[f->line_at + w.row++], &no_line);
	for (uint32_t number = 1; number <= text->line_cnt; number++) {
		const struct ranking_row *row = NULL;

		if (!(whole && p->line_cnt < LINES_MAX) && !is_near(p, &w, number, near)) {
			left_out++;
			continue;
		}
		if (left_out)
			outbuf__printf(p->b,
				       "<div class=\"cut\">%" PRIu32 " lines without time</div>\n",
				       left_out);
		left_out = 0;
		for (; w.func < f->func_cnt &&
		       p->a.r->funcs[p->a.funcs[f->func_at + w.func].index].line <= number;
		     w.func++)
			put_func(p, f->func_at + w.func, callee_of);
		if (w.row < f->line_cnt && p->a.lines.rows[f->line_at + w.row].line == number) {
			row = &p->a.lines.rows[f->line_at + w.row++];
			near = number;
		}
		put_line(p, file, number, row, &text->lines[number - 1]);
	}
	if (left_out)
		outbuf__printf(p->b, "<div class=\"cut\">%" PRIu32 " lines without time</div>\n",
			       left_out);
	if (w.row < f->line_cnt || w.func < f->func_cnt)
		outbuf__puts(p->b, "<p class=\"why\">The file ends before these:</p>\n");
	for (; w.func < f->func_cnt; w.func++)
		put_func(p, f->func_at + w.func, callee_of);
	for (; w.row < f->line_cnt; w.row++)
		put_line(p, file, p->a.lines.rows[f->line_at + w.row].line,
			 &p->a.lines.rows[f->line_at + w.row], NULL);
}

/* A file that is not here still has its functions, and the times of its lines. */
static void put_bare(struct page *p, uint32_t file, const uint32_t *callee_of)
{
	const struct annotate_file *f = &p->a.files[file];

	for (uint32_t i = 0; i < f->func_cnt; i++)
		put_func(p, f->func_at + i, callee_of);
	/* without a file there are no lines, only names */
	for (uint32_t i = 0; f->file && i < f->line_cnt; i++)
		put_line(p, file, p->a.lines.rows[f->line_at + i].line,
			 &p->a.lines.rows[f->line_at + i], NULL);
}

static int put_file(struct page *p, uint32_t file, const uint32_t *callee_of)
{
	const struct annotate_file *f = &p->a.files[file];
	const char *path = text_of(p, f->file), *below;
	auto_fn(source_file__done) struct source_file text;
	int err = source_file__init(&text, path, p->start_unix_ns);
	/* what the user wrote is shown whole */
	bool whole = *path && place_of_file(path, &below) == PLACE_ELSEWHERE;

	if (err)
		return err;
	outbuf__printf(p->b, "<h2 id=\"f%" PRIu32 "\">", file);
	if (f->file)
		put_text(p, f->file);
	else
		outbuf__puts(p->b, "[no file]");
	outbuf__puts(p->b, "</h2>\n");
	if (text.missing)
		outbuf__printf(p->b, "<p class=\"why\">No source: %s.</p>\n", text.missing);
	if (text.newer)
		outbuf__puts(
			p->b,
			"<p class=\"why\">The file is newer than the capture: its lines may be "
			"others than those that ran.</p>\n");
	if (text.missing)
		put_bare(p, file, callee_of);
	else
		put_source(p, file, &text, callee_of, whole);
	return p->b->err;
}

static void put_index(struct page *p)
{
	const struct agg_result *r = p->a.r;

	outbuf__puts(p->b, "<table><tr><th>self</th><th>share</th><th>file</th></tr>\n");
	for (uint32_t i = 0; i < p->shown_cnt; i++) {
		outbuf__puts(p->b, "<tr>");
		put_ns(p, "<td>", p->a.files[i].self_ns, "</td>");
		outbuf__printf(
			p->b, "<td>%.1f %%</td><td><a href=\"#f%" PRIu32 "\">",
			r->self_ns ? 100.0 * (double)p->a.files[i].self_ns / (double)r->self_ns : 0,
			i);
		if (p->a.files[i].file)
			put_text(p, p->a.files[i].file);
		else
			outbuf__puts(p->b, "[no file]");
		outbuf__puts(p->b, "</a></td></tr>\n");
	}
	outbuf__puts(p->b, "</table>\n");
	if (p->shown_cnt < p->a.file_cnt)
		outbuf__printf(p->b,
			       "<p class=\"why\">%" PRIu32
			       " files with less time are left out.</p>\n",
			       p->a.file_cnt - p->shown_cnt);
}

static void put_head(struct page *p)
{
	const struct agg_result *r = p->a.r;
	uint64_t lost = 0;

	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += r->totals.lost[i];
	outbuf__puts(p->b,
		     "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		     "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
		     "<title>pyebpf source</title>\n<style>");
	outbuf__puts(p->b, style);
	outbuf__puts(p->b,
		     "</style></head><body>\n<h1>Where the time went, line by line</h1>\n<p>");
	put_ns(p, "", r->self_ns, " in Python frames, ");
	outbuf__printf(p->b, "%" PRIu64 " %s, %" PRIu64 " lost. ", r->totals.written,
		       r->sample_ns ? "samples" : "events", lost);
	outbuf__puts(
		p->b,
		r->sample_ns
			? "A line's self time is that of the samples that were at it; its total "
			  "has what it called."
			: "A trace of calls does not know which line runs: the times of a "
			  "function stand at its first line.");
	outbuf__puts(p->b, " The first column is self, the second one total.</p>\n");
}

/* The edges of the graph by their callers. */
static int invert(struct page *p, uint32_t *callee_of)
{
	const struct callgraph *g = &p->a.graph;

	p->callees = malloc((g->node_cnt + 1ull) * sizeof(*p->callees));
	p->next_callee = malloc((g->edge_cnt + 1ull) * sizeof(*p->next_callee));
	if (!p->callees || !p->next_callee)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->node_cnt; i++)
		p->callees[i] = AGG_NONE;
	for (uint32_t i = 0; i < g->node_cnt; i++) {
		for (uint32_t e = g->nodes[i].callers; e != AGG_NONE; e = g->edges[e].next) {
			callee_of[e] = i;
			p->next_callee[e] = p->callees[g->edges[e].caller];
			p->callees[g->edges[e].caller] = e;
		}
	}
	return 0;
}

static int put_page(struct page *p)
{
	auto_free uint32_t *callee_of = calloc(p->a.graph.edge_cnt + 1ull, sizeof(*callee_of));
	int err = callee_of ? invert(p, callee_of) : -ENOMEM;

	for (uint32_t i = 0; i < p->a.lines.cnt; i++) {
		if (p->a.lines.rows[i].self_ns > p->most_ns)
			p->most_ns = p->a.lines.rows[i].self_ns;
	}
	p->shown_cnt = p->a.file_cnt < FILES_MAX ? p->a.file_cnt : FILES_MAX;
	put_head(p);
	put_index(p);
	for (uint32_t i = 0; i < p->shown_cnt && !err; i++)
		err = put_file(p, i, callee_of);
	outbuf__puts(p->b, "</body></html>\n");
	return err;
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct source *s = self;
	struct page p = { .b = &s->out, .start_unix_ns = s->start_unix_ns };
	int err = forward_end(s, totals);

	err = err ? err : annotate__init(&p.a, s->lines);
	err = err ? err : put_page(&p);
	annotate__done(&p.a);
	free(p.callees);
	free(p.next_callee);
	return err ? err : outbuf__flush(&s->out);
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct source *s = self;

	s->start_unix_ns = info->start_unix_ns;
	return forward_begin(s, info);
}

const struct exporter export_source = {
	.name = "source",
	.aliases = (const char *const[]){ "heatmap", NULL },
	.extensions = (const char *const[]){ ".source.html", NULL },
	.help = "the program's source as a page, with the time of each line",
	.hint = "xdg-open @",
	.size = sizeof(struct source),
	.init = source__init,
	.consumer = {
		.begin = on_begin,
		.process = forward_process,
		.thread = forward_thread,
		.func = forward_func,
		.event = forward_event,
		.sample = forward_sample,
		.gap = forward_gap,
		.end = on_end,
	},
	.done = source__done,
};
