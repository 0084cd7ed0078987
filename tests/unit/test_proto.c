// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "export/proto.h"

static void expect(struct proto *p, const void *want, size_t len)
{
	struct membuf got = { 0 };
	struct outbuf b;

	assert_int_equal(outbuf__init(&b, 64, membuf__write, &got), 0);
	assert_int_equal(proto__flush(p, &b), 0);
	assert_int_equal(outbuf__flush(&b), 0);
	assert_int_equal(got.len, len);
	if (len)
		assert_memory_equal(got.data, want, len);
	outbuf__done(&b);
	membuf__done(&got);
}

#define EXPECT(p, want) expect(p, want, sizeof(want) - 1)

static void test_proto__numbers(void **state)
{
	struct proto p = { 0 };

	(void)state;
	proto__u64(&p, 1, 0); /* left out */
	proto__u64(&p, 1, 150);
	EXPECT(&p, "\x08\x96\x01");
	proto__u64(&p, 16, 127);
	EXPECT(&p, "\x80\x01\x7f");
	proto__i64(&p, 2, -1);
	EXPECT(&p, "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	proto__u64(&p, 1, UINT64_MAX);
	EXPECT(&p, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	EXPECT(&p, "");
	proto__done(&p);
}

static void test_proto__strings_and_messages(void **state)
{
	struct proto p = { 0 };
	size_t outer, inner;

	(void)state;
	proto__bytes(&p, 2, "testing", 7);
	proto__bytes(&p, 6, "", 0);
	EXPECT(&p, "\x12\x07testing\x32\x00");
	outer = proto__open(&p, 3);
	proto__u64(&p, 1, 150);
	inner = proto__open(&p, 4);
	proto__close(&p, inner);
	inner = proto__open(&p, 5); /* packed */
	proto__varint(&p, 3);
	proto__varint(&p, 270);
	proto__varint(&p, 86942);
	proto__close(&p, inner);
	proto__close(&p, outer);
	EXPECT(&p, "\x1a\x0d\x08\x96\x01\x22\x00\x2a\x06\x03\x8e\x02\x9e\xa7\x05");
	proto__done(&p);
}

/* Lengths whose varint is longer than the byte kept for it: what follows must not be damaged. */
static void test_proto__long_messages(void **state)
{
	static const size_t lens[] = { 0, 1, 127, 128, 16383, 16384, 100000 };
	static uint8_t want[100100], text[100000];

	(void)state;
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		struct proto p = { 0 };
		size_t mark = proto__open(&p, 1), n = 0, len = lens[i];

		for (size_t k = 0; k < len; k++)
			proto__varint(&p, 'x');
		proto__close(&p, mark);
		proto__u64(&p, 2, 1);
		want[n++] = 0x0a;
		for (; len >= 128; len >>= 7)
			want[n++] = (uint8_t)(len | 0x80);
		want[n++] = (uint8_t)len;
		memcpy(want + n, text, lens[i]);
		n += lens[i];
		want[n++] = 0x10;
		want[n++] = 1;
		expect(&p, want, n);
		proto__done(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_proto__numbers),
		cmocka_unit_test(test_proto__strings_and_messages),
		cmocka_unit_test(test_proto__long_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
