// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc/call.h"

static void test_call__what_the_kernel_writes(void **state)
{
	struct proc_call c;

	(void)state;
	assert_int_equal(proc_call__parse("running\n", &c), 0);
	assert_false(c.waits);
	assert_int_equal(proc_call__parse("-1 0x7ffe00000010 0x401000\n", &c), 0);
	assert_true(c.waits);
	assert_int_equal(c.nr, -1);
	assert_int_equal(c.sp, 0x7ffe00000010);
	assert_int_equal(c.pc, 0x401000);
	assert_int_equal(c.args[0], 0);
	assert_int_equal(proc_call__parse("-239 0x10 0x20\n", &c), 0);
	assert_int_equal(c.nr, -1);
	assert_int_equal(
		proc_call__parse(
			"202 0xffffffffffffff00 0x189 0x2 0x0 0x0 0xffffffff 0x7f0 0x7f1\n", &c),
		0);
	assert_true(c.waits);
	assert_int_equal(c.nr, 202);
	assert_int_equal(c.args[0], 0xffffffffffffff00);
	assert_int_equal(c.args[5], 0xffffffff);
	assert_int_equal(c.sp, 0x7f0);
	assert_int_equal(c.pc, 0x7f1);
}

static void test_call__what_it_does_not(void **state)
{
	static const char *const texts[] = { "",
					     "\n",
					     "-1",
					     "-1 0x1",
					     "202 0x1 0x2",
					     "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7",
					     "x 1 2",
					     "-1 0x1 0x2 0x3" };
	struct proc_call c;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(proc_call__parse(texts[i], &c), -EINVAL);
		assert_false(c.waits);
	}
}

static void test_call__of_a_child(void **state)
{
	struct proc_call c = { 0 };
	int fds[2];
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(fds[1]);
		_exit(read(fds[0], &byte, 1) != 0);
	}
	while (!proc_call__read(pid, pid, &c) && !(c.waits && c.nr == SYS_read))
		usleep(1000);
	assert_true(c.waits);
	assert_int_equal(c.args[0], fds[0]);
	close(fds[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(proc_call__read(pid, pid, &c), -ESRCH);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_call__what_the_kernel_writes),
		cmocka_unit_test(test_call__what_it_does_not),
		cmocka_unit_test(test_call__of_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
