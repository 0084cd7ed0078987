// SPDX-License-Identifier: Apache-2.0
/* Whoever takes records one by one gets the same ones in the same order as who reads batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "abi/event.h"
#include "capture/cap_inline.h"
#include "capture/inline_priv.h"
#include "cpython/layouts.h"

#define RING_BYTES ((size_t)65536)
#define OUTER	   0x7f0000001000ull
#define INNER	   0x7f0000001068ull
#define CODE	   0x7f0000100000ull

struct seen {
	uint8_t bytes[16384];
	size_t len;
	unsigned int kinds[256];
};

static struct {
	uint8_t memory[IL_SHARED_HEAD + 2 * RING_BYTES] __attribute__((aligned(64)));
	struct inline_engine engine;
	struct interp in;
	uint64_t head;
} t;

static int see(void *ctx, const void *rec, uint32_t len)
{
	struct seen *seen = ctx;
	const struct pye_head *head = rec;

	assert_true(seen->len + len <= sizeof(seen->bytes));
	memcpy(seen->bytes + seen->len, rec, len);
	seen->len += len;
	seen->kinds[head->kind]++;
	return 0;
}

static void put(const void *record, size_t size)
{
	memcpy(t.memory + IL_SHARED_HEAD + t.head, record, size);
	t.head += size;
}

static void put_more(uint64_t more, uint64_t w2, uint64_t w3)
{
	const struct il_more_rec r = { { t.head << 16, IL_MORE | more << 48 }, w2, w3 };

	put(&r, sizeof(r));
}

static void put_event(uint64_t kind, uint64_t frame, uint64_t caller)
{
	const struct il_rec r = { t.head << 16 | il_frame_hash(caller), frame | kind };

	put(&r, sizeof(r));
}

static void put_definition(void)
{
	static const char text[3][8] = { "file.py", "name", "qual" };
	struct {
		struct il_def def;
		char texts[3][8];
	} d = { .def = { .head = { t.head << 16, IL_MORE | (uint64_t)IL_DEF << 48 },
			 .code = CODE,
			 .total = (sizeof(d) + 15) & ~15u } };

	for (int i = 0; i < 3; i++)
		d.def.str[i] = (struct il_str){ .addr = CODE + 64, .length = 8, .bytes = 8 };
	memcpy(d.texts, text, sizeof(text));
	put(&d, sizeof(d));
	t.head = (t.head + 15) & ~15ull;
}

/* A thread, a definition, calls, and another greenlet, with the walk that it needs. */
static void fill(void)
{
	memset(&t, 0, sizeof(t));
	t.in.layout = layout_find(12, false)->py;
	t.engine = (struct inline_engine){ .in = &t.in,
					   .shared = (void *)t.memory,
					   .threads = (void *)(t.memory + IL_THREADS - IL_SHARED),
					   .ring = t.memory + IL_SHARED_HEAD,
					   .ring_bytes = RING_BYTES };
	put_more(IL_SWITCH, 1, (uint64_t)getpid());
	put_definition();
	put_event(IL_CALL, OUTER, 0);
	put_event(IL_CALL, INNER, OUTER);
	put_event(IL_RETURN, INNER, 0);
	put_event(IL_CALL, OUTER + 0x9000, 0);
	put_event(IL_RETURN, OUTER + 0x9000, 0);
	put_event(IL_CALL, INNER, OUTER);
	put_more(IL_RETIRE, CODE, 0);
	put_event(IL_YIELD, INNER, 0);
}

static int read_ring(const struct capture_taker *taker, struct seen *seen)
{
	struct cap_inline_ids ids = { 0 };
	struct cap_inline *c;
	struct capture_batch batch;
	const void *rec;
	uint32_t len;
	int got;

	assert_int_equal(cap_inline__new(&c, 1, getpid(), &ids, NULL), 0);
	c->clock.same = true; /* the ring's numbers are its times */
	c->clock.from = (struct clock_pair){ 0 };
	c->clock.rate = 1ull << 32;
	c->clock.until = UINT64_MAX;
	c->last_tsc = 0;
	cap_inline__use(c, &t.engine);
	if (taker)
		cap_inline__hand_to(c, taker);
	t.engine.shared->head = t.head;
	t.engine.shared->tail = 0;
	while ((got = cap_inline_ops.next(c, &batch)) > 0) {
		assert_true(!taker || !batch.len);
		for (size_t at = 0; (rec = capture_record(&batch, &at, &len));)
			see(seen, rec, len);
	}
	cap_inline__free(c);
	return got;
}

static void test_taker__sees_what_batches_hold(void **state)
{
	static struct seen batches, one_by_one;
	const struct capture_taker taker = { &one_by_one, see };

	(void)state;
	fill();
	assert_int_equal(read_ring(NULL, &batches), 0);
	assert_int_equal(read_ring(&taker, &one_by_one), 0);
	assert_int_equal(batches.kinds[PYE_REC_ENTRY], 4);
	assert_int_equal(batches.kinds[PYE_REC_EXIT], 3);
	assert_int_equal(batches.kinds[PYE_REC_STR], 3);
	assert_true(batches.kinds[PYE_REC_THREAD] && batches.kinds[PYE_REC_WALK] &&
		    batches.kinds[PYE_REC_DEF] && batches.kinds[PYE_REC_RETIRE]);
	assert_int_equal(batches.len, one_by_one.len);
	assert_memory_equal(batches.bytes, one_by_one.bytes, batches.len);
}

/* What came before a damaged record is taken; a batch with one is not handed out. */
static void test_taker__has_what_came_before_the_damage(void **state)
{
	static struct seen seen;
	const struct capture_taker taker = { &seen, see };

	(void)state;
	fill();
	put_more(0xffff, 0, 0);
	assert_int_equal(read_ring(&taker, &seen), -EILSEQ);
	assert_int_equal(seen.kinds[PYE_REC_ENTRY], 4);
	assert_int_equal(seen.kinds[PYE_REC_EXIT], 3);
	assert_int_equal(seen.kinds[PYE_REC_RETIRE], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taker__sees_what_batches_hold),
		cmocka_unit_test(test_taker__has_what_came_before_the_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
