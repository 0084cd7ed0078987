// SPDX-License-Identifier: Apache-2.0
#include "capture/inline_clock.h"

#include <time.h>
#include <unistd.h>

#define TRIES	 9
#define BEGIN_US 5000

/* The try that took the least time, its middle. */
struct clock_pair inline_clock__read(void)
{
	struct clock_pair best = { 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		struct timespec ts;
		uint64_t before = __builtin_ia32_rdtsc(), after;

		clock_gettime(CLOCK_MONOTONIC, &ts);
		after = __builtin_ia32_rdtsc();
		if (after - before >= least)
			continue;
		least = after - before;
		best.tsc = before + least / 2;
		best.ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	}
	return best;
}

static uint64_t rate_between(const struct clock_pair *a, const struct clock_pair *b)
{
	return (uint64_t)(((unsigned __int128)(b->ns - a->ns) << 32) / (b->tsc - a->tsc));
}

void inline_clock__begin(struct inline_clock *c)
{
	struct clock_pair first = inline_clock__read();

	usleep(BEGIN_US);
	c->from = inline_clock__read();
	c->first = c->cnt = 0;
	c->rate = rate_between(&first, &c->from);
}

void inline_clock__add(struct inline_clock *c, const struct clock_pair *now)
{
	const struct clock_pair *last = &c->from;

	if (c->cnt == INLINE_CLOCK_PAIRS)
		c->cnt--; /* a longer line instead */
	if (c->cnt)
		last = &c->to[(c->first + c->cnt - 1) % INLINE_CLOCK_PAIRS];
	if (now->tsc <= last->tsc || now->ns <= last->ns)
		return; /* the clocks of two processors */
	c->to[(c->first + c->cnt++) % INLINE_CLOCK_PAIRS] = *now;
	if (c->cnt == 1)
		c->rate = rate_between(&c->from, now);
}

uint64_t inline_clock__until(struct inline_clock *c, uint64_t tsc)
{
	while (c->cnt && tsc >= c->to[c->first].tsc)
		inline_clock__next(c);
	return c->cnt ? c->to[c->first].tsc - 1 : UINT64_MAX;
}

void inline_clock__next(struct inline_clock *c)
{
	c->from = c->to[c->first];
	c->first = (c->first + 1) % INLINE_CLOCK_PAIRS;
	if (--c->cnt)
		c->rate = rate_between(&c->from, &c->to[c->first]);
}
