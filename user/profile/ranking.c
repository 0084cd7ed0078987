// SPDX-License-Identifier: Apache-2.0
#include "profile/ranking.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

const char *const ranking_by_names[] = {
	[RANKING_FUNCTION] = "function", [RANKING_MODULE] = "module",	[RANKING_LINE] = "line",
	[RANKING_THREAD] = "thread",	 [RANKING_PROCESS] = "process", NULL,
};

int ranking_groups(const struct agg_result *r, enum ranking_by by, bool apart, uint32_t *group_of,
		   uint32_t *cnt)
{
	struct strpool keys;
	int err = strpool__init(&keys);

	for (uint32_t i = 0; i < r->func_cnt && !err; i++) {
		const struct agg_func *f = &r->funcs[i];
		/* what has no file ("[truncated]") is a row by its name */
		const uint32_t key[4] = { f->file, by == RANKING_MODULE && f->file ? 0 : f->line,
					  by == RANKING_FUNCTION || !f->file ? f->qualname : 0,
					  apart ? f->process : 0 };
		uint32_t id;

		err = strpool__add(&keys, (const char *)key, sizeof(key), &id);
		group_of[i] = id - 1;
	}
	*cnt = keys.cnt - 1;
	strpool__done(&keys);
	return err;
}

static int fill_funcs(struct ranking *k, const struct agg_result *r, bool apart)
{
	auto_free uint32_t *group_of = malloc((r->func_cnt + 1ull) * sizeof(*group_of));
	auto_free uint64_t *total_ns = NULL;
	uint32_t cnt;
	int err = group_of ? ranking_groups(r, k->by, apart, group_of, &cnt) : -ENOMEM;

	if (err)
		return err;
	k->rows = calloc(cnt + 1ull, sizeof(*k->rows));
	total_ns = malloc((cnt + 1ull) * sizeof(*total_ns));
	if (!k->rows || !total_ns)
		return -ENOMEM;
	err = agg_group_totals(r, group_of, cnt, total_ns);
	if (err)
		return err;
	k->cnt = cnt;
	for (uint32_t i = r->func_cnt; i-- > 0;) {
		struct ranking_row *row = &k->rows[group_of[i]];

		row->index = i;
		row->line = r->funcs[i].line;
		row->calls += r->funcs[i].calls;
		row->self_ns += r->funcs[i].self_ns;
		row->doubt_ns += agg_doubt_ns(r, r->funcs[i].own_ns);
	}
	for (uint32_t i = 0; i < cnt; i++)
		k->rows[i].total_ns = total_ns[i];
	return 0;
}

static int fill_threads(struct ranking *k, const struct agg_result *r)
{
	bool by_process = k->by == RANKING_PROCESS;

	k->cnt = by_process ? r->process_cnt : r->thread_cnt;
	k->rows = calloc(k->cnt + 1ull, sizeof(*k->rows));
	if (!k->rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < k->cnt; i++)
		k->rows[i].index = i;
	for (uint32_t i = 0; i < r->thread_cnt; i++) {
		struct ranking_row *row = &k->rows[by_process ? r->threads[i].process : i];

		row->gap_ns += r->threads[i].gap_ns;
		row->lost += r->threads[i].lost;
	}
	for (uint32_t i = 0; i < r->stack_cnt; i++) {
		const struct agg_stack *s = &r->stacks[i];
		uint32_t process = r->threads[s->thread].process;
		struct ranking_row *row = &k->rows[by_process ? process : s->thread];

		row->calls += s->calls;
		row->self_ns += s->self_ns;
		row->total_ns += s->self_ns;
	}
	return 0;
}

static int compare(uint64_t left, uint64_t right)
{
	return left > right ? -1 : left < right;
}

/* The other figures break ties, then the order in the capture, so that the order is the same always. */
static int compare_rows(const void *left, const void *right, enum ranking_sort first)
{
	const struct ranking_row *l = left, *r = right;
	const int by[] = { compare(l->self_ns, r->self_ns), compare(l->total_ns, r->total_ns),
			   compare(l->calls, r->calls) };
	int order = by[first];

	for (int i = 0; i < 3 && !order; i++)
		order = by[i];
	return order ? order : l->index < r->index ? -1 : l->index > r->index;
}

static int by_self(const void *left, const void *right)
{
	return compare_rows(left, right, RANKING_SELF);
}

static int by_total(const void *left, const void *right)
{
	return compare_rows(left, right, RANKING_TOTAL);
}

static int by_calls(const void *left, const void *right)
{
	return compare_rows(left, right, RANKING_CALLS);
}

static int finish(struct ranking *k, enum ranking_sort sort)
{
	static int (*const orders[])(const void *, const void *) = {
		[RANKING_SELF] = by_self, [RANKING_TOTAL] = by_total, [RANKING_CALLS] = by_calls
	};
	uint32_t kept = 0;

	for (uint32_t i = 0; i < k->cnt; i++) {
		const struct ranking_row *row = &k->rows[i];

		if (row->calls || row->total_ns || row->gap_ns || row->lost)
			k->rows[kept++] = *row;
	}
	k->cnt = kept;
	qsort(k->rows, k->cnt, sizeof(*k->rows), orders[sort]);
	return 0;
}

int ranking__init(struct ranking *k, const struct agg_result *r, enum ranking_by by,
		  enum ranking_sort sort, bool apart)
{
	int err;

	*k = (struct ranking){ .by = by };
	err = by < RANKING_THREAD ? fill_funcs(k, r, apart) : fill_threads(k, r);
	if (err) {
		ranking__done(k);
		return err;
	}
	return finish(k, sort);
}

/* The row of a line: of all processes, unless they are apart. */
static int line_row(struct strpool *keys, const struct agg_func *f, uint32_t line, bool named,
		    bool apart, uint32_t *row)
{
	const uint32_t key[4] = { f->file, named || !f->file ? f->qualname : 0, line,
				  apart ? f->process : 0 };
	int err = strpool__add(keys, (const char *)key, sizeof(key), row);

	*row -= !err;
	return err;
}

int ranking__of_lines(struct ranking *k, const struct lines *l, enum ranking_sort sort, bool apart)
{
	const struct agg_result *r = lines__result(l);
	uint32_t cnt, at = 0;
	const struct line_row *from = lines__rows(l, &cnt);
	auto_fn(strpool__done) struct strpool keys = { 0 };
	int err = strpool__init(&keys);

	*k = (struct ranking){ .by = RANKING_LINE };
	k->rows = calloc(cnt + 1ull, sizeof(*k->rows));
	if (!k->rows)
		err = -ENOMEM;
	for (uint32_t i = 0; i < cnt && !err; i++) {
		err = line_row(&keys, &r->funcs[from[i].func], from[i].line,
			       lines__by(l) == LINES_OF_FUNCTIONS, apart, &at);
		if (err)
			break;
		if (at == k->cnt)
			k->rows[k->cnt++] =
				(struct ranking_row){ .index = from[i].func, .line = from[i].line };
		k->rows[at].calls += from[i].samples;
		k->rows[at].self_ns += from[i].self_ns;
		k->rows[at].total_ns += from[i].total_ns;
	}
	if (err) {
		ranking__done(k);
		return err;
	}
	return finish(k, sort);
}

void ranking__done(struct ranking *k)
{
	free(k->rows);
	*k = (struct ranking){ 0 };
}
