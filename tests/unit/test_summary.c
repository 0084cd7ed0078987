// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "export/summary.h"

#include "trace_push.h"

static char *printed(struct push *p)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	summary_print(f, p->self, 10);
	fclose(f);
	aggregate__free(p->self);
	return text;
}

static struct push start(void)
{
	struct push p = { .to = &aggregate_consumer };
	struct aggregate *a;

	assert_int_equal(aggregate__new(&a, NULL), 0);
	p.self = a;
	push_begin(&p, (struct trace_cost){ .entry_after_ns = 100, .exit_before_ns = 100 });
	push_process(&p, 1, 77, "python3");
	push_thread(&p, 1, 1, 77, "main", 0);
	push_func(&p, 1, 1, "esc\x1b[31m", "/a\n.py", 7);
	push_func(&p, 2, 1, "g", "/a.py", 9);
	return p;
}

static void test_summary__table(void **state)
{
	struct push p = start();
	char *text;

	(void)state;
	push_event(&p, 1, 1000, TRACE_CALL, 1);
	push_event(&p, 1, 1000001000, TRACE_CALL, 2);
	push_event(&p, 1, 1000003000, TRACE_RETURN, 2);
	push_gap(&p, 1, 1500001000, 1600001000, 5, GAP_LOSS);
	push_end(&p, 2000001000, 3, 5);
	text = printed(&p);
	assert_string_equal(
		text, "events    3 in 2.00 s (1 per second), 1 thread\n"
		      "lost      5 (62.50 %): ring 5, map 0, read 0, kernel 0, user 0, throttle 0\n"
		      "gaps      1 in which a thread's stack is not known, 100 ms\n"
		      "profiler  300 ns (0.0 % of the time in Python frames), taken out below\n"
		      "\n"
		      "       calls       self      total  function\n"
		      "           1     1.50 s     1.50 s  esc\\x1b[31m (/a\\x0a.py:7)\n"
		      "           1    1.80 us    1.80 us  g (/a.py:9)\n");
	free(text);
}

/* As in stats: two workers of a server are no two rows that look the same. */
static void test_summary__a_function_of_two_processes(void **state)
{
	struct push p = start();
	char *text;

	(void)state;
	push_process(&p, 2, 78, "python3");
	push_thread(&p, 2, 2, 78, "main", 0);
	push_func(&p, 3, 2, "g", "/a.py", 9);
	push_event(&p, 1, 1000, TRACE_CALL, 2);
	push_event(&p, 2, 1000, TRACE_CALL, 3);
	push_event(&p, 1, 2001200, TRACE_RETURN, 2);
	push_event(&p, 2, 3001200, TRACE_RETURN, 3);
	push_end(&p, 4000000, 4, 0);
	text = printed(&p);
	assert_non_null(strstr(text, "function\n"
				     "           2    5.00 ms    5.00 ms  g (/a.py:9)\n"));
	assert_null(strstr(strstr(text, "g (/a.py") + 1, "g (/a.py"));
	free(text);
}

static void test_summary__nothing_ran(void **state)
{
	struct push p = start();
	char *text;

	(void)state;
	push_end(&p, 1000, 0, 0);
	text = printed(&p);
	assert_non_null(strstr(text, "lost      0 (0 %): ring 0,"));
	assert_non_null(strstr(text, "No Python function"));
	free(text);
}

static void test_summary__durations(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} rows[] = {
		{ 0, "0 ns" },		 { 999, "999 ns" },
		{ 1000, "1.00 us" },	 { 12345, "12.3 us" },
		{ 999499, "999 us" },	 { 999500, "1.00 ms" },
		{ 123456789, "123 ms" }, { 999499999, "999 ms" },
		{ 999500000, "1.00 s" }, { 3600000000000, "3600 s" },
	};
	char got[16];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_string_equal(summary_duration(got, sizeof(got), rows[i].ns), rows[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_summary__table),
		cmocka_unit_test(test_summary__a_function_of_two_processes),
		cmocka_unit_test(test_summary__nothing_ran),
		cmocka_unit_test(test_summary__durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
