// SPDX-License-Identifier: Apache-2.0
/* Sums over processes: what is the same in two of them is one, what is not is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "capture/inline_count_sum.h"

#define NONE INLINE_COUNT_NONE

static uint32_t text(struct strpool *pool, const char *s)
{
	uint32_t id = 0;

	assert_int_equal(strpool__add(pool, s, strlen(s), &id), 0);
	return id;
}

static struct inline_count_func func(struct strpool *pool, const char *name, uint32_t line,
				     uint64_t calls)
{
	return (struct inline_count_func){ .file = text(pool, "a.py"),
					   .name = text(pool, name),
					   .qualname = text(pool, name),
					   .line = line,
					   .calls = calls,
					   .resumes = calls / 2 };
}

static const struct inline_count_func *find(const struct inline_count_view *v, const char *name,
					    uint32_t line, uint32_t *index)
{
	for (*index = 0; *index < v->func_cnt; ++*index)
		if (v->funcs[*index].line == line &&
		    !strcmp(strpool__get(v->strings, v->funcs[*index].name), name))
			return &v->funcs[*index];
	fail();
	return NULL;
}

static uint64_t calls_below(const struct inline_count_view *v, uint32_t caller, uint32_t func)
{
	uint64_t calls = 0;

	for (uint32_t i = 0; i < v->node_cnt; i++) {
		assert_true(v->nodes[i].caller == NONE || v->nodes[i].caller < i);
		if (v->nodes[i].func == func && v->nodes[i].caller != NONE &&
		    v->nodes[v->nodes[i].caller].func == caller)
			calls += v->nodes[i].calls;
	}
	return calls;
}

static void test_inline_count_sum__two_processes(void **state)
{
	struct strpool one = { 0 }, two = { 0 };
	uint64_t spans[2][IL_SPAN_BUCKETS] = { { [3] = 5 }, { [3] = 2, [95] = 1 } };
	struct inline_count_view v;
	struct inline_count_sum *s;
	uint32_t f, g;

	(void)state;
	assert_int_equal(strpool__init(&one), 0);
	assert_int_equal(strpool__init(&two), 0);
	assert_int_equal(inline_count_sum__new(&s), 0);
	{
		struct inline_count_func funcs[] = { func(&one, "f", 1, 10),
						     func(&one, "g", 2, 4) };
		struct inline_count_node nodes[] = { { NONE, 0, 10, 0, 100 }, { 0, 1, 4, 0, 50 } };

		funcs[0].spans = spans[0];
		assert_int_equal(
			inline_count_sum__add(s, &(struct inline_count_view){ &one, funcs, nodes, 2,
									      2, 3, 1000 }),
			0);
	}
	{ /* in another order; a second f at another line; g also from nowhere */
		struct inline_count_func funcs[] = { func(&two, "g", 2, 100), func(&two, "f", 9, 7),
						     func(&two, "f", 1, 20) };
		struct inline_count_node nodes[] = { { NONE, 2, 20, 0, 1000 },
						     { NONE, 0, 60, 0, 7 },
						     { 0, 0, 40, 0, 500 } };

		funcs[2].spans = spans[1];
		assert_int_equal(
			inline_count_sum__add(s, &(struct inline_count_view){ &two, funcs, nodes, 3,
									      3, 1, 1000 }),
			0);
	}
	inline_count_sum__view(s, &v);
	assert_int_equal(v.func_cnt, 3);
	assert_int_equal(v.node_cnt, 3);
	assert_int_equal(v.lost, 4);
	assert_int_equal(v.ticks_per_second, 1000);
	assert_int_equal(find(&v, "f", 9, &f)->calls, 7);
	assert_int_equal(find(&v, "g", 2, &g)->calls, 104);
	assert_int_equal(find(&v, "f", 1, &f)->calls, 30);
	assert_int_equal(v.funcs[f].resumes, 15);
	assert_int_equal(v.funcs[f].spans[3], 7);
	assert_int_equal(v.funcs[f].spans[95], 1);
	assert_null(v.funcs[g].spans);
	assert_int_equal(calls_below(&v, f, g), 44);
	inline_count_sum__free(s);
	strpool__done(&one);
	strpool__done(&two);
}

/* A process with so many functions, from this line on. @calls: of each; 0: of that in line N one less than N */
static void add_thousand(struct inline_count_sum *s, uint32_t line, uint64_t calls)
{
	struct strpool pool = { 0 };
	struct inline_count_func funcs[1000];

	assert_int_equal(strpool__init(&pool), 0);
	for (uint32_t i = 0; i < 1000; i++)
		funcs[i] = func(&pool, "f", line + i, calls ? calls : line + i - 1);
	assert_int_equal(inline_count_sum__add(s, &(struct inline_count_view){ .strings = &pool,
									       .funcs = funcs,
									       .func_cnt = 1000 }),
			 0);
	strpool__done(&pool);
}

static void test_inline_count_sum__many(void **state)
{
	struct inline_count_sum *s;
	struct inline_count_view v;

	(void)state;
	assert_int_equal(inline_count_sum__new(&s), 0);
	for (int round = 0; round < 3; round++)
		add_thousand(s, 1, 0);
	inline_count_sum__view(s, &v);
	assert_int_equal(v.func_cnt, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(v.funcs[i].calls, 3ul * (v.funcs[i].line - 1));
	inline_count_sum__free(s);
}

static uint64_t all_calls(const struct inline_count_view *v)
{
	uint64_t calls = 0;

	for (uint32_t i = 0; i < v->func_cnt; i++)
		calls += v->funcs[i].calls;
	return calls;
}

/* Processes with names of their own, for days. */
static void test_inline_count_sum__more_functions_than_there_is_room_for(void **state)
{
	struct inline_count_sum *s;
	struct inline_count_view v;
	uint32_t more;

	(void)state;
	assert_int_equal(inline_count_sum__new(&s), 0);
	for (uint32_t process = 0; process < 300; process++)
		add_thousand(s, 1000 * process + 1, 1);
	inline_count_sum__view(s, &v);
	assert_int_equal(v.func_cnt, INLINE_COUNT_SUM_FUNCS + 1);
	assert_int_equal(all_calls(&v), 300000);
	assert_int_equal(find(&v, INLINE_COUNT_MORE, 0, &more)->calls,
			 300000 - INLINE_COUNT_SUM_FUNCS);
	inline_count_sum__free(s);
}

#define ROOTS 1024u

static void test_inline_count_sum__more_callers_than_there_is_room_for(void **state)
{
	const uint32_t cnt = INLINE_COUNT_SUM_NODES + 5;
	struct inline_count_node *nodes = calloc(cnt, sizeof(*nodes));
	struct inline_count_func *funcs = calloc(2 * ROOTS, sizeof(*funcs));
	struct strpool pool = { 0 };
	struct inline_count_view v, in = { .strings = &pool,
					   .funcs = funcs,
					   .func_cnt = 2 * ROOTS,
					   .nodes = nodes,
					   .node_cnt = cnt };
	struct inline_count_sum *s;
	uint64_t calls = 0;
	uint32_t more;

	(void)state;
	assert_int_equal(strpool__init(&pool), 0);
	for (uint32_t i = 0; i < 2 * ROOTS; i++)
		funcs[i] = func(&pool, "f", i + 1, 0);
	for (uint32_t i = 0; i < cnt; i++)
		nodes[i] = (struct inline_count_node){ .caller = i < ROOTS ? NONE : i % ROOTS,
						       .func = i / ROOTS + (i < ROOTS ? i : 0),
						       .calls = 1 };
	assert_int_equal(inline_count_sum__new(&s), 0);
	assert_int_equal(inline_count_sum__add(s, &in), 0);
	inline_count_sum__view(s, &v);
	find(&v, INLINE_COUNT_MORE, 0, &more);
	for (uint32_t i = 0; i < v.node_cnt; i++)
		calls += v.nodes[i].calls;
	assert_int_equal(calls, cnt);
	assert_int_equal(v.node_cnt, INLINE_COUNT_SUM_NODES + 1);
	assert_int_equal(v.nodes[INLINE_COUNT_SUM_NODES].func, more);
	assert_int_equal(v.nodes[INLINE_COUNT_SUM_NODES].calls, 5);
	inline_count_sum__free(s);
	strpool__done(&pool);
	free(nodes);
	free(funcs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inline_count_sum__two_processes),
		cmocka_unit_test(test_inline_count_sum__many),
		cmocka_unit_test(test_inline_count_sum__more_functions_than_there_is_room_for),
		cmocka_unit_test(test_inline_count_sum__more_callers_than_there_is_room_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
