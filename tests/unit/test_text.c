// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"

static void test_text__every_code_point_round_trips(void **state)
{
	char utf8[4];
	uint32_t cp;

	(void)state;
	for (uint32_t want = 0; want <= 0x10ffff; want++) {
		size_t n = text_put_code_point(utf8, want);

		assert_int_equal(text_next(utf8, n, &cp), n);
		assert_int_equal(cp, want);
	}
	assert_int_equal(text_put_code_point(utf8, 0x110000), 3);
	assert_memory_equal(utf8, "\xef\xbf\xbd", 3);
}

static void test_text__bytes_that_are_no_utf8(void **state)
{
	static const char *const bad[] = {
		"\x80",		"\xbf",	    "\xc0\xaf",		"\xc1\xbf",
		"\xe0\x80\x80", "\xe2\x82", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
		"\xf8\x88\x80", "\xff"
	};
	uint32_t cp;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(text_next(bad[i], strlen(bad[i]), &cp), 1);
		assert_int_equal(cp, 0xfffd);
	}
	assert_int_equal(text_next("\xc0\x80", 2, &cp), 2);
	assert_int_equal(cp, 0);
	assert_int_equal(text_next("\xc0\x80", 1, &cp), 1);
	assert_int_equal(cp, 0xfffd);
}

static void test_text__escape(void **state)
{
	char out[128];

	(void)state;
#define ESCAPED(in) text_escape(out, sizeof(out), in, sizeof(in) - 1)
	assert_string_equal(ESCAPED("caf\xc3\xa9 \\ ok"), "caf\xc3\xa9 \\ ok");
	assert_string_equal(ESCAPED("\x1b[31m\a\n\x7f\xc2\x9b"), "\\x1b[31m\\x07\\x0a\\x7f\\x9b");
	assert_string_equal(ESCAPED("\xe2\x80\xae\xed\xb2\x80\xff\xc0\x80"),
			    "\\u202e\\udc80\\xff\\x00");
#undef ESCAPED
	assert_string_equal(text_escape(out, 4, "\xe2\x82\xac\xe2\x82\xac", 6), "\xe2\x82\xac");
	assert_string_equal(text_escape(out, 1, "a", 1), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text__every_code_point_round_trips),
		cmocka_unit_test(test_text__bytes_that_are_no_utf8),
		cmocka_unit_test(test_text__escape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
