// SPDX-License-Identifier: Apache-2.0
/* Recorded rings give what the rings gave, and a file of them that is damaged does no harm. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "assemble_seen.h"
#include "base/err.h"
#include "capture/replay.h"

static FILE *begin(void)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	assert_int_equal(replay_begin(f), 0);
	return f;
}

static void put(FILE *f, enum replay_kind kind, uint32_t ring, uint32_t round, const void *data,
		size_t len)
{
	const struct replay_item item = {
		.kind = kind, .len = (uint32_t)len, .ring = ring, .round = round
	};

	assert_int_equal(replay_put(f, &item, data), 0);
}

static int open_again(FILE *f, replay_fn other, void *ctx, struct replay **r)
{
	assert_int_equal(fflush(f), 0);
	assert_int_equal(lseek(fileno(f), 0, SEEK_SET), 0);
	return replay__open(r, fileno(f), other, ctx);
}

static int take_other(void *ctx, const struct replay_item *item, const void *data)
{
	struct assembly *as = ctx;
	struct replay_final final;

	if (item->kind != REPLAY_FINAL || item->len != sizeof(final))
		return -EPROTO;
	memcpy(&final, data, sizeof(final));
	assembler__final(as->a, final.tix, final.seq, final.until_ns);
	return 0;
}

static void test_replay__the_same_events(void **state)
{
	struct assembly *live = assembly_usual(0), *again = assembly_new(0);
	const struct replay_final final = { 1, 7, 2000 };
	struct capture_batch batch;
	struct replay *r;
	FILE *f = begin();

	(void)state;
	for (uint32_t seq = 0; seq < 6; seq += 2) {
		make_entry(&live->b, 1, seq, 0x1000, 1 + seq / 2, PYE_ENTRY_CALL);
		make_exit(&live->b, 1, seq + 1, 0x1000, PYE_EXIT_RETURN);
		put(f, REPLAY_BATCH, seq, seq + 1, live->b.data, live->b.len);
		live->round = seq + 1;
		assembly_feed(live);
	}
	put(f, REPLAY_FINAL, 0, 0, &final, sizeof(final));
	assembler__final(live->a, 1, 7, 2000);
	assert_int_equal(open_again(f, take_other, again, &r), 0);
	for (uint32_t seq = 0; seq < 6; seq += 2) {
		assert_int_equal(replay_ops.next(r, &batch), 1);
		assert_int_equal(batch.ring, seq);
		assert_int_equal(batch.round, seq + 1);
		assert_int_equal(assembler__feed(again->a, &batch), 0);
	}
	assert_int_equal(replay_ops.next(r, &batch), 0);
	assert_int_equal(replay_ops.next(r, &batch), 0);
	replay__free(r);
	fclose(f);
	assembly_finish(live);
	assembly_finish(again);
	assert_string_equal(again->threads[1].text,
			    "call a, return a, call b, return b, call c, return c, gap lost 1");
	assert_string_equal(again->threads[1].text, live->threads[1].text);
	assert_int_equal(again->totals.generated, 7);
	assembly_free(live);
	assembly_free(again);
}

static void test_replay__what_is_no_recording(void **state)
{
	FILE *f = tmpfile();
	struct replay *r = NULL;

	(void)state;
	assert_int_equal(open_again(f, NULL, NULL, &r), -PYE_EFORMAT);
	fputs("PYERING", f);
	assert_int_equal(open_again(f, NULL, NULL, &r), -PYE_EFORMAT);
	fputs("2xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", f);
	assert_int_equal(open_again(f, NULL, NULL, &r), -PYE_EFORMAT);
	assert_int_equal(ftruncate(fileno(f), (off_t)REPLAY_BYTES + 1), 0);
	assert_int_equal(open_again(f, NULL, NULL, &r), -EFBIG);
	assert_int_equal(replay__open(&r, -1, NULL, NULL), -EBADF);
	assert_null(r);
	fclose(f);
}

/* Cut anywhere: the whole items before are there, and nothing behind the end is read. */
static void test_replay__a_file_that_was_cut(void **state)
{
	static const char bytes[24] = "some bytes";
	FILE *f = begin();
	struct capture_batch batch;
	struct replay *r;
	off_t size;

	(void)state;
	put(f, REPLAY_BATCH, 0, 0, bytes, 13);
	put(f, REPLAY_BATCH, 1, 0, bytes, 24);
	fflush(f);
	size = lseek(fileno(f), 0, SEEK_END);
	assert_int_equal(size, 8 + 16 + 16 + 16 + 24);
	while (--size >= 8) {
		int whole = size >= 8 + 16 + 16;

		assert_int_equal(ftruncate(fileno(f), size), 0);
		assert_int_equal(open_again(f, NULL, NULL, &r), 0);
		assert_int_equal(replay_ops.next(r, &batch), whole);
		if (whole)
			assert_memory_equal(batch.data, bytes, 13);
		assert_int_equal(replay_ops.next(r, &batch), 0);
		replay__free(r);
	}
	fclose(f);
}

static int refuse(void *ctx, const struct replay_item *item, const void *data)
{
	(void)ctx;
	(void)data;
	return item->kind == REPLAY_CONTROL ? -ECANCELED : 0;
}

static void test_replay__what_is_no_batch(void **state)
{
	struct capture_batch batch;
	struct replay *r;
	FILE *f = begin();

	(void)state;
	put(f, REPLAY_LOSSES, 0, 0, "12345678", 8);
	put(f, 77, 0, 0, "", 0); /* of a later version */
	put(f, REPLAY_CONTROL, 0, 0, "1", 1);
	put(f, REPLAY_BATCH, 3, 0, "2", 1);
	assert_int_equal(open_again(f, refuse, NULL, &r), 0);
	assert_int_equal(replay_ops.next(r, &batch), -ECANCELED);
	assert_int_equal(replay_ops.next(r, &batch), 1);
	assert_int_equal(batch.ring, 3);
	replay__free(r);
	assert_int_equal(open_again(f, NULL, NULL, &r), 0);
	assert_int_equal(replay_ops.next(r, &batch), 1);
	replay__free(r);
	replay__free(NULL);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay__the_same_events),
		cmocka_unit_test(test_replay__what_is_no_recording),
		cmocka_unit_test(test_replay__a_file_that_was_cut),
		cmocka_unit_test(test_replay__what_is_no_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
