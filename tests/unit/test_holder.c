// SPDX-License-Identifier: Apache-2.0
/* Stopping who has the interpreter's lock: a child with many threads, one of which runs, and a made-up interpreter in memory that we share. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpython/interp.h"
#include "cpython/layouts.h"
#include "inline/remote.h"
#include "inline/remote_stop.h"

#define THREADS	   20 /* so many are not all stopped */
#define FRAME	   0x5eed5eed5eedull /* nobody has it by accident */
#define LOOP_BYTES 64
#define ACTIVE	   (1u << 4)

static struct world {
	uint8_t runtime[4096], is[2][16384], ts[1024];
	struct {
		uint64_t interval, holder;
		int32_t locked, pad;
	} gil[2];
	uint64_t self[2]; /* pthread_self() of who runs, and of one that sleeps */
	pid_t tid; /* of who runs */
	int born;
} * w;
static __thread uint64_t own_state;
static struct interp *in;
static struct remote r;

static uint64_t addr(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void put(void *object, unsigned int offset, uint64_t value)
{
	memcpy((char *)object + offset, &value, sizeof(value));
}

/* The function that runs frames, with the frame in a register, for ever. */
__attribute__((naked, noinline)) static void loop(void)
{
	__asm__("movabs $0x5eed5eed5eed, %rbx\n"
		"1: pause\n"
		"jmp 1b\n");
}

static void *runner(void *arg)
{
	(void)arg;
	own_state = addr(w->ts);
	w->self[0] = (uint64_t)pthread_self();
	w->tid = (pid_t)syscall(SYS_gettid);
	__atomic_add_fetch(&w->born, 1, __ATOMIC_SEQ_CST);
	loop();
	return NULL;
}

static void *sleeper(void *arg)
{
	(void)arg;
	w->self[1] = (uint64_t)pthread_self();
	__atomic_add_fetch(&w->born, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return NULL;
}

static void be_the_child(int threads)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_create(&thread, NULL, runner, NULL);
	for (int i = 1; i < threads; i++)
		pthread_create(&thread, NULL, sleeper, NULL);
	for (;;)
		pause();
}

static void start(int threads)
{
	struct err e = { 0 };
	pid_t pid;

	memset(w, 0, sizeof(*w));
	pid = fork();
	if (!pid)
		be_the_child(threads);
	assert_true(pid > 0);
	while (__atomic_load_n(&w->born, __ATOMIC_SEQ_CST) < threads)
		usleep(1000);
	assert_int_equal(remote__open(&r, pid, &e), 0);
	r.lock.in = in;
}

static void end(void)
{
	pid_t pid = r.pid;

	remote__close(&r);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* One interpreter, whose lock the thread has that runs. */
static void make_world(const struct layout *l)
{
	uint32_t status = ACTIVE;

	in->layout = l->py;
	in->interpreters = addr(w->runtime) + l->py.rt_interpreters;
	put(w->runtime, l->py.rt_interpreters, addr(w->is[0]));
	put(w->ts, l->py.ts_thread_id, w->self[0]);
	put(w->ts, l->py.ts_frame, FRAME);
	if (l->py.is_gil == PYE_NO_FIELD) {
		put(w->runtime, l->py.rt_tstate_current, addr(w->ts));
		return;
	}
	put(w->is[0], l->py.is_gil, addr(&w->gil[0]));
	w->gil[0].holder = addr(w->ts);
	w->gil[0].locked = 1;
	memcpy(w->ts + l->py.ts_status, &status, sizeof(status));
}

static void expect_stopped(void)
{
	assert_int_equal(remote__stop_holder(&r), 0);
	assert_int_equal(r.cnt, 1);
	assert_int_equal(r.threads[0].tid, w->tid);
	assert_true(r.rest_runs);
	assert_int_equal(remote__state(r.pid, w->tid), 't');
	assert_int_not_equal(remote__state(r.pid, r.pid), 't');
	remote__resume(&r);
	assert_int_not_equal(remote__state(r.pid, w->tid), 't');
}

/* And nobody stands still. */
static void expect_error(int err)
{
	assert_int_equal(remote__stop_holder(&r), err);
	assert_int_equal(r.cnt, 0);
	assert_false(r.rest_runs);
	assert_int_not_equal(remote__state(r.pid, w->tid), 't');
}

/* Where a thread's own state is known it has to be the one that has the lock. */
static void test_holder__by_its_own_state(void **state)
{
	(void)state;
	start(THREADS);
	make_world(&layout_3_12);
	r.lock.tstate_tls = (int32_t)((char *)&own_state - (char *)pthread_self());
	expect_stopped();
	assert_int_equal(remote__holder(&r), w->tid);
	put(w->ts, in->layout.ts_thread_id, w->self[1]); /* one that sleeps has made the state */
	expect_error(-ENOENT);
	put(w->ts, in->layout.ts_thread_id, 0x1000); /* nobody's */
	expect_error(-EAGAIN);
	assert_int_equal(remote__holder(&r), 0);
	make_world(&layout_3_12);
	r.lock.tstate_tls += 8;
	expect_error(-ENOENT);
	r.lock.tstate_tls -= 8;
	expect_stopped();
	end();
}

/* Else it is in the function that runs frames, and has the innermost one. */
static void test_holder__by_its_frame(void **state)
{
	(void)state;
	start(THREADS);
	make_world(&layout_3_9);
	r.lock.loop = addr((void *)loop);
	r.lock.loop_bytes = LOOP_BYTES;
	expect_stopped();
	put(w->ts, in->layout.ts_frame, FRAME + 8); /* another frame */
	expect_error(-ENOENT);
	put(w->ts, in->layout.ts_frame, 0);
	expect_error(-ENOENT);
	make_world(&layout_3_9);
	r.lock.loop -= LOOP_BYTES; /* another function */
	expect_error(-ENOENT);
	r.lock.loop += LOOP_BYTES;
	expect_stopped();
	put(w->ts, in->layout.ts_thread_id, w->self[1]);
	expect_error(-ENOENT);
	end();
}

static void test_holder__who_has_no_lock(void **state)
{
	(void)state;
	start(THREADS);
	make_world(&layout_3_12);
	r.lock.tstate_tls = (int32_t)((char *)&own_state - (char *)pthread_self());
	w->gil[0].locked = 0;
	expect_error(-EAGAIN);
	w->gil[0].locked = 1;
	put(w->is[0], in->layout.is_next, addr(w->is[1])); /* one that has no lock yet */
	expect_error(-EAGAIN);
	put(w->is[1], in->layout.is_gil, addr(&w->gil[1])); /* one of its own */
	expect_error(-EOPNOTSUPP);
	put(w->is[1], in->layout.is_gil, addr(&w->gil[0]));
	expect_stopped();
	r.lock.in = NULL;
	expect_error(-EOPNOTSUPP);
	end();
}

/* Few stand still soon. */
static void test_holder__few_threads(void **state)
{
	(void)state;
	start(3);
	make_world(&layout_3_12);
	r.lock.tstate_tls = (int32_t)((char *)&own_state - (char *)pthread_self());
	expect_error(-EOPNOTSUPP);
	assert_int_equal(remote__stop_python(&r), 0);
	assert_int_equal(r.cnt, 4);
	assert_false(r.rest_runs);
	remote__resume(&r);
	end();
}

static int setup(void **state)
{
	(void)state;
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	in = calloc(1, sizeof(*in));
	return w == MAP_FAILED || !in ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	free(in);
	return munmap(w, sizeof(*w));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holder__by_its_own_state),
		cmocka_unit_test(test_holder__by_its_frame),
		cmocka_unit_test(test_holder__who_has_no_lock),
		cmocka_unit_test(test_holder__few_threads),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
