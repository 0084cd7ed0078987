// SPDX-License-Identifier: Apache-2.0
/* A program that runs, and executes another one. */
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

#include "inline/hold.h"

static void test_hold__has_executed(void **state)
{
	struct hold h = { .mem = -1 };
	int go[2], done[2];
	char byte = 0;

	(void)state;
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(done), 0);
	h.pid = fork();
	if (!h.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(go[0], 0);
		dup2(done[1], 1);
		if (read(0, &byte, 1) == 1)
			execlp("cat", "cat", (char *)NULL);
		_exit(1);
	}
	assert_true(h.pid > 0);
	assert_false(hold__has_executed(&h)); /* of what nothing is known */
	hold__runs(&h);
	assert_true(hold__is_due(&h));
	assert_false(hold__is_due(&h));
	assert_false(hold__has_executed(&h));
	assert_int_equal(write(go[1], "xy", 2), 2);
	assert_int_equal(read(done[0], &byte, 1),
			 1); /* it copies what comes behind the first one */
	assert_int_equal(byte, 'y');
	assert_true(hold__has_executed(&h));
	hold__runs(&h);
	assert_false(hold__has_executed(&h));
	kill(h.pid, SIGKILL);
	waitpid(h.pid, NULL, 0);
	assert_false(hold__has_executed(&h)); /* nor of what is gone */
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(done[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hold__has_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
