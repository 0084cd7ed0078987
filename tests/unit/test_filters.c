// SPDX-License-Identifier: Apache-2.0
/* Filters in the assembler: hand-made records, as they come from a source that holds back what it can, and
 * from one that does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "abi/filter.h"
#include "assemble/filter.h"
#include "assemble_seen.h"

#define F(n) (0x1000 + 0x100 * (uint64_t)(n)) /* address of a frame */

/* What a source was told. */
struct told {
	struct pye_verdict last;
	unsigned int cnt;
};

static void decide(void *ctx, const struct pye_verdict *verdict)
{
	struct told *told = ctx;

	told->last = *verdict;
	told->cnt++;
}

/* Functions a to d of /srv/app.py, and h (5) of /srv/lib.py. */
static struct assembly *with(const struct assembler_filter *filter)
{
	struct assembly *as = assembly_usual(0);

	assert_int_equal(assembler__filter(as->a, filter), 0);
	make_def(&as->b, 1, 5, PYE_STR_CNT);
	make_str(&as->b, 5, PYE_STR_FILE, "/srv/lib.py");
	make_str(&as->b, 5, PYE_STR_NAME, "h");
	make_str(&as->b, 5, PYE_STR_QUALNAME, "h");
	return as;
}

static void call_at(struct assembly *as, uint64_t ts, uint32_t seq, unsigned int n)
{
	as->b.now = ts - 10;
	make_entry(&as->b, 1, seq, F(n), n, PYE_ENTRY_CALL);
}

static void leave_at(struct assembly *as, uint64_t ts, uint32_t seq, unsigned int n)
{
	as->b.now = ts - 10;
	make_exit(&as->b, 1, seq, F(n), PYE_EXIT_RETURN);
}

static void call(struct assembly *as, uint32_t seq, unsigned int n)
{
	call_at(as, as->b.now + 10, seq, n);
}

static void leave(struct assembly *as, uint32_t seq, unsigned int n)
{
	leave_at(as, as->b.now + 10, seq, n);
}

static void expect_left_out(const struct assembly *as, uint64_t calls, uint64_t events)
{
	struct assembler_filtered seen;

	assembler__filtered(as->a, &seen);
	assert_int_equal(seen.calls, calls);
	assert_int_equal(seen.events, events);
}

static void expect_found(const struct assembly *as, uint64_t codes, uint64_t functions)
{
	struct assembler_filtered seen;

	assembler__filtered(as->a, &seen);
	assert_int_equal(seen.codes, codes);
	assert_int_equal(seen.functions, functions);
}

static void test_filter__a_frame_between_is_left_out(void **state)
{
	struct told told = { 0 };
	struct assembly *as = with(&(struct assembler_filter){
		.exclude = { "lib" }, .exclude_cnt = 1, .decide = decide, .ctx = &told });

	(void)state;
	call(as, 0, 1);
	call(as, 1, 5);
	call(as, 2, 2);
	leave(as, 3, 2);
	leave(as, 4, 5);
	leave(as, 5, 1);
	assembly_feed(as);
	expect_left_out(as, 1, 2);
	assert_int_equal(told.cnt, 1);
	assert_int_equal(told.last.id, 5);
	assert_int_equal(told.last.pix, 1);
	assert_int_equal(told.last.set, PYE_CODE_QUIET);
	assembly_expect(as, 4, "call a, call b, return b, return a");
}

/* The source forgets what it was told, and is told again. */
static void test_filter__a_source_is_told_again(void **state)
{
	struct told told = { 0 };
	struct assembly *as = with(&(struct assembler_filter){
		.include = { "app.py" }, .include_cnt = 1, .decide = decide, .ctx = &told });

	(void)state;
	for (uint32_t i = 0; i < 2000; i++) {
		call(as, 2 * i, 5);
		leave(as, 2 * i + 1, 5);
	}
	assembly_feed(as);
	assert_in_range(told.cnt, 2, 20);
	assembly_expect(as, 0, "");
}

/* Entered when it was not known, left when it was held back; and the other way round. */
static void test_filter__entries_and_exits_need_not_pair(void **state)
{
	struct assembly *as =
		with(&(struct assembler_filter){ .exclude = { "lib" }, .exclude_cnt = 1 });

	(void)state;
	call(as, 0, 1);
	call(as, 1, 5);
	leave(as, 2, 1);
	call(as, 3, 2);
	leave(as, 4, 9);
	leave(as, 5, 2);
	assembly_expect(as, 4, "call a, return a, call b, return b");
}

/* A walk before an event that is held back: it is shown at once, without what is held back. */
static void test_filter__a_walk_without_its_event(void **state)
{
	struct pye_walk_frame frames[] = { { .frame = F(3), .code = 3 },
					   { .frame = F(5), .code = 5, .owner = PYE_OWNER_QUIET },
					   { .frame = F(1), .code = 1 } };
	struct assembly *as =
		with(&(struct assembler_filter){ .exclude = { "lib" }, .exclude_cnt = 1 });

	(void)state;
	make_walk(&as->b, 1, 0, frames, 3, PYE_WALK_UNKNOWN, PYE_WALK_ROOT, 0);
	make_walk(&as->b, 1, 0, &(struct pye_walk_frame){ .frame = F(4), .code = 4 }, 1,
		  PYE_WALK_THROWN, PYE_WALK_ANCHORED, F(5));
	leave(as, 0, 4);
	leave(as, 1, 3);
	assembly_expect(as, 3, "open a, open c, throw d, return d, return c");
}

static void test_filter__depth(void **state)
{
	struct assembly *as = with(&(struct assembler_filter){
		.exclude = { "lib" }, .exclude_cnt = 1, .max_depth = 2 });

	(void)state;
	call(as, 0, 5);
	for (unsigned int n = 1; n <= 4; n++)
		call(as, n, n);
	for (unsigned int n = 4; n >= 1; n--)
		leave(as, 9 - n, n);
	leave(as, 9, 5);
	call(as, 10, 1);
	assembly_expect(as, 5, "call a, call b, return b, return a, call a");
}

static void test_filter__short_calls(void **state)
{
	struct assembly *as = with(&(struct assembler_filter){ .min_ns = 100 });

	(void)state;
	call_at(as, 2000, 0, 1);
	call_at(as, 2010, 1, 2);
	call_at(as, 2020, 2, 3);
	leave_at(as, 2050, 3, 3); /* 30 ns */
	leave_at(as, 2060, 4, 2); /* 50, of which 30 in c */
	call_at(as, 2070, 5, 4);
	leave_at(as, 2170, 6, 4); /* 100: long enough */
	leave_at(as, 2180, 7, 1);
	assembly_feed(as);
	assert_int_equal(assembler__folded(as->a)->calls, 2);
	assert_int_equal(assembler__folded(as->a)->ns, 50);
	assembly_expect(as, 4, "call a, call d, return d, return a");
}

/* What is open at a gap, or at the end, is not known to be short. */
static void test_filter__short_calls_and_gaps(void **state)
{
	struct assembly *as = with(&(struct assembler_filter){ .min_ns = 100 });

	(void)state;
	call_at(as, 2000, 0, 1);
	call_at(as, 2010, 1, 2);
	leave_at(as, 2020, 2, 2);
	call_at(as, 2030, 3, 3);
	call_at(as, 2040, 5, 4); /* 4 is lost */
	call_at(as, 2050, 6, 2);
	leave_at(as, 2060, 7, 2);
	assembly_expect(as, 4, "call a, call c, gap lost 1, call d");
}

static void test_filter__a_long_call_in_which_nothing_happens(void **state)
{
	struct assembly *as = with(&(struct assembler_filter){ .min_ns = 100 });

	(void)state;
	call_at(as, 2000, 0, 1);
	call_at(as, 2050, 1, 2);
	assembly_feed(as);
	assert_int_equal(capw__depth(as->w, 1), 0);
	assert_int_equal(assembler__settle(as->a, 2149), 0);
	assert_int_equal(capw__depth(as->w, 1), 1);
	assert_int_equal(assembler__settle(as->a, 2150), 0);
	assert_int_equal(capw__depth(as->w, 1), 2);
	leave_at(as, 2160, 2, 2);
	assembly_expect(as, 3, "call a, call b, return b");
}

static void rename_to(struct assembly *as, uint32_t seq, const char *name, bool recorded)
{
	struct pye_thread_end_rec *rec =
		make_rec(&as->b, PYE_REC_RENAME, recorded, 1, seq, 0, sizeof(*rec));

	rec->pix = 1;
	snprintf(rec->comm, sizeof(rec->comm), "%s", name);
}

static void test_filter__a_thread_has_other_names(void **state)
{
	struct assembly *as = with(&(struct assembler_filter){ .thread = "w*" });

	(void)state;
	call(as, 0, 1);
	rename_to(as, 1, "w2", true);
	call(as, 1, 2);
	rename_to(as, 2, "x", false);
	rename_to(as, 2, "w3", true);
	make_walk(&as->b, 1, 2, &(struct pye_walk_frame){ .frame = F(1), .code = 1 }, 1,
		  PYE_WALK_UNKNOWN, PYE_WALK_ROOT, 0);
	leave(as, 2, 1);
	assembly_feed(as);
	assembly_expect(as, 3, "call a, call b, gap window 0, gap window 0, open a, return a");
}

static void test_filter__root(void **state)
{
	struct told told = { 0 };
	struct assembly *as = with(&(struct assembler_filter){ .root = "app:b",
							       .exclude = { "app" },
							       .exclude_cnt = 1,
							       .decide = decide,
							       .ctx = &told });

	(void)state;
	call(as, 0, 1);
	call(as, 1, 5); /* not under it */
	call(as, 2, 2);
	call(as, 3, 3); /* excluded */
	call(as, 4, 5);
	leave(as, 5, 5);
	leave(as, 6, 3);
	leave(as, 7, 2);
	leave(as, 8, 5);
	leave(as, 9, 1);
	assembly_feed(as);
	expect_found(as, 1, 1);
	expect_left_out(as, 3, 6);
	assembly_expect(as, 4, "call b, call h, return h, return b");
}

/* A function of the same name in another module is one that the source has to let go of. */
static void test_filter__root_of_another_module(void **state)
{
	struct told told = { 0 };
	struct assembly *as =
		with(&(struct assembler_filter){ .root = "lib:b", .decide = decide, .ctx = &told });

	(void)state;
	call(as, 0, 2);
	leave(as, 1, 2);
	assembly_feed(as);
	assert_int_equal(told.cnt, 1);
	assert_int_equal(told.last.id, 2);
	assert_int_equal(told.last.clear, PYE_CODE_CHOSEN);
	assert_int_equal(told.last.set, 0);
	expect_found(as, 5, 0);
	assembly_expect(as, 0, "");
}

/* The root in the middle of a walk: what lies below it is not shown. */
static void test_filter__root_in_a_walk(void **state)
{
	const struct pye_walk_frame frames[] = { { .frame = F(3), .code = 3 },
						 { .frame = F(2), .code = 2 },
						 { .frame = F(1), .code = 1 } };
	struct assembly *as = with(&(struct assembler_filter){ .root = "b", .max_depth = 2 });

	(void)state;
	make_walk(&as->b, 1, 0, frames, 3, PYE_WALK_UNKNOWN, PYE_WALK_ROOT, 0);
	call(as, 0, 4);
	leave(as, 1, 4);
	leave(as, 2, 3);
	leave(as, 3, 2);
	assembly_expect(as, 2, "open b, open c, return c, return b");
}

static void test_latency__calls_and_runs(void **state)
{
	struct assembly *as = with(&(struct assembler_filter){ .only = "app:a" });
	const struct assembler_latency *l;

	(void)state;
	assert_int_equal(assembler__latency(as->a, "app:a"), 0);
	call_at(as, 2000, 0, 1);
	call_at(as, 2010, 1, 2);
	as->b.now = 2020;
	make_entry(&as->b, 1, 2, F(9), 1, PYE_ENTRY_CALL); /* recursive */
	leave_at(as, 2100, 3, 9); /* 70 */
	leave_at(as, 2110, 4, 2);
	as->b.now = 2190;
	make_exit(&as->b, 1, 5, F(1), PYE_EXIT_YIELD); /* a run of 200 */
	as->b.now = 2990;
	make_entry(&as->b, 1, 6, F(1), 1, PYE_ENTRY_RESUME);
	as->b.now = 3040;
	make_exit(&as->b, 1, 7, F(1), PYE_EXIT_UNWIND); /* 50; 1050 in all */
	as->b.now = 3100;
	make_entry(&as->b, 1, 8, F(4), 1, PYE_ENTRY_RESUME); /* began before */
	leave_at(as, 3130, 9, 4);
	call_at(as, 3200, 10, 1);
	assembly_feed(as);
	l = assembler__latency_so_far(as->a);
	assert_int_equal(l->functions, 1);
	assert_int_equal(l->calls.cnt, 2);
	assert_int_equal(l->calls.min, 70);
	assert_int_equal(l->calls.max, 1050);
	assert_int_equal(l->runs.cnt, 4);
	assert_int_equal(l->runs.min, 20);
	assert_int_equal(l->runs.max, 200);
	assert_int_equal(l->unknown, 1);
	assert_int_equal(l->recursive, 1);
	assert_int_equal(l->yields, 1);
	assert_int_equal(l->unwound, 1);
	assert_int_equal(l->open, 1);
	expect_left_out(as, 1, 2);
	assembly_finish(as);
	assembly_free(as);
}

/* Another thread enters a frame at the same place, and its records are read before. */
static void test_latency__two_threads_one_place(void **state)
{
	struct assembly *as = with(&(struct assembler_filter){ .only = "app:a" });
	const struct assembler_latency *l;

	(void)state;
	assert_int_equal(assembler__latency(as->a, "app:a"), 0);
	make_thread(&as->b, 2, 1, 102, 0);
	make_entry(&as->b, 1, 0, F(1), 1, PYE_ENTRY_CALL);
	make_entry(&as->b, 1, 1, F(2), 1, PYE_ENTRY_CALL);
	make_entry(&as->b, 2, 0, F(2), 1, PYE_ENTRY_CALL);
	make_exit(&as->b, 2, 1, F(2), PYE_EXIT_RETURN);
	make_exit(&as->b, 1, 2, F(2), PYE_EXIT_RETURN);
	make_exit(&as->b, 1, 3, F(1), PYE_EXIT_YIELD);
	make_entry(&as->b, 2, 2, F(1), 1, PYE_ENTRY_RESUME);
	make_exit(&as->b, 2, 3, F(1), PYE_EXIT_RETURN);
	assembly_feed(as);
	l = assembler__latency_so_far(as->a);
	assert_int_equal(l->calls.cnt, 3);
	assert_int_equal(l->runs.cnt, 4);
	assert_int_equal(l->open, 0);
	assembly_finish(as);
	assembly_free(as);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_filter__a_frame_between_is_left_out),
		cmocka_unit_test(test_filter__a_source_is_told_again),
		cmocka_unit_test(test_filter__entries_and_exits_need_not_pair),
		cmocka_unit_test(test_filter__a_walk_without_its_event),
		cmocka_unit_test(test_filter__depth),
		cmocka_unit_test(test_filter__short_calls),
		cmocka_unit_test(test_filter__short_calls_and_gaps),
		cmocka_unit_test(test_filter__a_long_call_in_which_nothing_happens),
		cmocka_unit_test(test_filter__a_thread_has_other_names),
		cmocka_unit_test(test_filter__root),
		cmocka_unit_test(test_filter__root_of_another_module),
		cmocka_unit_test(test_filter__root_in_a_walk),
		cmocka_unit_test(test_latency__calls_and_runs),
		cmocka_unit_test(test_latency__two_threads_one_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
