// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/options.h"

struct inner {
	const char *output;
	bool force;
};

struct outer {
	uint64_t duration_ns, size, count;
	unsigned int pid_cnt;
	struct inner inner;
};

static int add_pid(void *field, const char *arg, struct err *e)
{
	if (!strcmp(arg, "bad"))
		return err_set(e, -EINVAL, "want a number");
	++*(unsigned int *)field;
	return 0;
}

static const struct opt_row outer_rows[] = {
	{ 'd', "duration", "TIME", OPT_DURATION, offsetof(struct outer, duration_ns), NULL,
	  "stop after", false, NULL },
	{ 0, "max-size", "SIZE", OPT_SIZE, offsetof(struct outer, size), "512M", "at most", false,
	  NULL },
	{ 0, "max-events", "N", OPT_UNSIGNED, offsetof(struct outer, count), NULL, "at most", false,
	  NULL },
	{ 'p', "pid", "PID", OPT_CUSTOM, offsetof(struct outer, pid_cnt), NULL, "attach", false,
	  add_pid },
	{ 0 },
};

static const struct opt_row inner_rows[] = {
	{ 'o', "output", "FILE", OPT_STRING, offsetof(struct inner, output), NULL, "where", false,
	  NULL },
	{ 0, "force", NULL, OPT_FLAG, offsetof(struct inner, force), NULL, "overwrite", false,
	  NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Options", outer_rows, 0 },
	{ "Output", inner_rows, offsetof(struct outer, inner) },
	{ 0 },
};

static const struct opt_command cmd = { "thing", "thing [options]", "Does.", groups,
					"  pyebpf thing\n" };

static int parse(struct outer *o, struct opt_rest *rest, char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	*o = (struct outer){ 0 };
	return options_parse(&cmd, argc, argv, o, rest);
}

#define ARGV(...) ((char *[]){ (char[]){ "thing" }, __VA_ARGS__, NULL })
#define A(s)	  ((char[]){ s })

static void test_options__all_types_in_any_order(void **state)
{
	struct opt_rest rest;
	struct outer o;

	(void)state;
	assert_int_equal(parse(&o, &rest,
			       ARGV(A("one"), A("-d5m"), A("-p"), A("1"), A("--force"), A("two"),
				    A("--output=x"), A("-p2"), A("--max-events"), A("3k"))),
			 0);
	assert_int_equal(o.duration_ns, 300000000000);
	assert_int_equal(o.size, 512 << 20);
	assert_int_equal(o.count, 3000);
	assert_int_equal(o.pid_cnt, 2);
	assert_true(o.inner.force);
	assert_string_equal(o.inner.output, "x");
	assert_int_equal(rest.operand_cnt, 2);
	assert_string_equal(rest.operands[0], "one");
	assert_string_equal(rest.operands[1], "two");
	assert_null(rest.command);
}

static void test_options__command_is_left_alone(void **state)
{
	struct opt_rest rest;
	struct outer o;

	(void)state;
	assert_int_equal(
		parse(&o, &rest,
		      ARGV(A("-o"), A("f"), A("--"), A("python3"), A("-d"), A("--help"), A("--"))),
		0);
	assert_int_equal(rest.operand_cnt, 0);
	assert_int_equal(rest.command_cnt, 4);
	assert_string_equal(rest.command[0], "python3");
	assert_string_equal(rest.command[3], "--");
	assert_int_equal(o.duration_ns, 0);
	assert_int_equal(parse(&o, &rest, ARGV(A("--"))), 0);
	assert_non_null(rest.command);
	assert_int_equal(rest.command_cnt, 0);
}

static void test_options__bad_usage_is_refused(void **state)
{
	struct opt_rest rest;
	struct outer o;

	(void)state;
	assert_int_equal(parse(&o, &rest, ARGV(A("--nope"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("-x"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("-o"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("-p"), A("bad"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("-d"), A("soon"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("--force=1"))), -PYE_EUSAGE);
	assert_int_equal(err_exit_code(-PYE_EUSAGE), 2);
}

static void test_options__a_name_is_given_as_a_whole(void **state)
{
	struct opt_rest rest;
	struct outer o;

	(void)state;
	assert_int_equal(parse(&o, &rest, ARGV(A("--forc"))), -PYE_EUSAGE);
	assert_false(o.inner.force);
	assert_int_equal(parse(&o, &rest, ARGV(A("--out"), A("x"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("--out=x"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("--out"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("--hel"))), -PYE_EUSAGE);
	assert_int_equal(parse(&o, &rest, ARGV(A("--max"))), -PYE_EUSAGE); /* two begin so */
	assert_int_equal(parse(&o, &rest, ARGV(A("one"), A("--output"), A("--out"))), 0);
	assert_string_equal(o.inner.output, "--out");
	assert_int_equal(parse(&o, &rest, ARGV(A("--output="))), 0);
	assert_string_equal(o.inner.output, "");
}

static void test_options__help_is_done(void **state)
{
	struct opt_rest rest;
	struct outer o;

	(void)state;
	assert_int_equal(parse(&o, &rest, ARGV(A("--help"))), OPTIONS_DONE);
	assert_int_equal(parse(&o, &rest, ARGV(A("-h"))), OPTIONS_DONE);
}

static void test_options__durations_and_sizes(void **state)
{
	static const struct {
		const char *text;
		int err;
		uint64_t want;
	} durations[] = {
		{ "30", 0, 30000000000 },   { "30s", 0, 30000000000 }, { "250ms", 0, 250000000 },
		{ "1.5s", 0, 1500000000 },  { "0.000000001", 0, 1 },   { "2h", 0, 7200000000000 }, { "7d", 0, 604800000000000 },
		{ "5us", 0, 5000 },	    { "", -EINVAL, 0 },	       { "s", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },	    { "1 s", -EINVAL, 0 },     { "1.", -EINVAL, 0 },
		{ "1.0000000001", -EINVAL, 0 }, { "99999999999999h", -ERANGE, 0 },
		{ "99999999999999999999999", -ERANGE, 0 }, { "1w", -EINVAL, 0 },
	}, sizes[] = {
		{ "0", 0, 0 }, { "4096", 0, 4096 }, { "512M", 0, 512 << 20 }, { "1.5K", 0, 1536 },
		{ "1.5", -EINVAL, 0 }, { "20000000T", -ERANGE, 0 }, { "1MB", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++) {
		uint64_t got = 0;

		assert_int_equal(opt_duration(durations[i].text, &got), durations[i].err);
		assert_int_equal(got, durations[i].want);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint64_t got = 0;

		assert_int_equal(opt_size(sizes[i].text, &got), sizes[i].err);
		assert_int_equal(got, sizes[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options__all_types_in_any_order),
		cmocka_unit_test(test_options__command_is_left_alone),
		cmocka_unit_test(test_options__bad_usage_is_refused),
		cmocka_unit_test(test_options__a_name_is_given_as_a_whole),
		cmocka_unit_test(test_options__help_is_done),
		cmocka_unit_test(test_options__durations_and_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
