// SPDX-License-Identifier: Apache-2.0
/* Which threads slept before they were stopped: a child that waits for a byte, or calculates. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "inline/asleep.h"
#include "inline/remote.h"

#define MANY_NS 30000000000ull
#define ROUNDS	20

static pid_t child;
static int to_child, from_child;

/* It reads bytes and says when it has one; 'r' makes it run for good. */
static _Noreturn void live(int in, int out)
{
	volatile unsigned int n = 0;
	char c = 0;

	while (read(in, &c, 1) == 1 && c != 'r')
		if (write(out, &c, 1) != 1)
			_exit(1);
	while (c == 'r')
		n++;
	_exit(0);
}

static int setup(void **state)
{
	int in[2], out[2];

	(void)state;
	if (pipe(in) || pipe(out))
		return -1;
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		live(in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	to_child = in[1];
	from_child = out[0];
	return child < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(to_child);
	close(from_child);
	return 0;
}

static void stop(void)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SEIZE, child, 0, 0), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child, 0, 0), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP);
}

static void let_go(void)
{
	assert_int_equal(ptrace(PTRACE_DETACH, child, 0, 0), 0);
}

static void note_when_asleep(struct asleep *a)
{
	uint64_t until = now_ns() + MANY_NS;

	do
		assert_int_equal(asleep__note(a, child), 0);
	while (!a->cnt && now_ns() < until);
	assert_int_equal(a->cnt, 1);
	assert_int_equal(a->threads[0].tid, child);
}

static void wake(void)
{
	char c;

	assert_int_equal(write(to_child, "w", 1), 1);
	assert_int_equal(read(from_child, &c, 1), 1);
}

static void test_asleep__until_it_was_stopped(void **state)
{
	const struct remote_thread at_work = { .tid = child },
				   waits = { .tid = child, .in_call = true };
	struct asleep a = { 0 };
	unsigned int still = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		note_when_asleep(&a);
		stop();
		still += asleep__is_still(&a, &waits);
		assert_false(asleep__is_still(&a, &at_work));
		assert_false(
			asleep__is_still(&a, &(struct remote_thread){ .tid = 1, .in_call = true }));
		let_go();
	}
	/* on a busy machine to wake up can take longer than is believed: then it is no */
	assert_in_range(still, 1, ROUNDS);
	asleep__done(&a);
}

/* It sleeps again when it is stopped, or will at once. */
static void test_asleep__woken_meanwhile(void **state)
{
	const struct remote_thread waits = { .tid = child, .in_call = true };
	struct asleep a = { 0 }, again = { 0 };
	unsigned int still = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		note_when_asleep(&a);
		wake();
		note_when_asleep(&again);
		stop();
		assert_false(asleep__is_still(&a, &waits));
		still += asleep__is_still(&again, &waits);
		let_go();
	}
	assert_in_range(still, 1, ROUNDS);
	asleep__done(&a);
	asleep__done(&again);
}

/* A second stop is told from the first one. */
static void test_asleep__stopped_twice(void **state)
{
	const struct remote_thread waits = { .tid = child, .in_call = true };
	struct asleep a = { 0 }, again = { 0 };

	(void)state;
	note_when_asleep(&a);
	stop();
	let_go();
	note_when_asleep(&again);
	stop();
	assert_false(asleep__is_still(&a, &waits));
	let_go();
	asleep__done(&a);
	asleep__done(&again);
}

static void test_asleep__not_what_runs(void **state)
{
	struct asleep a = { 0 };

	(void)state;
	note_when_asleep(&a);
	assert_int_equal(write(to_child, "r", 1), 1);
	for (int i = 0; a.cnt && i < 1000000; i++)
		asleep__note(&a, child);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(asleep__note(&a, child), 0);
		assert_int_equal(a.cnt, 0);
	}
	asleep__done(&a);
}

/* One that was not stopped: not even for that did it get a CPU. */
static void test_asleep__not_stopped(void **state)
{
	struct asleep a = { 0 };

	(void)state;
	note_when_asleep(&a);
	for (int i = 0; i < ROUNDS; i++)
		assert_true(asleep__has_not_run(&a, child));
	assert_false(asleep__has_not_run(&a, 1));
	assert_false(asleep__has_not_run(&a, 0));
	wake();
	assert_false(asleep__has_not_run(&a, child));
	note_when_asleep(&a);
	assert_true(asleep__has_not_run(&a, child));
	stop();
	assert_false(asleep__has_not_run(&a, child));
	let_go();
	asleep__done(&a);
	assert_false(asleep__has_not_run(&a, child));
}

static void test_asleep__nobody(void **state)
{
	struct asleep a = { 0 };

	(void)state;
	assert_int_not_equal(asleep__note(&a, 0x7ffffffe), 0);
	assert_int_equal(a.cnt, 0);
	assert_false(
		asleep__is_still(&a, &(struct remote_thread){ .tid = child, .in_call = true }));
	asleep__done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_asleep__until_it_was_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asleep__woken_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asleep__stopped_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asleep__not_what_runs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asleep__not_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asleep__nobody, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
