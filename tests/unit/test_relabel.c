// SPDX-License-Identifier: Apache-2.0
/* Rules over the labels of a process, and which services are wanted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/relabel.h"
#include "store/store.h"

static void make_service(struct service *s)
{
	*s = (struct service){ 0 };
	service_add(s, "service_name", "shop.api", 8);
	service_add(s, "executable", "python3", 7);
	service_add(s, "__meta_process_pid", "42", 2);
}

/* Labels after the rules, "-" when no profile is wanted, "! ..." when they were refused. */
static void relabel_by(const char *text, struct service_rules *rules, char *out, size_t size)
{
	struct relabel *r = NULL;
	struct err e = { 0 };
	struct service s, got;
	struct yaml *y;

	make_service(&s);
	assert_int_equal(yaml__parse(&y, text, strlen(text), &e), 0);
	if (relabel__read(&r, yaml__root(y)->first, &e)) {
		snprintf(out, size, "! %s", e.what);
		yaml__free(y);
		return;
	}
	yaml__free(y); /* the rules do not need it */
	rules->relabel = r;
	strcpy(out, "-");
	if (service_apply(rules, &s, &got)) {
		*out = '\0';
		for (uint32_t i = 0; i < got.label_cnt; i++)
			snprintf(out + strlen(out), size - strlen(out), "%s%s=%s", i ? " " : "",
				 got.labels[i].name, got.labels[i].value);
	}
	relabel__free(r);
}

#define RULE(text) "r:\n  - {" text "}\n"

static void test_relabel__rules(void **state)
{
	static const char *const wants[][2] = {
		{ "r: []\n", "service_name=shop.api executable=python3" },
		{ RULE("source_labels: [service_name], regex: '(.*)\\.(.*)', target_label: team, "
		       "replacement: '$2-${1}$$'"),
		  "service_name=shop.api executable=python3 team=api-shop$" },
		{ RULE("source_labels: [service_name, __meta_process_pid], separator: '/', "
		       "target_label: service_name"),
		  "service_name=shop.api/42 executable=python3" },
		/* the whole value has to match */
		{ RULE("source_labels: [service_name], regex: shop, target_label: x"),
		  "service_name=shop.api executable=python3" },
		{ RULE("target_label: zone, replacement: a"),
		  "service_name=shop.api executable=python3 zone=a" },
		{ RULE("source_labels: [none], target_label: executable"),
		  "service_name=shop.api" },
		{ RULE("source_labels: [service_name], regex: 'a|shop.*', action: drop"), "-" },
		{ RULE("source_labels: [service_name], regex: shop, action: drop"),
		  "service_name=shop.api executable=python3" },
		{ RULE("source_labels: [service_name], regex: shop, action: keep"), "-" },
		{ RULE("regex: exec.*, action: labeldrop"), "service_name=shop.api" },
		{ RULE("regex: exec.*, action: labelkeep"),
		  "service_name=shop.api executable=python3" },
		{ RULE("regex: x, action: labelkeep"), "service_name=shop.api" },
		/* a service is never without its name */
		{ RULE("regex: service_name, action: labeldrop"),
		  "service_name=shop.api executable=python3" },
		{ RULE("source_labels: [none], target_label: service_name"),
		  "executable=python3 service_name=unknown" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		struct service_rules rules = { 0 };
		char got[512];

		relabel_by(wants[i][0], &rules, got, sizeof(got));
		if (strcmp(got, wants[i][1]) != 0)
			fail_msg("%zu: %s, not %s", i, got, wants[i][1]);
	}
}

static void test_relabel__refuses(void **state)
{
	static const char *const wants[][2] = {
		{ "r: x\n", "! line 1: r wants a list" },
		{ "r: [x]\n", "! line 1: a rule is written" },
		{ "r:\n  - regex: x\n    acton: keep\n", "! line 3: acton is no part" },
		{ "r:\n  - regex: x\n    action: hash\n", "! line 3: want replace, keep" },
		{ RULE("regex: '('"), "! line 2: the expression" },
		{ RULE("regex: x"), "! line 2: replace wants a target_label" },
		{ RULE("action: keep, regex: x"), "! line 2: keep wants source_labels" },
		{ RULE("action: labeldrop"), "! line 2: labeldrop wants a regex" },
		{ RULE("target_label: a-b"), "! line 2: no label can be called a-b" },
		{ RULE("source_labels: a"), "! line 2: source_labels wants a list" },
		{ RULE("target_label: [a]"), "! line 2: target_label wants one value" },
		{ RULE("source_labels: [a, b, c, d, e, f, g, h, i]"),
		  "! line 2: more than 8 source_labels" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		struct service_rules rules = { 0 };
		char got[1024];

		relabel_by(wants[i][0], &rules, got, sizeof(got));
		if (strncmp(got, wants[i][1], strlen(wants[i][1])) != 0)
			fail_msg("%zu: %s, not %s", i, got, wants[i][1]);
	}
}

static void test_relabel__include_exclude(void **state)
{
	static const char *const some[] = { "db", "shop.*" };
	static const char *const others[] = { "web" };
	const struct {
		struct service_rules rules;
		bool wanted;
	} wants[] = {
		{ { .include = some, .include_cnt = 2 }, true },
		{ { .include = others, .include_cnt = 1 }, false },
		{ { .exclude = some, .exclude_cnt = 2 }, false },
		{ { .exclude = others, .exclude_cnt = 1 }, true },
		{ { .include = some, .include_cnt = 2, .exclude = some, .exclude_cnt = 2 }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		struct service s, got;

		make_service(&s);
		assert_int_equal(service_apply(&wants[i].rules, &s, &got), wants[i].wanted);
	}
}

/* What has no name any more is called unknown, and chosen by that. */
static void test_relabel__no_name_is_unknown(void **state)
{
	static const char *const unknown[] = { "unknown" };
	struct service s = { 0 }, got;

	(void)state;
	assert_true(service_apply(&(struct service_rules){ .include = unknown, .include_cnt = 1 },
				  &s, &got));
	assert_string_equal(label_value(got.labels, got.label_cnt, STORE_SERVICE), "unknown");
	assert_false(service_apply(&(struct service_rules){ .exclude = unknown, .exclude_cnt = 1 },
				   &s, &got));
}

/* Rules that make labels ever longer come to an end, and what finds no room is left out whole. */
static void test_relabel__is_bounded(void **state)
{
	char text[8192] = "r:\n", got[8192];
	struct service_rules rules = { 0 };

	(void)state;
	for (unsigned int i = 0; i < 64; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "  - {source_labels: [service_name], target_label: l%u, replacement: "
			 "'$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1'}\n",
			 i);
	relabel_by(text, &rules, got, sizeof(got));
	assert_true(!strncmp(got, "service_name=shop.api executable=python3 l0=shop.api", 52));
	strcat(text, "  - {target_label: x}\n");
	relabel_by(text, &rules, got, sizeof(got));
	assert_string_equal(got, "! line 66: more than 64 rules");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_relabel__rules),
		cmocka_unit_test(test_relabel__refuses),
		cmocka_unit_test(test_relabel__include_exclude),
		cmocka_unit_test(test_relabel__no_name_is_unknown),
		cmocka_unit_test(test_relabel__is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
