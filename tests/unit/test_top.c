// SPDX-License-Identifier: Apache-2.0
/* The live table: what is in the window, what keys change, and how rows come out at a width. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "profile/window.h"
#include "trace_push.h"
#include "tui/fit.h"
#include "tui/table.h"

#define S 1000000000ull

static const struct table_about about = { .what = "python3 1", .window_ns = 10 * S, .rate = 99 };

static void sample(struct push *p, uint32_t thread, uint64_t ts_ns, uint64_t weight_ns, int reason,
		   uint32_t outer, uint32_t inner)
{
	const struct trace_frame frames[] = { { outer, 5 }, { inner, 7 } };
	const struct trace_sample s = { .ts_ns = ts_ns,
					.weight_ns = weight_ns,
					.count = 1,
					.frames = frames,
					.frame_cnt = 2,
					.thread = thread,
					.off_cpu = reason >= 0,
					.reason = reason < 0 ? 0 : (uint8_t)reason };

	assert_int_equal(p->to->sample(p->self, &s), 0);
}

/* Seconds 20 to 30. In process 1 "main" calls "work" for 4 s on the CPU and "rest" for 6 s off it;
 * in process 2 it calls "work" for 2 s. */
static struct window *make(enum window_of of)
{
	const struct window_opts opts = { .of = of, .from_ns = 20 * S, .until_ns = 30 * S };
	struct push p = { .to = &window_consumer, .sample_ns = S };
	struct window *w;

	assert_int_equal(window__new(&w, &opts), 0);
	p.self = w;
	push_begin(&p, (struct trace_cost){ 0 });
	for (uint32_t i = 1; i <= 2; i++) {
		push_process(&p, i, 100 + i, "app");
		push_thread(&p, i, i, 100 + i, "app", 0);
		push_func(&p, 10 * i, i, "main", "/srv/app.py", 1);
		push_func(&p, 10 * i + 1, i, "work", "/srv/app.py", 10);
		push_func(&p, 10 * i + 2, i, "rest\x1b[31m", "/srv/app.py", 20);
	}
	sample(&p, 1, 12 * S, 5 * S, -1, 10, 11); /* before the window */
	sample(&p, 1, 24 * S, 4 * S, -1, 10, 11);
	sample(&p, 2, 25 * S, 2 * S, -1, 20, 21);
	sample(&p, 1, 30 * S, 100 * S, REASON_SLEEP, 10, 12); /* most of it before */
	push_end(&p, 30 * S, 4, 0);
	return w;
}

static struct table table_of(const struct window *w, const struct view *v)
{
	struct table t;

	assert_int_equal(table__init(&t, w, v), 0);
	return t;
}

static const char *row(const struct table *t, const struct view *v, uint32_t i, int width)
{
	static struct table_line line;

	assert_true(i < t->cnt);
	table_line(t, v, &about, i, width, &line);
	assert_int_equal(fit_width(line.text), width);
	return line.text;
}

static void only_the_part_in_the_window_counts(void **state)
{
	struct window *w = make(WINDOW_WALL);
	const struct window_totals *totals = window__totals(w);

	(void)state;
	assert_int_equal(totals->samples, 3);
	assert_int_equal(totals->cpu_ns, 6 * S);
	assert_int_equal(totals->wait_ns[REASON_SLEEP], 10 * S);
	assert_int_equal(lines__result(window__lines(w))->self_ns, 16 * S);
	window__free(w);
	w = make(WINDOW_WAITS);
	assert_int_equal(lines__result(window__lines(w))->self_ns, 10 * S);
	assert_int_equal(window__totals(w)->cpu_ns, 6 * S);
	window__free(w);
}

static void rows_of_functions(void **state)
{
	struct view v = { .of = WINDOW_CPU };
	struct window *w = make(WINDOW_CPU);
	struct table t = table_of(w, &v);

	(void)state;
	assert_int_equal(t.cnt, 2);
	assert_string_equal(row(&t, &v, 0, 60),
			    "  60.0   60.0        2  work (/srv/app.py:10)               ");
	assert_string_equal(row(&t, &v, 1, 60),
			    "   0.0   60.0        0  main (/srv/app.py:1)                ");
	/* of a place that is too long the end is what matters */
	assert_string_equal(row(&t, &v, 0, 43), "  60.0   60.0        2  work (../app.py:10)");
	assert_string_equal(row(&t, &v, 0, 40), "  60.0   60.0        2  work            ");
	table__done(&t);
	window__free(w);
}

static void grouped_by_process(void **state)
{
	struct view v = { .of = WINDOW_CPU, .grouped = true };
	struct window *w = make(WINDOW_CPU);
	struct table t = table_of(w, &v);

	(void)state;
	assert_int_equal(t.cnt, 6);
	assert_true(t.lines[0].group && t.lines[3].group);
	assert_non_null(strstr(row(&t, &v, 0, 60), "  40.0               1  app 101"));
	assert_non_null(strstr(row(&t, &v, 1, 60), "  40.0   40.0        1  work"));
	assert_non_null(strstr(row(&t, &v, 3, 60), "  20.0               1  app 102"));
	assert_non_null(strstr(row(&t, &v, 4, 60), "  20.0   20.0        1  work"));
	table__done(&t);
	/* a group without rows is none */
	strcpy(v.filter, "nothing");
	t = table_of(w, &v);
	assert_int_equal(t.cnt, 0);
	table__done(&t);
	window__free(w);
}

static void lines_of_several_processes_are_one_unless_grouped(void **state)
{
	struct view v = { .of = WINDOW_CPU, .by = RANKING_LINE };
	struct window *w = make(WINDOW_CPU);
	struct table t = table_of(w, &v);

	(void)state;
	assert_int_equal(t.cnt, 2);
	assert_non_null(strstr(row(&t, &v, 0, 60), "  60.0   60.0        2  work (/srv/app.py:7)"));
	table__done(&t);
	v.grouped = true;
	t = table_of(w, &v);
	assert_int_equal(t.cnt, 6);
	table__done(&t);
	window__free(w);
}

static void a_filter_and_names_that_are_not_harmless(void **state)
{
	struct view v = { .of = WINDOW_WALL, .filter = "REST" };
	struct window *w = make(WINDOW_WALL);
	struct table t = table_of(w, &v);

	(void)state;
	assert_int_equal(t.cnt, 1);
	assert_null(strchr(row(&t, &v, 0, 80), '\x1b'));
	assert_non_null(strstr(row(&t, &v, 0, 80), " 100.0  100.0        1  rest\\x1b[31m"));
	table__done(&t);
	window__free(w);
}

static void a_screen_has_all_its_lines(void **state)
{
	struct view v = { .of = WINDOW_CPU, .first = 1000 };
	struct window *w = make(WINDOW_CPU);
	struct table t = table_of(w, &v);
	struct table_line lines[60];

	(void)state;
	for (int height = 1; height < 60; height++) {
		for (int width = 1; width < 200; width += 7) {
			memset(lines, 0, sizeof(lines));
			table_screen(&t, &v, &about, width, height, lines);
			for (int i = 0; i < height; i++)
				assert_int_equal(fit_width(lines[i].text), width);
		}
	}
	assert_int_equal(v.first, 0);
	v.help = true;
	table_screen(&t, &v, &about, 80, 24, lines);
	assert_non_null(strstr(lines[4].text, "per function, line, module"));
	assert_non_null(strstr(lines[23].text, "any key"));
	table__done(&t);
	window__free(w);
}

/* How many threads there are is said whatever the width; of the waits what has room. */
static void the_load_fits(void **state)
{
	struct view v = { .of = WINDOW_WALL };
	struct window *w = make(WINDOW_WALL);
	struct table t = table_of(w, &v);
	struct table_line head[TABLE_HEAD_LINES];

	(void)state;
	for (int width = 30; width < 120; width++) {
		table_head(&t, &v, &about, width, head);
		assert_non_null(strstr(head[1].text, "  2 threads"));
		/* whole, or not at all */
		assert_true(!strstr(head[1].text, "wait") ==
			    !strstr(head[1].text, "waiting: sleep 100.0%  2"));
		assert_true(!strstr(head[1].text, "wait") == (width < 47));
	}
	table__done(&t);
	window__free(w);
}

static void press(struct view *v, const char *keys)
{
	while (*keys)
		view__key(v, (unsigned char)*keys++);
}

static void keys(void **state)
{
	struct view v = { .waits = true, .page = 10 };

	(void)state;
	press(&v, "2tg");
	assert_true(v.by == RANKING_LINE && v.sort == RANKING_TOTAL && v.grouped);
	assert_int_equal(view__key(&v, 'm'), VIEW_READ);
	assert_int_equal(v.of, WINDOW_WAITS);
	press(&v, "/q1?");
	assert_true(v.typing && !v.quit && v.by == RANKING_LINE);
	view__key(&v, 0xe9);
	assert_string_equal(v.filter, "q1?\xc3\xa9");
	view__key(&v, VIEW_KEY_DELETE);
	assert_string_equal(v.filter, "q1?");
	assert_int_equal(view__key(&v, 0x9b), VIEW_SAME); /* a control character */
	press(&v, "\n");
	assert_true(!v.typing && v.filter[0]);
	for (int i = 0; i < 3; i++)
		view__key(&v, VIEW_KEY_PAGE_DOWN);
	view__key(&v, VIEW_KEY_UP);
	assert_int_equal(v.first, 29);
	view__key(&v, VIEW_KEY_HOME);
	assert_int_equal(v.first, 0);
	press(&v, "\x1b?");
	assert_true(!v.filter[0] && v.help);
	press(&v, "z");
	assert_true(!v.help && !v.frozen);
	press(&v, "?q");
	assert_true(!v.help && !v.quit);
	press(&v, "zq");
	assert_true(v.frozen && v.quit);
}

static void a_filter_has_an_end(void **state)
{
	struct view v = { .typing = true };

	(void)state;
	for (int i = 0; i < 100; i++)
		view__key(&v, 0x4e2d);
	assert_true(strlen(v.filter) < sizeof(v.filter) && strlen(v.filter) % 3 == 0);
	for (int i = 0; i < 100; i++)
		view__key(&v, VIEW_KEY_DELETE);
	assert_string_equal(v.filter, "");
}

static void every_view_has_a_key(void **state)
{
	struct view v = { 0 };
	unsigned int seen = 0;

	(void)state;
	for (int i = 0; i < 5; i++) {
		seen |= 1u << v.by;
		press(&v, "\t");
	}
	assert_int_equal(seen, 31);
	assert_int_equal(v.by, RANKING_FUNCTION);
}

static void wide_characters_and_terminals_without_them(void **state)
{
	char out[64];

	(void)state;
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		fail_msg("no C.UTF-8");
	fit_text(out, sizeof(out), "\xe4\xb8\xad\xe6\x96\x87", 5); /* two of two columns */
	assert_string_equal(out, "\xe4\xb8\xad\xe6\x96\x87 ");
	fit_text(out, sizeof(out), "\xe4\xb8\xad\xe6\x96\x87x", 4);
	assert_string_equal(out, "\xe4\xb8\xad..");
	fit_end(out, sizeof(out), "\xe4\xb8\xad\xe6\x96\x87xy", 5);
	assert_string_equal(out, "..xy ");
	setlocale(LC_CTYPE, "C");
	fit_text(out, sizeof(out), "\xe4\xb8\xad!", 5);
	assert_string_equal(out, "?!   ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_part_in_the_window_counts),
		cmocka_unit_test(rows_of_functions),
		cmocka_unit_test(grouped_by_process),
		cmocka_unit_test(lines_of_several_processes_are_one_unless_grouped),
		cmocka_unit_test(a_filter_and_names_that_are_not_harmless),
		cmocka_unit_test(a_screen_has_all_its_lines),
		cmocka_unit_test(the_load_fits),
		cmocka_unit_test(keys),
		cmocka_unit_test(a_filter_has_an_end),
		cmocka_unit_test(every_view_has_a_key),
		cmocka_unit_test(wide_characters_and_terminals_without_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
