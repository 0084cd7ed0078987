// SPDX-License-Identifier: Apache-2.0
/* Time stamps of the inline engine over an hour, while the system's clock is kept right in all the ways it can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/clock.h"
#include "capture/inline_clock.h"

#define STEP_NS	   2000000ull /* between two looks at both clocks */
#define HOUR_STEPS (3600ull * 1000000000 / STEP_NS)
#define GHZ	   2.6
#define PPM	   1e-6
#define SLEW_PPM   500 /* adjtime() */
#define NOISE_NS   40 /* of a look */
#define ALLOWED_NS 1000
#define LOOKS	   4 /* at the clock in each step */

static struct {
	uint64_t random;
	double ppm; /* what ntp has set */
	uint64_t ns; /* at the beginning of the step */
	double frac;
	uint64_t tsc, worst, looks;
	struct inline_clock clock;
} t;

static uint64_t any(uint64_t below)
{
	t.random ^= t.random << 13;
	t.random ^= t.random >> 7;
	t.random ^= t.random << 17;
	return t.random % below;
}

/* ns per tick in a step: the crystal's temperature, ntp's corrections, for a while adjtime(). */
static double rate_at(uint64_t step)
{
	double seconds = (double)step * STEP_NS * 1e-9;

	if (step % (64ull * 500) == 0)
		t.ppm = (double)any(21) - 10;
	return (1 + PPM * (5 * sin(seconds / 40) + t.ppm +
			   (seconds > 1000 && seconds < 1100 ? SLEW_PPM : 0))) /
	       GHZ;
}

static void check(uint64_t tsc, double ns)
{
	uint64_t got = inline_clock__ns(&t.clock, tsc), want = t.ns + (uint64_t)ns;
	uint64_t off = got > want ? got - want : want - got;

	t.worst = off > t.worst ? off : t.worst;
	t.looks++;
}

static void look(bool noisy)
{
	struct clock_pair now = { t.tsc, t.ns };

	now.ns += noisy ? any(2 * NOISE_NS + 1) - NOISE_NS : 0;
	inline_clock__add(&t.clock, &now);
}

/* One step: what happened in it is read at its end, or while it goes on. */
static void live(double rate, bool late)
{
	uint64_t ticks = (uint64_t)(STEP_NS / rate), at[LOOKS];
	struct clock_pair begun = { t.tsc, t.ns };
	double passed = (double)ticks * rate + t.frac;

	for (uint64_t i = 0; i < LOOKS; i++)
		at[i] = ticks / LOOKS * i + any(ticks / LOOKS);
	for (int i = 0; !late && i < LOOKS; i++)
		check(t.tsc + at[i], (double)at[i] * rate + t.frac);
	t.tsc += ticks;
	t.ns += (uint64_t)passed;
	t.frac = passed - (double)(uint64_t)passed;
	look(true);
	t.ns -= t.ns - begun.ns;
	for (int i = 0; late && i < LOOKS; i++)
		check(begun.tsc + at[i], (double)at[i] * rate);
	t.ns = begun.ns + (uint64_t)passed;
}

static void begin(void)
{
	t.random = 7;
	t.ns = 1000000000ull;
	t.tsc = 1ull << 40;
	t.worst = t.looks = 0;
	t.clock = (struct inline_clock){ .from = { t.tsc, t.ns },
					 .rate = (uint64_t)(4294967296.0 / GHZ) };
}

static void run(bool late)
{
	begin();
	for (uint64_t step = 0; step < HOUR_STEPS; step++)
		live(rate_at(step), late);
	assert_int_equal(t.looks, LOOKS * HOUR_STEPS);
	assert_in_range(t.worst, 1, ALLOWED_NS);
}

static void test_inline_clock__an_hour(void **state)
{
	(void)state;
	run(true);
}

/* Nobody has looked at the clocks since: as bad as it gets. */
static void test_inline_clock__an_hour_ahead(void **state)
{
	(void)state;
	run(false);
}

/* The reader gets no CPU for longer than the queue holds; then it reads what was written meanwhile. */
static void test_inline_clock__a_late_reader(void **state)
{
	(void)state;
	begin();
	for (int round = 0; round < 50; round++) {
		uint64_t tsc = t.tsc, ns = t.ns, steps = 1 + any(3ull * INLINE_CLOCK_PAIRS);
		double rate = (1 + PPM * (double)any(20)) / GHZ;

		for (uint64_t i = 0; i < steps; i++) {
			t.tsc += (uint64_t)(STEP_NS / rate);
			t.ns += STEP_NS;
			look(false);
		}
		t.ns = ns;
		for (uint64_t i = 0; i < steps; i++)
			check(tsc + i * (uint64_t)(STEP_NS / rate), (double)(i * STEP_NS));
		t.ns = ns + steps * STEP_NS;
	}
	assert_in_range(t.worst, 0, ALLOWED_NS);
	assert_int_equal(t.clock.cnt != 0, true);
}

/* Two processors' clocks can be some ns apart. */
static void test_inline_clock__a_step_back(void **state)
{
	struct clock_pair before = { (1ull << 40) + 2600000, 1000999990 };

	(void)state;
	begin();
	t.tsc += 2600000;
	t.ns += 1000000;
	look(false);
	inline_clock__add(&t.clock, &before);
	assert_int_equal(t.clock.cnt, 1);
	assert_in_range(inline_clock__ns(&t.clock, t.tsc + 26), t.ns + 9, t.ns + 11);
}

/* The real ones: a moment between two looks is between them. */
static void test_inline_clock__this_machine(void **state)
{
	struct inline_clock c = { 0 };
	struct clock_pair a, b;

	(void)state;
	inline_clock__begin(&c);
	a = c.from;
	for (int i = 0; i < 100; i++) {
		usleep(1000);
		b = clock_pair_read();
		inline_clock__add(&c, &b);
		assert_in_range(inline_clock__ns(&c, a.tsc + (b.tsc - a.tsc) / 2), a.ns, b.ns);
		a = b;
	}
	usleep(20000); /* nobody looked meanwhile */
	a = clock_pair_read();
	assert_in_range(inline_clock__ns(&c, a.tsc), a.ns - ALLOWED_NS, a.ns + ALLOWED_NS);
	assert_in_range(inline_clock__ns(&c, a.tsc + (1ull << 40)), a.ns + 1, UINT64_MAX);
}

static struct clock_pair both(void)
{
	return (struct clock_pair){ t.tsc, t.ns };
}

/* A reader that is kept waiting between its look and what it reads, and one that is so before its look: the next comes at once. */
static void test_inline_clock__looks_that_come_late(void **state)
{
	(void)state;
	begin();
	t.clock.read = both;
	for (int round = 0; round < 200; round++) {
		double rate = (1 + PPM * ((double)any(200) - 100)) / GHZ;
		uint64_t ns = t.ns, tsc = t.tsc, later = 5000000 + any(200000000);

		look(true);
		t.ns += any(10000);
		t.tsc = tsc + (uint64_t)((double)(t.ns - ns) / rate);
		look(true);
		t.ns = ns + later;
		t.tsc = tsc + (uint64_t)((double)later / rate);
		for (uint64_t i = 1; i <= LOOKS; i++) {
			uint64_t got = inline_clock__ns(&t.clock, tsc + (t.tsc - tsc) / LOOKS * i);

			assert_in_range(got, ns + later / LOOKS * i - ALLOWED_NS,
					ns + later / LOOKS * i + ALLOWED_NS);
		}
	}
}

/* The stubs read CLOCK_MONOTONIC: nothing is converted, whatever the counter does. */
static void test_inline_clock__one_clock(void **state)
{
	struct inline_clock c = { .from = { 5000, 5000 }, .rate = 1ull << 32, .same = true };
	uint64_t before = now_ns(), ticks;

	(void)state;
	for (uint64_t i = 1; i < 100; i++) {
		inline_clock__add(&c, &(struct clock_pair){ 7000 * i, 9000 * i });
		assert_int_equal(inline_clock__ns(&c, 5000 + 1234567891 * i),
				 5000 + 1234567891 * i);
	}
	assert_int_equal(inline_clock__ns(&c, 4000), 4000);
	ticks = inline_clock__ticks(&c);
	assert_in_range(ticks, before, now_ns());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inline_clock__an_hour),
		cmocka_unit_test(test_inline_clock__an_hour_ahead),
		cmocka_unit_test(test_inline_clock__a_late_reader),
		cmocka_unit_test(test_inline_clock__a_step_back),
		cmocka_unit_test(test_inline_clock__this_machine),
		cmocka_unit_test(test_inline_clock__looks_that_come_late),
		cmocka_unit_test(test_inline_clock__one_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
