// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "profile/histogram.h"

static void test_histogram__buckets_cover_all(void **state)
{
	uint64_t next = 0;

	(void)state;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t last = histogram_low(i) + (histogram_width(i) - 1);

		assert_int_equal(histogram_low(i), next);
		assert_int_equal(histogram_bucket(next), i);
		assert_int_equal(histogram_bucket(last), i);
		/* half a bucket is at most 1/256 of what is in it */
		assert_true(histogram_width(i) == 1 ||
			    histogram_low(i) / histogram_width(i) >= 1 << HISTOGRAM_SUB_BITS);
		next = last + 1;
	}
	assert_int_equal(next, 0); /* past 2^64 - 1 */
}

static int compare(const void *left, const void *right)
{
	const uint64_t *l = left, *r = right;

	return *l < *r ? -1 : *l > *r;
}

static void test_histogram__quantiles(void **state)
{
	enum {
		CNT = 10000
	};
	struct histogram *h = calloc(1, sizeof(*h));
	static uint64_t values[CNT];
	uint64_t x = 88172645463325252ull;

	(void)state;
	assert_non_null(h);
	assert_int_equal(histogram__quantile(h, 0.5), 0);
	for (int i = 0; i < CNT; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		values[i] = x >> (x % 60);
		histogram__add(h, values[i]);
	}
	qsort(values, CNT, sizeof(values[0]), compare);
	assert_int_equal(h->cnt, CNT);
	assert_int_equal(h->min, values[0]);
	assert_int_equal(h->max, values[CNT - 1]);
	for (int percent = 1; percent <= 100; percent++) {
		uint64_t want = values[CNT / 100 * percent - 1];
		uint64_t got = histogram__quantile(h, percent / 100.0);
		uint64_t off = got > want ? got - want : want - got;

		assert_true(off <= want / 256);
	}
	assert_int_equal(histogram__quantile(h, 0), values[0]);
	assert_int_equal(histogram__quantile(h, 1), values[CNT - 1]);
	for (int bit = 0; bit < 64; bit++) {
		uint64_t below = 0;

		for (int i = 0; i < CNT; i++)
			below += values[i] < 1ull << bit;
		assert_int_equal(histogram__count_below(h, 1ull << bit), below);
	}
	free(h);
}

static void test_histogram__few(void **state)
{
	struct histogram *h = calloc(1, sizeof(*h));

	(void)state;
	assert_non_null(h);
	for (uint64_t v = 1; v <= 4; v++)
		histogram__add(h, v * 10);
	assert_int_equal(histogram__quantile(h, 0.5), 20);
	assert_int_equal(histogram__quantile(h, 0.9), 40);
	histogram__add(h, UINT64_MAX);
	assert_int_equal(histogram__quantile(h, 1), UINT64_MAX);
	histogram__add(h, 0);
	assert_int_equal(h->min, 0);
	assert_int_equal(histogram__quantile(h, 0.01), 0);
	free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_histogram__buckets_cover_all),
		cmocka_unit_test(test_histogram__quantiles),
		cmocka_unit_test(test_histogram__few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
