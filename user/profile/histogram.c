// SPDX-License-Identifier: Apache-2.0
#include "profile/histogram.h"

enum {
	SUB_CNT = 1 << HISTOGRAM_SUB_BITS
};

static uint32_t shift_of(uint32_t bucket)
{
	return bucket < 2 * SUB_CNT ? 0 : bucket / SUB_CNT - 1;
}

uint64_t histogram_low(uint32_t bucket)
{
	uint32_t shift = shift_of(bucket);

	return (uint64_t)(bucket - shift * SUB_CNT) << shift;
}

uint64_t histogram_width(uint32_t bucket)
{
	return 1ull << shift_of(bucket);
}

uint64_t histogram__quantile(const struct histogram *h, double share)
{
	double wanted = share * (double)h->cnt * (1 - 1e-12); /* 0.07 is a little more than that */
	uint64_t seen = 0, value = h->max;

	if (wanted > (double)h->cnt - 1)
		return h->max;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen && (double)seen >= wanted) {
			value = histogram_low(i) + histogram_width(i) / 2;
			break;
		}
	}
	return value < h->min ? h->min : value > h->max ? h->max : value;
}

uint64_t histogram__count_below(const struct histogram *h, uint64_t value)
{
	uint64_t cnt = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (histogram_low(i) + (histogram_width(i) - 1) >= value)
			break;
		cnt += h->buckets[i];
	}
	return cnt;
}
