// SPDX-License-Identifier: Apache-2.0
/* Callers with recursion counted as cProfile does, on stacks that are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "profile/callgraph.h"

#include "trace_push.h"

/* A call of each function of @path inside the one before, 10 ns on top of each, and back. */
static void nest(struct push *p, uint64_t *ts_ns, const uint32_t *path, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++, *ts_ns += 10)
		push_event(p, 1, *ts_ns, TRACE_CALL, path[i]);
	for (uint32_t i = cnt; i-- > 0;)
		push_event(p, 1, *ts_ns, TRACE_RETURN, path[i]);
}

static const struct callgraph_edge *edge_from(const struct callgraph *g, uint32_t callee,
					      uint32_t caller)
{
	uint32_t i = g->nodes[callee].callers;

	while (i != AGG_NONE && g->edges[i].caller != caller)
		i = g->edges[i].next;
	return i == AGG_NONE ? NULL : &g->edges[i];
}

static void expect(const struct callgraph_sums *got, uint64_t calls, uint64_t primitive,
		   uint64_t self_ns, uint64_t total_ns)
{
	assert_int_equal(got->calls, calls);
	assert_int_equal(got->primitive_calls, primitive);
	assert_int_equal(got->self_ns, self_ns);
	assert_int_equal(got->total_ns, total_ns);
}

static struct aggregate *collect(uint64_t *ts_ns)
{
	static const uint32_t plain[] = { 1, 2, 3 }, mutual[] = { 1, 2, 3, 2, 3, 2 },
			      direct[] = { 2, 2, 2 };
	struct aggregate *a;
	struct push p = { .to = &aggregate_consumer };

	assert_int_equal(aggregate__new(&a, NULL), 0);
	p.self = a;
	push_begin(&p, (struct trace_cost){ 0 });
	push_process(&p, 1, 77, "python3");
	push_thread(&p, 1, 1, 78, "main", 0);
	for (uint32_t i = 1; i <= 4; i++)
		push_func(&p, i, 1, i & 1 ? "odd" : "even", "/a.py", i);
	nest(&p, ts_ns, plain, 3);
	nest(&p, ts_ns, mutual, 6);
	nest(&p, ts_ns, direct, 3);
	push_end(&p, *ts_ns, 24, 0);
	return a;
}

static void test_callgraph__recursion(void **state)
{
	static const uint32_t alone[] = { 0, 1, 2, 3 };
	uint64_t ts_ns = 1000;
	struct aggregate *a = collect(&ts_ns);
	struct callgraph g;

	(void)state;
	assert_int_equal(callgraph__init(&g, aggregate__result(a), alone, 4), 0);
	expect(&g.nodes[0].sums, 2, 2, 20, 90);
	expect(&g.nodes[1].sums, 7, 3, 70, 20 + 50 + 30);
	expect(&g.nodes[2].sums, 3, 2, 30, 10 + 40);
	assert_int_equal(g.nodes[0].callers, AGG_NONE);
	assert_int_equal(g.nodes[3].stack_cnt, 0);
	expect(&edge_from(&g, 1, 0)->sums, 2, 2, 20, 70);
	expect(&edge_from(&g, 1, 1)->sums, 2, 1, 20, 20);
	expect(&edge_from(&g, 1, 2)->sums, 2, 1, 20, 30);
	expect(&edge_from(&g, 2, 1)->sums, 3, 2, 30, 50);
	assert_null(edge_from(&g, 0, 1));
	callgraph__done(&g);
	callgraph__done(&g);
	aggregate__free(a);
}

/* Functions that are one group: a call from one to the other is recursion. */
static void test_callgraph__groups(void **state)
{
	static const uint32_t together[] = { 0, 1, 1, 1 };
	uint64_t ts_ns = 1000;
	struct aggregate *a = collect(&ts_ns);
	struct callgraph g;

	(void)state;
	assert_int_equal(callgraph__init(&g, aggregate__result(a), together, 2), 0);
	expect(&g.nodes[1].sums, 10, 3, 100, 20 + 50 + 30);
	expect(&edge_from(&g, 1, 0)->sums, 2, 2, 20, 70);
	expect(&edge_from(&g, 1, 1)->sums, 7, 3, 70, 10 + 40 + 20);
	callgraph__done(&g);
	aggregate__free(a);
}

static void test_callgraph__nothing(void **state)
{
	struct agg_result none = { 0 };
	struct callgraph g;

	(void)state;
	assert_int_equal(callgraph__init(&g, &none, NULL, 0), 0);
	assert_int_equal(g.edge_cnt, 0);
	callgraph__done(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_callgraph__recursion),
		cmocka_unit_test(test_callgraph__groups),
		cmocka_unit_test(test_callgraph__nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
