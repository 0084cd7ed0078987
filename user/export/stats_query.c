// SPDX-License-Identifier: Apache-2.0
#include "export/stats_query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "export/json.h"
#include "export/latency_table.h"
#include "export/stats.h"
#include "export/summary.h"
#include "profile/module.h"
#include "profile/query.h"

enum {
	CANDIDATES_MAX = 20
};

static const struct agg_func *func_of(const struct query_result *q, uint32_t index)
{
	return &q->all->funcs[index];
}

static void print_ends(FILE *f, const struct query_result *q)
{
	fprintf(f,
		"runs      %" PRIu64 ": %" PRIu64 " returned, %" PRIu64
		" left by an exception, %" PRIu64 " yielded\n",
		q->run_ns.cnt, q->ended[TRACE_RETURN], q->ended[TRACE_UNWIND],
		q->ended[TRACE_YIELD]);
	if (q->cut_cnt)
		fprintf(f,
			"not whole %" PRIu64
			" more, which begin or end where the trace does not show it\n",
			q->cut_cnt);
}

/* Was a time not known to be more than nothing? */
static bool print_edges(FILE *f, const struct query_result *q, const struct query_edges *edges,
			const char *title, uint32_t top_cnt)
{
	char self[16], total[16];
	bool doubt = false;

	fprintf(f, "\n%12s %10s %10s  %s\n", q->all->sample_ns ? "samples" : "calls", "self",
		"total", title);
	for (uint32_t i = 0; i < edges->cnt && i < top_cnt; i++) {
		const struct query_edge *edge = &edges->edges[i];
		uint64_t doubt_ns = agg_doubt_ns(q->all, edge->own_ns);

		doubt = doubt || edge->self_ns < doubt_ns;
		fprintf(f, "%12" PRIu64 " %10s %10s  ", edge->calls,
			summary_time(self, sizeof(self), edge->self_ns, doubt_ns),
			summary_time(total, sizeof(total), edge->total_ns, doubt_ns));
		if (edge->func == AGG_NONE)
			fputs("[no caller in Python]", f);
		else
			stats_print_func(f, q->all, func_of(q, edge->func));
		fputc('\n', f);
	}
	if (edges->cnt > top_cnt)
		fprintf(f, "and %" PRIu32 " more\n", edges->cnt - top_cnt);
	if (!edges->cnt)
		fprintf(f, "%12s\n", "none");
	return doubt;
}

void stats_query_print(FILE *f, const struct query_result *q, uint32_t top_cnt)
{
	uint64_t doubt_ns = agg_doubt_ns(q->all, q->own_ns);
	bool doubt = q->self_ns < doubt_ns;
	char self[16], total[16];

	fputs("function  ", f);
	stats_print_func(f, q->all, func_of(q, q->func));
	fputc('\n', f);
	summary_print_head(f, q->all);
	fprintf(f, "%-9s %" PRIu64 ", self %s, total %s\n", q->all->sample_ns ? "samples" : "calls",
		q->calls, summary_time(self, sizeof(self), q->self_ns, doubt_ns),
		summary_time(total, sizeof(total), q->total_ns, doubt_ns));
	if (q->all->sample_ns) {
		fputs("latency   not known: samples do not see calls, pyebpf trace does\n", f);
	} else {
		print_ends(f, q);
		doubt |= latency_print(f, &q->run_ns, q->all->raw ? NULL : q->run_own_ns);
	}
	doubt |= print_edges(f, q, &q->callers, "called from", top_cnt);
	doubt |= print_edges(f, q, &q->callees, "calls", top_cnt);
	if (doubt)
		summary_print_doubt(f);
}

static void put_u64(struct outbuf *b, const char *name, uint64_t value)
{
	outbuf__puts(b, ",\"");
	outbuf__puts(b, name);
	outbuf__puts(b, "\":");
	json_u64(b, value);
}

static void put_edges(struct outbuf *b, const struct query_result *q,
		      const struct query_edges *edges, uint32_t top_cnt)
{
	for (uint32_t i = 0; i < edges->cnt && i < top_cnt; i++) {
		const struct query_edge *edge = &edges->edges[i];

		outbuf__puts(b, i ? ",\n{" : "\n{");
		if (edge->func == AGG_NONE)
			outbuf__puts(b, "\"function\":null");
		else
			stats_json_func(b, q->all, func_of(q, edge->func));
		put_u64(b, "calls", edge->calls);
		put_u64(b, "self_ns", edge->self_ns);
		put_u64(b, "total_ns", edge->total_ns);
		outbuf__putc(b, '}');
	}
	outbuf__putc(b, ']');
}

void stats_query_json(struct outbuf *b, const struct query_result *q, uint32_t top_cnt)
{
	outbuf__puts(b, "{\"capture\":{");
	stats_json_head(b, q->all);
	outbuf__puts(b, "},\n");
	stats_json_func(b, q->all, func_of(q, q->func));
	put_u64(b, "calls", q->calls);
	put_u64(b, "self_ns", q->self_ns);
	put_u64(b, "total_ns", q->total_ns);
	put_u64(b, "returned", q->ended[TRACE_RETURN]);
	put_u64(b, "unwound", q->ended[TRACE_UNWIND]);
	put_u64(b, "yielded", q->ended[TRACE_YIELD]);
	put_u64(b, "not_whole", q->cut_cnt);
	latency_json(b, &q->run_ns);
	put_u64(b, "caller_count", q->callers.cnt);
	outbuf__puts(b, ",\"callers\":[");
	put_edges(b, q, &q->callers, top_cnt);
	put_u64(b, "callee_count", q->callees.cnt);
	outbuf__puts(b, ",\"callees\":[");
	put_edges(b, q, &q->callees, top_cnt);
	outbuf__puts(b, "}\n");
}

static void print_candidate(FILE *f, const struct agg_result *r, const struct agg_func *func)
{
	const char *qualname = strpool__get(&r->strings, func->qualname);
	char module[512], shown[1024];

	module_name(module, sizeof(module), strpool__get(&r->strings, func->short_file));
	fprintf(f, "  %s:", text_escape(shown, sizeof(shown), module, strlen(module)));
	fprintf(f, "%s:%" PRIu32, text_escape(shown, sizeof(shown), qualname, strlen(qualname)),
		func->line);
	qualname = strpool__get(&r->strings, func->file);
	fprintf(f, "  (%s)\n", text_escape(shown, sizeof(shown), qualname, strlen(qualname)));
}

/* What stands behind the last dot or colon of what was asked for. */
static const char *last_word(const char *name)
{
	const char *word = name;

	for (; *name; name++) {
		if ((*name == '.' || *name == ':') && name[1])
			word = name + 1;
	}
	return word;
}

uint32_t stats_query_candidates(FILE *f, const struct query_result *q, bool near, const char *name)
{
	const struct agg_result *r = q->all;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < (near ? r->func_cnt : q->meant_cnt); i++) {
		const struct agg_func *func = func_of(q, near ? i : q->meant[i]);

		if (near && !strstr(strpool__get(&r->strings, func->qualname), last_word(name)))
			continue;
		if (cnt++ < CANDIDATES_MAX)
			print_candidate(f, r, func);
	}
	if (cnt > CANDIDATES_MAX)
		fprintf(f, "  and %" PRIu32 " more\n", cnt - CANDIDATES_MAX);
	return cnt;
}
