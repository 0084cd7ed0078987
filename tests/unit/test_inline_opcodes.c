// SPDX-License-Identifier: Apache-2.0
/* What the probes of --opcodes take is left out of each time, of the rows and of the single instructions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "capture/inline_opcodes.h"
#include "cpython/layouts.h"

#define MINOR  12
#define HZ     2000000000ull /* two ticks to a nanosecond */
#define COST   30.0 /* ticks */
#define CODE   1u
#define TIX    1u
#define EVENTS 8u

static struct {
	struct inline_opcodes *opcodes;
	const struct cap_inline_taker *taker;
	struct pye_pylayout layout;
	struct inline_opcode_event events[EVENTS];
	uint32_t event_cnt;
	uint64_t tsc;
} t;

static int on_event(void *ctx, const struct inline_opcode_event *event)
{
	(void)ctx;
	if (t.event_cnt < EVENTS) /* the first ones */
		t.events[t.event_cnt] = *event;
	t.event_cnt++;
	return 0;
}

static int set_up(void **state)
{
	const struct inline_engine first = { .hz = HZ, .opcode_cost = COST };
	const struct inline_engine later = { .hz = 1, .opcode_cost = 1e9 };
	const struct il_def def = { .line = 7 };

	(void)state;
	memset(&t, 0, sizeof(t));
	t.layout = layout_find(MINOR, false)->py;
	t.tsc = 1000;
	if (inline_opcodes__new(&t.opcodes, &t.layout, opcode_names(MINOR), on_event, NULL))
		return -1;
	inline_opcodes__measured(t.opcodes, &first);
	inline_opcodes__measured(t.opcodes, &later); /* a child: of one run there is one cost */
	t.taker = inline_opcodes__taker(t.opcodes);
	return t.taker->code(t.taker->ctx, CODE, &def);
}

static int tear_down(void **state)
{
	(void)state;
	inline_opcodes__free(t.opcodes);
	return 0;
}

/* An instruction, at this offset, begins so many ticks behind what was before. */
static void begin(uint8_t opcode, uint64_t offset, uint64_t ticks)
{
	const struct cap_inline_opcode o = { .tsc = t.tsc += ticks,
					     .tix = TIX,
					     .code = CODE,
					     .at = t.layout.co_code_adaptive + offset,
					     .opcode = opcode };

	assert_int_equal(t.taker->begin(t.taker->ctx, &o), 0);
}

static void end(uint64_t ticks)
{
	assert_int_equal(t.taker->end(t.taker->ctx, TIX, t.tsc += ticks), 0);
}

static void expect_ns(double got, double want)
{
	assert_true(got > want - 1e-6 && got < want + 1e-6);
}

/* The only row of an opcode. */
static const struct inline_opcode_row *row(uint8_t opcode)
{
	const struct inline_opcode_row *found = NULL;
	struct inline_opcodes_view view;

	assert_int_equal(inline_opcodes__sums(t.opcodes, &view), 0);
	expect_ns(view.cost_ns, COST / 2);
	for (uint32_t i = 0; i < view.row_cnt; i++) {
		if (view.rows[i].opcode != opcode)
			continue;
		assert_null(found);
		found = &view.rows[i];
	}
	assert_non_null(found);
	return found;
}

/* One that ends where the next one begins, or where one that is not asked for does. */
static void test_opcodes__without_the_cost(void **state)
{
	(void)state;
	begin(1, 0, 0);
	begin(2, 2, 130);
	end(31);
	assert_int_equal(t.event_cnt, 2);
	assert_true(t.events[0].timed && t.events[1].timed);
	expect_ns(t.events[0].ns, 50);
	expect_ns(t.events[1].ns, 0.5);
	expect_ns(row(1)->ns, 50);
	expect_ns(row(2)->ns, 0.5);
}

/* Of a row once for each that was timed; what has not ended takes no part. */
static void test_opcodes__the_cost_of_each(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		begin(1, 0, 1000);
		end(100);
	}
	begin(1, 0, 1000);
	assert_int_equal(row(1)->cnt, 4);
	assert_int_equal(row(1)->timed, 3);
	expect_ns(row(1)->ns, 3 * (100 - COST) / 2);
	assert_int_equal(inline_opcodes__finish(t.opcodes), 0);
	assert_int_equal(t.event_cnt, 4);
	assert_false(t.events[3].timed);
	expect_ns(t.events[3].ns, 0);
	expect_ns(row(1)->ns, 3 * (100 - COST) / 2);
}

/* Less than the cost is no time, and never a negative one. */
static void test_opcodes__never_below_nothing(void **state)
{
	(void)state;
	begin(1, 0, 0);
	begin(2, 2, 29);
	end(30);
	expect_ns(t.events[0].ns, 0);
	expect_ns(t.events[1].ns, 0);
	expect_ns(row(1)->ns, 0);
	expect_ns(row(2)->ns, 0);
}

/* What a code object that is freed leaves behind is the same. */
static void test_opcodes__of_what_is_gone(void **state)
{
	(void)state;
	begin(1, 0, 0);
	end(50);
	assert_int_equal(t.taker->retired(t.taker->ctx, CODE), 0);
	expect_ns(row(1)->ns, 10);
}

/* A target can make up as many as it likes: what has no room any more is lost, and counted as that; nothing else is. */
static void test_opcodes__more_than_there_is_room_for(void **state)
{
	const uint64_t room = 1u << 21, more = 1000;
	struct inline_opcodes_view view;
	uint64_t cnt = 0;

	(void)state;
	for (uint64_t i = 0; i < room + more; i++) {
		begin(1, 2 * i, 1);
		end(1);
	}
	begin(1, 0, 1);
	begin(3, 0, 1); /* the same in another form, for which there is none */
	end(1);
	assert_int_equal(inline_opcodes__sums(t.opcodes, &view), 0);
	assert_int_equal(view.lost, more + 1);
	assert_true(view.row_cnt <= (1u << 20) + 256);
	for (uint32_t i = 0; i < view.row_cnt; i++)
		cnt += view.rows[i].cnt;
	assert_int_equal(cnt, room + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_opcodes__without_the_cost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_opcodes__the_cost_of_each, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_opcodes__never_below_nothing, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_opcodes__of_what_is_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_opcodes__more_than_there_is_room_for, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
