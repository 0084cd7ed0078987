// SPDX-License-Identifier: Apache-2.0
/* Keeping threads from coming out of their system calls: a child whose threads wait in calls of several kinds. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inline/engine_priv.h"
#include "inline/remote_priv.h"
#include "inline/remote_stop.h"
#include "inline/sleepers.h"

#define THREADS	   40
#define TIMEOUT_MS 400
#define ROUNDS	   60

enum how {
	READS, /* what is written into a pipe of its own */
	POLLS, /* for TIMEOUT_MS */
	EPOLLS /* the same, by a call that the kernel does not restart */
};

static struct world {
	enum how how;
	int leader_runs;
	int pipes[THREADS][2];
	pid_t tids[THREADS];
	int born, done[THREADS], wrong;
	uint64_t took_ns[THREADS];
	int signals, paused; /* handlers that ran; calls of pause() that they ended */
	pid_t signalled;
	int strayed; /* signals that another thread than the first one took */
} * w;
static struct remote r;
static bool followed; /* all are traced all the time, by us */

static int get(const int *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static void add(int *at)
{
	__atomic_add_fetch(at, 1, __ATOMIC_SEQ_CST);
}

static void on_signal(int sig)
{
	(void)sig;
	w->signalled = (pid_t)syscall(SYS_gettid);
	if (w->signalled != (pid_t)syscall(SYS_getpid))
		add(&w->strayed);
	add(&w->signals);
}

static void wait_in_it(int sig)
{
	(void)sig;
	for (;;)
		pause();
}

/* What it should say is known. */
__attribute__((noinline)) static void wait_once(int i)
{
	struct pollfd p = { .fd = w->pipes[i][0], .events = POLLIN };
	struct epoll_event event;
	uint64_t since = now_ns();
	int epoll;
	char byte;

	switch (w->how) {
	case READS:
		if (read(w->pipes[i][0], &byte, 1) != 1 || byte != (char)i)
			add(&w->wrong);
		break;
	case POLLS:
		if (poll(&p, 1, TIMEOUT_MS))
			add(&w->wrong);
		break;
	case EPOLLS:
		epoll = epoll_create1(0);
		if (epoll_wait(epoll, &event, 1, TIMEOUT_MS))
			add(&w->wrong);
		close(epoll);
		break;
	}
	w->took_ns[i] = now_ns() - since;
	add(&w->done[i]);
}

__attribute__((noinline)) static void *sleeper(void *arg)
{
	int i = (int)(intptr_t)arg;

	if (!i) { /* the one that is not kept: others have to take what the first thread does not */
		sigset_t all;

		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, NULL);
	}
	w->tids[i] = (pid_t)syscall(SYS_gettid);
	add(&w->born);
	do {
		wait_once(i);
	} while (w->how == READS);
	for (;;)
		pause();
	return NULL;
}

static void be_the_child(void)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	signal(SIGRTMIN, wait_in_it);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, sleeper, (void *)i);
	for (;;)
		if (!get(&w->leader_runs)) {
			pause();
			add(&w->paused);
		}
}

static void start(enum how how, int leader_runs)
{
	struct err e = { 0 };
	pid_t pid;

	memset(w, 0, sizeof(*w));
	w->how = how;
	w->leader_runs = leader_runs;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pipe(w->pipes[i]), 0);
	pid = fork();
	if (!pid)
		be_the_child();
	assert_true(pid > 0);
	while (get(&w->born) < THREADS)
		usleep(1000);
	usleep(20000);
	assert_int_equal(remote__open(&r, pid, &e), 0);
	if (!followed)
		return;
	assert_int_equal(follow__new(&r.follow), 0);
	assert_int_equal(remote__follow(&r), 0);
}

static void leave(void)
{
	follow__free(r.follow);
	r.follow = NULL;
}

/* Who is followed goes on when it is looked at. */
static void nap(void)
{
	if (r.follow)
		follow__serve(r.follow, r.pid);
	usleep(1000);
}

static void close_all(void)
{
	for (int i = 0; i < THREADS; i++) {
		close(w->pipes[i][0]);
		close(w->pipes[i][1]);
	}
	remote__close(&r);
}

static void end(void)
{
	pid_t pid = r.pid;

	leave();
	close_all();
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void expect_untraced(void)
{
	leave();
	assert_int_equal(inline_status_number(r.pid, "TracerPid"), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(inline_status_number(w->tids[i], "TracerPid"), 0);
}

static void wake(int i)
{
	char byte = (char)i;

	assert_int_equal(write(w->pipes[i][1], &byte, 1), 1);
}

static bool becomes(const int *at, int value)
{
	for (int ms = 0; ms < 5000 && get(at) != value; ms++)
		nap();
	return get(at) == value;
}

static bool grows(const int *at, int from)
{
	for (int ms = 0; ms < 5000 && get(at) == from; ms++)
		nap();
	return get(at) > from;
}

static int index_of(pid_t tid)
{
	for (int i = 0; i < THREADS; i++)
		if (w->tids[i] == tid)
			return i;
	return -1;
}

/* Has the child ended? */
static bool let_go(struct sleepers *s)
{
	int status;

	return sleepers__let_go(s, &status);
}

/* On a machine that has no CPU for the child none may be kept. */
static struct sleepers *keep(void)
{
	struct sleepers *s;

	for (int i = 0; i < 50; i++) {
		if (!sleepers__keep(&r, &s))
			return s;
		assert_false(let_go(s));
		usleep(10000);
	}
	fail_msg("none are kept");
	return NULL;
}

static struct sleepers *kept(const struct remote_thread **threads, size_t *cnt)
{
	struct sleepers *s = keep();

	assert_true(sleepers__hold(s));
	*threads = sleepers__threads(s, cnt);
	return s;
}

/* One that has not come to its call yet is not kept, and takes signals when others stand still. */
static struct sleepers *all_kept(size_t want)
{
	const struct remote_thread *threads;
	struct sleepers *s;
	size_t cnt;

	for (int i = 0; i < 50; i++) {
		s = kept(&threads, &cnt);
		if (cnt == want)
			return s;
		assert_false(let_go(s));
		usleep(10000);
	}
	fail_msg("never all are kept");
	return NULL;
}

static void test_those_that_wake_stand_still(void **state)
{
	const struct remote_thread *threads;
	struct sleepers *s;
	size_t cnt;
	int one;

	(void)state;
	start(READS, 0);
	s = all_kept(THREADS); /* the first one, and all but one of these */
	threads = sleepers__threads(s, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		assert_true(threads[i].is == REMOTE_KEPT && threads[i].in_call);
		assert_true(threads[i].pc && threads[i].sp);
		assert_true(inline_status_number(threads[i].tid, "TracerPid") > 0);
		assert_true(sleepers__has(s, threads[i].tid));
	}
	assert_true(sleepers__longest_us(s) > 0);
	one = index_of(threads[cnt / 2].tid);
	assert_true(one >= 0);
	wake(one);
	usleep(50000);
	assert_int_equal(get(&w->done[one]), 0);
	assert_false(let_go(s));
	if (!followed)
		expect_untraced();
	assert_true(becomes(&w->done[one], 1));
	for (int i = 0; i < THREADS; i++)
		if (i != one)
			wake(i);
	for (int i = 0; i < THREADS; i++)
		assert_true(becomes(&w->done[i], 1));
	assert_int_equal(get(&w->wrong), 0);
	end();
}

static const struct remote_thread *thread_of(const struct remote_thread *threads, size_t cnt,
					     pid_t tid)
{
	for (size_t i = 0; i < cnt; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	fail_msg("%d is not kept", tid);
	return threads;
}

/* What is found on it when all stand still is as if it was read then. */
static void test_stacks(void **state)
{
	const struct remote_thread *threads, *handles, *reads, *first;
	struct sleepers *s;
	size_t cnt;

	(void)state;
	start(READS, 0);
	syscall(SYS_tgkill, r.pid, w->tids[5], SIGRTMIN);
	usleep(20000);
	r.watched.start = (uint64_t)(uintptr_t)sleeper;
	r.watched.end = r.watched.start + 256;
	s = all_kept(THREADS);
	threads = sleepers__threads(s, &cnt);
	handles = thread_of(threads, cnt, w->tids[5]);
	reads = thread_of(threads, cnt, w->tids[6]);
	first = thread_of(threads, cnt, r.pid);
	/* its handler waits, and returns to where the others wait */
	assert_true(handles->pc != reads->pc);
	assert_true(remote__is_inside(&r, handles, reads->pc, 1));
	assert_false(remote__is_inside(&r, handles, reads->pc + 1, 1));
	assert_false(remote__is_inside(&r, first, reads->pc, 1));
	assert_int_equal(first->stack_words, 0);
	/* all others return to their function */
	for (size_t i = 0; i < cnt; i++) {
		bool found = false;

		for (size_t k = 0; k < threads[i].stack_words; k++)
			found |= threads[i].stack[k] - r.watched.start < 256;
		assert_true(found == (threads[i].tid != r.pid));
	}
	assert_false(let_go(s));
	end();
}

/* Those that are kept while others go, each by itself; and all that there are. */
static void check_selves(struct sleepers *s, size_t want)
{
	auto_free uint64_t *selves = NULL;
	const struct remote_thread *threads;
	size_t cnt, found = 0;

	assert_int_equal(sleepers__selves(s, &selves), want);
	assert_true(sleepers__hold(s));
	threads = sleepers__threads(s, &cnt);
	for (size_t i = 0; i < want; i++)
		for (size_t k = 0; k < cnt; k++)
			found += threads[k].self && threads[k].self == selves[i];
	assert_int_equal(found, want);
	sleepers__serve(s);
	sleepers__listed(s, &cnt);
	assert_int_equal(cnt, THREADS + 1);
}

static void test_before_that_they_are_let_go(void **state)
{
	struct sleepers *s;
	size_t cnt;

	(void)state;
	start(READS, 0);
	s = all_kept(THREADS);
	sleepers__serve(s);
	check_selves(s, THREADS);
	for (int i = 0; i < THREADS; i += 2)
		wake(i);
	for (int i = 0; i < THREADS; i += 2)
		assert_true(becomes(&w->done[i], 1));
	assert_true(sleepers__hold(s));
	sleepers__threads(s, &cnt);
	assert_int_equal(cnt, THREADS / 2 + 1);
	sleepers__serve(s);
	check_selves(s, THREADS / 2 + 1);
	assert_true(sleepers__hold(s));
	for (int i = 0; i < THREADS; i += 2)
		assert_false(sleepers__has(s, w->tids[i]));
	wake(1);
	wake(3);
	sleepers__serve(s);
	assert_true(becomes(&w->done[1], 1) && becomes(&w->done[3], 1));
	assert_true(sleepers__hold(s));
	assert_false(sleepers__has(s, w->tids[1]) || sleepers__has(s, w->tids[3]));
	assert_false(let_go(s));
	expect_untraced();
	assert_int_equal(get(&w->wrong), 0);
	end();
}

/* It is not kept; and while it stands still for someone else others take what is for it, and hand it on. */
static void test_the_first_one_runs(void **state)
{
	struct sleepers *s;
	int status;

	(void)state;
	start(READS, 1);
	for (int i = 1; i <= 5; i++) {
		s = all_kept(THREADS - 1);
		assert_false(sleepers__has(s, r.pid));
		kill(r.pid, SIGUSR1);
		assert_true(becomes(&w->signals, 2 * i - 1));
		assert_int_equal(ptrace(PTRACE_SEIZE, r.pid, 0, 0), 0);
		assert_int_equal(ptrace(PTRACE_INTERRUPT, r.pid, 0, 0), 0);
		assert_int_equal(waitpid(r.pid, &status, __WALL), r.pid);
		kill(r.pid, SIGUSR2);
		usleep(20000);
		sleepers__serve(s);
		usleep(20000);
		assert_int_equal(get(&w->signals), 2 * i - 1);
		ptrace(PTRACE_DETACH, r.pid, 0, 0);
		assert_true(becomes(&w->signals, 2 * i));
		assert_false(let_go(s));
	}
	assert_int_equal(get(&w->strayed), 0);
	assert_int_equal(get(&w->wrong), 0);
	expect_untraced();
	end();
}

/* It is for the process: the first one takes it, and its call ends by it. */
static void test_a_signal(void **state)
{
	struct sleepers *s;

	(void)state;
	start(READS, 0);
	s = all_kept(THREADS);
	kill(r.pid, SIGUSR1);
	usleep(20000);
	assert_int_equal(get(&w->signals), 0);
	assert_false(let_go(s));
	assert_true(becomes(&w->signals, 1) && becomes(&w->paused, 1));
	assert_int_equal(w->signalled, r.pid);
	s = keep();
	kill(r.pid, SIGUSR1);
	assert_true(becomes(&w->signals, 2) && becomes(&w->paused, 2));
	assert_int_equal(w->signalled, r.pid);
	assert_true(sleepers__hold(s));
	assert_false(sleepers__has(s, r.pid)); /* it came out of its call, and is let go */
	assert_false(let_go(s));
	expect_untraced();
	end();
}

/* The first one stands still then, so the second signal wakes another one. */
static void keep_and_signal_twice(void)
{
	struct sleepers *s = all_kept(THREADS);

	kill(r.pid, SIGUSR1);
	usleep(5000);
	kill(r.pid, SIGUSR2);
	usleep(5000);
	assert_false(let_go(s));
}

/* The first thread goes on before the other one, and takes both. */
static void test_signals_that_wake_others(void **state)
{
	(void)state;
	start(READS, 0);
	for (int i = 1; i <= 10; i++) {
		int paused = get(&w->paused);

		keep_and_signal_twice();
		assert_true(becomes(&w->signals, 2 * i));
		/* by both at once, or by each */
		assert_true(grows(&w->paused, paused));
	}
	assert_int_equal(get(&w->strayed), 0);
	assert_int_equal(get(&w->wrong), 0);
	expect_untraced();
	end();
}

static void expect_timeouts(void)
{
	for (int i = 0; i < THREADS; i++) {
		assert_true(becomes(&w->done[i], 1));
		assert_true(w->took_ns[i] >= TIMEOUT_MS * 1000000ull);
	}
	assert_int_equal(get(&w->strayed), 0);
	assert_int_equal(get(&w->wrong), 0);
	end();
}

static void keep_until_timeouts(enum how how)
{
	const struct remote_thread *threads;
	struct sleepers *s;
	size_t cnt;

	start(how, 0);
	s = kept(&threads, &cnt);
	assert_false(let_go(s));
	expect_timeouts();
}

static void test_timeouts(void **state)
{
	(void)state;
	keep_until_timeouts(POLLS);
	keep_until_timeouts(EPOLLS);
}

/* What another one takes for the first one does not end its call, though the kernel does not restart it. */
static void test_timeouts_with_signals(void **state)
{
	(void)state;
	start(EPOLLS, 0);
	keep_and_signal_twice();
	assert_true(becomes(&w->signals, 2));
	expect_timeouts();
}

/* They wake whoever is traced; nobody else is. (One that is followed can end a call with a time-out by it.) */
static void send_ignored(void)
{
	for (int i = 0; i < THREADS; i++)
		syscall(SYS_tgkill, r.pid, w->tids[i], i % 2 ? SIGWINCH : SIGCHLD);
	usleep(20000);
}

static void test_signals_that_are_ignored(void **state)
{
	struct sleepers *s;

	(void)state;
	start(EPOLLS, 0);
	s = all_kept(THREADS);
	sleepers__serve(s);
	send_ignored();
	assert_true(sleepers__hold(s));
	send_ignored();
	assert_false(let_go(s));
	expect_timeouts();
}

/* In a child, which is killed meanwhile. One that is not kept would take signals. */
static void keep_all_for_ever(int told)
{
	for (;;) {
		struct sleepers *s;
		size_t cnt = 0;
		int status;

		if (!sleepers__keep(&r, &s) && sleepers__hold(s))
			sleepers__threads(s, &cnt);
		if (cnt == THREADS) {
			(void)!write(told, "", 1);
			pause();
		}
		sleepers__let_go(s, &status);
		usleep(10000);
	}
}

/* Whoever keeps them is killed, while some stand where their calls have ended. */
static void test_a_keeper_that_is_killed(void **state)
{
	int told[2];
	pid_t keeper;
	char byte;

	(void)state;
	start(READS, 0);
	assert_int_equal(pipe(told), 0);
	keeper = fork();
	if (!keeper)
		keep_all_for_ever(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	for (int i = 0; i < THREADS; i++)
		wake(i);
	kill(r.pid, SIGUSR1);
	usleep(20000);
	assert_int_equal(get(&w->signals), 0);
	kill(keeper, SIGKILL);
	waitpid(keeper, NULL, 0);
	for (int i = 0; i < THREADS; i++)
		assert_true(becomes(&w->done[i], 1));
	assert_true(becomes(&w->signals, 1)); /* all go on at once: whoever takes it */
	assert_int_equal(get(&w->wrong), 0);
	expect_untraced();
	close(told[0]);
	close(told[1]);
	end();
}

/* How it did is told once, and not only to whoever kept it. */
static void test_a_child_that_is_killed(void **state)
{
	(void)state;
	for (int held = 0; held < 2; held++) {
		struct sleepers *s;
		int status = 0;
		bool ended;

		start(READS, 0);
		s = keep();
		if (held)
			assert_true(sleepers__hold(s));
		kill(r.pid, SIGTERM);
		usleep(50000);
		ended = sleepers__let_go(s, &status);
		if (!ended)
			assert_int_equal(waitpid(r.pid, &status, 0), r.pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
		assert_int_equal(waitpid(r.pid, &status, WNOHANG), -1);
		close_all();
	}
}

/* They come out of their calls at any moment, and begin others. */
static void test_a_storm(void **state)
{
	(void)state;
	start(READS, 0);
	for (int round = 0; round < ROUNDS; round++) {
		struct sleepers *s;
		int err;

		for (int i = round % 2; i < THREADS; i += 2)
			wake(i);
		err = sleepers__keep(&r, &s);
		if (!err)
			sleepers__hold(s);
		else
			assert_int_equal(err, -EAGAIN);
		assert_false(let_go(s));
	}
	for (int i = 0; i < THREADS; i++)
		assert_true(becomes(&w->done[i], ROUNDS / 2));
	assert_int_equal(get(&w->wrong), 0);
	expect_untraced();
	end();
}

static void *signaller(void *arg)
{
	while (!get(arg)) {
		kill(r.pid, SIGUSR1);
		usleep(2000);
	}
	return NULL;
}

/* They come while threads stop and go on, which would take them then; where the first thread stands still itself, some do. */
static void test_signals(void **state)
{
	pthread_t thread;
	int over = 0, held = 0;

	(void)state;
	start(READS, 0);
	pthread_create(&thread, NULL, signaller, &over);
	for (int round = 0; round < 20 * ROUNDS && held < ROUNDS; round++) {
		struct sleepers *s;

		if (!sleepers__keep(&r, &s))
			held += sleepers__hold(s);
		usleep(500);
		assert_false(let_go(s));
	}
	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	print_message("%d signals, %d not the first thread's; held %d times\n", get(&w->signals),
		      get(&w->strayed), held);
	/* those that are followed are served between two of these only */
	assert_true(get(&w->signals) > (followed ? 10 : ROUNDS));
	assert_true(2 * get(&w->strayed) < get(&w->signals));
	assert_int_equal(get(&w->wrong), 0);
	expect_untraced();
	end();
}

/* A call before a stop takes long; those who are followed are looked at meanwhile. */
static void wait_for_one(void *ctx)
{
	for (int ms = 0; ms < 5000 && !get(ctx); ms++)
		usleep(1000);
}

static void test_a_call_meanwhile(void **state)
{
	struct sleepers *s;

	(void)state;
	start(READS, 0);
	s = all_kept(THREADS);
	sleepers__serve(s);
	r.how.before = wait_for_one;
	r.how.ctx = &w->done[7];
	wake(7);
	r.sleepers = s;
	remote_call_before(&r);
	assert_int_equal(get(&w->done[7]), 1);
	r.sleepers = NULL;
	assert_false(let_go(s));
	wake(9); /* kept before, it stands once more where its call ends, if it is followed */
	r.how.ctx = &w->done[9];
	remote_call_before(&r);
	assert_int_equal(get(&w->done[9]), 1);
	r.how.before = NULL;
	end();
}

static int follow_all(void **state)
{
	(void)state;
	followed = true;
	return 0;
}

int main(void)
{
	const struct CMUnitTest those_that_are_followed[] = {
		cmocka_unit_test(test_those_that_wake_stand_still),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_before_that_they_are_let_go),
		cmocka_unit_test(test_a_signal),
		cmocka_unit_test(test_signals_that_wake_others),
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_timeouts_with_signals),
		cmocka_unit_test(test_a_call_meanwhile),
		cmocka_unit_test(test_a_storm),
		cmocka_unit_test(test_signals),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_those_that_wake_stand_still),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_before_that_they_are_let_go),
		cmocka_unit_test(test_the_first_one_runs),
		cmocka_unit_test(test_a_signal),
		cmocka_unit_test(test_signals_that_wake_others),
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_timeouts_with_signals),
		cmocka_unit_test(test_signals_that_are_ignored),
		cmocka_unit_test(test_a_call_meanwhile),
		cmocka_unit_test(test_a_keeper_that_is_killed),
		cmocka_unit_test(test_a_child_that_is_killed),
		cmocka_unit_test(test_a_storm),
		cmocka_unit_test(test_signals),
	};

	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL) +
	       cmocka_run_group_tests(those_that_are_followed, follow_all, NULL);
}
