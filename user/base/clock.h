/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks in nanoseconds. */
#ifndef PYEBPF_BASE_CLOCK_H
#define PYEBPF_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

/* now_ns - CLOCK_MONOTONIC, as all time stamps of events and samples. */
static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* wall_ns - since 1970. */
static inline int64_t wall_ns(void)
{
	return (int64_t)clock_ns(CLOCK_REALTIME);
}

#endif
