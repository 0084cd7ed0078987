// SPDX-License-Identifier: Apache-2.0
/* A child that is stopped, and we who stop it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inline/remote.h"
#include "inline/remote_stop.h"

static volatile sig_atomic_t came;

static void on_signal(int number)
{
	(void)number;
	came++;
}

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

static bool is_blocked(int number)
{
	sigset_t now;

	assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, number);
}

/* Ctrl-Z in the middle of a stop would keep the target standing until we go on: it waits. */
static void test_remote__the_terminal_waits(void **state)
{
	static const int numbers[] = { SIGTSTP, SIGTTIN, SIGTTOU };
	pid_t pid = sleeper();
	struct err e = { 0 };
	struct remote r;

	(void)state;
	assert_int_equal(remote__open(&r, pid, &e), 0);
	for (int i = 0; i < 3; i++) {
		signal(numbers[i], on_signal);
		came = 0;
		assert_int_equal(remote__stop(&r), 0);
		raise(numbers[i]);
		assert_int_equal(came, 0);
		assert_int_equal(remote__state(pid, pid), 't');
		remote__resume(&r);
		assert_int_equal(came, 1);
		assert_int_not_equal(remote__state(pid, pid), 't');
		signal(numbers[i], SIG_DFL);
	}
	assert_int_equal(r.stops, 3);
	remote__close(&r);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* So it does in one stop within another one, and who blocked it before does so afterwards. */
static void test_remote__stops_in_each_other(void **state)
{
	pid_t pid = sleeper();
	struct hurry outer = { 0 };
	struct remote r;
	struct err e = { 0 };
	sigset_t set;

	(void)state;
	assert_int_equal(remote__open(&r, pid, &e), 0);
	hurry__begin(&outer);
	assert_int_equal(remote__stop(&r), 0);
	remote__resume(&r);
	assert_true(is_blocked(SIGTSTP));
	hurry__end(&outer, true);
	assert_false(is_blocked(SIGTSTP));
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	assert_int_equal(remote__stop(&r), 0);
	remote__resume(&r);
	assert_true(is_blocked(SIGTSTP));
	assert_false(is_blocked(SIGTTIN));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_not_equal(remote__stop(&r), 0); /* there is nobody any more */
	assert_false(is_blocked(SIGTSTP));
	remote__close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remote__the_terminal_waits),
		cmocka_unit_test(test_remote__stops_in_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
