// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "profile/aggregate.h"

#include "trace_push.h"

enum {
	MAIN = 1,
	F,
	G,
	GEN
};

static const struct trace_cost no_cost;

static struct push start(const struct aggregate_opts *opts, struct trace_cost cost)
{
	struct push p = { .to = &aggregate_consumer };
	struct aggregate *a;

	assert_int_equal(aggregate__new(&a, opts), 0);
	p.self = a;
	push_begin(&p, cost);
	push_process(&p, 1, 77, "python3");
	push_thread(&p, 1, 1, 77, "main", 0);
	push_thread(&p, 2, 1, 78, "worker", 0);
	push_func(&p, MAIN, 1, "<module>", "/a.py", 1);
	push_func(&p, F, 1, "f", "/a.py", 10);
	push_func(&p, G, 1, "g", "/a.py", 20);
	push_func(&p, GEN, 1, "gen", "/a.py", 30);
	return p;
}

static const struct agg_func *func_of(const struct push *p, const char *name)
{
	const struct agg_result *r = aggregate__result(p->self);

	for (uint32_t i = 0; i < r->func_cnt; i++) {
		if (!strcmp(strpool__get(&r->strings, r->funcs[i].qualname), name))
			return &r->funcs[i];
	}
	fail_msg("no function %s", name);
	return NULL;
}

static void expect(const struct push *p, const char *name, uint64_t calls, uint64_t self_ns,
		   uint64_t total_ns)
{
	const struct agg_func *f = func_of(p, name);

	if (f->calls != calls || f->self_ns != self_ns || f->total_ns != total_ns)
		fail_msg("%s: calls %llu, self %llu, total %llu", name,
			 (unsigned long long)f->calls, (unsigned long long)f->self_ns,
			 (unsigned long long)f->total_ns);
}

static void finish(struct push *p)
{
	aggregate__free(p->self);
}

static void test_aggregate__nested_calls(void **state)
{
	struct push p = start(NULL, no_cost);

	(void)state;
	push_event(&p, 1, 1000, TRACE_CALL, MAIN);
	push_event(&p, 1, 1100, TRACE_CALL, F);
	push_event(&p, 1, 1150, TRACE_CALL, G);
	push_event(&p, 1, 1650, TRACE_RETURN, G);
	push_event(&p, 1, 1660, TRACE_RETURN, F);
	push_event(&p, 1, 1700, TRACE_CALL, G);
	push_event(&p, 1, 1701, TRACE_UNWIND, G);
	push_event(&p, 1, 2000, TRACE_RETURN, MAIN);
	push_end(&p, 9999, 8, 0);
	expect(&p, "<module>", 1, 100 + 40 + 299, 1000);
	expect(&p, "f", 1, 50 + 10, 560);
	expect(&p, "g", 2, 501, 501);
	assert_int_equal(aggregate__result(p.self)->self_ns, 1000);
	assert_int_equal(aggregate__result(p.self)->own_ns, 0);
	/* root, <module>, f, f/g, g; and the other root */
	assert_int_equal(aggregate__result(p.self)->stack_cnt, 6);
	finish(&p);
}

static void test_aggregate__recursion_counts_once(void **state)
{
	struct push p = start(NULL, no_cost);
	uint64_t ts = 1000;

	(void)state;
	/* f -> g -> f -> g ..., 2000 deep, one ns before each call, 3 ns on top, no time after */
	for (int i = 0; i < 2000; i++)
		push_event(&p, 1, ts++, TRACE_CALL, i & 1 ? G : F);
	ts += 2;
	for (int i = 2000; i-- > 0;)
		push_event(&p, 1, ts, TRACE_RETURN, i & 1 ? G : F);
	push_event(&p, 1, ts, TRACE_CALL, G);
	push_event(&p, 1, ts + 5, TRACE_RETURN, G);
	push_end(&p, ts + 100, 4002, 0);
	expect(&p, "f", 1000, 1000, 2002);
	expect(&p, "g", 1001, 999 + 3 + 5, 2001 + 5);
	finish(&p);
}

static void test_aggregate__suspended_generators_get_no_time(void **state)
{
	struct push p = start(NULL, no_cost);

	(void)state;
	push_event(&p, 1, 1000, TRACE_CALL, MAIN);
	push_event(&p, 1, 1010, TRACE_CALL, GEN);
	push_event(&p, 1, 1015, TRACE_YIELD, GEN);
	push_event(&p, 1, 1100, TRACE_CALL, F); /* goes on elsewhere, in another frame */
	push_event(&p, 1, 1103, TRACE_RESUME, GEN);
	push_event(&p, 1, 1110, TRACE_YIELD, GEN);
	push_event(&p, 1, 1111, TRACE_RETURN, F);
	push_event(&p, 1, 1200, TRACE_THROW, GEN);
	push_event(&p, 1, 1201, TRACE_UNWIND, GEN);
	push_event(&p, 1, 1300, TRACE_RETURN, MAIN);
	push_end(&p, 1300, 10, 0);
	expect(&p, "gen", 1, 5 + 7 + 1, 13);
	expect(&p, "f", 1, 3 + 1, 11);
	expect(&p, "<module>", 1, 10 + 85 + 89 + 99, 300);
	finish(&p);
}

static void test_aggregate__gaps_opens_and_ends(void **state)
{
	struct push p = start(NULL, no_cost);

	(void)state;
	push_event(&p, 1, 1000, TRACE_OPEN, MAIN);
	push_event(&p, 1, 1000, TRACE_OPEN, F);
	push_event(&p, 1, 1010, TRACE_CALL, G);
	push_gap(&p, 1, 1030, 1500, 7, GAP_LOSS);
	push_event(&p, 1, 1500, TRACE_OPEN, MAIN);
	push_event(&p, 1, 1500, TRACE_OPEN, F);
	push_event(&p, 1, 1504, TRACE_RETURN, F);
	/* the other thread ends inside g, its own frame still open; the first one at the end */
	push_event(&p, 2, 1600, TRACE_CALL, G);
	push_thread(&p, 2, 1, 78, "worker", 1650);
	push_end(&p, 2000, 4, 7);
	expect(&p, "f", 0, 10 + 4, 34);
	expect(&p, "g", 2, 20 + 50, 70);
	expect(&p, "<module>", 0, 496, 30 + 500);
	assert_int_equal(aggregate__result(p.self)->gap_cnt, 1);
	assert_int_equal(aggregate__result(p.self)->threads[0].gap_ns, 470);
	assert_int_equal(aggregate__result(p.self)->threads[0].lost, 7);
	assert_int_equal(aggregate__result(p.self)->totals.lost[LOSS_RING], 7);
	finish(&p);
}

static void test_aggregate__threads_have_their_own_stacks(void **state)
{
	struct push p = start(NULL, no_cost);
	const struct agg_result *r = aggregate__result(p.self);
	uint64_t self[2] = { 0 }, calls[2] = { 0 };

	(void)state;
	push_event(&p, 1, 1000, TRACE_CALL, F);
	push_event(&p, 2, 1003, TRACE_CALL, F);
	push_event(&p, 1, 1010, TRACE_RETURN, F);
	push_event(&p, 2, 1023, TRACE_RETURN, F);
	push_event(&p, 2, 1033, TRACE_CALL, F);
	push_event(&p, 2, 1034, TRACE_RETURN, F);
	push_end(&p, 1100, 6, 0);
	for (uint32_t i = 0; i < r->stack_cnt; i++) {
		if (r->stacks[i].func == AGG_NONE)
			continue;
		self[r->stacks[i].thread] += r->stacks[i].self_ns;
		calls[r->stacks[i].thread] += r->stacks[i].calls;
	}
	assert_int_equal(self[0], 10);
	assert_int_equal(self[1], 21);
	assert_int_equal(calls[1], 2);
	expect(&p, "f", 3, 31, 31);
	finish(&p);
}

static void push_costly(struct push *p)
{
	push_event(p, 1, 10000, TRACE_CALL, MAIN);
	for (uint64_t i = 0; i < 10; i++) {
		push_event(p, 1, 20000 + i * 1000, TRACE_CALL, F);
		push_event(p, 1, 20400 + i * 1000, TRACE_RETURN, F);
	}
	push_event(p, 1, 40000, TRACE_CALL, G); /* shorter than the cost: 1 ns stays */
	push_event(p, 1, 40010, TRACE_RETURN, G);
	push_event(p, 1, 50000, TRACE_RETURN, MAIN);
	push_end(p, 60000, 24, 0);
}

static void test_aggregate__takes_its_own_cost_out(void **state)
{
	const struct trace_cost cost = { .entry_after_ns = 100,
					 .exit_after_ns = 30,
					 .entry_before_ns = 50,
					 .exit_before_ns = 20 };
	struct push p = start(NULL, cost);

	(void)state;
	push_costly(&p);
	/* f: 10 x (400 - 100 - 20); <module>: what is left of 40000 less its own entry's after and
	 * exit's before, and before + after of eleven children */
	expect(&p, "f", 10, 2800, 2800);
	expect(&p, "g", 1, 1, 1);
	expect(&p, "<module>", 1, 40000 - 4000 - 10 - 100 - 20 - 11 * (50 + 30),
	       40000 - 4000 - 10 - 120 - 880 + 2800 + 1);
	assert_int_equal(aggregate__result(p.self)->own_ns, 1200 + 9 + 120 + 880);
	finish(&p);
}

static void test_aggregate__raw_keeps_the_cost(void **state)
{
	const struct aggregate_opts opts = { .raw = true };
	const struct trace_cost cost = { .entry_after_ns = 100, .exit_before_ns = 20 };
	struct push p = start(&opts, cost);

	(void)state;
	push_costly(&p);
	expect(&p, "f", 10, 4000, 4000);
	expect(&p, "g", 1, 10, 10);
	expect(&p, "<module>", 1, 35990, 40000);
	assert_int_equal(aggregate__result(p.self)->own_ns, 1200 + 9 + 120);
	finish(&p);
}

static void test_aggregate__equal_code_objects_are_one_function(void **state)
{
	struct push p = start(NULL, no_cost);
	uint64_t ts = 1000;

	(void)state;
	for (uint32_t id = 100; id < 1100; id++) {
		push_func(&p, id, 1, "<lambda>", "/a.py", 7);
		push_event(&p, 1, ts, TRACE_CALL, id);
		push_event(&p, 1, ts + 2, TRACE_RETURN, id);
		ts += 10;
	}
	push_func(&p, 2000, 1, "<lambda>", "/a.py", 8); /* another line is another function */
	push_end(&p, ts, 2000, 0);
	expect(&p, "<lambda>", 1000, 2000, 2000);
	assert_int_equal(aggregate__result(p.self)->func_cnt, 6);
	assert_int_equal(aggregate__result(p.self)->stack_cnt, 3);
	finish(&p);
}

static void test_aggregate__too_many_stacks_keep_the_functions_right(void **state)
{
	const struct aggregate_opts opts = { .max_stacks = 8 };
	struct push p = start(&opts, no_cost);
	uint64_t ts = 1000;

	(void)state;
	for (int i = 0; i < 100; i++)
		push_event(&p, 1, ts++, TRACE_CALL, i % 3 ? G : F);
	for (int i = 100; i-- > 0;)
		push_event(&p, 1, ts, TRACE_RETURN, i % 3 ? G : F);
	push_end(&p, ts, 200, 0);
	assert_int_equal(func_of(&p, "f")->calls, 34);
	assert_int_equal(func_of(&p, "f")->self_ns, 34);
	assert_int_equal(func_of(&p, "g")->calls, 66);
	assert_int_equal(func_of(&p, "g")->self_ns, 66);
	assert_int_equal(aggregate__result(p.self)->cut_cnt, 94);
	assert_int_equal(aggregate__result(p.self)->stack_cnt, 8 + 1 + 2);
	finish(&p);
}

static void test_aggregate__files_are_named_from_their_import_root(void **state)
{
	static const char *const roots[] = { "/usr/lib/python3/dist-packages/", "/usr/lib/python3",
					     "/", NULL };
	static const char *const rows[][2] = {
		{ "/usr/lib/python3/dist-packages/json/x.py", "json/x.py" },
		{ "/usr/lib/python3/os.py", "os.py" },
		{ "/usr/lib/python3x/os.py", "usr/lib/python3x/os.py" },
		{ "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>" },
	};
	const struct trace_process process = { .id = 1, .pid = 77, .import_roots = roots };
	struct push p = start(NULL, no_cost);
	const struct agg_result *r = aggregate__result(p.self);

	(void)state;
	assert_int_equal(p.to->process(p.self, &process), 0);
	for (uint32_t i = 0; i < 4; i++)
		push_func(&p, 10 + i, 1, "x", rows[i][0], 1);
	push_end(&p, 5000, 0, 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_string_equal(strpool__get(&r->strings, r->funcs[4 + i].short_file),
				    rows[i][1]);
	finish(&p);
}

static void test_aggregate__nothing_at_all(void **state)
{
	struct push p = start(NULL, no_cost);

	(void)state;
	push_end(&p, 5000, 0, 0);
	assert_int_equal(aggregate__result(p.self)->self_ns, 0);
	finish(&p);
	aggregate__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aggregate__nested_calls),
		cmocka_unit_test(test_aggregate__recursion_counts_once),
		cmocka_unit_test(test_aggregate__suspended_generators_get_no_time),
		cmocka_unit_test(test_aggregate__gaps_opens_and_ends),
		cmocka_unit_test(test_aggregate__threads_have_their_own_stacks),
		cmocka_unit_test(test_aggregate__takes_its_own_cost_out),
		cmocka_unit_test(test_aggregate__raw_keeps_the_cost),
		cmocka_unit_test(test_aggregate__equal_code_objects_are_one_function),
		cmocka_unit_test(test_aggregate__too_many_stacks_keep_the_functions_right),
		cmocka_unit_test(test_aggregate__files_are_named_from_their_import_root),
		cmocka_unit_test(test_aggregate__nothing_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
