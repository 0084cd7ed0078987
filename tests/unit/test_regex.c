// SPDX-License-Identifier: Apache-2.0
/* Expressions are compiled in no time, or refused with what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <errno.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/regex.h"

/* A mistake in the bounds would take gigabytes and hours. */
static int bounded(void **state)
{
	(void)state;
#if !defined(__SANITIZE_ADDRESS__) /* which needs memory for itself */
	return setrlimit(RLIMIT_AS, &(struct rlimit){ 512u << 20, 512u << 20 });
#else
	return 0;
#endif
}

static void test_regex__matches_the_whole(void **state)
{
	static const struct {
		const char *text, *value;
		int matches;
	} wants[] = {
		{ "a|b", "a", 1 },
		{ "a|b", "ab", 0 },
		{ "", "", 1 },
		{ "(a{1,9}b){2}", "aabab", 1 },
		{ "[]()+{]+", "](){", 1 },
		{ "[^]a][[:digit:]][[.-.]]", "b7-", 1 },
		{ "[a\\]x", "\\x", 1 },
		{ "\\(\\{\\\\", "({\\", 1 },
		{ "[a-z0-9]{1,63}(\\.[a-z0-9]{1,63})*", "shop.example", 1 },
		{ "a{1,255}", "aaa", 1 },
		{ "((((a+)+)+)+)+", "aaaa", 1 },
		{ "(a?b*c|d)*", "accd", 1 },
		{ "(a*b*){100}", "aabb", 1 },
		{ "((a|b?)c+)*d?", "accbc", 1 },
		{ "(|a)(b?){3}", "bb", 1 },
		{ "((a{1,31}){1,15}|x{3,}|y{,5})?", "xxxx", 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		char why[128] = "";
		regex_t r;

		if (regex_compile(&r, wants[i].text, REG_NOSUB, why, sizeof(why)))
			fail_msg("%s: %s", wants[i].text, why);
		assert_int_equal(!regexec(&r, wants[i].value, 0, NULL, 0), wants[i].matches);
		regfree(&r);
	}
}

static void test_regex__refuses(void **state)
{
	static const char *const wants[][2] = {
		{ "(a{1,255}){1,255}", "longer than 1024" },
		{ "((a{1,255}){1,255}", "a ( without its )" },
		{ "a{32767}{32767}", "longer than 1024" },
		{ "(((((((((((a+)+)+)+)+)+)+)+)+)+)+)+", "longer than 1024" },
		{ "[)](b{1,200}){6}", "longer than 1024" },
		{ "[[:digit:]]{1025}", "longer than 1024" },
		{ "((a|b)(c|d){1,20}){1,99}", "longer than 1024" },
		{ "a{18446744073709551615}", "longer than 1024" },
		{ "(a*)\\1", "no back-references" },
		{ "((a*)*){20}", "what can be empty is repeated" },
		{ "(a|b?)+", "what can be empty is repeated" },
		{ "(a|){2,}", "what can be empty is repeated" },
		{ "(^|$)*", "what can be empty is repeated" },
		{ "((a?b*)(c{0,3}))+", "what can be empty is repeated" },
		{ "a**", "what can be empty is repeated" },
		{ "()*", "what can be empty is repeated" },
		{ "a)|(b", "a ) without its (" },
		{ "(", "a ( without its )" },
		{ "a\\", "" },
		{ "[a", "" },
		{ "a{2,1}", "" },
		{ "a{b}", "" },
		{ "[[:", "" },
	};
	char deep[400];

	(void)state;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		char why[128] = "";
		regex_t r;

		assert_int_equal(regex_compile(&r, wants[i][0], 0, why, sizeof(why)), -EINVAL);
		if (!*why || !strstr(why, wants[i][1]))
			fail_msg("%s: %s", wants[i][0], why);
	}
	memset(deep, '(', 100);
	memset(deep + 100, ')', 100);
	deep[200] = '\0';
	assert_int_equal(regex_compile(&(regex_t){ 0 }, deep, 0, deep + 201, 128), -EINVAL);
	assert_string_equal(deep + 201, "groups are nested too deep");
}

static void test_regex__long(void **state)
{
	char text[REGEX_MAX + 2], why[128];
	regex_t r;

	(void)state;
	memset(text, 'a', sizeof(text));
	text[REGEX_MAX] = '\0';
	assert_int_equal(regex_compile(&r, text, 0, why, sizeof(why)), 0);
	regfree(&r);
	text[REGEX_MAX] = 'a';
	text[REGEX_MAX + 1] = '\0';
	assert_int_equal(regex_compile(&r, text, 0, why, sizeof(why)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regex__matches_the_whole),
		cmocka_unit_test(test_regex__refuses),
		cmocka_unit_test(test_regex__long),
	};

	return cmocka_run_group_tests(tests, bounded, NULL);
}
