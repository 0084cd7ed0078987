// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "export/gzip.h"
#include "export/json.h"

struct sink {
	char data[1 << 16];
	size_t len;
	unsigned int calls;
	int fail_after;
};

static int take(void *ctx, const void *data, size_t len)
{
	struct sink *s = ctx;

	if (s->fail_after && (int)s->calls >= s->fail_after)
		return -28;
	s->calls++;
	assert_true(s->len + len < sizeof(s->data));
	memcpy(s->data + s->len, data, len);
	s->len += len;
	s->data[s->len] = '\0';
	return 0;
}

static void expect_str(const char *in, size_t len, const char *want)
{
	struct sink s = { 0 };
	struct outbuf b;

	assert_int_equal(outbuf__init(&b, 64, take, &s), 0);
	json_strn(&b, in, len);
	assert_int_equal(outbuf__flush(&b), 0);
	assert_string_equal(s.data, want);
	outbuf__done(&b);
}

#define EXPECT_STR(in, want) expect_str(in, sizeof(in) - 1, want)

static void test_json__strings(void **state)
{
	(void)state;
	EXPECT_STR("", "\"\"");
	EXPECT_STR("plain <lambda>.<locals>", "\"plain <lambda>.<locals>\"");
	EXPECT_STR("a\"b\\c\nd\te\rf\x01\x1b", "\"a\\\"b\\\\c\\nd\\te\\u000df\\u0001\\u001b\"");
	EXPECT_STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8d",
		   "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8d\"");
	/* lone surrogate, kept NUL, bytes that are no UTF-8 */
	EXPECT_STR("\xed\xb2\x80|\xed\xa0\xbd", "\"\\udc80|\\ud83d\"");
	EXPECT_STR("a\xc0\x80z", "\"a\\u0000z\"");
	EXPECT_STR("\xff\xc0\xaf\xe2\x82", "\"\\udcff\\udcc0\\udcaf\\udce2\\udc82\"");
	/* a real U+FFFD stays; C1, DEL, bidi and line separators do not reach a terminal */
	EXPECT_STR("\xef\xbf\xbd\x7f\xc2\x9b\xe2\x80\xae\xe2\x80\xa8",
		   "\"\xef\xbf\xbd\\u007f\\u009b\\u202e\\u2028\"");
}

static void expect_u64(uint64_t v)
{
	char got[32], want[32];

	*json_fmt_u64(got, v) = '\0';
	snprintf(want, sizeof(want), "%llu", (unsigned long long)v);
	assert_string_equal(got, want);
	*json_fmt_i64(got, -(int64_t)(v >> 1)) = '\0';
	snprintf(want, sizeof(want), "%lld", -(long long)(v >> 1));
	assert_string_equal(got, want);
}

static void test_json__numbers(void **state)
{
	char got[32];

	(void)state;
	for (uint64_t p = 1, n = 0; n < 20; n++, p *= 10) {
		expect_u64(p - 1);
		expect_u64(p);
		expect_u64(p + 7);
		expect_u64(p * 9);
	}
	expect_u64(UINT64_MAX);
	*json_fmt_i64(got, INT64_MIN) = '\0';
	assert_string_equal(got, "-9223372036854775808");
}

static void test_json__milliseconds(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} rows[] = {
		{ 0, "0" },
		{ 7, "0.000007" },
		{ 1500000, "1.5" },
		{ 2000000, "2" },
		{ 12345678901, "12345.678901" },
		{ 1000010, "1.00001" },
		{ UINT64_MAX, "18446744073709.551615" },
	};
	char got[32];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		*json_fmt_ms(got, rows[i].ns) = '\0';
		assert_string_equal(got, rows[i].want);
	}
	assert_true(strlen("18446744073709.551615") <= JSON_MS_MAX);
}

static void test_json__microseconds(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} rows[] = {
		{ 0, "0" },
		{ 7, "0.007" },
		{ 2000, "2" },
		{ 1500, "1.500" },
		{ 12345010, "12345.010" },
		{ UINT64_MAX, "18446744073709551.615" },
	};
	char got[32];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		*json_fmt_us(got, rows[i].ns) = '\0';
		assert_string_equal(got, rows[i].want);
	}
	assert_true(strlen("18446744073709551.615") <= JSON_US_MAX);
}

static void test_outbuf__keeps_the_first_error(void **state)
{
	struct sink s = { .fail_after = 2 };
	struct outbuf b;

	(void)state;
	assert_int_equal(outbuf__init(&b, 64, take, &s), 0);
	for (int i = 0; i < 100; i++)
		outbuf__puts(&b, "0123456789012345678901234567890123456789");
	assert_int_equal(outbuf__flush(&b), -28);
	assert_int_equal(s.len, 80);
	assert_int_equal(outbuf__flush(&b), -28);
	outbuf__done(&b);
}

static void test_outbuf__long_pieces_keep_their_order(void **state)
{
	struct sink s = { 0 };
	struct outbuf b;
	char big[300];

	(void)state;
	memset(big, 'x', sizeof(big));
	assert_int_equal(outbuf__init(&b, 64, take, &s), 0);
	outbuf__puts(&b, "ab");
	outbuf__put(&b, big, sizeof(big));
	outbuf__putc(&b, 'c');
	assert_int_equal(outbuf__total(&b), 303);
	assert_int_equal(outbuf__flush(&b), 0);
	assert_int_equal(s.len, 303);
	assert_memory_equal(s.data, "abxx", 4);
	assert_int_equal(s.data[302], 'c');
	outbuf__done(&b);
}

static void expect_gunzip(const struct sink *s, const char *want, size_t want_len)
{
	static char plain[1 << 20];
	z_stream z = { .next_in = (unsigned char *)(uintptr_t)s->data, .avail_in = (uInt)s->len };

	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_out = (unsigned char *)plain;
	z.avail_out = sizeof(plain);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	assert_int_equal(z.total_out, want_len);
	assert_memory_equal(plain, want, want_len);
	inflateEnd(&z);
}

static void test_gzip__round_trip_and_parts(void **state)
{
	static char text[300000];
	struct sink s = { 0 };
	struct gzip *g;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i * i % 19);
	assert_int_equal(gzip__new(&g, GZIP_DEFAULT, take, &s), 0);
	for (size_t i = 0; i < sizeof(text); i += 1000)
		assert_int_equal(gzip__write(g, text + i, 1000), 0);
	assert_int_equal(gzip__finish(g), 0);
	expect_gunzip(&s, text, sizeof(text));

	s = (struct sink){ 0 };
	assert_int_equal(gzip__write(g, "part two", 8), 0);
	assert_int_equal(gzip__finish(g), 0);
	expect_gunzip(&s, "part two", 8);
	gzip__free(g);
	gzip__free(NULL);
}

static void test_gzip__passes_the_error_on(void **state)
{
	struct sink s = { .fail_after = 1 };
	struct gzip *g;

	(void)state;
	assert_int_equal(gzip__new(&g, GZIP_FASTEST, take, &s), 0);
	assert_int_equal(gzip__write(g, "x", 1), 0);
	assert_int_equal(gzip__finish(g), -28);
	gzip__free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json__strings),
		cmocka_unit_test(test_json__numbers),
		cmocka_unit_test(test_json__milliseconds),
		cmocka_unit_test(test_json__microseconds),
		cmocka_unit_test(test_outbuf__keeps_the_first_error),
		cmocka_unit_test(test_outbuf__long_pieces_keep_their_order),
		cmocka_unit_test(test_gzip__round_trip_and_parts),
		cmocka_unit_test(test_gzip__passes_the_error_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
