/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the time stamp counter to CLOCK_MONOTONIC, whose rate changes as time is kept: both are read every few ms, and
 * what lies between two such moments is interpolated. Only what came after the last one is extrapolated.
 */
#ifndef PYEBPF_CAPTURE_INLINE_CLOCK_H
#define PYEBPF_CAPTURE_INLINE_CLOCK_H

#include <stdint.h>

#define INLINE_CLOCK_PAIRS 64

struct clock_pair {
	uint64_t tsc, ns;
};

struct inline_clock {
	struct clock_pair from; /* of the line that is used */
	uint64_t rate; /* ns per tick << 32 */
	struct clock_pair to[INLINE_CLOCK_PAIRS]; /* a queue: where the next lines begin */
	uint32_t first, cnt; /* of the queue */
};

/* inline_clock__read - both clocks at one moment, within some 10 ns */
struct clock_pair inline_clock__read(void);

/* inline_clock__begin - takes some ms */
void inline_clock__begin(struct inline_clock *c);

/* inline_clock__add - one more moment, later than those before; best before what has come until then is converted.
 * Those that nobody has read up to yet give way when they are too many. */
void inline_clock__add(struct inline_clock *c, const struct clock_pair *now);

/* inline_clock__next - for inline_clock__ns(): the next line */
void inline_clock__next(struct inline_clock *c);

/* inline_clock__until - up to where what is to come from @tsc on may be converted in any order */
uint64_t inline_clock__until(struct inline_clock *c, uint64_t tsc);

/* inline_clock__ns - rising arguments, but for a few microseconds; none before begin() */
static inline uint64_t inline_clock__ns(struct inline_clock *c, uint64_t tsc)
{
	while (c->cnt && tsc >= c->to[c->first].tsc)
		inline_clock__next(c);
	if (tsc < c->from.tsc)
		return c->from.ns -
		       (uint64_t)(((unsigned __int128)(c->from.tsc - tsc) * c->rate) >> 32);
	return c->from.ns + (uint64_t)(((unsigned __int128)(tsc - c->from.tsc) * c->rate) >> 32);
}

#endif
