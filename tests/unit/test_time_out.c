// SPDX-License-Identifier: Apache-2.0
/* How long a call that is begun anew may take yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "inline/time_out.h"

#define S    1000000000ull
#define MS   1000000ull
#define SLOW 500 /* ms that a machine may take for a test */

static struct user_regs_struct epoll(uint64_t ms)
{
	return (struct user_regs_struct){ .orig_rax = SYS_epoll_wait, .r10 = ms };
}

static void assert_left(const struct user_regs_struct *regs, uint32_t most)
{
	assert_in_range((uint32_t)regs->r10, most - SLOW, most + 2);
	assert_true(regs->r10 >> 32);
}

static void test_ms__of_what_has_waited(void **state)
{
	struct user_regs_struct regs = epoll(5000);

	(void)state;
	assert_true(time_out__takes(gettid(), &regs) == 5 * S && time_out__is_kept(&regs));
	time_out__keep(0, &regs, now_ns() - 3 * S);
	assert_left(&regs, 2000);
	assert_false(time_out__takes(gettid(), &regs));
	time_out__keep(0, &regs, 0); /* once more: it is noted */
	assert_left(&regs, 2000);
}

/* It is not known, or cannot be true. */
static void test_ms__of_what_has_waited_unseen(void **state)
{
	const uint64_t since[] = { 0, now_ns() + S, now_ns() - 7 * S };

	(void)state;
	for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
		struct user_regs_struct regs = epoll(5000);

		time_out__keep(0, &regs, since[i]);
		assert_left(&regs, 5000);
	}
}

static void test_ms__over_and_none(void **state)
{
	struct user_regs_struct over = epoll(1000), none = epoll(0), forever = epoll(UINT32_MAX);

	(void)state;
	time_out__keep(0, &over, now_ns() - S - 100 * MS);
	assert_int_equal((uint32_t)over.r10, 1);
	assert_false(time_out__takes(gettid(), &none) || time_out__takes(gettid(), &forever));
	time_out__keep(0, &none, 0);
	time_out__keep(0, &forever, 0);
	assert_int_equal(none.r10, 0);
	assert_int_equal(forever.r10, UINT32_MAX);
}

static uint8_t stack[8192];
static struct timespec given;

static struct user_regs_struct waits(long long nr, const void *time)
{
	uint64_t at = (uint64_t)(uintptr_t)time;

	return (struct user_regs_struct){ .orig_rax = (unsigned long long)nr,
					  .rdx = nr == SYS_rt_sigtimedwait ? at : 1,
					  .r10 = nr == SYS_semtimedop ? at : 8,
					  .r8 = nr == SYS_io_getevents ? at : 0,
					  .rsp = (uint64_t)(uintptr_t)stack + sizeof(stack) };
}

static uint64_t left_at(uint64_t place)
{
	const struct timespec *t = (const void *)(uintptr_t)place;

	assert_in_range(place, (uintptr_t)stack, (uintptr_t)stack + sizeof(stack) - 128);
	return ((uint64_t)t->tv_sec * S + (uint64_t)t->tv_nsec) / MS;
}

static void test_in_memory(void **state)
{
	struct user_regs_struct a = waits(SYS_rt_sigtimedwait, &given),
				b = waits(SYS_semtimedop, &given),
				c = waits(SYS_io_getevents, &given);

	(void)state;
	given = (struct timespec){ .tv_sec = 5 };
	assert_true(time_out__takes(gettid(), &a) && time_out__takes(gettid(), &b) &&
		    time_out__takes(gettid(), &c));
	time_out__keep(gettid(), &a, now_ns() - 3 * S);
	assert_in_range(left_at(a.rdx), 2000 - SLOW, 2000);
	assert_false(time_out__takes(gettid(), &a));
	time_out__keep(gettid(), &a, 0);
	assert_in_range(left_at(a.rdx), 2000 - SLOW, 2000);
	assert_int_equal(given.tv_sec, 5); /* the program's is not touched */
	time_out__keep(gettid(), &b, 0);
	assert_in_range(left_at(b.r10), 5000 - SLOW, 5000);
	time_out__keep(gettid(), &c, now_ns() - 5500 * MS);
	assert_int_equal(left_at(c.r8), 0);
}

/* Of io_uring_enter(): by way of its argument. */
static void test_in_memory__uring(void **state)
{
	const uint64_t arg[3] = { 11, 22, (uintptr_t)&given };
	struct user_regs_struct regs = waits(SYS_io_uring_enter, NULL);
	const uint64_t *ours;

	(void)state;
	given = (struct timespec){ .tv_sec = 5 };
	regs.r10 = 1 | 1u << 3;
	regs.r8 = (uintptr_t)arg;
	regs.r9 = sizeof(arg);
	for (int i = 0; i < 2; i++) {
		assert_true(!time_out__takes(gettid(), &regs) == !!i);
		time_out__keep(gettid(), &regs, i ? 0 : now_ns() - 3 * S);
		ours = (const uint64_t *)(uintptr_t)regs.r8;
		assert_ptr_not_equal(ours, arg);
		assert_true(ours[0] == 11 && ours[1] == 22);
		assert_in_range(left_at(ours[2]), 2000 - SLOW, 2000);
	}
	regs.r8 = (uintptr_t)arg;
	regs.r10 |= 1u << 5; /* a time of the day */
	assert_false(time_out__takes(gettid(), &regs) || time_out__is_kept(&regs));
}

/* What cannot be read, or says nothing, stays as it is. */
static void test_in_memory__nothing_of_use(void **state)
{
	const struct timespec wrong[] = { { .tv_sec = -1 },
					  { .tv_nsec = 2000000000 },
					  { .tv_sec = INT64_MAX } };
	struct user_regs_struct none = waits(SYS_rt_sigtimedwait, NULL),
				nowhere = waits(SYS_rt_sigtimedwait, (void *)8),
				other = waits(SYS_read, &given);

	(void)state;
	assert_false(time_out__takes(gettid(), &none) || time_out__takes(gettid(), &other) ||
		     time_out__is_kept(&other));
	time_out__keep(gettid(), &none, 0);
	time_out__keep(gettid(), &nowhere, 0);
	assert_true(none.rdx == 0 && nowhere.rdx == 8);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct user_regs_struct regs = waits(SYS_rt_sigtimedwait, &wrong[i]);

		time_out__keep(gettid(), &regs, 0);
		assert_true(regs.rdx == (uint64_t)(uintptr_t)&wrong[i]);
	}
}

/* What was noted is gone, as a signal's handler ran there: what the register leads to is nobody's. */
static void test_in_memory__overwritten(void **state)
{
	struct user_regs_struct regs = waits(SYS_rt_sigtimedwait, &given);
	uint64_t place;

	(void)state;
	given = (struct timespec){ .tv_sec = 5 };
	time_out__keep(gettid(), &regs, 0);
	place = regs.rdx;
	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = 0x55;
	time_out__keep(gettid(), &regs, 0);
	assert_true(regs.rdx == place);
	assert_int_equal(*(const uint8_t *)(uintptr_t)place, 0x55);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ms__of_what_has_waited),
		cmocka_unit_test(test_ms__of_what_has_waited_unseen),
		cmocka_unit_test(test_ms__over_and_none),
		cmocka_unit_test(test_in_memory),
		cmocka_unit_test(test_in_memory__uring),
		cmocka_unit_test(test_in_memory__nothing_of_use),
		cmocka_unit_test(test_in_memory__overwritten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
