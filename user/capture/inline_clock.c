// SPDX-License-Identifier: Apache-2.0
#include "capture/inline_clock.h"

#include <time.h>
#include <unistd.h>

#define TRIES	 9
#define BEGIN_US 5000

/* Both clocks at one moment: the try that took the least time, its middle. */
static struct clock_pair read_both(void)
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
	struct clock_pair now;

	c->first = read_both();
	usleep(BEGIN_US);
	now = read_both();
	c->from = now;
	c->next.tsc = 0;
	c->rate = rate_between(&c->first, &now);
}

void inline_clock__adjust(struct inline_clock *c)
{
	struct clock_pair now = read_both();

	if (c->next.tsc || now.tsc <= c->first.tsc)
		return; /* nobody has read up to the last one yet */
	c->next = now;
	c->next_rate = rate_between(&c->first, &now);
}
