// SPDX-License-Identifier: Apache-2.0
/* What a target writes into the tables of --count is any bytes: the reader shows sums, or says that they are damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "abi/event.h"
#include "capture/inline_count.h"
#include "cpython/layouts.h"

#define RING_BYTES IL_COUNT_RING
#define ROUNDS	   60

static struct {
	uint8_t *memory; /* as from IL_SHARED on */
	struct inline_engine engine;
	struct interp in;
	struct inline_count *count;
	uint64_t random, head;
} t;

static uint64_t any(void)
{
	t.random ^= t.random << 13;
	t.random ^= t.random >> 7;
	t.random ^= t.random << 17;
	return t.random;
}

static void *at(uint64_t offset)
{
	return t.memory + (offset - IL_SHARED);
}

static void begin(bool timed)
{
	t.memory = calloc(1, IL_FUNCS + IL_COUNT_BYTES - IL_SHARED);
	assert_non_null(t.memory);
	t.in.layout = layout_find(12, false)->py;
	t.engine = (struct inline_engine){ .in = &t.in,
					   .shared = (void *)t.memory,
					   .ring = at(IL_RING),
					   .ring_bytes = RING_BYTES,
					   .table_bytes = IL_COUNT_BYTES,
					   .timed = timed,
					   .hz = 1000000000 };
	assert_int_equal(inline_count__new(&t.count, &t.engine), 0);
	t.head = 0;
}

static void end(void)
{
	inline_count__free(t.count);
	free(t.memory);
}

static void *reserve(uint32_t bytes)
{
	void *place = (uint8_t *)at(IL_RING) + t.head % RING_BYTES;

	t.head += bytes;
	t.engine.shared->head = t.head;
	return place;
}

static struct il_func *slot(uint32_t n)
{
	return (struct il_func *)at(IL_FUNCS) + n;
}

/* A function with a name of one letter. */
static void define(uint32_t n, uint32_t id, char name)
{
	struct il_def *d = reserve((sizeof(*d) + 15) & ~15ul);
	const struct pye_pylayout *l = &t.in.layout;

	*d = (struct il_def){ .head = { id, IL_MORE | (uint64_t)IL_DEF << 48 },
			      .slot = n,
			      .total = (sizeof(*d) + 15) & ~15u,
			      .line = 3 };
	d->str[PYE_STR_NAME] = (struct il_str){ .addr = 8,
						.length = 1,
						.bytes = 1,
						.state = l->str_compact_mask | l->str_ascii_mask |
							 1u << __builtin_ctz(l->str_kind_mask) };
	d->data[0] = (uint8_t)name;
	*slot(n) = (struct il_func){ .code = 64, .calls = 10, .resumes = 1, .id = id };
}

static void retire(uint32_t n)
{
	struct il_retired *r = reserve(48);

	*r = (struct il_retired){ .head = { 0, IL_MORE | (uint64_t)IL_RETIRE << 48 },
				  .slot = n,
				  .total = 48,
				  .calls = 5 };
	*slot(n) = (struct il_func){ 0 };
}

static struct inline_count_view snapshot(void)
{
	struct inline_count_view v;

	assert_int_equal(inline_count__snapshot(t.count, &v), 0);
	return v;
}

/* One that was freed, its successor in the same slot, and one of the same name elsewhere. */
static void test_count__slots_are_used_again(void **state)
{
	struct inline_count_view v;

	(void)state;
	begin(false);
	define(1, 1, 'a');
	retire(1);
	define(1, 2, 'b');
	define(7, 3, 'a');
	v = snapshot();
	assert_int_equal(v.func_cnt, 2);
	assert_string_equal(strpool__get(v.strings, v.funcs[0].name), "a");
	assert_int_equal(v.funcs[0].calls, 15);
	assert_int_equal(v.funcs[1].calls, 10);
	assert_int_equal(v.funcs[1].resumes, 1);
	/* the ring had no room to tell that it was freed */
	slot(7)->code = IL_FREED;
	t.engine.shared->retire_lost = 1;
	v = snapshot();
	assert_int_equal(v.funcs[0].calls, 15);
	assert_int_equal(slot(7)->code | slot(7)->calls, 0);
	end();
}

/* While pyebpf reads, a slot is freed, has a successor, and that is freed, too, without room in the ring. */
static void test_count__a_slot_that_is_ahead_of_the_ring(void **state)
{
	struct inline_count_view v;
	uint64_t read;

	(void)state;
	begin(false);
	define(1, 1, 'a');
	v = snapshot();
	read = t.head;
	retire(1);
	define(1, 2, 'b');
	slot(1)->code = IL_FREED;
	t.engine.shared->retire_lost = 1;
	t.engine.shared->head = read;
	v = snapshot();
	assert_int_equal(v.funcs[0].calls, 0);
	assert_int_equal(slot(1)->code, IL_FREED);
	t.engine.shared->head = t.head;
	v = snapshot();
	assert_int_equal(v.funcs[0].calls, 5);
	assert_int_equal(v.funcs[1].calls, 10);
	assert_int_equal(slot(1)->code | slot(1)->calls, 0);
	end();
}

static void test_count__callers_and_what_still_runs(void **state)
{
	struct il_node *nodes;
	struct il_active *frames;
	struct inline_count_view v;

	(void)state;
	begin(true);
	define(1, 1, 'a');
	define(2, 2, 'b');
	nodes = at(IL_NODES);
	frames = at(IL_ACTIVE);
	nodes[9] = (struct il_node){ .key = 1, .calls = 1, .self = 100 };
	nodes[4] = (struct il_node){ .key = 9ull << 32 | 2, .calls = 2, .self = 50 };
	nodes[5] = (struct il_node){ .key = 9ull << 32 | 3 }; /* of no name */
	frames[0] = (struct il_active){ .frame = 8, .start = 1, .node = 9 };
	frames[1] = (struct il_active){
		.frame = 16, .caller = 8, .start = tsc_now() - 1000, .inner = 400, .node = 4
	};
	v = snapshot();
	assert_int_equal(v.node_cnt, 2);
	assert_int_equal(v.nodes[0].caller, INLINE_COUNT_NONE);
	assert_int_equal(v.nodes[1].caller, 0);
	assert_int_equal(v.nodes[1].calls, 2);
	assert_true(v.nodes[1].self_ns >= 650);
	assert_true(v.nodes[0].self_ns > v.nodes[1].self_ns);
	end();
}

/* What still runs has its time up to the detach: pyebpf can have long to do behind that. */
static void test_count__no_time_behind_the_detach(void **state)
{
	struct inline_count_view v;

	(void)state;
	for (int clock = 0; clock < 2; clock++) {
		begin(true);
		t.engine.clock = (uint64_t)clock;
		t.engine.remote.put_back_tsc = tsc_now() - 1000;
		t.engine.remote.put_back_ns = now_ns() - 1000;
		define(1, 1, 'a');
		((struct il_node *)at(IL_NODES))[9] =
			(struct il_node){ .key = 1, .calls = 1, .self = 100 };
		*(struct il_active *)at(IL_ACTIVE) =
			(struct il_active){ .frame = 8,
					    .start = (clock ? t.engine.remote.put_back_ns
							    : t.engine.remote.put_back_tsc) -
						     500,
					    .node = 9 };
		v = snapshot();
		assert_int_equal(v.node_cnt, 1);
		assert_int_equal(v.nodes[0].self_ns, 600);
		end();
	}
}

/* New ones without end in a slot whose old ones never end: no honest target does that, and none makes pyebpf grow. */
static void test_count__ends_that_are_never_told(void **state)
{
	size_t before, grown;

	(void)state;
	begin(true);
	before = mallinfo2().hblkhd;
	for (uint32_t id = 1; id < 1u << 22; id++) {
		define(1, id, 'a');
		if (id % 16384 == 0)
			assert_int_equal(inline_count__read(t.count), 1);
	}
	grown = mallinfo2().hblkhd - before;
	assert_in_range(grown, 0, 100 << 20);
	end();
}

static uint64_t calls_of(const struct inline_count_view *v, uint32_t caller, uint32_t func)
{
	uint64_t calls = 0;

	for (uint32_t i = 0; i < v->node_cnt; i++) {
		const struct inline_count_node *n = &v->nodes[i];
		uint32_t above = n->caller == INLINE_COUNT_NONE ? n->caller
								: v->nodes[n->caller].func;

		assert_true(n->caller == INLINE_COUNT_NONE || n->caller < i);
		calls += n->func == func && above == caller ? n->calls : 0;
	}
	return calls;
}

/* main() calls made functions, which are freed and call one that stays: their places are given back, nothing is forgotten. */
static void test_count__places_of_freed_functions(void **state)
{
	const uint32_t made = 5000;
	struct il_node *nodes;
	struct il_active *frames;
	struct inline_count_view v;
	uint32_t used = 0;

	(void)state;
	begin(true);
	nodes = at(IL_NODES);
	frames = at(IL_ACTIVE);
	define(1, 1, 'm');
	define(2, 2, 's');
	nodes[1] = (struct il_node){ .key = 1, .calls = 1 };
	for (uint32_t i = 0; i < made; i++) {
		define(3, 3 + i, 'f');
		nodes[10 + 3 * i] =
			(struct il_node){ .key = 1ull << 32 | (3 + i), .calls = 2, .self = 7 };
		nodes[11 + 3 * i] =
			(struct il_node){ .key = (10ull + 3 * i) << 32 | 2, .calls = 3 };
		nodes[12 + 3 * i] =
			(struct il_node){ .key = (11ull + 3 * i) << 32 | 2, .calls = 4 };
		retire(3);
	}
	frames[7] =
		(struct il_active){ .frame = 8, .start = 1, .node = 11 }; /* did not end in sight */
	v = snapshot();
	assert_int_equal(calls_of(&v, 0, 2), 2ull * made);
	assert_int_equal(calls_of(&v, 2, 1), 3ull * made);
	assert_int_equal(calls_of(&v, 1, 1), 4ull * made);
	assert_int_equal(calls_of(&v, INLINE_COUNT_NONE, 0), 1);
	assert_int_equal(v.lost, 0);
	for (uint32_t i = 0; i < IL_NODE_CNT; i++)
		used += nodes[i].key != 0;
	assert_int_equal(used, 3); /* main(), and what seems to run */
	assert_int_equal(nodes[11].key, 10ull << 32 | 2);
	frames[7].frame = 0;
	for (uint32_t i = 0; i < made; i++) {
		define(3, 3 + made + i, 'f');
		nodes[30000 + i] =
			(struct il_node){ .key = 1ull << 32 | (3 + made + i), .calls = 2 };
		retire(3);
	}
	v = snapshot();
	assert_int_equal(calls_of(&v, 0, 2), 4ull * made);
	assert_int_equal(calls_of(&v, 2, 1), 3ull * made);
	end();
}

#define FAR 65000u /* from its caller */

/* As a target that runs on: once the caller's place is free, does what it called have its key still? */
static void *watch(void *arg)
{
	struct il_node *nodes = at(IL_NODES);
	bool *seen = arg;

	time_t until = time(NULL) + 60;

	while (__atomic_load_n(&nodes[10].key, __ATOMIC_ACQUIRE) && time(NULL) < until)
		;
	*seen = __atomic_load_n(&nodes[FAR].key, __ATOMIC_RELAXED) == (10ull << 32 | 2);
	return NULL;
}

static void test_count__no_place_is_free_before_what_was_called_there(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < 20; round++) {
		struct il_node *nodes;
		pthread_t thread;
		bool seen = false;

		begin(true);
		nodes = at(IL_NODES);
		define(1, 1, 'm');
		define(2, 2, 's');
		nodes[1] = (struct il_node){ .key = 1, .calls = 1 };
		nodes[10] = (struct il_node){ .key = 1ull << 32 | 3, .calls = 1 };
		nodes[FAR] = (struct il_node){ .key = 10ull << 32 | 2, .calls = 5 };
		assert_int_equal(pthread_create(&thread, NULL, watch, &seen), 0);
		for (uint32_t i = 0; i < 5000; i++) {
			define(3, 3 + i, 'f');
			retire(3);
		}
		snapshot();
		pthread_join(thread, NULL);
		assert_false(seen);
		assert_int_equal(nodes[FAR].key, 0);
		end();
	}
}

static void fill(uint64_t from, uint64_t to)
{
	uint64_t *words = at(from);

	for (uint64_t i = 0; i < (to - from) / 8; i += 1 + any() % 64)
		words[i] = any() % 3 ? any() % 70000 : any();
}

static void test_count__any_bytes(void **state)
{
	int damaged = 0, fine = 0;

	(void)state;
	t.random = 1;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct inline_count_view v;
		int err;

		begin(i % 2);
		for (uint32_t k = 0; k < 40; k++)
			if (any() % 4)
				define((uint32_t)any() % 16, (uint32_t)any() % 99 + 1,
				       (char)('a' + any() % 9));
			else if (i % 3)
				retire((uint32_t)any() % 16);
		fill(IL_FUNCS, IL_FUNCS + IL_COUNT_BYTES);
		if (i % 5 == 4)
			fill(IL_RING, IL_RING + t.head);
		if (i % 7 == 6)
			t.engine.shared->head = any();
		t.engine.shared->retire_lost = i % 2;
		err = inline_count__snapshot(t.count, &v);
		assert_true(!err || err == -EILSEQ);
		damaged += err != 0;
		fine += !err;
		for (uint32_t k = 0; !err && k < v.node_cnt; k++) {
			assert_true(v.nodes[k].caller == INLINE_COUNT_NONE ||
				    v.nodes[k].caller < k);
			assert_true(v.nodes[k].func < v.func_cnt);
		}
		end();
	}
	assert_true(damaged && fine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count__slots_are_used_again),
		cmocka_unit_test(test_count__a_slot_that_is_ahead_of_the_ring),
		cmocka_unit_test(test_count__callers_and_what_still_runs),
		cmocka_unit_test(test_count__no_time_behind_the_detach),
		cmocka_unit_test(test_count__ends_that_are_never_told),
		cmocka_unit_test(test_count__places_of_freed_functions),
		cmocka_unit_test(test_count__no_place_is_free_before_what_was_called_there),
		cmocka_unit_test(test_count__any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
