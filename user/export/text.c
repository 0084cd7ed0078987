// SPDX-License-Identifier: Apache-2.0
/*
 * Tables to read, with the columns that cProfile prints: by function, by line and by module, those with
 * the most self time first. A line is the first one of a function: a trace knows no others.
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
#include "export/summary.h"
#include "profile/callgraph.h"
#include "profile/module.h"
#include "profile/ranking.h"

enum {
	BUFFER_BYTES = 64 << 10
};

struct text {
	struct folding folding; /* first */
	struct outbuf out;
};

/* A group of functions: a row. */
struct row {
	struct callgraph_sums sums;
	uint32_t func; /* one of them: the first in the capture */
};

struct table {
	struct row *rows;
	uint32_t cnt;
};

static void table_done(struct table *table)
{
	free(table->rows);
}

static void text__done(void *self)
{
	struct text *t = self;

	folding__done(&t->folding);
	outbuf__done(&t->out);
}

static int text__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	struct text *t = self;
	int err;

	err = folding__init(&t->folding, opts, 0);
	err = err ? err : outbuf__init(&t->out, BUFFER_BYTES, out->write, out->ctx);
	return err;
}

static void put_escaped(struct outbuf *b, const char *s)
{
	size_t left = strlen(s);
	char piece[32];

	while (left) {
		uint32_t cp;
		size_t n = text_next(s, left, &cp);

		outbuf__puts(b, text_escape(piece, sizeof(piece), s, n));
		s += n;
		left -= n;
	}
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static int most_self_first(const void *left, const void *right)
{
	const struct row *l = left, *r = right;

	if (l->sums.self_ns != r->sums.self_ns)
		return l->sums.self_ns < r->sums.self_ns ? 1 : -1;
	if (l->sums.total_ns != r->sums.total_ns)
		return l->sums.total_ns < r->sums.total_ns ? 1 : -1;
	if (l->sums.calls != r->sums.calls)
		return l->sums.calls < r->sums.calls ? 1 : -1;
	return l->func < r->func ? -1 : l->func > r->func;
}

static int make_table(struct table *table, const struct agg_result *r, enum ranking_by by)
{
	auto_free uint32_t *group_of = malloc((r->func_cnt + 1ull) * sizeof(*group_of));
	auto_fn(callgraph__done) struct callgraph graph = { 0 };
	uint32_t cnt;
	int err = group_of ? ranking_groups(r, by, false, group_of, &cnt) : -ENOMEM;

	err = err ? err : callgraph__init(&graph, r, group_of, cnt);
	if (err)
		return err;
	table->rows = calloc(cnt + 1ull, sizeof(*table->rows));
	if (!table->rows)
		return -ENOMEM;
	for (uint32_t i = r->func_cnt; i-- > 0;) {
		table->rows[group_of[i]].sums = graph.nodes[group_of[i]].sums;
		table->rows[group_of[i]].func = i;
	}
	qsort(table->rows, cnt, sizeof(*table->rows), most_self_first);
	table->cnt = cnt;
	return 0;
}

static void put_name(struct outbuf *b, const struct agg_result *r, const struct agg_func *f,
		     enum ranking_by by)
{
	const char *file = strpool__get(&r->strings, agg_shown_file(r, f));
	const char *from_root = strpool__get(&r->strings, f->short_file);
	const char *name = strpool__get(&r->strings, f->qualname);
	char module[512];

	if (!f->file) {
		put_escaped(b, name);
		return;
	}
	if (by == RANKING_MODULE) {
		put_escaped(b, module_name(module, sizeof(module), from_root));
		outbuf__puts(b, " (");
		put_escaped(b, file);
		outbuf__putc(b, ')');
		return;
	}
	put_escaped(b, file);
	if (f->kind == FUNC_PYTHON)
		outbuf__printf(b, ":%" PRIu32, f->line);
	if (by == RANKING_LINE)
		return;
	outbuf__putc(b, '(');
	put_escaped(b, name);
	outbuf__putc(b, ')');
}

/* Calls alone may have been counted. */
static bool has_times(const struct agg_result *r)
{
	return r->self_ns != 0;
}

static void put_row(struct outbuf *b, const struct callgraph_sums *s, bool times)
{
	char calls[64];

	if (s->calls == s->primitive_calls)
		snprintf(calls, sizeof(calls), "%" PRIu64, s->calls);
	else
		snprintf(calls, sizeof(calls), "%" PRIu64 "/%" PRIu64, s->calls,
			 s->primitive_calls);
	outbuf__printf(b, times ? "%17s " : "%17s  ", calls);
	if (!times)
		return;
	outbuf__printf(b, "%12.6f ", seconds(s->self_ns));
	if (s->calls)
		outbuf__printf(b, "%12.9f ", seconds(s->self_ns) / (double)s->calls);
	else
		outbuf__printf(b, "%12s ", "");
	outbuf__printf(b, "%12.6f ", seconds(s->total_ns));
	if (s->primitive_calls)
		outbuf__printf(b, "%12.9f  ", seconds(s->total_ns) / (double)s->primitive_calls);
	else
		outbuf__printf(b, "%12s  ", "");
}

static void put_table(struct outbuf *b, const struct agg_result *r, const struct table *table,
		      enum ranking_by by)
{
	static const char *const titles[] = {
		[RANKING_FUNCTION] = "filename:lineno(function)",
		[RANKING_MODULE] = "module (filename)",
		[RANKING_LINE] = "filename:lineno",
	};

	outbuf__printf(b, "\n%17s ", "ncalls");
	if (has_times(r))
		outbuf__printf(b, "%12s %12s %12s %12s ", "tottime", "percall", "cumtime",
			       "percall");
	outbuf__printf(b, " %s\n", titles[by]);
	for (uint32_t i = 0; i < table->cnt; i++) {
		const struct row *row = &table->rows[i];

		if (!row->sums.calls && !row->sums.total_ns)
			continue;
		put_row(b, &row->sums, has_times(r));
		put_name(b, r, &r->funcs[row->func], by);
		outbuf__putc(b, '\n');
	}
}

static void put_head(struct outbuf *b, const struct agg_result *r, const struct table *functions)
{
	const struct trace_totals *t = &r->totals;
	uint64_t calls = 0, primitive_calls = 0, lost = 0;

	for (uint32_t i = 0; i < functions->cnt; i++) {
		calls += functions->rows[i].sums.calls;
		primitive_calls += functions->rows[i].sums.primitive_calls;
	}
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += t->lost[i];
	outbuf__printf(b, "%" PRIu64 " function calls (%" PRIu64 " primitive calls)", calls,
		       primitive_calls);
	if (has_times(r))
		outbuf__printf(b, " in %.6f seconds", seconds(r->self_ns));
	outbuf__putc(b, '\n');
	outbuf__printf(b, "events written: %" PRIu64 ", lost: %" PRIu64, t->written, lost);
	for (unsigned int i = 0; lost && i < LOSS_CNT; i++)
		outbuf__printf(b, "%s %s %" PRIu64, i ? "," : " =", trace_loss_name(i), t->lost[i]);
	outbuf__printf(b, "; gaps in which a stack is not known: %" PRIu64 "\n", r->gap_cnt);
	if (has_times(r))
		outbuf__printf(b, "cost of the profiler: %.6f seconds, %s\n", seconds(r->own_ns),
			       summary_own(r));
	if (r->cut_cnt)
		outbuf__printf(b, "calls whose callers are [truncated]: %" PRIu64 "\n", r->cut_cnt);
	if (!t->complete)
		outbuf__puts(b, "the capture ends before its proper end\n");
	outbuf__puts(b, has_times(r) ? "times in seconds, most tottime first\n"
			: calls	     ? "calls alone were counted, no times; most calls first\n"
				     : "no Python function was on a stack\n");
}

static int on_end(void *self, const struct trace_totals *totals)
{
	static const enum ranking_by by[] = { RANKING_FUNCTION, RANKING_LINE, RANKING_MODULE };
	struct text *t = self;
	const struct agg_result *r = aggregate__result(t->folding.agg);
	struct outbuf *b = &t->out;
	int err = folding_end(self, totals);

	for (size_t i = 0; i < sizeof(by) / sizeof(*by) && !err; i++) {
		auto_fn(table_done) struct table table = { 0 };

		err = make_table(&table, r, by[i]);
		if (!err && !i)
			put_head(b, r, &table);
		if (!err && table.cnt)
			put_table(b, r, &table, by[i]);
	}
	return err ? err : outbuf__flush(b);
}

const struct exporter export_text = {
	.name = "text",
	.aliases = (const char *const[]){ "txt", NULL },
	.extensions = (const char *const[]){ ".txt", NULL },
	.help = "tables like cProfile's: by function, by line and by module",
	.hint = "less -S @",
	.folds = true,
	.size = sizeof(struct text),
	.init = text__init,
	.consumer = {
		FORWARD_TO_THE_END,
		.end = on_end,
	},
	.done = text__done,
};
