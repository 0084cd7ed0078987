// SPDX-License-Identifier: Apache-2.0
/* YAML as settings need it: a tree with lines, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/yaml.h"

static void show(const struct yaml_node *n, char *out, size_t size)
{
	static const char *const open[] = { "", "[", "{" }, *const close[] = { "", "]", "}" };
	size_t at = strlen(out);

	snprintf(out + at, size - at, "%s%u:%s%s%s", at ? " " : "", n->line, n->key ? n->key : "",
		 n->key ? "=" : "", n->kind == YAML_TEXT ? n->text : open[n->kind]);
	for (const struct yaml_node *c = n->first; c; c = c->next)
		show(c, out, size);
	at = strlen(out);
	snprintf(out + at, size - at, "%s", close[n->kind]);
}

static void test_yaml__tree(void **state)
{
	static const struct {
		const char *text, *tree;
	} wants[] = {
		{ "", "1:{}" },
		{ "# nothing\n", "2:{}" },
		{ "---\n", "2:{}" },
		{ "a: 1\nb: 'x: y'\nc:\n", "1:{ 1:a=1 2:b=x: y 3:c=}" },
		{ "a:\n  - 1\n  - {b: 2, c: [3]}\nd: |\n  e\n  f\n",
		  "1:{ 1:a=[ 2:1 3:{ 3:b=2 3:c=[ 3:3]}] 4:d=e\nf\n}" },
		{ "? a\n: b\n", "1:{ 1:a=b}" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		char got[512] = "";
		struct err e = { 0 };
		struct yaml *y;

		assert_int_equal(yaml__parse(&y, wants[i].text, strlen(wants[i].text), &e), 0);
		show(yaml__root(y), got, sizeof(got));
		assert_string_equal(got, wants[i].tree);
		yaml__free(y);
	}
}

static void refuses(const char *text, size_t len, const char *said)
{
	struct err e = { 0 };
	struct yaml *y;

	assert_int_equal(yaml__parse(&y, text, len, &e), -PYE_EUSAGE);
	if (!strstr(e.what, said))
		fail_msg("said \"%s\", not \"%s\"", e.what, said);
}

static void test_yaml__refuses(void **state)
{
	static const char *const wants[][2] = {
		{ "a: 1\nb: 2\na: 3\n", "line 3: a a second time, after line 1" },
		{ "- a\n", "line 1: want names and values" },
		{ "a\n", "line 1: want names and values" },
		{ "a: 1\n b: 2\n", "line 2: no YAML" },
		{ "a: 'x\n", "no YAML" },
		{ "a: &x 1\nb: *x\n", "line 2: aliases" },
		{ "a: 1\n---\nb: 2\n", "line 2: a second document" },
		{ "[1]: 2\n", "line 1: a key has to be a text" },
		{ "a: \"\\0\"\n", "line 1: a zero byte" },
		{ "\x1b[31m: 1\n", "no YAML" },
	};
	char deep[200];

	(void)state;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++)
		refuses(wants[i][0], strlen(wants[i][0]), wants[i][1]);
	memset(deep, '[', sizeof(deep));
	memcpy(deep, "a: ", 3);
	refuses(deep, sizeof(deep), "nested more than");
}

static void test_yaml__is_bounded(void **state)
{
	size_t len = 0, size = 300000;
	char *text = malloc(size);

	(void)state;
	for (unsigned int i = 0; i < 20001; i++)
		len += (size_t)snprintf(text + len, size - len, "- %u\n", i);
	memcpy(text, "a:\n", 3);
	refuses(text, len, "more than 20000 values");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_yaml__tree),
		cmocka_unit_test(test_yaml__refuses),
		cmocka_unit_test(test_yaml__is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
