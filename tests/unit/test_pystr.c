// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpython/code_read.h"
#include "cpython/layouts.h"
#include "cpython/pystr.h"
#include "proc/mem.h"

static const struct pye_pylayout *const old = &layout_3_11.py, *const ft = &layout_3_14t.py;

/* States as PyUnicode_New() makes them: kind, compact, ascii; in the bits of @l. */
static uint32_t make_state(const struct pye_pylayout *l, unsigned int kind, bool compact,
			   bool ascii)
{
	uint32_t state = kind * (l->str_kind_mask & -l->str_kind_mask);

	return state | (compact ? l->str_compact_mask : 0) | (ascii ? l->str_ascii_mask : 0) | 3;
}

static void check(unsigned int kind, const void *data, size_t length, const char *want)
{
	char out[128];

	for (int i = 0; i < 2; i++) {
		const struct pye_pylayout *l = i ? ft : old;
		size_t n = pystr_decode(l, make_state(l, kind, true, false), length, data,
					length * kind, out, sizeof(out));

		assert_string_equal(out, want);
		assert_int_equal(n, strlen(want));
	}
}

static void test_pystr__every_kind(void **state)
{
	static const uint16_t two[] = { 'a', 0, 0xe9, 0x20ac, 0xd83d, 0xde00, 0xdfff };
	static const uint32_t four[] = { 'a', 0x1f600, 0xd800, 0x110000, 0 };

	(void)state;
	check(1, "<lambda>", 8, "<lambda>");
	check(1, "caf\xe9", 4, "caf\xc3\xa9");
	check(1, "a\0b", 3,
	      "a\xc0\x80"
	      "b");
	check(1, "", 0, "");
	check(2, two, 7, "a\xc0\x80\xc3\xa9\xe2\x82\xac\xed\xa0\xbd\xed\xb8\x80\xed\xbf\xbf");
	check(4, four, 5, "a\xf0\x9f\x98\x80\xed\xa0\x80\xef\xbf\xbd\xc0\x80");
}

static void test_pystr__place_and_kind_come_from_the_layout(void **state)
{
	(void)state;
	assert_int_equal(pystr_place(old, make_state(old, 1, true, true)), PYSTR_ASCII);
	assert_int_equal(pystr_place(ft, make_state(ft, 1, true, true)), PYSTR_ASCII);
	assert_int_equal(pystr_place(ft, make_state(ft, 2, true, false)), PYSTR_COMPACT);
	assert_int_equal(pystr_place(old, make_state(old, 2, false, false)), PYSTR_POINTER);
	/* a str subclass may hold ASCII outside of itself */
	assert_int_equal(pystr_place(old, make_state(old, 1, false, true)), PYSTR_POINTER);
	assert_int_equal(pystr_kind(old, make_state(old, 4, true, false)), 4);
	assert_int_equal(pystr_kind(old, 0), 0);
	assert_int_equal(pystr_kind(old, make_state(old, 3, true, false)), 0);
	assert_int_equal(pystr_kind(ft, make_state(ft, 7, true, false)), 0);
}

static void test_pystr__no_str(void **state)
{
	char out[PYSTR_SIZE_MIN] = "before";

	(void)state;
	assert_int_equal(pystr_decode(old, 0, 5, "abcde", 5, out, sizeof(out)), 0);
	assert_string_equal(out, "");
}

static void test_pystr__long_names_stay_distinct(void **state)
{
	static char text[10000];
	char a[PYSTR_SIZE], b[PYSTR_SIZE];
	uint32_t ascii = make_state(old, 1, true, true);
	size_t n;

	(void)state;
	memset(text, 'x', sizeof(text));
	n = pystr_decode(old, ascii, sizeof(text), text, sizeof(text), a, sizeof(a));
	assert_int_equal(n, PYSTR_SIZE - 1);
	assert_int_equal(strlen(a), n);
	assert_memory_equal(a + n - 20, "...#", 4);
	text[9999] = 'y';
	pystr_decode(old, ascii, sizeof(text), text, sizeof(text), b, sizeof(b));
	assert_string_not_equal(a, b);
	assert_memory_equal(a, b, n - 16);
	/* cut by the reader: the length still counts */
	pystr_decode(old, ascii, 9000, text, 100, a, sizeof(a));
	pystr_decode(old, ascii, 9001, text, 100, b, sizeof(b));
	assert_int_equal(strlen(a), 120);
	assert_string_not_equal(a, b);
	pystr_decode(old, ascii, UINT64_MAX, text, 0, a, sizeof(a));
	assert_memory_equal(a, "...#", 4);
}

static void test_pystr__the_cap_is_exact_and_cuts_between_characters(void **state)
{
	static const uint16_t euros[40] = { [0 ... 39] = 0x20ac };
	uint32_t two = make_state(old, 2, true, false);
	char out[64];

	(void)state;
	assert_int_equal(pystr_decode(old, two, 21, euros, 42, out, 64), 63); /* just fits */
	assert_null(strchr(out, '#'));
	assert_int_equal(pystr_decode(old, two, 22, euros, 44, out, 64), 42 + 20);
	assert_memory_equal(out + 39, "\xe2\x82\xac...#", 7);
	/* an odd number of bytes of two-byte characters */
	assert_int_equal(pystr_decode(old, two, 2, euros, 3, out, 64), 3 + 20);
}

static void test_pystr__read_from_a_process(void **state)
{
	static const uint16_t wide[] = { 0x20ac, 'b' };
	struct proc_mem mem;
	char object[128] = { 0 }, out[64];
	uint64_t length = 2, pointer = (uintptr_t)wide;
	uint32_t word = make_state(old, 2, false, false);

	(void)state;
	assert_int_equal(proc_mem__open(getpid(), &mem), 0);
	memcpy(object + old->str_length, &length, 8);
	memcpy(object + old->str_state, &word, 4);
	memcpy(object + old->str_data, &pointer, 8);
	assert_int_equal(str_read(&mem, old, (uintptr_t)object, out, sizeof(out)), 0);
	assert_string_equal(out, "\xe2\x82\xac"
				 "b");
	length = UINT64_MAX;
	memcpy(object + old->str_length, &length, 8);
	assert_true(str_read(&mem, old, (uintptr_t)object, out, sizeof(out)) < 0);
	assert_true(str_read(&mem, old, 8, out, sizeof(out)) < 0);
	assert_true(str_read(&mem, old, UINT64_MAX - 20, out, sizeof(out)) < 0);
	proc_mem__close(&mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pystr__every_kind),
		cmocka_unit_test(test_pystr__place_and_kind_come_from_the_layout),
		cmocka_unit_test(test_pystr__no_str),
		cmocka_unit_test(test_pystr__long_names_stay_distinct),
		cmocka_unit_test(test_pystr__the_cap_is_exact_and_cuts_between_characters),
		cmocka_unit_test(test_pystr__read_from_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
