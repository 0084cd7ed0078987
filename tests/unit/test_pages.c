// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pages.h"

/* Bytes of a range that are in the page table: /proc/self/pagemap has a word for each page. */
static size_t resident(const uint8_t *at, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), there = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t word;

	assert_true(fd >= 0);
	for (size_t i = 0; i < bytes; i += page) {
		off_t where = (off_t)(((uintptr_t)at + i) / page * sizeof(word));

		assert_int_equal(pread(fd, &word, sizeof(word), where), sizeof(word));
		there += word >> 63 ? page : 0;
	}
	close(fd);
	return there;
}

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

/* Constants of this program, a page and more. */
static const uint8_t constants[1 << 20] = { [5] = 7, [(1 << 20) - 1] = 9 };
static uint8_t written[1 << 16] = { 1 };
static const char *const relocated[] = { "one", "two" };

/* What is in a page of a file comes back, and what was written stays. */
static void test_pages__forget_linking(void **state)
{
	const volatile uint8_t *c = constants;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), there = 0;
	const uint8_t *from = (const uint8_t *)(((uintptr_t)constants + page - 1) & ~(page - 1));
	unsigned int sum = 0;

	(void)state;
	written[100] = 3;
	for (size_t i = 0; i < sizeof(constants); i += page)
		sum += c[i];
	assert_int_equal(sum, 0);
	pages_forget_linking();
	there = resident(from, sizeof(constants) / 2);
	assert_true(there < sizeof(constants) / 4);
	assert_int_equal(c[5], 7);
	assert_int_equal(c[sizeof(constants) - 1], 9);
	assert_int_equal(written[0], 1);
	assert_int_equal(written[100], 3);
	assert_string_equal(relocated[written[100] - 2], "two");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages__contents_stay),
		cmocka_unit_test(test_pages__no_memory_leaves_it),
		cmocka_unit_test(test_pages__forget_linking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
