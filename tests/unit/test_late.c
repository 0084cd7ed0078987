// SPDX-License-Identifier: Apache-2.0
/* Stopping a child most of whose threads are at work in the kernel for long, in one call after the other. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "inline/engine_priv.h"
#include "inline/remote.h"
#include "inline/remote_stop.h"
#include "proc/threads.h"

#define READERS	   3
#define PART_BYTES (2u << 20)
#define PARTS	   500 /* some 50 ms */
#define ROUNDS	   3
#define LONGER_US  150000 /* than a call takes */

static struct world {
	int up; /* readers that have begun */
	/* calls that came to their end; the last one: of the first thread, if it reads */
	long laps[READERS + 1];
	int cut_short; /* calls that did not read all */
	long spins;
	int signals, strayed; /* handlers that ran; of these not by the first thread */
} * w;
static struct remote r;
static bool followed;

static void on_signal(int sig)
{
	(void)sig;
	w->strayed += syscall(SYS_gettid) != syscall(SYS_getpid);
	w->signals++;
}

/* A file of holes is read, again and again into the same memory. */
static void *reader(void *arg)
{
	int i = (int)(intptr_t)arg, fd = memfd_create("holes", MFD_CLOEXEC);
	struct iovec *parts = calloc(PARTS, sizeof(*parts));
	void *to = malloc(PART_BYTES);

	if (fd < 0 || !parts || !to || ftruncate(fd, (off_t)PARTS * PART_BYTES))
		_exit(1);
	for (int n = 0; n < PARTS; n++)
		parts[n] = (struct iovec){ to, PART_BYTES };
	__atomic_add_fetch(&w->up, 1, __ATOMIC_SEQ_CST);
	for (;; w->laps[i]++)
		w->cut_short += preadv(fd, parts, PARTS, 0) != (ssize_t)PARTS * PART_BYTES;
	return NULL;
}

static _Noreturn void be_the_child(int readers)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGUSR1, on_signal);
	for (intptr_t i = 0; i < readers; i++)
		pthread_create(&thread, NULL, reader, (void *)i);
	if (!readers)
		reader((void *)READERS);
	for (;;)
		__atomic_add_fetch(&w->spins, 1, __ATOMIC_RELAXED);
}

static void start(int readers)
{
	struct err e = { 0 };
	pid_t pid;

	memset(w, 0, sizeof(*w));
	pid = fork();
	if (!pid)
		be_the_child(readers);
	assert_true(pid > 0);
	while (__atomic_load_n(&w->up, __ATOMIC_SEQ_CST) < (readers ? readers : 1))
		usleep(1000);
	assert_int_equal(remote__open(&r, pid, &e), 0);
	if (!followed)
		return;
	assert_int_equal(follow__new(&r.follow), 0);
	assert_int_equal(remote__follow(&r), 0);
}

static void wait_for(unsigned int us)
{
	for (unsigned int i = 0; i < us / 1000; i++) {
		if (r.follow)
			follow__serve(r.follow, r.pid);
		usleep(1000);
	}
}

static void leave(void)
{
	follow__free(r.follow);
	r.follow = NULL;
}

static void end(void)
{
	pid_t pid = r.pid;

	leave();
	remote__close(&r);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* How many were kept in calls. None runs on, also where its call ends. */
static unsigned int expect_standing(void)
{
	struct world before;
	unsigned int late = 0, stopped = 0;

	assert_int_equal(r.cnt, READERS + 1);
	for (size_t i = 0; i < r.cnt; i++) {
		assert_true(r.threads[i].is == REMOTE_STANDS || r.threads[i].is == REMOTE_LATE);
		assert_true(r.threads[i].pc && r.threads[i].sp && r.threads[i].self);
		late += r.threads[i].is == REMOTE_LATE;
		stopped += r.threads[i].is == REMOTE_STANDS;
	}
	assert_true(stopped > 0);
	memcpy(&before, w, sizeof(before));
	usleep(LONGER_US);
	assert_memory_equal(&before, w, sizeof(before));
	return late;
}

static void expect_running(void)
{
	struct world before;

	memcpy(&before, w, sizeof(before));
	for (int i = 0; i < READERS; i++)
		for (int tries = 0; tries < 1000 && w->laps[i] < before.laps[i] + 2; tries++)
			wait_for(LONGER_US / 10);
	for (int tries = 0; tries < 1000 && w->spins == before.spins; tries++)
		wait_for(LONGER_US / 10);
	for (int i = 0; i < READERS; i++)
		assert_true(w->laps[i] >= before.laps[i] + 2);
	assert_true(w->spins > before.spins);
	assert_int_equal(w->cut_short, 0);
}

static void test_those_in_calls_are_not_waited_for(void **state)
{
	unsigned int late = 0;

	(void)state;
	start(READERS);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(remote__stop(&r), 0);
		late += expect_standing();
		remote__resume(&r);
		expect_running();
	}
	assert_true(late > 0);
	end();
}

static void test_a_signal_is_the_first_threads(void **state)
{
	(void)state;
	start(READERS);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(remote__stop(&r), 0);
		kill(r.pid, SIGUSR1);
		usleep(LONGER_US);
		assert_int_equal(w->signals, i);
		remote__resume(&r);
		for (int ms = 0; ms < 5000 && w->signals == i; ms++)
			wait_for(1000);
		assert_int_equal(w->signals, i + 1);
		expect_running();
	}
	assert_int_equal(w->strayed, 0);
	end();
}

static void test_the_only_thread_is_waited_for(void **state)
{
	long laps;

	(void)state;
	start(0);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(remote__stop(&r), 0);
		assert_int_equal(r.cnt, 1);
		assert_int_equal(r.threads[0].is, REMOTE_STANDS);
		laps = w->laps[READERS];
		usleep(LONGER_US);
		assert_int_equal(w->laps[READERS], laps);
		remote__resume(&r);
		wait_for(LONGER_US);
	}
	assert_true(w->laps[READERS] > laps);
	assert_int_equal(w->cut_short, 0);
	end();
}

static void test_a_child_that_is_killed(void **state)
{
	pid_t pid;

	(void)state;
	start(READERS);
	pid = r.pid;
	assert_int_equal(remote__stop(&r), 0);
	kill(pid, SIGKILL);
	wait_for(LONGER_US / 10);
	remote__resume(&r);
	leave();
	remote__close(&r);
	waitpid(pid, NULL, 0);
	assert_int_equal(kill(pid, 0), -1);
}

static void test_none_stays_traced(void **state)
{
	unsigned int cnt = 0;
	DIR *threads;
	pid_t tid;

	(void)state;
	start(READERS);
	assert_int_equal(remote__stop(&r), 0);
	remote__resume(&r);
	leave();
	threads = threads__open(r.pid);
	for (; (tid = threads__next(threads)); cnt++)
		assert_int_equal(inline_status_number(tid, "TracerPid"), 0);
	closedir(threads);
	assert_int_equal(cnt, READERS + 1);
	expect_running();
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_those_in_calls_are_not_waited_for),
		cmocka_unit_test(test_a_signal_is_the_first_threads),
		cmocka_unit_test(test_the_only_thread_is_waited_for),
		cmocka_unit_test(test_a_child_that_is_killed),
		cmocka_unit_test(test_none_stays_traced),
	};

	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL) +
	       cmocka_run_group_tests(tests, follow_all, NULL);
}
