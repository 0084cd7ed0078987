// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/idmap.h"
#include "base/strpool.h"

enum {
	MANY = 100000
};

static void test_idmap__many_keys(void **state)
{
	struct idmap m = { 0 };

	(void)state;
	assert_int_equal(idmap__find(&m, 0), IDMAP_NONE);
	for (uint64_t i = 0; i < MANY; i++) {
		/* dense, far apart, and pairs as (parent, function) */
		assert_int_equal(idmap__set(&m, i, (uint32_t)i), 0);
		assert_int_equal(idmap__set(&m, UINT64_MAX - i * 4096, (uint32_t)i + 1), 0);
		assert_int_equal(idmap__set(&m, (i + 1) << 32 | i % 7, (uint32_t)i + 2), 0);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		assert_int_equal(idmap__find(&m, i), i);
		assert_int_equal(idmap__find(&m, UINT64_MAX - i * 4096), i + 1);
		assert_int_equal(idmap__find(&m, (i + 1) << 32 | i % 7), i + 2);
	}
	assert_int_equal(idmap__find(&m, MANY + 1), IDMAP_NONE);
	assert_int_equal(m.cnt, 3 * MANY);
	assert_int_equal(idmap__set(&m, 5, 99), 0); /* again: replaced */
	assert_int_equal(idmap__find(&m, 5), 99);
	assert_int_equal(m.cnt, 3 * MANY);
	idmap__done(&m);
	assert_int_equal(idmap__find(&m, 5), IDMAP_NONE);
}

static void test_strpool__equal_bytes_are_one(void **state)
{
	struct strpool p;
	const char *first;
	uint32_t id, len;
	char text[40];

	(void)state;
	assert_int_equal(strpool__init(&p), 0);
	assert_string_equal(strpool__get(&p, 0), "");
	assert_int_equal(strpool__add(&p, "a\0b", 3, &id), 0);
	assert_int_equal(id, 1);
	assert_int_equal(strpool__add(&p, "a\0c", 3, &id), 0);
	assert_int_equal(id, 2);
	first = strpool__get(&p, 1);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < MANY; i++) {
			len = (uint32_t)snprintf(text, sizeof(text), "%u%s", i,
						 i & 1 ? "-longer-than-8" : "");
			assert_int_equal(strpool__add(&p, text, len, &id), 0);
			assert_int_equal(id, 3 + i);
			assert_string_equal(strpool__get(&p, id), text);
		}
	}
	assert_ptr_equal(strpool__get(&p, 1), first); /* nothing moved */
	assert_int_equal(p.cnt, 3 + MANY);
	strpool__done(&p);
}

static void test_strpool__long_strings(void **state)
{
	static char text[200000];
	struct strpool p;
	uint32_t id;

	(void)state;
	memset(text, 'y', sizeof(text));
	assert_int_equal(strpool__init(&p), 0);
	for (uint32_t len = 1; len <= sizeof(text); len *= 3)
		assert_int_equal(strpool__add(&p, text, len, &id), 0);
	assert_int_equal(strpool__add(&p, text, sizeof(text), &id), 0);
	assert_int_equal(p.strs[id].len, sizeof(text));
	assert_memory_equal(strpool__get(&p, id), text, sizeof(text));
	strpool__done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idmap__many_keys),
		cmocka_unit_test(test_strpool__equal_bytes_are_one),
		cmocka_unit_test(test_strpool__long_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
