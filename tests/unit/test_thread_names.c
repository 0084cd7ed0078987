// SPDX-License-Identifier: Apache-2.0
/* Names of threads from memory in which anything can stand: here every word is a pointer into that memory, a small
 * number or both, for each version. What comes of it is nothing that counts on it, in a bounded time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpython/interp.h"
#include "cpython/layouts.h"
#include "cpython/thread_names.h"
#include "proc/mem.h"

#define WORDS 8192

static uint64_t memory[WORDS];
static uint64_t seed = 1;

static uint64_t any(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 33;
}

static void scribble(void)
{
	for (size_t i = 0; i < WORDS; i++) {
		switch (any() % 4) {
		case 0:
			memory[i] = (uint64_t)(uintptr_t)&memory[any() % WORDS];
			break;
		case 1:
			memory[i] = any() % 16;
			break;
		case 2:
			memory[i] = (uint64_t)(uintptr_t)memory + any() % sizeof(memory);
			break;
		default:
			memory[i] = any() << 32 | any();
			break;
		}
	}
}

static struct interp *make(unsigned int minor, bool free_threaded)
{
	struct interp *in = calloc(1, sizeof(*in));

	assert_non_null(in);
	in->layout = layout_find(minor, free_threaded)->py;
	in->interpreters = (uint64_t)(uintptr_t)memory + in->layout.rt_interpreters;
	return in;
}

static void try(const struct proc_mem *mem, const struct interp *in)
{
	struct thread_names names = { 0 };
	int err = thread_names__read(mem, in, 0, &names);

	if (err) {
		assert_null(names.names);
		return;
	}
	for (size_t i = 0; i < names.cnt; i++) {
		assert_true(strnlen(names.names[i].name, THREAD_NAME_SIZE) < THREAD_NAME_SIZE);
		assert_true(!i || names.names[i - 1].thread_id <= names.names[i].thread_id);
	}
	thread_names__done(&names);
}

static void test_any_memory(void **state)
{
	struct proc_mem mem;

	(void)state;
	assert_int_equal(proc_mem__open(getpid(), &mem), 0);
	for (unsigned int minor = 6; minor <= 15; minor++) {
		struct interp *in = make(minor, false);

		for (int i = 0; i < 200; i++) {
			scribble();
			try(&mem, in);
		}
		free(in);
	}
	proc_mem__close(&mem);
}

/* sys.modules, the module, its dict and _active are all the same dict, which is full of itself. */
static void test_a_dict_in_itself(void **state)
{
	struct interp *in = make(12, false);
	uint64_t here = (uint64_t)(uintptr_t)memory;
	struct thread_names names = { 0 };
	struct proc_mem mem;

	(void)state;
	assert_int_equal(proc_mem__open(getpid(), &mem), 0);
	for (size_t i = 0; i < WORDS; i++)
		memory[i] = here;
	assert_true(thread_names__read(&mem, in, here, &names) || !names.cnt);
	thread_names__done(&names);
	proc_mem__close(&mem);
	free(in);
}

static void test_a_version_that_needs_none(void **state)
{
	struct interp *in = make(14, false);
	struct thread_names names = { .cnt = 7 };
	struct proc_mem mem;

	(void)state;
	assert_int_equal(proc_mem__open(getpid(), &mem), 0);
	assert_int_equal(thread_names__read(&mem, in, 0, &names), 0);
	assert_int_equal(names.cnt, 0);
	assert_null(thread_names__find(&names, 1));
	proc_mem__close(&mem);
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_memory),
		cmocka_unit_test(test_a_dict_in_itself),
		cmocka_unit_test(test_a_version_that_needs_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
