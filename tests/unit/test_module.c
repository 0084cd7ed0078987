// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "profile/module.h"

static void test_module_name__of_paths(void **state)
{
	static const char *const rows[][2] = {
		{ "json/decoder.py", "json.decoder" },
		{ "json/__init__.py", "json" },
		{ "__init__.py", "__init__" },
		{ "/app/x.py", "x" },
		{ "/app/pkg/__init__.py", "__init__" },
		{ "x.pyc", "x" },
		{ "x", "x" },
		{ "a.b/c.py", "a.b.c" },
		{ "<string>", "<string>" },
		{ "<frozen importlib._bootstrap>", "importlib._bootstrap" },
		{ "<frozen >", "<frozen >" },
		{ "<frozen x", "<frozen x" },
		{ "/", "" },
		{ "", "" },
		{ ".py", "" },
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(module_name(out, sizeof(out), rows[i][0]), rows[i][1]);
	assert_string_equal(module_name(out, 4, "json/decoder.py"), "jso");
	assert_string_equal(module_name(out, 4, "<string>"), "<st");
}

static bool meant(const char *text, const char *file, const char *short_file, const char *qualname)
{
	struct func_spec spec;

	func_spec_parse(&spec, text);
	return func_spec_matches(&spec, file, short_file, qualname, 332);
}

static void test_func_spec__decode(void **state)
{
	static const char *const good[] = {
		"JSONDecoder.decode",
		"json.decoder.JSONDecoder.decode",
		"json.decoder:JSONDecoder.decode",
		"decoder.JSONDecoder.decode",
		"decoder:JSONDecoder.decode",
		"JSONDecoder.decode:332",
		"json.decoder:JSONDecoder.decode:332",
		"json/decoder.py:JSONDecoder.decode",
		"/usr/lib/python3.12/json/decoder.py:JSONDecoder.decode",
		"decoder.py:JSONDecoder.decode:332",
	};
	static const char *const bad[] = {
		"",
		":",
		"decode",
		".decode",
		"XJSONDecoder.decode",
		".JSONDecoder.decode",
		":JSONDecoder.decode",
		"coder.JSONDecoder.decode",
		"coder.py:JSONDecoder.decode",
		"json/decoder.py.JSONDecoder.decode",
		"JSONDecoder.decode:331",
		"JSONDecoder.decode:",
		"JSONDecoder.decode:4294967628", /* 332 in 32 bits */
		"x.json.decoder.JSONDecoder.decode",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(meant(good[i], "/usr/lib/python3.12/json/decoder.py", "json/decoder.py",
				  "JSONDecoder.decode"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(meant(bad[i], "/usr/lib/python3.12/json/decoder.py", "json/decoder.py",
				   "JSONDecoder.decode"));
}

static void test_func_spec__odd_names(void **state)
{
	(void)state;
	assert_true(meant("x:a:b", "/app/x.py", "/app/x.py", "a:b"));
	assert_true(meant("<module>", "<string>", "<string>", "<module>"));
	assert_true(meant("<string>:<module>", "<string>", "<string>", "<module>"));
	assert_true(meant("f.<locals>.<lambda>", "/x.py", "/x.py", "f.<locals>.<lambda>"));
	assert_false(meant("", "", "", ""));
	assert_false(meant(":", "", "", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_module_name__of_paths),
		cmocka_unit_test(test_func_spec__decode),
		cmocka_unit_test(test_func_spec__odd_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
