// SPDX-License-Identifier: Apache-2.0
/* A part of a call that is done, told from none, on a child that waits in write(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inline/interrupted.h"
#include "inline/rest.h"

#define TIMES 20000 /* in one of 80 to 160 it stands in front of its call */

static char data[1 << 17];

/* Of which the pipe takes nothing any more. */
static void write_into_full_pipe(void)
{
	int ends[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pipe(ends) || fcntl(ends[1], F_SETFL, O_NONBLOCK))
		_exit(1);
	while (write(ends[1], data, sizeof(data)) > 0)
		continue;
	fcntl(ends[1], F_SETFL, 0);
	_exit(write(ends[1], data, sizeof(data)) != (ssize_t)sizeof(data));
}

static void stop(pid_t pid, struct user_regs_struct *regs)
{
	int status;

	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, 0, 0), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, regs), 0);
}

static int set_up(void **state)
{
	struct user_regs_struct regs;
	pid_t pid = fork();

	if (!pid)
		write_into_full_pipe();
	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL))
		return -1;
	do {
		usleep(1000);
		stop(pid, &regs);
		ptrace(PTRACE_CONT, pid, 0, 0);
	} while (regs.orig_rax != SYS_write || regs.rdx != sizeof(data) ||
		 !interrupted__waits(&regs));
	*state = (void *)(intptr_t)pid;
	return 0;
}

static int tear_down(void **state)
{
	pid_t pid = (pid_t)(intptr_t)*state;

	kill(pid, SIGKILL);
	return waitpid(pid, NULL, 0) != pid;
}

/* Nothing is, however often and whenever it is stopped, and it waits on. */
static void test_no_part_is_done(void **state)
{
	pid_t pid = (pid_t)(intptr_t)*state;
	struct user_regs_struct regs;
	unsigned int in_front = 0;

	for (int i = 0; i < TIMES; i++) {
		stop(pid, &regs);
		in_front += regs.rax == SYS_write;
		assert_false(rest__is_left(pid, &regs));
		assert_int_equal(ptrace(PTRACE_CONT, pid, 0, 0), 0);
	}
	print_message("%u of %d in front of its call\n", in_front, TIMES);
}

/* As many bytes are done as the call's number is. */
static void test_a_part_like_the_number(void **state)
{
	pid_t pid = (pid_t)(intptr_t)*state;
	struct user_regs_struct waits, regs;
	struct rest rest;

	do {
		stop(pid, &waits);
		if (!interrupted__waits(&waits))
			ptrace(PTRACE_CONT, pid, 0, 0);
	} while (!interrupted__waits(&waits));
	regs = waits;
	regs.rax = SYS_write;
	assert_true(rest__is_left(pid, &regs));
	regs.rip -= SYSCALL_LEN;
	assert_false(rest__is_left(pid, &regs));
	assert_int_equal(ptrace(PTRACE_SETREGS, pid, 0, &regs), 0);
	assert_false(rest__begin(&rest, pid));
	/* a signal ends it, as it would have */
	assert_int_equal(interrupted__look(pid, &regs, NULL), 0);
	assert_true(interrupted__waits(&regs) && regs.rip == waits.rip);
	regs.rax = SYS_write;
	regs.rip = waits.rip - SYSCALL_LEN;
	regs.rip += SYSCALL_LEN;
	regs.rax = SYS_write + 1;
	assert_true(rest__is_left(pid, &regs));
	regs.rax = 0;
	assert_false(rest__is_left(pid, &regs));
	regs.rax = sizeof(data);
	assert_false(rest__is_left(pid, &regs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_part_is_done, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_part_like_the_number, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
