// SPDX-License-Identifier: Apache-2.0
/* Collapsed stacks and the walk that pprof shares: gaps, odd names, stacks too deep to write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/outbuf.h"
#include "export/export.h"
#include "export/folding.h"

#include "trace_push.h"

enum {
	DEEP = 10000
};

static struct push start(const struct exporter *x, struct membuf *got, struct export_out *out)
{
	static const struct export_opts opts;
	struct push p = { .to = &x->consumer };

	*out = (struct export_out){ .ctx = got, .write = membuf__write };
	assert_int_equal(exporter__new(x, &p.self, &opts, out), 0);
	push_begin(&p, (struct trace_cost){ 0 });
	push_process(&p, 1, 77, "python3");
	push_thread(&p, 1, 1, 78, "a;b\n", 0);
	push_func(&p, 1, 1, "<module>", "/a.py", 1);
	push_func(&p, 2, 1, "f;\x1b g", "", 2);
	return p;
}

static void test_collapsed__lines(void **state)
{
	struct membuf got = { 0 };
	struct export_out out;
	struct push p = start(&export_collapsed, &got, &out);

	(void)state;
	push_event(&p, 1, 1000, TRACE_CALL, 1);
	push_event(&p, 1, 1100, TRACE_CALL, 2);
	push_event(&p, 1, 1103, TRACE_RETURN, 2);
	push_gap(&p, 1, 1110, 1200, 5, GAP_LOSS);
	push_end(&p, 3000, 2, 5);
	membuf__write(&got, "", 1);
	assert_string_equal(got.data,
			    "python3-77;a\\x3bb\\x0a-78;<module> (/a.py:1) 107\n"
			    "python3-77;a\\x3bb\\x0a-78;<module> (/a.py:1);f\\x3b\\x1b g 3\n"
			    "python3-77;a\\x3bb\\x0a-78;[lost 5] 90\n");
	exporter__free(&export_collapsed, p.self);
	membuf__done(&got);
}

/* 10,000 frames of recursion: few lines of bounded length, no time lost. */
static void test_collapsed__deep_recursion(void **state)
{
	struct membuf got = { 0 };
	struct export_out out;
	struct push p = start(&export_collapsed, &got, &out);
	unsigned long long sum = 0, weight;
	unsigned int lines = 0;

	(void)state;
	for (uint64_t i = 0; i < DEEP; i++)
		push_event(&p, 1, 1000 + i, TRACE_CALL, 1);
	for (uint64_t i = 0; i < DEEP; i++)
		push_event(&p, 1, 1000 + DEEP + i, TRACE_RETURN, 1);
	push_end(&p, 90000, 2 * DEEP, 0);
	membuf__write(&got, "", 1);
	for (char *line = strtok(got.data, "\n"); line; line = strtok(NULL, "\n"), lines++) {
		assert_int_equal(sscanf(strrchr(line, ' '), "%llu", &weight), 1);
		sum += weight;
		assert_true(strlen(line) < 256 * 20);
	}
	assert_int_equal(sum, 2 * DEEP - 1);
	assert_int_equal(lines, 257);
	exporter__free(&export_collapsed, p.self);
	membuf__done(&got);
}

/* A number beyond 31 bits, and what is lost as a row that adds nothing to the sums. */
static void test_pstats__big_numbers_and_gaps(void **state)
{
	static const char big[] = "l\3\0\0\0\xff\x7f\xff\x7f\3";
	static const char lost[] = "(\3\0\0\0u\1\0\0\0~i\0\0\0\0u\10\0\0\0[lost 5]"
				   "(\5\0\0\0i\0\0\0\0i\0\0\0\0g\0\0\0\0\0\0\0\0"
				   "g\0\0\0\0\0\0\xe0\x3f{00";
	struct membuf got = { 0 };
	struct export_out out;
	struct push p = start(&export_pstats, &got, &out);

	(void)state;
	push_func(&p, 3, 1, "f", "/a.py", UINT32_MAX);
	push_event(&p, 1, 1000, TRACE_CALL, 3);
	push_gap(&p, 1, 2000, 500002000, 5, GAP_LOSS);
	push_end(&p, 600000000, 1, 5);
	assert_non_null(memmem(got.data, got.len, big, sizeof(big) - 1));
	assert_true(got.len > sizeof(lost) - 1);
	assert_memory_equal(got.data + got.len - (sizeof(lost) - 1), lost, sizeof(lost) - 1);
	exporter__free(&export_pstats, p.self);
	exporter__free(&export_pstats, NULL);
	membuf__done(&got);
}

/* A function that was on the stack already, recursion, and what is missing. */
static void test_text__tables(void **state)
{
	static const char want[] =
		"3 function calls (2 primitive calls) in 0.004000 seconds\n"
		"events written: 5, lost: 5 = ring 5, map 0, read 0, kernel 0, user 0, throttle 0; gaps "
		"in which a stack is not known: 1\n"
		"cost of the profiler: 0.000000 seconds, not measured, still in the times\n"
		"times in seconds, most tottime first\n\n"
		"           ncalls      tottime      percall      cumtime      percall  "
		"filename:lineno(function)\n"
		"                0     0.002500                  0.004000               "
		"/a.py:1(<module>)\n"
		"              3/2     0.001500  0.000500000     0.001500  0.000750000  f;\\x1b g\n\n"
		"           ncalls      tottime      percall      cumtime      percall  "
		"filename:lineno\n"
		"                0     0.002500                  0.004000               /a.py:1\n"
		"              3/2     0.001500  0.000500000     0.001500  0.000750000  f;\\x1b g\n\n"
		"           ncalls      tottime      percall      cumtime      percall  module "
		"(filename)\n"
		"                0     0.002500                  0.004000               a (/a.py)\n"
		"              3/2     0.001500  0.000500000     0.001500  0.000750000  f;\\x1b g\n";
	struct membuf got = { 0 };
	struct export_out out;
	struct push p = start(&export_text, &got, &out);

	(void)state;
	push_event(&p, 1, 1000000, TRACE_OPEN, 1);
	push_event(&p, 1, 2000000, TRACE_CALL, 2);
	push_event(&p, 1, 2500000, TRACE_CALL, 2);
	push_event(&p, 1, 3000000, TRACE_RETURN, 2);
	push_event(&p, 1, 3000000, TRACE_RETURN, 2);
	push_event(&p, 1, 4500000, TRACE_CALL, 2);
	push_gap(&p, 1, 5000000, 6000000, 5, GAP_LOSS);
	push_end(&p, 6000000, 5, 5);
	membuf__write(&got, "", 1);
	assert_string_equal(got.data, want);
	exporter__free(&export_text, p.self);
	exporter__free(&export_text, NULL);
	membuf__done(&got);
}

static void test_pprof__deep_recursion(void **state)
{
	struct membuf got = { 0 };
	struct export_out out;
	struct push p = start(&export_pprof, &got, &out);

	(void)state;
	for (uint64_t i = 0; i < DEEP; i++)
		push_event(&p, 1, 1000 + i, TRACE_CALL, 1);
	push_end(&p, 1000 + DEEP, DEEP, 0);
	assert_true(got.len > 100 && got.len < 20000);
	exporter__free(&export_pprof, p.self);
	membuf__done(&got);
	exporter__free(&export_pprof, NULL);
	exporter__free(&export_collapsed, NULL);
}

static int count(void *ctx, const struct folded_stack *stack)
{
	uint64_t *sums = ctx;

	sums[0]++;
	sums[1] += stack->calls;
	sums[2] += stack->self_ns;
	sums[3] = stack->func_cnt > sums[3] ? stack->func_cnt : sums[3];
	return 0;
}

/* However many frames are kept, calls and times stay; different ends stay different stacks. */
static void test_folding__cut_stacks_keep_the_sums(void **state)
{
	for (uint32_t max = 3; max < 40; max++) {
		struct push p = { .to = &aggregate_consumer };
		uint64_t sums[4] = { 0 };
		struct aggregate *a;

		assert_int_equal(aggregate__new(&a, NULL), 0);
		p.self = a;
		push_begin(&p, (struct trace_cost){ 0 });
		push_process(&p, 1, 77, "python3");
		push_thread(&p, 1, 1, 78, "t", 0);
		for (uint32_t f = 1; f <= 30; f++)
			push_func(&p, f, 1, "f", "/a.py", f);
		for (uint32_t i = 0; i < 30; i++)
			push_event(&p, 1, 1000 + i, TRACE_CALL, i + 1);
		push_end(&p, 1030, 30, 0);
		assert_int_equal(folding_each(aggregate__result(a), max, count, sums), 0);
		assert_int_equal(sums[0], 30);
		assert_int_equal(sums[1], 30);
		assert_int_equal(sums[2], 30);
		assert_int_equal(sums[3], max < 30 ? max : 30);
		aggregate__free(a);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collapsed__lines),
		cmocka_unit_test(test_collapsed__deep_recursion),
		cmocka_unit_test(test_pprof__deep_recursion),
		cmocka_unit_test(test_text__tables),
		cmocka_unit_test(test_pstats__big_numbers_and_gaps),
		cmocka_unit_test(test_folding__cut_stacks_keep_the_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
