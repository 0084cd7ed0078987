// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/closing.h"

#define CNT 200 /* more than there are threads */

/* Ends of pipes to be closed; what is read from @others tells that they are. */
static void open_pipes(int *ends, int *others)
{
	for (int i = 0; i < CNT; i++) {
		int pipes[2];

		assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
		others[i] = pipes[0];
		ends[i] = pipes[1];
	}
}

static void read_ends(const int *others)
{
	for (int i = 0; i < CNT; i++) {
		char byte;

		assert_int_equal(read(others[i], &byte, 1), 0);
		close(others[i]);
	}
}

static void test_closing__all_are_closed(void **state)
{
	int ends[CNT], others[CNT];
	struct closing *c;

	(void)state;
	open_pipes(ends, others);
	c = closing_begin(ends, CNT);
	assert_non_null(c);
	closing_end(c);
	for (int i = 0; i < CNT; i++) {
		assert_int_equal(fcntl(ends[i], F_GETFD), -1);
		assert_int_equal(fcntl(others[i], F_SETFL, O_NONBLOCK), 0);
	}
	read_ends(others);
}

static void test_closing__goes_on_by_itself(void **state)
{
	int ends[CNT], others[CNT];

	(void)state;
	open_pipes(ends, others);
	closing_leave(closing_begin(ends, CNT));
	read_ends(others); /* waits for each */
}

static void test_closing__is_done_at_some_time(void **state)
{
	int ends[CNT], others[CNT];
	struct closing *c;

	(void)state;
	open_pipes(ends, others);
	c = closing_begin(ends, CNT);
	while (!closing_done(c))
		usleep(1000);
	read_ends(others);
	closing_end(c);
	assert_null(closing_begin(ends, 0));
}

#if !defined(__SANITIZE_ADDRESS__) /* which needs memory for itself with each thread */
static void test_closing__no_memory_and_no_thread(void **state)
{
	struct rlimit before, none;
	int ends[CNT], others[CNT];
	struct closing *c;

	(void)state;
	open_pipes(ends, others);
	getrlimit(RLIMIT_AS, &before);
	none = before;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_AS, &none);
	c = closing_begin(ends, CNT);
	setrlimit(RLIMIT_AS, &before);
	closing_end(c);
	read_ends(others);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closing__all_are_closed),
		cmocka_unit_test(test_closing__goes_on_by_itself),
		cmocka_unit_test(test_closing__is_done_at_some_time),
#if !defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(test_closing__no_memory_and_no_thread),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
