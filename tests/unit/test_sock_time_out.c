// SPDX-License-Identifier: Apache-2.0
/* What a socket's time-out is while a call on it is begun anew, and afterwards. The "other process" is this one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "inline/remote.h"
#include "inline/sock_time_out.h"

#define S    1000000000ull
#define SLOW 500 /* ms that a machine may take for a test */

struct fixture {
	struct sock_time_outs *socks;
	int pair[2];
};

static void set(int fd, int option, long s)
{
	const struct timeval tv = { .tv_sec = s };

	assert_int_equal(setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv)), 0);
}

static long ms_of(int fd, int option)
{
	struct timeval tv;
	socklen_t len = sizeof(tv);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, option, &tv, &len), 0);
	return tv.tv_sec * 1000 + tv.tv_usec / 1000;
}

static int set_up(void **state)
{
	static struct fixture f;

	f.socks = sock_time_outs__new();
	*state = &f;
	if (!f.socks || socketpair(AF_UNIX, SOCK_STREAM, 0, f.pair))
		return -1;
	set(f.pair[0], SO_RCVTIMEO, 6);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	sock_time_outs__free(f->socks);
	close(f->pair[0]);
	close(f->pair[1]);
	return 0;
}

static struct user_regs_struct call(long long nr, int fd)
{
	return (struct user_regs_struct){ .orig_rax = (unsigned long long)nr,
					  .rdi = (unsigned int)fd };
}

static void keep_of(struct fixture *f, pid_t pid, struct user_regs_struct *regs, uint64_t since_ns)
{
	assert_false(sock_time_out__keep(f->socks, pid, pid, regs, since_ns));
}

static void keep(struct fixture *f, struct user_regs_struct *regs, uint64_t since_ns)
{
	keep_of(f, getpid(), regs, since_ns);
}

static void test_what_is_left_is_lent(void **state)
{
	struct fixture *f = *state;
	struct user_regs_struct regs = call(SYS_recvfrom, f->pair[0]);
	uint64_t takes_ns;

	assert_true(sock_time_out__is_in(getpid(), &regs, &takes_ns) && takes_ns == 6 * S);
	keep(f, &regs, now_ns() - 4 * S);
	assert_in_range(ms_of(f->pair[0], SO_RCVTIMEO), 2000 - SLOW, 2010);
	assert_int_equal((uint32_t)regs.rdi, f->pair[0]);
	assert_true(sock_time_out__is_in(getpid(), &regs, &takes_ns) && !takes_ns);
	sock_time_outs__give_back(f->socks);
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
	keep(f, &regs, 0); /* once more: its end is noted */
	assert_in_range(ms_of(f->pair[0], SO_RCVTIMEO), 2000 - SLOW, 2010);
	sock_time_outs__free(f->socks);
	f->socks = NULL;
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
}

static void test_each_direction_has_its_own(void **state)
{
	struct fixture *f = *state;
	struct user_regs_struct out = call(SYS_write, f->pair[0]);
	uint64_t takes_ns;

	assert_false(sock_time_out__is_in(getpid(), &out, &takes_ns));
	set(f->pair[0], SO_SNDTIMEO, 6);
	assert_true(sock_time_out__is_in(getpid(), &out, &takes_ns));
	keep(f, &out, now_ns() - 5 * S);
	assert_in_range(ms_of(f->pair[0], SO_SNDTIMEO), 1000 - SLOW, 1010);
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
}

static void test_two_threads_wait_for_one(void **state)
{
	struct fixture *f = *state;
	struct user_regs_struct a = call(SYS_recvmsg, f->pair[0]), b = call(SYS_read, f->pair[0]);
	int same = dup(f->pair[0]);
	struct user_regs_struct c = call(SYS_recvfrom, same);

	keep(f, &a, now_ns() - 5 * S);
	keep(f, &b, now_ns() - 2 * S);
	assert_in_range(ms_of(f->pair[0], SO_RCVTIMEO), 4000 - SLOW, 4010);
	keep(f, &c, now_ns() - 4 * S);
	assert_in_range(ms_of(f->pair[0], SO_RCVTIMEO), 4000 - SLOW, 4010);
	sock_time_outs__give_back(f->socks);
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
	close(same);
}

/* A process that has inherited our sockets, and sleeps. */
static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	assert_true(pid > 0);
	while (remote__state(pid, pid) != 'S')
		usleep(1000);
	return pid;
}

/* Not when all wait in their calls: the next one of this thread must not have what was left. */
static void test_each_is_given_back_when_it_waits(void **state)
{
	struct fixture *f = *state;
	struct user_regs_struct a = call(SYS_recvfrom, f->pair[0]),
				b = call(SYS_recvfrom, f->pair[1]), c = a;
	pid_t pid;

	set(f->pair[1], SO_RCVTIMEO, 6);
	pid = sleeper();
	keep_of(f, pid, &a, now_ns() - 4 * S);
	keep(f, &b, now_ns() - 4 * S); /* this thread does not sleep */
	assert_false(sock_time_outs__give_back_seen(f->socks));
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
	assert_in_range(ms_of(f->pair[1], SO_RCVTIMEO), 2000 - SLOW, 2010);
	/* nor while another one is to wait for the same */
	keep_of(f, pid, &a, 0);
	keep(f, &c, now_ns() - 4 * S);
	assert_false(sock_time_outs__give_back_seen(f->socks));
	assert_in_range(ms_of(f->pair[0], SO_RCVTIMEO), 2000 - SLOW, 2010);
	sock_time_outs__give_back(f->socks);
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
	assert_int_equal(ms_of(f->pair[1], SO_RCVTIMEO), 6000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_it_is_over(void **state)
{
	struct fixture *f = *state;
	struct user_regs_struct regs = call(SYS_recvfrom, f->pair[0]),
				connects = call(SYS_connect, f->pair[0]);

	assert_true(sock_time_out__keep(f->socks, getpid(), gettid(), &regs,
					now_ns() - 6 * S - S / 100));
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
	set(f->pair[0], SO_SNDTIMEO, 6);
	keep(f, &connects, now_ns() - 6 * S - S / 100);
	assert_in_range(ms_of(f->pair[0], SO_SNDTIMEO), 1, 20);
}

static void test_the_program_sets_it_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct user_regs_struct regs = call(SYS_recvfrom, f->pair[0]);

	keep(f, &regs, now_ns() - 4 * S);
	set(f->pair[0], SO_RCVTIMEO, 9);
	sock_time_outs__give_back(f->socks);
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 9000);
}

static void test_nothing_is_lent(void **state)
{
	struct fixture *f = *state;
	struct user_regs_struct unseen = call(SYS_recvfrom, f->pair[0]);
	struct user_regs_struct none[] = { call(SYS_recvfrom, f->pair[1]), call(SYS_read, 0),
					   call(SYS_read, 12345), call(SYS_poll, f->pair[0]) };
	uint64_t takes_ns;

	keep(f, &unseen, 0);
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
	assert_true(unseen.rdi >> 32);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_false(sock_time_out__is_in(getpid(), &none[i], &takes_ns));
		keep(f, &none[i], now_ns() - S);
		assert_int_equal(none[i].rdi >> 32, 0);
	}
	assert_true(sock_time_outs__give_back_seen(NULL));
	assert_true(sock_time_outs__give_back_seen(f->socks));
	sock_time_outs__give_back(NULL);
}

static void test_more_than_there_is_room_for(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < 100; i++) {
		struct user_regs_struct regs = call(SYS_recvfrom, f->pair[0]);

		keep(f, &regs, now_ns() - 4 * S);
	}
	assert_false(sock_time_outs__give_back_seen(f->socks)); /* this thread does not sleep */
	sock_time_outs__give_back(f->socks);
	assert_int_equal(ms_of(f->pair[0], SO_RCVTIMEO), 6000);
	assert_int_equal(dup(0), f->pair[1] + 1); /* no descriptor is left */
	close(f->pair[1] + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_left_is_lent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_each_direction_has_its_own, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_two_threads_wait_for_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_program_sets_it_meanwhile, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_each_is_given_back_when_it_waits, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_it_is_over, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_is_lent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_more_than_there_is_room_for, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
