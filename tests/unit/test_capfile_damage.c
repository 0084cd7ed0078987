// SPDX-License-Identifier: Apache-2.0
/* Capture files that are cut, damaged or made to hurt. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "capfile/format.h"
#include "capfile/le.h"
#include "capfile/sum.h"
#include "capfile/varint.h"
#include "capture_make.h"
#include "capture_seen.h"

struct image {
	uint8_t data[65536];
	size_t len;
};

/* A capture of some chunks in which two threads call each other's functions. */
static void make_image(struct image *image, size_t chunk_bytes, uint32_t event_cnt)
{
	struct maker *m = maker_new(chunk_bytes);
	struct trace_totals totals = { .end_ns = 7 };
	ssize_t n;

	define_process(m->w, 1, "python3");
	define_thread(m->w, 1, 1);
	define_thread(m->w, 2, 1);
	for (uint32_t i = 1; i <= 9; i++)
		define_func(m->w, i, 1);
	for (uint32_t i = 0; i < event_cnt; i++) {
		uint32_t t = 1 + i / 7 % 2;

		if (i % 11 < 6)
			make_enter(m, t, 10 + i * 900, TRACE_CALL, 1 + i % 9);
		else if (m->depth[t])
			make_leave(m, t, 10 + i * 900, TRACE_RETURN);
		if (i % 50 == 49)
			make_gap(m, t, 10 + i * 900, 11 + i * 900, 3);
		totals.generated = capw__written(m->w);
		if (i % 60 == 59)
			assert_int_equal(capw__flush(m->w, &totals), 0);
	}
	assert_int_equal(maker_finish(m), 0);
	n = pread(m->fd, image->data, sizeof(image->data), 0);
	assert_true(n > 0 && (size_t)n < sizeof(image->data));
	image->len = (size_t)n;
	maker_free(m);
}

static int decode_image(const uint8_t *data, size_t len, struct seen *s, struct err *e)
{
	int fd = memfd_create("capture", 0);
	int err;

	assert_int_equal(write(fd, data, len), (ssize_t)len);
	err = decode(fd, s, e);
	close(fd);
	return err;
}

/* What is left of a capture is either refused with a sentence, or said to be incomplete. */
static int check_incomplete(const uint8_t *data, size_t len, uint64_t all_cnt, uint64_t *written)
{
	struct err e = { 0 };
	struct seen s;
	int err;

	seen_init(&s);
	err = decode_image(data, len, &s, &e);
	assert_true(err == 0 || err == -PYE_EFORMAT);
	assert_true(e.what[0] != '\0');
	assert_null(s.broken);
	if (!err) {
		assert_false(s.totals.complete);
		assert_true(s.totals.written <= all_cnt);
		assert_true(s.totals.generated <= all_cnt);
		assert_int_equal(s.totals.generated, s.totals.written + s.totals.lost[LOSS_USER]);
	}
	*written = s.totals.written;
	seen_done(&s);
	return err;
}

static uint64_t count_events(const struct image *image)
{
	struct seen s;
	uint64_t cnt;

	seen_init(&s);
	assert_int_equal(decode_image(image->data, image->len, &s, NULL), 0);
	assert_true(s.totals.complete);
	cnt = s.totals.written;
	seen_done(&s);
	return cnt;
}

static void test_decode__cut_at_every_byte(void **state)
{
	static struct image image;
	uint64_t all, written, last = 0;

	(void)state;
	make_image(&image, 0, 240);
	all = count_events(&image);
	for (size_t len = 0; len < image.len; len++) {
		check_incomplete(image.data, len, all, &written);
		assert_true(written >= last); /* never less from a longer file */
		last = written;
	}
	assert_int_equal(last, all);
}

static void test_decode__bits_flipped_at_every_byte(void **state)
{
	static const uint8_t flips[] = { 0x01, 0x80, 0xff };
	static struct image image;
	uint64_t all, written, least = UINT64_MAX;

	(void)state;
	make_image(&image, 0, 240);
	all = count_events(&image);
	for (size_t i = 0; i < image.len; i++) {
		uint8_t flip = flips[i % 3];

		image.data[i] ^= flip;
		if (!check_incomplete(image.data, image.len, all, &written) && written < least)
			least = written;
		image.data[i] ^= flip;
	}
	assert_true(least >= all / 2); /* the other chunks are read */
}

static size_t nth_chunk(const struct image *image, uint32_t n)
{
	size_t at = CAP_HEADER_SIZE;

	while (n--)
		at += CAP_CHUNK_HEADER_SIZE + le32_get(image->data + at + CAP_CHUNK_AT_STORED);
	return at;
}

static void test_decode__damage_is_a_gap_with_its_number(void **state)
{
	static struct image image;
	uint64_t all, lost = 0;
	struct err e = { 0 };
	struct seen s;

	(void)state;
	make_image(&image, 0, 240);
	all = count_events(&image);
	image.data[nth_chunk(&image, 2) + CAP_CHUNK_HEADER_SIZE + 5] ^= 4;
	seen_init(&s);
	assert_int_equal(decode_image(image.data, image.len, &s, &e), 0);
	assert_null(s.broken);
	for (size_t i = 0; i < s.recs.cnt; i++)
		lost += s.recs.v[i].kind == REC_GAP ? s.recs.v[i].lost : 0;
	assert_false(s.totals.complete);
	assert_int_equal(s.totals.generated, all);
	assert_true(s.totals.lost[LOSS_USER] > 0);
	/* the capture's own gaps, four with 3 events each, are in the numbers too */
	assert_int_equal(lost, s.totals.lost[LOSS_USER] + 12);
	assert_non_null(strstr(e.what, "damaged at byte"));
	seen_done(&s);
}

static void put_sums(uint8_t *header)
{
	uint32_t stored = le32_get(header + CAP_CHUNK_AT_STORED);

	le64_put(header + CAP_CHUNK_AT_PAYLOAD, cap_sum(header + CAP_CHUNK_HEADER_SIZE, stored, 0));
	le64_put(header + CAP_CHUNK_AT_SUM, cap_sum(header, CAP_CHUNK_AT_SUM, 0));
}

static void test_decode__other_versions(void **state)
{
	static struct image image;
	struct err e = { 0 };
	struct seen s;
	uint64_t all;

	(void)state;
	make_image(&image, 0, 120);
	all = count_events(&image);
	le16_put(image.data + CAP_AT_MINOR, 9);
	le32_put(image.data + CAP_AT_SUM, (uint32_t)cap_sum(image.data, CAP_AT_SUM, 0));
	assert_int_equal(count_events(&image), all);

	/* a type of chunk that is not known is skipped */
	le16_put(image.data + nth_chunk(&image, 1) + CAP_CHUNK_AT_TYPE, 77);
	put_sums(image.data + nth_chunk(&image, 1));
	seen_init(&s);
	assert_int_equal(decode_image(image.data, image.len, &s, &e), 0);
	assert_true(s.totals.written > 0 && s.totals.written < all);
	seen_done(&s);

	le16_put(image.data + CAP_AT_MAJOR, 2);
	le32_put(image.data + CAP_AT_SUM, (uint32_t)cap_sum(image.data, CAP_AT_SUM, 0));
	seen_init(&s);
	assert_int_equal(decode_image(image.data, image.len, &s, &e), -PYE_EFORMAT);
	assert_non_null(strstr(e.what, "format 2.9"));
	assert_int_equal(s.begin_cnt, 0);
	seen_done(&s);
}

static void test_decode__what_is_no_capture(void **state)
{
	static const char text[] = "{\"meta\": 1}                                             ";
	struct err e = { 0 };
	struct seen s;
	int fd = open("/", O_RDONLY | O_DIRECTORY);

	(void)state;
	seen_init(&s);
	assert_int_equal(decode_image((const uint8_t *)text, sizeof(text), &s, &e), -PYE_EFORMAT);
	assert_non_null(strstr(e.what, "no pyebpf capture"));
	assert_int_equal(decode_image((const uint8_t *)"", 0, &s, &e), -PYE_EFORMAT);
	assert_int_equal(decode_file(fd, &seen_consumer, &s, &e), -EISDIR);
	assert_int_equal(decode_file(-1, &seen_consumer, &s, &e), -EBADF);
	seen_done(&s);
	close(fd);
}

/* Garbage that looks like the beginning of a chunk everywhere takes no longer than other garbage. */
static void test_decode__garbage_full_of_magics(void **state)
{
	enum {
		LEN = 16 << 20
	};
	static struct image image;
	uint8_t *data = malloc(LEN);
	uint64_t all, written;
	size_t cut;

	(void)state;
	make_image(&image, 0, 240);
	all = count_events(&image);
	cut = nth_chunk(&image, 2) + 100;
	memcpy(data, image.data, cut);
	for (size_t i = cut; i + 4 <= LEN; i += 4)
		le32_put(data + i, CAP_CHUNK_MAGIC);
	memcpy(data + LEN - 5000, image.data + nth_chunk(&image, 3), 500); /* a chunk or more */
	assert_int_equal(check_incomplete(data, LEN, all, &written), 0);
	assert_true(written > 60 && written < all);
	free(data);
}

/* Append a chunk with right checksums and any payload, not compressed. */
static void add_chunk(struct image *image, uint16_t type, uint64_t seq, const struct bytes *payload)
{
	uint8_t *h = image->data + image->len;

	assert_true(image->len + CAP_CHUNK_HEADER_SIZE + payload->len < sizeof(image->data));
	memset(h, 0, CAP_CHUNK_HEADER_SIZE);
	le32_put(h + CAP_CHUNK_AT_MAGIC, CAP_CHUNK_MAGIC);
	le16_put(h + CAP_CHUNK_AT_TYPE, type);
	le32_put(h + CAP_CHUNK_AT_STORED, (uint32_t)payload->len);
	le32_put(h + CAP_CHUNK_AT_RAW, (uint32_t)payload->len);
	le64_put(h + CAP_CHUNK_AT_SEQ, seq);
	le64_put(h + CAP_CHUNK_AT_MIN_TS, 10);
	le64_put(h + CAP_CHUNK_AT_MAX_TS, 20);
	memcpy(h + CAP_CHUNK_HEADER_SIZE, payload->data, payload->len);
	put_sums(h);
	image->len += CAP_CHUNK_HEADER_SIZE + payload->len;
}

static void put_numbers(struct bytes *b, const uint64_t *numbers, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		bytes_varint(b, numbers[i]);
}

#define PUT(b, ...)                                       \
	put_numbers(b, (const uint64_t[]){ __VA_ARGS__ }, \
		    sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* One thread, one function; the stream is the caller's. */
static void put_data(struct bytes *b, uint64_t seq, uint64_t open_cnt, const uint64_t *stream,
		     size_t cnt)
{
	struct bytes s = { 0 };

	put_numbers(&s, stream, cnt);
	bytes_clear(b);
	PUT(b, 20, 5, 5, 0); /* totals */
	PUT(b, 1); /* files */
	bytes_string(b, "a.py");
	PUT(b, 1, 7, 70, 1, 0); /* processes: id, pid, start, end */
	for (uint32_t i = 0; i < 4; i++)
		bytes_string(b, "x");
	PUT(b, 0);
	PUT(b, 1, 0, 3, 30, 1, 0, 1); /* threads: process, id, tid, start, end, is main */
	bytes_string(b, "t");
	PUT(b, CAP_THREAD_DATA, 15, seq, open_cnt, s.len);
	PUT(b, 1, 0, 0, 9, 1); /* functions: process, file, id, line */
	bytes_string(b, "A.f");
	PUT(b, 2); /* name "f" */
	PUT(b, 0); /* gone */
	bytes_add(b, s.data, s.len);
	bytes_done(&s);
}

struct bad_stream {
	const char *what;
	uint64_t seq, open_cnt;
	uint64_t stream[6];
	size_t cnt;
	uint32_t written, recs; /* that come out */
};

static void test_decode__streams_that_make_no_sense(void **state)
{
	static const struct bad_stream cases[] = {
		{ "good", 0, 0, { 8 | TRACE_CALL, 0, 8 | TRACE_RETURN }, 3, 2, 2 },
		{ "leave without a frame", 0, 0, { 8 | TRACE_RETURN }, 1, 0, 0 },
		{ "function out of range", 0, 0, { TRACE_CALL, 1 }, 2, 0, 0 },
		{ "cut entry", 0, 0, { TRACE_CALL, 0, TRACE_CALL }, 3, 1, 1 },
		{ "time overflows", 0, 0, { TRACE_CALL, 0, UINT64_MAX - 7, 0 }, 4, 1, 1 },
		{ "frames missing", 0, 2, { 0 }, 1, 0, 1 },
		{ "frame out of range", 0, 1, { 5 }, 1, 0, 1 },
		{ "too many frames", 0, CAP_DEPTH_MAX, { 0 }, 1, 0, 1 },
		{ "events before", 9, 1, { 0, 8 | TRACE_RETURN }, 2, 1, 3 },
		{ "unknown extension", 0, 0, { 7, 55, 1, 0, TRACE_CALL, 0 }, 6, 1, 1 },
		{ "long extension", 0, 0, { 7, 55, UINT64_MAX }, 3, 0, 0 },
		{ "cut gap", 0, 0, { 7, 0, 1, 1 }, 4, 0, 0 },
		{ "gap", 0, 0, { 7, 0, 3, 77, 1, 1 }, 6, 0, 1 },
	};
	static struct image image;
	struct bytes b = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bad_stream *c = &cases[i];
		struct seen s;

		make_image(&image, 0, 0);
		image.len = nth_chunk(&image, 1);
		put_data(&b, c->seq, c->open_cnt, c->stream, c->cnt);
		add_chunk(&image, CAP_CHUNK_DATA, 1, &b);
		seen_init(&s);
		assert_int_equal(decode_image(image.data, image.len, &s, NULL), 0);
		assert_null(s.broken);
		if (s.totals.written != c->written || s.recs.cnt != c->recs)
			fail_msg("%s: %u written, %u records", c->what,
				 (unsigned int)s.totals.written, (unsigned int)s.recs.cnt);
		assert_int_equal(s.process_cnt, 1);
		assert_int_equal(s.func_cnt, 1);
		seen_done(&s);
	}
	bytes_done(&b);
}

/* Payloads with right checksums, cut or with one byte changed anywhere. */
static void test_decode__payloads_that_make_no_sense(void **state)
{
	static const uint64_t stream[] = { 8 | TRACE_CALL, 0, 8 | TRACE_RETURN };
	static struct image image;
	struct bytes b = { 0 }, changed = { 0 };
	size_t start;

	(void)state;
	make_image(&image, 0, 0);
	start = nth_chunk(&image, 1);
	put_data(&b, 0, 0, stream, 3);
	for (size_t i = 0; i < b.len * 5; i++) {
		static const uint8_t values[] = { 0x00, 0x7f, 0x80, 0xff };
		struct seen s;

		bytes_clear(&changed);
		bytes_add(&changed, b.data, i % 5 == 4 ? i / 5 : b.len);
		if (i % 5 < 4)
			changed.data[i / 5] = values[i % 5];
		image.len = start;
		add_chunk(&image, CAP_CHUNK_DATA, 1, &changed);
		add_chunk(&image, CAP_CHUNK_INFO, 2, &changed);
		add_chunk(&image, CAP_CHUNK_END, 3, &changed);
		seen_init(&s);
		assert_int_equal(decode_image(image.data, image.len, &s, NULL), 0);
		assert_null(s.broken);
		seen_done(&s);
	}
	bytes_done(&b);
	bytes_done(&changed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode__cut_at_every_byte),
		cmocka_unit_test(test_decode__bits_flipped_at_every_byte),
		cmocka_unit_test(test_decode__damage_is_a_gap_with_its_number),
		cmocka_unit_test(test_decode__garbage_full_of_magics),
		cmocka_unit_test(test_decode__other_versions),
		cmocka_unit_test(test_decode__what_is_no_capture),
		cmocka_unit_test(test_decode__streams_that_make_no_sense),
		cmocka_unit_test(test_decode__payloads_that_make_no_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
