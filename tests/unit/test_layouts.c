// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "cpython/interp.h"
#include "cpython/layouts.h"
#include "cpython/version.h"

static void set_field(struct pye_pylayout *py, uint16_t field, uint16_t value)
{
	memcpy((char *)py + field, &value, sizeof(value));
}

static uint16_t get_field(const struct pye_pylayout *py, uint16_t field)
{
	uint16_t value;

	memcpy(&value, (const char *)py + field, sizeof(value));
	return value;
}

/* _Py_DebugOffsets that agree with the table. */
static void make_debug(const struct layout *l, uint8_t out[LAYOUT_DEBUG_SIZE])
{
	memset(out, 0, LAYOUT_DEBUG_SIZE);
	for (const struct layout_debug_field *d = l->debug; d->position; d++) {
		uint64_t value = get_field(&l->py, d->field);

		memcpy(out + d->position, &value, sizeof(value));
	}
}

static void test_layouts__every_version_is_found(void **state)
{
	struct pye_pylayout py;
	struct err e;

	(void)state;
	for (unsigned int minor = 0; minor < 256; minor++) {
		struct probe_plan plan = { .minor = (uint8_t)minor };
		bool known = minor >= 6 && minor <= 15;

		assert_int_equal(interp__layout(&plan, NULL, &py, &e), known ? 0 : -PYE_EVERSION);
		if (known)
			assert_int_equal(py.minor, minor);
		plan.free_threaded = true;
		known = minor >= 13 && minor <= 15;
		assert_int_equal(interp__layout(&plan, NULL, &py, &e), known ? 0 : -PYE_EVERSION);
	}
	assert_string_equal(e.what, "it is CPython 3.255 free-threaded; known are 3.6 to 3.15");
}

static void test_layouts__debug_builds_move_objects_up_to_3_7(void **state)
{
	struct pye_pylayout usual, debug;

	(void)state;
	for (unsigned int minor = 6; minor <= 15; minor++) {
		struct probe_plan plan = { .minor = (uint8_t)minor };
		unsigned int by = minor <= 7 ? 16 : 0;

		assert_int_equal(interp__layout(&plan, NULL, &usual, NULL), 0);
		plan.debug = true;
		assert_int_equal(interp__layout(&plan, NULL, &debug, NULL), 0);
		assert_int_equal(debug.f_code, usual.f_code + by);
		assert_int_equal(debug.co_filename, usual.co_filename + by);
		assert_int_equal(debug.str_data, usual.str_data + by);
		assert_int_equal(debug.type_dealloc, usual.type_dealloc + by);
		assert_int_equal(debug.ts_frame, usual.ts_frame);
		if (minor > 7)
			assert_memory_equal(&debug, &usual, sizeof(usual));
	}
}

static void test_layouts__what_the_interpreter_says_counts(void **state)
{
	static const struct layout *const all[] = { &layout_3_13,  &layout_3_13t, &layout_3_14,
						    &layout_3_14t, &layout_3_15,  &layout_3_15t };
	uint8_t debug[LAYOUT_DEBUG_SIZE];
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		const struct layout *l = all[i];
		struct pye_pylayout py = l->py;
		const struct layout_debug_field *d = l->debug;
		uint64_t value = 2048;

		make_debug(l, debug);
		assert_int_equal(layout_apply_debug(l, debug, sizeof(debug), &py, &why), 0);
		assert_memory_equal(&py, &l->py, sizeof(py));
		while (d->field != LAYOUT_FIELD(ts_native_id))
			d++;
		memcpy(debug + d->position, &value, sizeof(value));
		assert_int_equal(layout_apply_debug(l, debug, sizeof(debug), &py, &why), 0);
		assert_int_equal(py.ts_native_id, 2048);
	}
}

static void test_layouts__lies_are_refused(void **state)
{
	static const uint64_t lies[] = { 65536, UINT64_MAX, 0x8000000000000000, 40000 };
	const struct layout *l = &layout_3_14;
	uint8_t debug[LAYOUT_DEBUG_SIZE];
	struct pye_pylayout py = l->py;
	const char *why = NULL;

	(void)state;
	for (const struct layout_debug_field *d = l->debug; d->position; d++) {
		for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
			make_debug(l, debug);
			memcpy(debug + d->position, &lies[i], sizeof(lies[i]));
			assert_true(layout_apply_debug(l, debug, sizeof(debug), &py, &why) < 0);
			assert_non_null(why);
		}
		make_debug(l, debug);
		assert_true(layout_apply_debug(l, debug, d->position + 7u, &py, &why) < 0);
	}
	memset(debug, 0, sizeof(debug));
	assert_true(layout_apply_debug(l, debug, sizeof(debug), &py, &why) < 0);
	assert_memory_equal(&py, &l->py, sizeof(py));
}

static void test_layouts__a_frame_must_lie_in_what_is_read_of_it(void **state)
{
	const struct layout *l = &layout_3_13;
	uint8_t debug[LAYOUT_DEBUG_SIZE];
	struct pye_pylayout py = l->py;
	const char *why;

	(void)state;
	set_field(&py, LAYOUT_FIELD(f_instr), 80);
	for (const struct layout_debug_field *d = l->debug; d->position; d++) {
		uint64_t value = PYE_FRAME_READ;

		if (d->field != LAYOUT_FIELD(f_instr) && d->field != LAYOUT_FIELD(f_owner))
			continue;
		make_debug(l, debug);
		memcpy(debug + d->position, &value, sizeof(value));
		assert_true(layout_apply_debug(l, debug, sizeof(debug), &py, &why) < 0);
	}
}

static void test_version__debug_offsets(void **state)
{
	uint8_t data[64] = "xdebugpy";
	uint64_t words[] = { 0x030d05f0, 1 }, size = 194976;
	struct version_debug head;

	(void)state;
	memcpy(data + 8, words, sizeof(words));
	memcpy(data + 48, &size, sizeof(size));
	assert_int_equal(version_parse_debug(data, sizeof(data), &head), 0);
	assert_int_equal(head.minor, 13);
	assert_int_equal(head.hex, 0x030d05f0);
	assert_true(head.free_threaded);
	assert_int_equal(head.is_size, 194976);
	assert_true(version_parse_debug(data, 55, &head) < 0);
	data[11] = 4;
	assert_true(version_parse_debug(data, sizeof(data), &head) < 0);
	data[11] = 3;
	data[0] = 'y';
	assert_true(version_parse_debug(data, sizeof(data), &head) < 0);
}

static void check_text(const char *data, size_t len, unsigned int minor, const char *want)
{
	char out[VERSION_TEXT_SIZE] = "";
	int micro = version_find_text(data, len, minor, out, sizeof(out));

	assert_int_equal(micro >= 0, want != NULL);
	if (want)
		assert_string_equal(out, want);
}

#define CHECK_TEXT(data, minor, want) check_text(data, sizeof(data), minor, want)

static void test_version__string(void **state)
{
	(void)state;
	CHECK_TEXT("a\0003.9.2", 9, "3.9.2");
	CHECK_TEXT("3.10.13+", 10, "3.10.13+");
	CHECK_TEXT("x\0003.15.0a3\0y", 15, "3.15.0a3");
	CHECK_TEXT("/b/Python-3.9.18\0/usr/lib/python3.9", 9, "3.9.18");
	/* one that stands alone counts more than the end of another string */
	CHECK_TEXT("/opt/3.9.1\0003.9.2\0/opt/3.9.4", 9, "3.9.2");
	CHECK_TEXT("/opt/3.9.1\0/opt/3.9.2", 9, NULL);
	CHECK_TEXT("/opt/3.9.1\0/opt/3.9.2\0003.9.5", 9, "3.9.5");
	CHECK_TEXT("1.3.9.2", 9, NULL);
	CHECK_TEXT("13.9.2", 9, NULL);
	CHECK_TEXT("3.9.2345", 9, NULL);
	CHECK_TEXT("3.9.x", 9, NULL);
	CHECK_TEXT("3.9.", 9, NULL);
	check_text("3.9.2", 5, 9, NULL); /* no NUL */
	check_text("", 0, 9, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts__every_version_is_found),
		cmocka_unit_test(test_layouts__debug_builds_move_objects_up_to_3_7),
		cmocka_unit_test(test_layouts__what_the_interpreter_says_counts),
		cmocka_unit_test(test_layouts__lies_are_refused),
		cmocka_unit_test(test_layouts__a_frame_must_lie_in_what_is_read_of_it),
		cmocka_unit_test(test_version__debug_offsets),
		cmocka_unit_test(test_version__string),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
