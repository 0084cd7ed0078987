// SPDX-License-Identifier: Apache-2.0
/* The walk along frame pointers (bpf/native/fp.bpf.h) over a made-up stack: whole, broken, cut, deep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "walkers.h"

#include "native/fp.bpf.h"

#define STACK	  0x7ffd00001000ULL
#define IP	  0x401000ULL
#define FRAME(n)  (STACK + 64 + (n)*32ULL)
#define RETURN(n) (0x500000ULL + (n))
#define WORDS	  ((16 + 4 * (PYE_NATIVE_FRAMES + 8) + 511) & ~511) /* whole pages */

static uint64_t words[WORDS];
static struct pye_native_rec rec;
static u8 page[FP_PAGE];

static void put(uint64_t addr, uint64_t value)
{
	words[(addr - STACK) / 8] = value;
}

/* @depth frames above the stack pointer; the outermost one has no caller. */
static void begin(uint32_t depth)
{
	host_reset();
	memset(words, 0x5a, sizeof(words));
	memset(&rec, 0xa5, sizeof(rec));
	rec.kernel_cnt = 0;
	host_memory(STACK, words, sizeof(words));
	for (uint32_t n = 0; n < depth; n++) {
		put(FRAME(n), n + 1 < depth ? FRAME(n + 1) : 0);
		put(FRAME(n) + 8, RETURN(n));
	}
}

static void check(uint32_t frames)
{
	assert_int_equal(rec.user_cnt, frames + 1);
	assert_int_equal(rec.addrs[rec.kernel_cnt], IP);
	for (uint32_t n = 0; n < frames; n++)
		assert_int_equal(rec.addrs[rec.kernel_cnt + 1 + n], RETURN(n));
}

static void test_fp__whole(void **state)
{
	(void)state;
	begin(30);
	assert_int_equal(fp_walk(&rec, page, IP, STACK, FRAME(0)), PYE_NATIVE_ROOT);
	check(30);
	/* the same behind frames of the kernel */
	begin(30);
	rec.kernel_cnt = PYE_KERNEL_FRAMES;
	assert_int_equal(fp_walk(&rec, page, IP, STACK, FRAME(0)), PYE_NATIVE_ROOT);
	check(30);
	/* clone() leaves no address to return to */
	begin(3);
	put(FRAME(2) + 8, 0);
	assert_int_equal(fp_walk(&rec, page, IP, STACK, FRAME(0)), PYE_NATIVE_ROOT);
	check(2);
}

/* Whatever lies where a frame pointer should be, the walk only ever goes up the stack. */
static void test_fp__broken(void **state)
{
	const uint64_t wrong[] = { 1,
				   FRAME(4) + 4,
				   STACK - 8,
				   FRAME(3),
				   FRAME(4),
				   FRAME(4) + 8,
				   STACK + FP_STACK_MAX,
				   ~7ULL };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		begin(10);
		put(FRAME(4), wrong[i]);
		assert_int_equal(fp_walk(&rec, page, IP, STACK, FRAME(0)), PYE_NATIVE_BROKEN);
		check(5);
	}
	begin(10);
	assert_int_equal(fp_walk(&rec, page, IP, STACK, 0x31), PYE_NATIVE_BROKEN);
	check(0);
	begin(10);
	assert_int_equal(fp_walk(&rec, page, IP, STACK, 0), PYE_NATIVE_ROOT);
	check(0);
}

/* A page a read; what was read before one that fails is there. */
static void test_fp__each_read_fails(void **state)
{
	uint32_t depth = 500, pages = (64 + 32 * depth + FP_PAGE - 1) / FP_PAGE;

	(void)state;
	begin(depth);
	assert_int_equal(fp_walk(&rec, page, IP, STACK, FRAME(0)), PYE_NATIVE_ROOT);
	assert_int_equal(host.reads, pages);
	for (uint32_t fail = 0; fail < pages; fail++) {
		begin(depth);
		host.fail_read = host.reads + fail;
		assert_int_equal(fp_walk(&rec, page, IP, STACK, FRAME(0)), PYE_NATIVE_FAULT);
		check(fail ? (fail * FP_PAGE - 64) / 32 : 0);
	}
}

/* The last words of a page, and a frame that goes on in the next one. */
static void test_fp__across_pages(void **state)
{
	uint64_t last = STACK + FP_PAGE - 16, across = STACK + 2 * FP_PAGE - 8;

	(void)state;
	begin(2);
	put(FRAME(1), last);
	put(last, across);
	put(last + 8, RETURN(2));
	put(across, 0);
	put(across + 8, RETURN(3));
	assert_int_equal(fp_walk(&rec, page, IP, STACK, FRAME(0)), PYE_NATIVE_ROOT);
	check(4);
}

static void test_fp__deep(void **state)
{
	(void)state;
	begin(PYE_NATIVE_FRAMES + 2);
	rec.kernel_cnt = PYE_KERNEL_FRAMES;
	assert_int_equal(fp_walk(&rec, page, IP, STACK, FRAME(0)), PYE_NATIVE_DEEP);
	check(PYE_NATIVE_FRAMES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fp__whole),
		cmocka_unit_test(test_fp__broken),
		cmocka_unit_test(test_fp__each_read_fails),
		cmocka_unit_test(test_fp__across_pages),
		cmocka_unit_test(test_fp__deep),
	};
	int failed;

	host_map(&native_rounds, HOST_ARRAY, 4, 1, PYE_NATIVE_FRAMES / FP_ROUND);
	failed = cmocka_run_group_tests_name("rounds of an array", tests, NULL, NULL);
	host_loop = true;
	failed |= cmocka_run_group_tests_name("bpf_loop()", tests, NULL, NULL);
	host_reset();
	return failed;
}
