// SPDX-License-Identifier: Apache-2.0
/* A child that calculates has a priority of ours for as long as it is lent to it. As root, with two CPUs. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "inline/lender.h"
#include "proc/pid.h"

#define MANY_NS 30000000000ull
#define USUAL	20 /* as stat(5) has it */
#define LENT	(-1 - LENT_PRIORITY)
#define ROUNDS	200
#define TURN_NS 100000

static _Noreturn void calculate(void)
{
	volatile unsigned int n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		n++;
}

static pid_t begin(void)
{
	pid_t pid = fork();

	if (!pid)
		calculate();
	return pid;
}

static int setup(void **state)
{
	pid_t *pid = malloc(sizeof(*pid));

	*state = pid;
	*pid = begin();
	return *pid < 0 ? -1 : 0;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int teardown(void **state)
{
	pid_t *pid = *state;

	if (*pid)
		end(*pid);
	free(pid);
	return 0;
}

static int priority(pid_t pid)
{
	char path[32], line[512] = "";
	uint64_t value;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	assert_int_equal(proc_stat_number(line, 18, &value), 0);
	return (int)value;
}

/* As long as it is lent to again and again, if @l. */
static void await(struct lender **l, pid_t pid, int wanted)
{
	uint64_t deadline = now_ns() + MANY_NS;

	while (priority(pid) != wanted) {
		assert_true(now_ns() < deadline);
		if (l)
			lender__lend(l, NULL, pid, TURN_NS);
	}
}

static bool may_lend(void)
{
	cpu_set_t cpus;

	assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	return !geteuid() && CPU_COUNT(&cpus) > 1;
}

static void test_for_a_moment(void **state)
{
	struct lender *l = NULL;
	pid_t pid = *(pid_t *)*state;

	if (!may_lend())
		skip();
	lender__rest(NULL);
	for (int i = 0; i < ROUNDS; i++) {
		await(&l, pid, LENT);
		if (i % 2)
			lender__rest(l);
		await(NULL, pid, USUAL);
	}
	await(&l, pid, LENT);
	lender__free(l);
	assert_int_equal(priority(pid), USUAL);
	assert_int_equal(sched_getscheduler(pid), SCHED_OTHER);
}

static void test_from_one_to_another(void **state)
{
	struct lender *l = NULL;
	pid_t first = *(pid_t *)*state, second;

	if (!may_lend())
		skip();
	second = begin();
	for (int i = 0; i < ROUNDS; i++) {
		await(&l, i % 2 ? first : second, LENT);
		await(NULL, i % 2 ? second : first, USUAL);
	}
	lender__free(l);
	assert_int_equal(priority(first), USUAL);
	assert_int_equal(priority(second), USUAL);
	end(second);
}

static void test_the_lender_is_killed(void **state)
{
	pid_t pid = *(pid_t *)*state, lender;

	if (!may_lend())
		skip();
	for (int i = 0; i < ROUNDS; i++) {
		lender = fork();
		if (!lender) {
			struct lender *l = NULL;

			for (;;)
				lender__lend(&l, NULL, pid, TURN_NS);
		}
		await(NULL, pid, LENT);
		end(lender);
		assert_int_equal(priority(pid), USUAL);
	}
}

/* Else as many as there are CPUs could have them all, and whoever lends none to end that. */
static void test_one_at_a_time(void **state)
{
	struct lender *l = NULL, *other = NULL;
	pid_t first = *(pid_t *)*state, second;

	if (!may_lend())
		skip();
	second = begin();
	for (int i = 0; i < ROUNDS; i++) {
		await(&l, first, LENT);
		for (int k = 0; k < 10; k++)
			lender__lend(&other, NULL, second, TURN_NS);
		assert_int_equal(priority(second), USUAL);
		await(&l, first, LENT);
		lender__rest(l);
		assert_int_equal(priority(first), USUAL);
		await(&other, second, LENT);
		lender__lend(&l, other, first, TURN_NS);
		assert_int_equal(priority(second), USUAL);
		lender__rest(l);
	}
	lender__free(l);
	lender__free(other);
	end(second);
}

/* Each lends to one that calculates, on all CPUs and more; all of them are killed. */
static void test_many_that_lend(void **state)
{
	pid_t busy[6], lenders[6];

	(void)state;
	if (!may_lend())
		skip();
	for (int i = 0; i < 6; i++) {
		struct lender *l = NULL;

		busy[i] = begin();
		lenders[i] = fork();
		while (!lenders[i])
			lender__lend(&l, NULL, busy[i], TURN_NS);
	}
	usleep(500000);
	for (int i = 0; i < 6; i++)
		end(lenders[i]);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(priority(busy[i]), USUAL);
		end(busy[i]);
	}
}

static void test_who_has_ended(void **state)
{
	struct lender *l = NULL;
	pid_t *pid = *state;

	if (may_lend())
		await(&l, *pid, LENT);
	end(*pid);
	for (int i = 0; i < ROUNDS; i++)
		lender__lend(&l, NULL, *pid, TURN_NS);
	lender__free(l);
	*pid = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_for_a_moment, setup, teardown),
		cmocka_unit_test_setup_teardown(test_from_one_to_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_lender_is_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_that_lend, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_has_ended, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
