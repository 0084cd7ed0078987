// SPDX-License-Identifier: Apache-2.0
#include "capture/inline_clock.h"

#include <unistd.h>

#include "base/clock.h"

#define BEGIN_US  5000
#define APART_NS  1000000u /* two moments: each is some 50 ns off */
#define BEYOND_NS 4000000u /* the last one; twice as far as moments are apart as a rule */

static uint64_t rate_between(const struct clock_pair *a, const struct clock_pair *b)
{
	return (uint64_t)(((unsigned __int128)(b->ns - a->ns) << 32) / (b->tsc - a->tsc));
}

/* Of the line that begins at c->from */
static void set_end(struct inline_clock *c)
{
	if (!c->cnt) {
		c->until = c->from.tsc + ((uint64_t)BEYOND_NS << 32) / c->rate;
		return;
	}
	c->until = c->to[c->first].tsc;
	c->rate = rate_between(&c->from, &c->to[c->first]);
}

void inline_clock__begin(struct inline_clock *c)
{
	struct clock_pair first = clock_pair_read();

	c->first = c->cnt = 0;
	c->same = !tsc_is_steady();
	if (c->same) {
		c->from = (struct clock_pair){ first.ns, first.ns };
		c->rate = 1ull << 32;
		c->until = UINT64_MAX;
		return;
	}
	usleep(BEGIN_US);
	c->read = clock_pair_read;
	c->from = clock_pair_read();
	c->rate = rate_between(&first, &c->from);
	set_end(c);
}

uint64_t inline_clock__ticks(const struct inline_clock *c)
{
	return c->same ? now_ns() : tsc_now();
}

void inline_clock__add(struct inline_clock *c, const struct clock_pair *now)
{
	const struct clock_pair *last = &c->from;

	if (c->same)
		return;
	if (c->cnt == INLINE_CLOCK_PAIRS)
		c->cnt--; /* a longer line instead */
	if (c->cnt)
		last = &c->to[(c->first + c->cnt - 1) % INLINE_CLOCK_PAIRS];
	if (now->tsc <= last->tsc || now->ns < last->ns + APART_NS)
		return; /* or the clocks of two processors */
	c->to[(c->first + c->cnt++) % INLINE_CLOCK_PAIRS] = *now;
	if (c->cnt == 1)
		set_end(c);
}

uint64_t inline_clock__until(struct inline_clock *c, uint64_t tsc)
{
	if (tsc >= c->until)
		inline_clock__next(c, tsc);
	return c->until - 1;
}

static void go_on(struct inline_clock *c, uint64_t tsc)
{
	while (c->cnt && tsc >= c->to[c->first].tsc) {
		c->from = c->to[c->first];
		c->first = (c->first + 1) % INLINE_CLOCK_PAIRS;
		c->cnt--;
		set_end(c);
	}
}

/* What came is no later than now: a @tsc that is, is not to be trusted, and the line as good for it as any. */
void inline_clock__next(struct inline_clock *c, uint64_t tsc)
{
	go_on(c, tsc);
	if (tsc >= c->until && c->read) {
		struct clock_pair now = c->read();

		inline_clock__add(c, &now);
		go_on(c, tsc);
	}
	if (!c->cnt && tsc >= c->until)
		c->until = UINT64_MAX;
}
