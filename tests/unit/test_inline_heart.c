// SPDX-License-Identifier: Apache-2.0
/* What tells the stubs that pyebpf lives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "inline/engine.h"
#include "inline/heart.h"

#define SECOND 1000000000ull

static uint64_t deadline(const struct inline_engine *e)
{
	return __atomic_load_n(&e->shared->deadline, __ATOMIC_RELAXED);
}

/* What beats is written to soon, and again and again. @reader: of whom it is said that it reads; or NULL */
static void await_beat(const struct inline_engine *e, struct inline_heart *reader)
{
	uint64_t before = deadline(e), until = now_ns() + 30 * SECOND;

	while (deadline(e) == before && now_ns() < until) {
		inline_heart__reads(reader);
		usleep(10000);
	}
	assert_true(deadline(e) > before);
}

static struct inline_engine make(struct il_shared *shared)
{
	return (struct inline_engine){ .shared = shared, .clock = 1, .hz = SECOND };
}

static void test_heart__beats_for_all(void **state)
{
	struct il_shared shared[3] = { 0 };
	struct inline_engine first = make(&shared[0]), second = make(&shared[1]),
			     third = make(&shared[2]);
	struct inline_heart *h = inline_heart__new(3600 * SECOND);
	uint64_t left;

	(void)state;
	assert_non_null(h);
	inline_heart__add(h, &first);
	inline_heart__add(h, &second);
	inline_heart__add(h, &third);
	await_beat(&third, NULL);
	await_beat(&first, NULL);
	assert_in_range(deadline(&first), now_ns() - 30 * SECOND + SECOND, now_ns() + SECOND);

	inline_heart__remove(h, &first);
	inline_heart__remove(h, &first);
	left = deadline(&first);
	await_beat(&second, NULL);
	await_beat(&third, NULL);
	await_beat(&second, NULL);
	assert_int_equal(deadline(&first), left);
	inline_heart__free(h);
}

static void test_heart__of_a_reader_that_does_nothing(void **state)
{
	struct il_shared shared = { 0 }, none = { 0 };
	struct inline_engine e = make(&shared), watched = make(&none);
	struct inline_heart *h = inline_heart__new(0), *other = inline_heart__new(3600 * SECOND);

	(void)state;
	assert_non_null(h);
	assert_non_null(other);
	inline_heart__add(h, &e);
	inline_heart__add(other, &watched);
	for (int i = 0; i < 3; i++)
		await_beat(&watched, NULL);
	assert_int_equal(deadline(&e), 0);
	inline_heart__free(h);

	h = inline_heart__new(SECOND);
	inline_heart__add(h, &e);
	for (int i = 0; i < 8; i++)
		await_beat(&e, h);
	inline_heart__free(h);
	inline_heart__free(other);
}

static void test_heart__where_there_is_none(void **state)
{
	struct il_shared shared = { 0 };
	struct inline_engine e = make(&shared);

	(void)state;
	inline_heart__add(NULL, &e);
	inline_heart__reads(NULL);
	inline_heart__remove(NULL, &e);
	inline_heart__free(NULL);
	assert_int_equal(shared.deadline, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heart__beats_for_all),
		cmocka_unit_test(test_heart__of_a_reader_that_does_nothing),
		cmocka_unit_test(test_heart__where_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
