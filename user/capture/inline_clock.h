/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the time stamp counter to CLOCK_MONOTONIC, whose rate changes as time is kept: both are read every few ms, and
 * what lies between two such moments is interpolated. Only what came after the last one is extrapolated, up to a few ms:
 * then both are read at once. A reader that gets no CPU for a while looks late, and finds a lot that is later than its look.
 * Where the counter is not steady the stubs read CLOCK_MONOTONIC themselves (inline/stub_clock.h): a tick is a nanosecond
 * then.
 */
#ifndef PYEBPF_CAPTURE_INLINE_CLOCK_H
#define PYEBPF_CAPTURE_INLINE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "inline/stub_clock.h"

#define INLINE_CLOCK_PAIRS 64

struct inline_clock {
	struct clock_pair from; /* of the line that is used */
	uint64_t until; /* first tick that is beyond it */
	uint64_t rate; /* ns per tick << 32 */
	struct clock_pair to[INLINE_CLOCK_PAIRS]; /* a queue: where the next lines begin */
	uint32_t first, cnt; /* of the queue */
	struct clock_pair (*read)(
		void); /* when a line has to be longer than it should be; NULL: it gets longer */
	bool same; /* both are one clock */
};

/* inline_clock__begin - takes some ms */
void inline_clock__begin(struct inline_clock *c);

/* inline_clock__ticks - what the stubs' clock says now */
uint64_t inline_clock__ticks(const struct inline_clock *c);

/* inline_clock__add - one more moment, later than those before; best before what has come until then is converted.
 * Those that nobody has read up to yet give way when they are too many. One that is nearer than a millisecond to the one
 * before is left aside: it says nothing of the rate. */
void inline_clock__add(struct inline_clock *c, const struct clock_pair *now);

/* inline_clock__next - for inline_clock__ns(): the line of @tsc, which is beyond the one that is used */
void inline_clock__next(struct inline_clock *c, uint64_t tsc);

/* inline_clock__until - up to where what is to come from @tsc on may be converted in any order */
uint64_t inline_clock__until(struct inline_clock *c, uint64_t tsc);

/* inline_clock__ns - of CLOCK_MONOTONIC. @tsc: rises from call to call, but for a few microseconds; none is before begin() */
static inline uint64_t inline_clock__ns(struct inline_clock *c, uint64_t tsc)
{
	if (tsc >= c->until)
		inline_clock__next(c, tsc);
	if (tsc < c->from.tsc)
		return c->from.ns -
		       (uint64_t)(((unsigned __int128)(c->from.tsc - tsc) * c->rate) >> 32);
	return c->from.ns + (uint64_t)(((unsigned __int128)(tsc - c->from.tsc) * c->rate) >> 32);
}

#endif
