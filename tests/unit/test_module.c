// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "profile/code_glob.h"
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

static void test_glob__stars_and_question_marks(void **state)
{
	static const char *const good[][2] = { { "", "" },	    { "*", "" },
					       { "**", "abc" },	    { "a?c", "abc" },
					       { "*b*c", "abxbc" }, { "a*", "a" },
					       { "*.*", "a.b." },   { "[a]", "[a]" } };
	static const char *const bad[][2] = { { "", "a" },     { "?", "" },    { "a", "ab" },
					      { "*b", "abc" }, { "a*a", "a" }, { "[a]", "a" } };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(glob_matches(good[i][0], good[i][1]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(glob_matches(bad[i][0], bad[i][1]));
}

/* A matcher that tries every way for every star would not come back from this. */
static void test_glob__a_hostile_text(void **state)
{
	static char text[60000];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	assert_false(glob_matches("*a*a*a*a*a*a*a*a*b", text));
	assert_false(code_glob_matches("*a*a*a*a*a*a*a*a*/b", text, NULL));
}

static void test_code_glob__modules_and_files(void **state)
{
	static const struct {
		const char *glob, *file, *below;
		bool is;
	} rows[] = {
		{ "json", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", true },
		{ "json.*", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", true },
		{ "json", "/usr/lib/python3.12/json/__init__.py", "json/__init__.py", true },
		{ "json.*", "/usr/lib/python3.12/json/__init__.py", "json/__init__.py", false },
		{ "decoder", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", false },
		{ "js", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", false },
		{ "js*", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", true },
		{ "lib*", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", false },
		{ "lib/*", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", true },
		{ "decoder.py", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", true },
		{ "ecoder.py", "/usr/lib/python3.12/json/decoder.py", "json/decoder.py", false },
		{ "app", "/srv/x/app.py", NULL, true },
		{ "x", "/srv/x/app.py", NULL, false },
		{ "x/*", "/srv/x/y/app.py", NULL, true },
		{ "/srv/x/*", "/srv/x/y/app.py", NULL, true },
		{ "/srv/x", "/srv/x/app.py", NULL, false },
		{ "importlib", "<frozen importlib._bootstrap>", NULL, true },
		{ "<*", "<string>", NULL, true },
		{ "app", "", NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (code_glob_matches(rows[i].glob, rows[i].file, rows[i].below) != rows[i].is)
			fail_msg("%s, %s", rows[i].glob, rows[i].file);
}

static void test_file__is_what_a_process_runs(void **state)
{
	static const struct {
		const char *program;
		bool is_module;
		const char *file, *short_file;
		bool is;
	} rows[] = {
		{ "app.py", false, "/srv/app.py", "/srv/app.py", true },
		{ "./app.py", false, "/srv/./app.py", "/srv/./app.py", true },
		{ "../app.py", false, "/srv/x/../app.py", "/srv/x/../app.py", true },
		{ "/srv/app.py", false, "/srv/app.py", "/srv/app.py", true },
		{ "pp.py", false, "/srv/app.py", "/srv/app.py", false },
		{ "app.py", false, "/srv/other.py", "/srv/other.py", false },
		{ "<string>", false, "<string>", "<string>", true },
		{ "", false, "/srv/app.py", "/srv/app.py", false },
		{ "shop.api", true, "/srv/shop/api.py", "/srv/shop/api.py", true },
		{ "shop", true, "/srv/shop/__main__.py", "/srv/shop/__main__.py", true },
		{ "shop", true, "/srv/shop/api.py", "/srv/shop/api.py", false },
		{ "json.tool", true, "/usr/lib/python3.12/json/tool.py", "json/tool.py", true },
		{ "pip", true, "/x/site-packages/pip/__main__.py", "pip/__main__.py", true },
		{ "json", true, "/usr/lib/python3.12/json/tool.py", "json/tool.py", false },
		{ "", true, "/srv/app.py", "/srv/app.py", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (file_is_main(rows[i].program, rows[i].is_module, rows[i].file,
				 rows[i].short_file) != rows[i].is)
			fail_msg("%s: %s", rows[i].program, rows[i].file);
}

static void test_func_spec__in_main(void **state)
{
	static const char *const others[] = { "main:f", "__main__", "__main__:", "__main__x:f",
					      "f" };
	struct func_spec spec, rest;

	(void)state;
	func_spec_parse(&spec, "__main__:A.f:12");
	assert_true(func_spec_in_main(&spec, &rest));
	assert_true(func_spec_matches(&rest, "x.py", "x.py", "A.f", 12));
	assert_false(func_spec_matches(&rest, "x.py", "x.py", "A.f", 13));
	assert_false(func_spec_matches(&rest, "x.py", "x.py", "B.A.f", 12));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		func_spec_parse(&spec, others[i]);
		assert_false(func_spec_in_main(&spec, &rest));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_glob__stars_and_question_marks),
		cmocka_unit_test(test_glob__a_hostile_text),
		cmocka_unit_test(test_code_glob__modules_and_files),
		cmocka_unit_test(test_module_name__of_paths),
		cmocka_unit_test(test_func_spec__decode),
		cmocka_unit_test(test_func_spec__odd_names),
		cmocka_unit_test(test_func_spec__in_main),
		cmocka_unit_test(test_file__is_what_a_process_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
