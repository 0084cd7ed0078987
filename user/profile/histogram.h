/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of 64-bit numbers in log-linear buckets: numbers below 256 have a bucket each, above
 * that a power of two is split into 128. A number that is told from it is off by at most 1/256
 * (0.4 %); count, sum, least and most are exact. Its size is fixed, 58 KB.
 */
#ifndef PYEBPF_PROFILE_HISTOGRAM_H
#define PYEBPF_PROFILE_HISTOGRAM_H

#include <stdint.h>

enum {
	HISTOGRAM_SUB_BITS = 7,
	HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS
};

/* Zeroed is an empty one. */
struct histogram {
	uint64_t buckets[HISTOGRAM_BUCKETS];
	uint64_t cnt;
	uint64_t min, max;
	double sum;
};

static inline uint32_t histogram_bucket(uint64_t value)
{
	uint32_t shift = value >> HISTOGRAM_SUB_BITS
				 ? 63 - HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(value)
				 : 0;

	return (shift << HISTOGRAM_SUB_BITS) + (uint32_t)(value >> shift);
}

static inline void histogram__add(struct histogram *h, uint64_t value)
{
	h->buckets[histogram_bucket(value)]++;
	h->min = h->cnt && h->min < value ? h->min : value;
	h->max = h->max > value ? h->max : value;
	h->sum += (double)value;
	h->cnt++;
}

/* histogram_low, histogram_width - the least number of a bucket, and how many it holds. */
uint64_t histogram_low(uint32_t bucket);
uint64_t histogram_width(uint32_t bucket);

/**
 * histogram__quantile - the number that a share of all does not exceed
 * @share: 0 to 1; by nearest rank: 0.5 of four numbers is the second one
 *
 * Return: the middle of the bucket, within the least and the most; 0 of an empty histogram.
 */
uint64_t histogram__quantile(const struct histogram *h, double share);

/* histogram__count_below - how many lie in buckets that end at or below @value. Exact for a power of
 * two. */
uint64_t histogram__count_below(const struct histogram *h, uint64_t value);

#endif
