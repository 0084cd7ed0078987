// SPDX-License-Identifier: Apache-2.0
#include "profile/annotate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void annotate__done(struct annotate *a)
{
	free(a->files);
	ranking__done(&a->lines);
	free(a->funcs);
	callgraph__done(&a->graph);
	free(a->func_of_group);
	*a = (struct annotate){ 0 };
}

static int order(uint32_t left, uint32_t right)
{
	return (left > right) - (left < right);
}

static int by_place(const void *left, const void *right, void *ctx)
{
	const struct annotate_func *l = left, *r = right;
	const struct agg_func *funcs = ctx, *f = &funcs[l->index], *g = &funcs[r->index];
	int c = order(f->file, g->file);

	c = c ? c : order(f->line, g->line);
	return c ? c : order(l->index, r->index);
}

static int by_line(const void *left, const void *right, void *ctx)
{
	const struct ranking_row *l = left, *r = right;
	const struct agg_func *funcs = ctx;
	int c = order(funcs[l->index].file, funcs[r->index].file);

	return c ? c : order(l->line, r->line);
}

static int by_time(const void *left, const void *right)
{
	const struct annotate_file *l = left, *r = right;

	return l->self_ns < r->self_ns ? 1 : l->self_ns > r->self_ns ? -1 : order(l->file, r->file);
}

static int fill_funcs(struct annotate *a)
{
	const struct agg_result *r = a->r;
	auto_free uint32_t *group_of = malloc((r->func_cnt + 1ull) * sizeof(*group_of));
	uint32_t cnt;
	int err = group_of ? ranking_groups(r, RANKING_FUNCTION, false, group_of, &cnt) : -ENOMEM;

	err = err ? err : callgraph__init(&a->graph, r, group_of, cnt);
	if (err)
		return err;
	a->funcs = calloc(cnt + 1ull, sizeof(*a->funcs));
	a->func_of_group = calloc(cnt + 1ull, sizeof(*a->func_of_group));
	if (!a->funcs || !a->func_of_group)
		return -ENOMEM;
	/* groups count up in the order of the functions: the first of each is new */
	for (uint32_t i = 0; i < r->func_cnt; i++) {
		if (group_of[i] == a->func_cnt)
			a->funcs[a->func_cnt++] = (struct annotate_func){ i, group_of[i] };
	}
	qsort_r(a->funcs, a->func_cnt, sizeof(*a->funcs), by_place, (void *)(uintptr_t)r->funcs);
	for (uint32_t i = 0; i < a->func_cnt; i++)
		a->func_of_group[a->funcs[i].group] = i;
	return 0;
}

static int fill_lines(struct annotate *a, const struct lines *l)
{
	int err = a->r->sample_ns
			  ? ranking__of_lines(&a->lines, l, RANKING_SELF, false)
			  : ranking__init(&a->lines, a->r, RANKING_LINE, RANKING_SELF, false);

	if (!err)
		qsort_r(a->lines.rows, a->lines.cnt, sizeof(*a->lines.rows), by_line,
			(void *)(uintptr_t)a->r->funcs);
	return err;
}

static uint32_t file_of_row(const struct annotate *a, uint32_t i)
{
	return a->r->funcs[a->lines.rows[i].index].file;
}

static uint32_t file_of_func(const struct annotate *a, uint32_t i)
{
	return a->r->funcs[a->funcs[i].index].file;
}

/* Both lists are in the order of their files. */
static int fill_files(struct annotate *a)
{
	uint32_t func = 0;

	a->files = calloc(a->lines.cnt + 1ull, sizeof(*a->files));
	if (!a->files)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->lines.cnt;) {
		struct annotate_file *f = &a->files[a->file_cnt++];

		f->file = file_of_row(a, i);
		f->line_at = i;
		for (; i < a->lines.cnt && file_of_row(a, i) == f->file; i++) {
			f->line_cnt++;
			f->self_ns += a->lines.rows[i].self_ns;
		}
		while (func < a->func_cnt && file_of_func(a, func) < f->file)
			func++;
		f->func_at = func;
		for (; func < a->func_cnt && file_of_func(a, func) == f->file; func++)
			f->func_cnt++;
	}
	qsort(a->files, a->file_cnt, sizeof(*a->files), by_time);
	return 0;
}

int annotate__init(struct annotate *a, const struct lines *l)
{
	int err;

	*a = (struct annotate){ .r = lines__result(l) };
	err = fill_funcs(a);
	err = err ? err : fill_lines(a, l);
	err = err ? err : fill_files(a);
	if (err)
		annotate__done(a);
	return err;
}

uint32_t annotate__find(const struct annotate *a, const char *name, uint32_t *cnt)
{
	uint32_t found = AGG_NONE;
	size_t len = strlen(name);

	*cnt = 0;
	for (uint32_t i = 0; i < a->file_cnt; i++) {
		const struct strpool_str *path = &a->r->strings.strs[a->files[i].file];
		const char *end = path->s + path->len - len;

		if (!len || path->len < len || strcmp(end, name) != 0)
			continue;
		if (path->len == len) {
			*cnt = 1;
			return i;
		}
		if (end[-1] != '/' && *name != '/')
			continue;
		found = *cnt ? found : i;
		++*cnt;
	}
	return found;
}
