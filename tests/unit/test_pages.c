// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/pages.h"

static void check(const uint8_t *array, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(array[i], (uint8_t)(i * 7));
}

/* Small and large, up and down: what is in both stays. */
static void test_pages__contents_stay(void **state)
{
	static const size_t sizes[] = { 1,     100,   8191, 8192, 8193,	  100000, 1000000,
					20000, 12000, 8192, 8191, 300000, 5,	  4096 };
	uint8_t *array = NULL;
	size_t bytes = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		array = pages_resize(array, bytes, sizes[i]);
		assert_non_null(array);
		check(array, bytes < sizes[i] ? bytes : sizes[i]);
		bytes = sizes[i];
		for (size_t k = 0; k < bytes; k++)
			array[k] = (uint8_t)(k * 7);
	}
	pages_free(array, bytes);
	pages_free(NULL, 0);
}

static void test_pages__no_memory_leaves_it(void **state)
{
	uint8_t *array = pages_resize(NULL, 0, 10000);

	(void)state;
	assert_non_null(array);
	for (size_t k = 0; k < 10000; k++)
		array[k] = (uint8_t)(k * 7);
	assert_null(pages_resize(array, 10000, SIZE_MAX / 2));
	check(array, 10000);
	pages_free(array, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages__contents_stay),
		cmocka_unit_test(test_pages__no_memory_leaves_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
