// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/apart.h"

struct slow {
	int begun, end; /* descriptors */
	pid_t pid; /* that it ran in */
};

static void open_one(void *arg)
{
	struct slow *s = arg;

	s->pid = getpid();
	s->end = dup(s->begun);
}

static void test_apart__shares_memory_and_files(void **state)
{
	struct slow s = { .begun = STDIN_FILENO };

	(void)state;
	apart(open_one, &s);
	assert_int_not_equal(s.pid, getpid());
	assert_int_equal(close(s.end), 0);
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
}

static void take_time(void *arg)
{
	struct slow *s = arg;

	(void)!write(s->begun, "b", 1);
	usleep(200000);
	(void)!write(s->end, "e", 1);
}

/* Who is waiting for it is killed; it comes to its end. */
static void test_apart__outlives_us(void **state)
{
	int begun[2], end[2];
	char byte = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(begun) | pipe(end), 0);
	pid = fork();
	if (!pid) {
		struct slow s = { .begun = begun[1], .end = end[1] };

		apart(take_time, &s);
		_exit(0);
	}
	close(end[1]);
	assert_int_equal(read(begun[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(read(end[0], &byte, 1), 1);
	assert_int_equal(byte, 'e');
	close(end[0]);
	close(begun[0]);
	close(begun[1]);
}

#if !defined(__SANITIZE_ADDRESS__) /* which needs memory for itself */
static void test_apart__no_memory(void **state)
{
	struct slow s = { .begun = STDIN_FILENO };
	struct rlimit before, none;

	(void)state;
	getrlimit(RLIMIT_AS, &before);
	none = before;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_AS, &none);
	apart(open_one, &s);
	setrlimit(RLIMIT_AS, &before);
	assert_int_equal(s.pid, getpid());
	close(s.end);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apart__shares_memory_and_files),
		cmocka_unit_test(test_apart__outlives_us),
#if !defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(test_apart__no_memory),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
