// SPDX-License-Identifier: Apache-2.0
#include "tui/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tui/fit.h"

#define ROW_COLUMNS 24 /* before the name */

static uint32_t process_of(const struct agg_result *r, enum ranking_by by,
			   const struct ranking_row *row)
{
	if (by == RANKING_PROCESS)
		return row->index;
	return by == RANKING_THREAD ? r->threads[row->index].process : r->funcs[row->index].process;
}

static bool passes(const struct table *t, const struct view *v, const struct ranking_row *row)
{
	struct ranking_text text;

	if (!v->filter[0])
		return true;
	ranking_text(lines__result(window__lines(t->window)), v->by, row, &text);
	return strcasestr(text.name, v->filter) || strcasestr(text.place, v->filter);
}

static void add(struct table *t, const struct ranking_row *row, bool group)
{
	t->lines[t->cnt++] = (struct table_row){ row, group };
}

/* Rows of a process are a list: first[process], then next[row]. */
static int add_groups(struct table *t, const struct view *v)
{
	const struct agg_result *r = lines__result(window__lines(t->window));
	auto_free uint32_t *first = malloc((r->process_cnt + 1ull) * sizeof(*first));
	auto_free uint32_t *next = malloc((t->rows.cnt + 1ull) * sizeof(*next));

	if (!first || !next)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->process_cnt; i++)
		first[i] = AGG_NONE;
	for (uint32_t i = t->rows.cnt; i-- > 0;) {
		uint32_t p = process_of(r, v->by, &t->rows.rows[i]);

		next[i] = first[p];
		first[p] = i;
	}
	for (uint32_t i = 0; i < t->processes.cnt; i++) {
		bool named = false;

		for (uint32_t at = first[t->processes.rows[i].index]; at != AGG_NONE;
		     at = next[at]) {
			if (!passes(t, v, &t->rows.rows[at]))
				continue;
			if (!named)
				add(t, &t->processes.rows[i], true);
			named = true;
			add(t, &t->rows.rows[at], false);
		}
	}
	return 0;
}

static int fill(struct table *t, const struct view *v)
{
	const struct lines *l = window__lines(t->window);
	const struct agg_result *r = lines__result(l);
	bool grouped = v->grouped && v->by != RANKING_PROCESS;
	int err = v->by == RANKING_LINE ? ranking__of_lines(&t->rows, l, v->sort, grouped)
					: ranking__init(&t->rows, r, v->by, v->sort, grouped);

	if (!err)
		err = ranking__init(&t->processes, r, RANKING_PROCESS, v->sort, false);
	if (err)
		return err;
	t->lines = malloc((t->rows.cnt + t->processes.cnt + 1ull) * sizeof(*t->lines));
	if (!t->lines)
		return -ENOMEM;
	if (grouped)
		return add_groups(t, v);
	for (uint32_t i = 0; i < t->rows.cnt; i++)
		if (passes(t, v, &t->rows.rows[i]))
			add(t, &t->rows.rows[i], false);
	return 0;
}

int table__init(struct table *t, const struct window *w, const struct view *v)
{
	int err;

	*t = (struct table){ .window = w };
	err = w ? fill(t, v) : 0;
	if (err)
		table__done(t);
	return err;
}

void table__done(struct table *t)
{
	ranking__done(&t->rows);
	ranking__done(&t->processes);
	free(t->lines);
	*t = (struct table){ 0 };
}

static double percent(uint64_t ns, const struct table_about *about)
{
	return 100.0 * (double)ns / (double)about->window_ns;
}

/* What threads waited for, the most of it first, as far as there is room for it in @size, or dots. */
static void say_waits(const struct window_totals *totals, const struct table_about *about,
		      char *out, size_t size)
{
	static const char more[] = ", ..";
	uint64_t left[REASON_CNT];
	char item[64];
	size_t at = 0, room = size > sizeof(more) ? size - sizeof(more) : 0;

	memcpy(left, totals->wait_ns, sizeof(left));
	out[0] = '\0';
	for (;;) {
		unsigned int most = 0;

		for (unsigned int i = 1; i < REASON_CNT; i++)
			if (left[i] > left[most])
				most = i;
		if (percent(left[most], about) < 0.05)
			return;
		snprintf(item, sizeof(item), "%s %s %.1f%%",
			 at ? "," : "  waiting:", trace_reason_name(most),
			 percent(left[most], about));
		if (at + strlen(item) > room) {
			if (at)
				memcpy(out + at, more, sizeof(more));
			return;
		}
		memcpy(out + at, item, strlen(item) + 1);
		at += strlen(item);
		left[most] = 0;
	}
}

static void put(struct table_line *out, enum table_style style, int width, const char *text)
{
	out->style = style;
	fit_text(out->text, sizeof(out->text), text, width);
}

static void put_title(const struct table_about *about, int width, struct table_line *out)
{
	char left[400], right[64], whole[TABLE_LINE_BYTES];
	unsigned int s = (unsigned int)(about->elapsed_ns / 1000000000u);
	int columns = snprintf(right, sizeof(right), "%" PRIu64 " Hz  %u:%02u:%02u", about->rate,
			       s / 3600, s / 60 % 60, s % 60);

	snprintf(left, sizeof(left), "pyebpf top  %s", about->what);
	if (width > columns + 20) {
		size_t at = fit_text(whole, sizeof(whole) - sizeof(right), left, width - columns);

		snprintf(whole + at, sizeof(whole) - at, "%s", right);
	} else {
		snprintf(whole, sizeof(whole), "%s", left);
	}
	put(out, TABLE_TITLE, width, whole);
}

static void put_load(const struct table *t, const struct table_about *about, int width,
		     struct table_line *out)
{
	const struct window_totals none = { 0 };
	const struct window_totals *totals = t->window ? window__totals(t->window) : &none;
	const struct agg_result *r = t->window ? lines__result(window__lines(t->window)) : NULL;
	char waits[240], cpu[48], end[96], text[TABLE_LINE_BYTES];
	uint64_t lost_cnt = 0;
	int room, at;

	for (unsigned int i = 0; r && i < LOSS_CNT; i++)
		lost_cnt += r->totals.lost[i];
	snprintf(cpu, sizeof(cpu), "CPU %.1f%%", percent(totals->cpu_ns, about));
	at = snprintf(end, sizeof(end), "  %" PRIu32 " thread%s", r ? r->thread_cnt : 0,
		      r && r->thread_cnt == 1 ? "" : "s");
	if (lost_cnt)
		snprintf(end + at, sizeof(end) - (size_t)at, "  lost %" PRIu64, lost_cnt);
	/* how many threads, and what is lost, are not to be pushed out of the line */
	room = width - (int)(strlen(cpu) + strlen(end)) + 1;
	say_waits(totals, about, waits,
		  room < 0			 ? 0
		  : (size_t)room < sizeof(waits) ? (size_t)room
						 : sizeof(waits));
	snprintf(text, sizeof(text), "%s%s%s", cpu, waits, end);
	put(out, TABLE_PLAIN, width, text);
}

static void put_view(const struct view *v, const struct table_about *about, int width,
		     struct table_line *out)
{
	char text[TABLE_LINE_BYTES];

	const char *filter = v->typing ? "" : v->filter;

	snprintf(text, sizeof(text), "%s%s%s%s%s in the last %.*f s, by %s, most %s first",
		 v->frozen ? "[frozen] " : "", *filter ? "with \"" : "", filter,
		 *filter ? "\": " : "", view_of_name(v->of), about->window_ns % 1000000000u ? 1 : 0,
		 (double)about->window_ns / 1e9, ranking_by_names[v->by], view_sort_names[v->sort]);
	put(out, TABLE_PLAIN, width, text);
}

void table_head(const struct table *t, const struct view *v, const struct table_about *about,
		int width, struct table_line *out)
{
	char text[128];

	put_title(about, width, &out[0]);
	put_load(t, about, width, &out[1]);
	put_view(v, about, width, &out[2]);
	snprintf(text, sizeof(text), "%6s %6s %8s  %s", v->by >= RANKING_THREAD ? "time%" : "self%",
		 v->by >= RANKING_THREAD ? "" : "total%", "samples", ranking_by_names[v->by]);
	put(&out[3], TABLE_HEADING, width, text);
}

void table_line(const struct table *t, const struct view *v, const struct table_about *about,
		uint32_t i, int width, struct table_line *out)
{
	const struct agg_result *r = lines__result(window__lines(t->window));
	const struct ranking_row *row = t->lines[i].row;
	bool group = t->lines[i].group, of_threads = group || v->by >= RANKING_THREAD, swap;
	struct ranking_text text;
	char total[16] = "", name[TABLE_LINE_BYTES - 64], whole[TABLE_LINE_BYTES];

	ranking_text(r, group ? RANKING_PROCESS : v->by, row, &text);
	if (!of_threads)
		snprintf(total, sizeof(total), "%.1f", percent(row->total_ns, about));
	/* of a long path its end is shown, so it goes behind the function */
	swap = !group && v->by == RANKING_LINE && text.place[0];
	fit_name(name, sizeof(name), swap ? text.place : text.name, swap ? text.name : text.place,
		 width > ROW_COLUMNS ? width - ROW_COLUMNS : 0);
	snprintf(whole, sizeof(whole), "%6.1f %6s %8" PRIu64 "  %s", percent(row->self_ns, about),
		 total, row->calls, name);
	put(out, group ? TABLE_GROUP : TABLE_PLAIN, width, whole);
}

static void put_hint(const struct view *v, int width, struct table_line *out)
{
	char text[VIEW_FILTER_BYTES + 64];

	if (v->help)
		snprintf(text, sizeof(text), "any key goes back");
	else if (v->typing)
		snprintf(text, sizeof(text), "rows with: %s_   Enter keeps it, Esc drops it",
			 v->filter);
	else
		snprintf(text, sizeof(text),
			 "? help  q quit  1-5 rows  s t c sort%s  g group  / filter  %s",
			 v->waits ? "  m waits" : "", v->frozen ? "Space go on" : "Space freeze");
	put(out, TABLE_HINT, width, text);
}

static void put_help(int width, int height, struct table_line *out)
{
	bool more = true;

	for (int i = 0; i < height; i++) {
		more = more && view_help[i];
		put(&out[i], TABLE_PLAIN, width, more ? view_help[i] : "");
	}
}

void table_screen(const struct table *t, struct view *v, const struct table_about *about, int width,
		  int height, struct table_line *out)
{
	int page = height - TABLE_HEAD_LINES - 1;
	struct table_line head[TABLE_HEAD_LINES];

	v->page = page > 0 ? (uint32_t)page : 0;
	if (v->first + v->page > t->cnt || v->first > t->cnt)
		v->first = t->cnt > v->page ? t->cnt - v->page : 0;
	table_head(t, v, about, width, head);
	for (int i = 0; i < height && i < TABLE_HEAD_LINES; i++)
		out[i] = head[i];
	if (page < 0)
		return;
	put_hint(v, width, &out[height - 1]);
	if (v->help) {
		put_help(width, page, out + TABLE_HEAD_LINES);
		return;
	}
	for (uint32_t i = 0; i < v->page; i++) {
		struct table_line *line = &out[TABLE_HEAD_LINES + i];

		if (v->first + i < t->cnt)
			table_line(t, v, about, v->first + i, width, line);
		else
			put(line, TABLE_PLAIN, width,
			    !t->cnt && i == 1 && about->note ? about->note : "");
	}
}
