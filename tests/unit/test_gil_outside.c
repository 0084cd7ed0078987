// SPDX-License-Identifier: Apache-2.0
/* Who holds the interpreter's lock, in structures made up in our own memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpython/gil_outside.h"
#include "cpython/interp.h"
#include "cpython/layouts.h"
#include "proc/mem.h"

#define ACTIVE (1u << 4)

/* Larger than those of any version, but for _PyRuntime, of which all that is read lies in the first part. */
static struct {
	uint8_t runtime[4096], is[3][16384], ts[2][1024];
	struct {
		uint64_t interval, holder;
		int32_t locked, pad;
		uint64_t switches;
	} gil[2];
} w;
static struct proc_mem mem;
static struct interp *in;

static uint64_t addr(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void put(void *object, unsigned int offset, uint64_t value)
{
	memcpy((char *)object + offset, &value, sizeof(value));
}

static void set_status(uint32_t status)
{
	memcpy(w.ts[0] + in->layout.ts_status, &status, sizeof(status));
}

/* One interpreter. */
static void make_world(const struct layout *l)
{
	memset(&w, 0, sizeof(w));
	in->layout = l->py;
	in->interpreters = addr(w.runtime) + l->py.rt_interpreters;
	put(w.runtime, l->py.rt_interpreters, addr(w.is[0]));
}

static int setup(void **state)
{
	(void)state;
	in = calloc(1, sizeof(*in));
	return in ? proc_mem__open(getpid(), &mem) : -1;
}

static int teardown(void **state)
{
	(void)state;
	proc_mem__close(&mem);
	free(in);
	return 0;
}

/* To 3.11: the state that runs says it. */
static void test_gil__by_the_state_that_runs(void **state)
{
	uint64_t gil;
	unsigned int none;

	(void)state;
	make_world(&layout_3_9);
	assert_int_equal(gil__shared(&mem, in, &gil, &none), 1);
	assert_int_equal(gil, addr(w.runtime) + in->layout.rt_gil);
	assert_int_equal(gil__holder(&mem, in, gil), 0);
	assert_false(gil__is_held_by(&mem, in, gil, addr(w.ts[0])));
	assert_false(gil__is_held_by(&mem, in, gil, 0));
	put(w.runtime, in->layout.rt_tstate_current, addr(w.ts[0]));
	assert_int_equal(gil__holder(&mem, in, gil), addr(w.ts[0]));
	assert_true(gil__is_held_by(&mem, in, gil, addr(w.ts[0])));
	assert_false(gil__is_held_by(&mem, in, gil, addr(w.ts[1])));
	put(w.is[0], in->layout.is_next, addr(w.is[1])); /* there is no other lock */
	assert_int_equal(gil__shared(&mem, in, &gil, &none), 2);
	assert_int_equal(none, 0);
}

/* From 3.12 on: the lock says who had it last, and the state whether it is in use. */
static void test_gil__by_the_lock(void **state)
{
	static const struct layout *const versions[] = { &layout_3_12, &layout_3_13, &layout_3_14,
							 &layout_3_15 };
	uint64_t gil;
	unsigned int none;

	(void)state;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		make_world(versions[i]);
		assert_int_equal(gil__shared(&mem, in, &gil, &none), 1);
		assert_int_equal(gil, 0);
		assert_int_equal(none, 1); /* it has none yet */
		put(w.is[0], in->layout.is_gil, addr(&w.gil[0]));
		assert_int_equal(gil__shared(&mem, in, &gil, &none), 1);
		assert_int_equal(gil, addr(&w.gil[0]));
		w.gil[0].holder = addr(w.ts[0]);
		set_status(ACTIVE);
		assert_int_equal(gil__holder(&mem, in, gil), 0); /* it was the last one */
		assert_false(gil__is_held_by(&mem, in, gil, addr(w.ts[0])));
		w.gil[0].locked = 1;
		assert_true(gil__is_held_by(&mem, in, gil, addr(w.ts[0])));
		assert_false(gil__is_held_by(&mem, in, gil, addr(w.ts[1])));
		set_status(~ACTIVE); /* another one has got it, and has not said so yet */
		assert_int_equal(gil__holder(&mem, in, gil), addr(w.ts[0]));
		assert_false(gil__is_held_by(&mem, in, gil, addr(w.ts[0])));
	}
}

static void test_gil__of_each_interpreter(void **state)
{
	uint64_t gil;
	unsigned int none;

	(void)state;
	make_world(&layout_3_13);
	put(w.is[0], in->layout.is_next, addr(w.is[1]));
	put(w.is[1], in->layout.is_next, addr(w.is[2]));
	put(w.is[1], in->layout.is_gil, addr(&w.gil[0]));
	put(w.is[2], in->layout.is_gil, addr(&w.gil[0]));
	assert_int_equal(gil__shared(&mem, in, &gil, &none), 3);
	assert_int_equal(none, 1); /* the first one begins */
	assert_int_equal(gil, addr(&w.gil[0]));
	put(w.is[0], in->layout.is_gil, addr(&w.gil[1]));
	assert_int_equal(gil__shared(&mem, in, &gil, &none), 0);
}

static uint64_t turns_of(struct gil_turns *out)
{
	gil__turns(&mem, in, out);
	return out->gil;
}

/* How often it has come to another thread. */
static void test_gil__turns(void **state)
{
	static const struct layout *const versions[] = { &layout_3_7, &layout_3_8, &layout_3_9,
							 &layout_3_10, &layout_3_11 };
	struct gil_turns turns;

	(void)state;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		make_world(versions[i]);
		w.gil[0].holder = addr(w.ts[1]);
		w.gil[0].switches = 7;
		memcpy(w.runtime + in->layout.rt_gil, &w.gil[0], sizeof(w.gil[0]));
		assert_int_not_equal(turns_of(&turns), 0);
		assert_int_equal(turns.gil, addr(w.runtime) + in->layout.rt_gil);
		assert_int_equal(turns.holder, addr(w.ts[1]));
		assert_int_equal(turns.switches, 7);
		w.gil[0].locked = 1;
		memcpy(w.runtime + in->layout.rt_gil, &w.gil[0], sizeof(w.gil[0]));
		put(w.runtime, in->layout.rt_tstate_current, addr(w.ts[1]));
		assert_int_not_equal(turns_of(&turns), 0);
		put(w.runtime, in->layout.rt_tstate_current,
		    addr(w.ts[0])); /* another state of the same thread */
		assert_int_equal(turns_of(&turns), 0);
	}
	make_world(&layout_3_14);
	assert_int_equal(turns_of(&turns), 0); /* it has none yet */
	w.gil[0].holder = addr(w.ts[0]);
	w.gil[0].switches = 1ull << 40;
	put(w.is[0], in->layout.is_gil, addr(&w.gil[0]));
	assert_int_not_equal(turns_of(&turns), 0);
	assert_int_equal(turns.holder, addr(w.ts[0]));
	assert_int_equal(turns.switches, 1ull << 40);
	w.gil[0].locked = 1;
	assert_int_equal(turns_of(&turns), 0); /* by another state */
	set_status(ACTIVE);
	assert_int_not_equal(turns_of(&turns), 0);
	put(w.is[0], in->layout.is_next, addr(w.is[1])); /* one that may be about to have its own */
	assert_int_equal(turns_of(&turns), 0);
	put(w.is[1], in->layout.is_gil, addr(&w.gil[1]));
	assert_int_equal(turns_of(&turns), 0);
	put(w.is[1], in->layout.is_gil, addr(&w.gil[0]));
	assert_int_not_equal(turns_of(&turns), 0);
	in->layout.flags |= PYE_LAYOUT_FREE_THREADED; /* it is not in use */
	assert_int_equal(turns_of(&turns), 0);
	in->layout = layout_3_6.py; /* whose parts are variables of their own */
	assert_int_equal(turns_of(&turns), 0);
	make_world(&layout_3_12);
	put(w.is[0], in->layout.is_gil, 8);
	assert_int_equal(turns_of(&turns), 0);
}

static void test_gil__hostile(void **state)
{
	uint64_t gil;
	unsigned int none;

	(void)state;
	make_world(&layout_3_12);
	put(w.is[0], in->layout.is_next, addr(w.is[0])); /* a cycle */
	assert_int_equal(gil__shared(&mem, in, &gil, &none), -EFAULT);
	put(w.is[0], in->layout.is_next, 8);
	assert_int_equal(gil__shared(&mem, in, &gil, &none), -EFAULT);
	put(w.is[0], in->layout.is_next, 0);
	put(w.is[0], in->layout.is_gil, 8);
	assert_int_equal(gil__shared(&mem, in, &gil, &none), 1);
	assert_int_equal(gil__holder(&mem, in, gil), 0);
	assert_false(gil__is_held_by(&mem, in, gil, 8));
	put(w.is[0], in->layout.is_gil, addr(&w.gil[0]));
	w.gil[0].locked = 1;
	w.gil[0].holder = 8;
	assert_false(gil__is_held_by(&mem, in, addr(&w.gil[0]), 8));
	put(w.runtime, in->layout.rt_interpreters, 0); /* before its start-up */
	assert_int_equal(gil__shared(&mem, in, &gil, &none), -EFAULT);
	in->interpreters = 0;
	assert_int_equal(gil__shared(&mem, in, &gil, &none), -EFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gil__by_the_state_that_runs),
		cmocka_unit_test(test_gil__by_the_lock),
		cmocka_unit_test(test_gil__of_each_interpreter),
		cmocka_unit_test(test_gil__turns),
		cmocka_unit_test(test_gil__hostile),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
