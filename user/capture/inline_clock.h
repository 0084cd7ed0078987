/* SPDX-License-Identifier: Apache-2.0 */
/* From the time stamp counter to CLOCK_MONOTONIC. */
#ifndef PYEBPF_CAPTURE_INLINE_CLOCK_H
#define PYEBPF_CAPTURE_INLINE_CLOCK_H

#include <stdint.h>

struct clock_pair {
	uint64_t tsc, ns;
};

struct inline_clock {
	struct clock_pair first; /* the rate is taken from here to now: the longer, the better */
	struct clock_pair from, next; /* the line that is used, and from when on the next one is */
	uint64_t rate, next_rate; /* ns per tick << 32 */
};

/* inline_clock__begin - takes some ms. inline_clock__adjust - now and then, every second say. */
void inline_clock__begin(struct inline_clock *c);
void inline_clock__adjust(struct inline_clock *c);

/* inline_clock__ns - rising arguments, but for a few microseconds; none before begin() */
static inline uint64_t inline_clock__ns(struct inline_clock *c, uint64_t tsc)
{
	if (tsc >= c->next.tsc && c->next.tsc) {
		c->from = c->next;
		c->rate = c->next_rate;
		c->next.tsc = 0;
	}
	if (tsc < c->from.tsc)
		return c->from.ns -
		       (uint64_t)(((unsigned __int128)(c->from.tsc - tsc) * c->rate) >> 32);
	return c->from.ns + (uint64_t)(((unsigned __int128)(tsc - c->from.tsc) * c->rate) >> 32);
}

#endif
