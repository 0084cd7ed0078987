// SPDX-License-Identifier: Apache-2.0
/* Whoever takes records and events as they come gets the same ones in the same order as who reads batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/event.h"
#include "capture/cap_inline.h"
#include "capture/inline_priv.h"
#include "capture/step_record.h"
#include "cpython/layouts.h"

#define RING_BYTES ((size_t)65536)
#define OUTER	   0x7f0000001000ull
#define INNER	   0x7f0000001068ull
#define CODE	   0x7f0000100000ull

struct seen {
	uint8_t bytes[1 << 20];
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

/* As records, but for the hash of the caller, which no step has. */
static int see_steps(void *ctx, uint32_t tix, uint32_t seq, const struct trace_step *steps,
		     uint32_t cnt)
{
	assert_in_range(cnt, 1, STEPS_MAX);
	for (uint32_t i = 0; i < cnt; i++) {
		struct pye_entry_rec rec;
		uint32_t bytes = step_record(&steps[i], tix, seq + i, 0, &rec);

		see(ctx, &rec, bytes);
	}
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

/* A generator is closed without being run, and is so until the stack pointer says the same. */
static void put_closing(uint64_t frame, uint64_t sp)
{
	const struct il_more_rec r = { { t.head << 16, frame | IL_MORE | (uint64_t)IL_CLOSE << 48 },
				       0,
				       sp };

	put(&r, sizeof(r));
	put_event(IL_CALL, frame + 8, frame);
	put_event(IL_RETURN, frame + 8, 0);
	put_more(IL_CLOSED, sp, 0);
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

/* A thread and a definition. */
static void begin(void)
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
}

/* Calls, and another greenlet, with the walk that it needs. */
static void fill(void)
{
	begin();
	put_event(IL_CALL, OUTER, 0);
	put_event(IL_CALL, INNER, OUTER);
	put_event(IL_RETURN, INNER, 0);
	put_event(IL_CALL, OUTER + 0x9000, 0);
	put_event(IL_RETURN, OUTER + 0x9000, 0);
	put_event(IL_CALL, INNER, OUTER);
	put_more(IL_RETIRE, CODE, 0);
	put_event(IL_YIELD, INNER, 0);
}

static void see_without_caller(struct seen *seen, const void *rec, uint32_t len)
{
	struct pye_entry_rec entry;
	const struct pye_head *head = rec;

	if (head->kind != PYE_REC_ENTRY) {
		see(seen, rec, len);
		return;
	}
	memcpy(&entry, rec, sizeof(entry));
	entry.caller = 0;
	see(seen, &entry, len);
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
			see_without_caller(seen, rec, len);
	}
	cap_inline__free(c);
	return got;
}

static void test_taker__sees_what_batches_hold(void **state)
{
	static struct seen batches, one_by_one;
	const struct capture_taker taker = { &one_by_one, see, see_steps };

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
	const struct capture_taker taker = { &seen, see, see_steps };

	(void)state;
	fill();
	put_more(0xffff, 0, 0);
	assert_int_equal(read_ring(&taker, &seen), -EILSEQ);
	assert_int_equal(seen.kinds[PYE_REC_ENTRY], 4);
	assert_int_equal(seen.kinds[PYE_REC_EXIT], 3);
	assert_int_equal(seen.kinds[PYE_REC_RETIRE], 1);
}

/* Code that is left out is said to the target, until nothing there is ours. */
static void test_taker__writes_nothing_behind_the_detach(void **state)
{
	static const uint64_t theirs = 0x1122334455667788;
	const off_t at = IL_PRIVATE + offsetof(struct il_private, limit);
	const struct pye_verdict verdict = { .code = CODE, .id = 1, .set = PYE_CODE_QUIET };
	struct cap_inline_ids ids = { 0 };
	struct capture_batch batch;

	(void)state;
	for (int reserved = 0; reserved < 2; reserved++) {
		struct cap_inline *c;
		uint64_t limit = 0;

		begin();
		t.engine.quiet = true;
		t.engine.reserved = reserved;
		t.engine.remote.mem = memfd_create("target", MFD_CLOEXEC);
		t.engine.shared->head = t.head;
		assert_int_equal(pwrite(t.engine.remote.mem, &theirs, 8, at), 8);
		ids.code = 0;
		assert_int_equal(cap_inline__new(&c, 1, getpid(), &ids, NULL), 0);
		cap_inline__use(c, &t.engine);
		assert_int_equal(cap_inline_ops.next(c, &batch), 1);
		cap_inline__decide(c, &verdict);
		assert_int_equal(cap_inline_ops.next(c, &batch), 0);
		assert_int_equal(t.engine.shared->verdict_head, reserved);
		assert_int_equal(pread(t.engine.remote.mem, &limit, 8, at), 8);
		assert_int_equal(limit, reserved ? 0 : theirs);
		cap_inline__free(c);
		close(t.engine.remote.mem);
	}
}

static uint32_t state = 1;

static uint32_t pick(uint32_t n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 16) % n;
}

static uint64_t any_frame(void)
{
	return OUTER + 64 * pick(40);
}

/* Two stacks whose innermost frames have one hash: the first one goes on. */
static void put_twins(uint64_t frame)
{
	put_event(IL_CALL, frame, 0);
	put_event(IL_CALL, frame + (1u << 19) - 8, 0);
	put_event(IL_CALL, frame + 64, frame);
}

/* The frame is one that waits, and goes on or is about to begin: what is next is called by it. */
static void put_going_on(uint64_t frame)
{
	const struct il_more_rec r = { { t.head << 16, frame | IL_MORE | (uint64_t)IL_FRAME << 48 },
				       IL_FRAME_KNOWN | (pick(2) ? IL_FRAME_BEGINS : 0),
				       0 };

	put(&r, sizeof(r));
}

/* A generator yields and its trace function runs, now or later. */
static void put_told_of_yield(uint64_t frame)
{
	put_event(IL_YIELD, frame, 0);
	for (uint32_t i = pick(2); i--;) {
		put_event(IL_CALL, OUTER - 64, 0);
		put_event(IL_RETURN, OUTER - 64, 0);
	}
	put_going_on(frame);
	put_event(IL_CALL, frame + 64, frame);
	put_event(IL_RETURN, frame + 64, 0);
}

/* A call or a return as a program does it, also of generators, or now and then anything that there is. */
static void put_anything(uint64_t *stack, uint32_t *depth, uint32_t wild)
{
	static const uint64_t kinds[] = { IL_CALL, IL_RESUME, IL_RETURN, IL_YIELD, IL_CAUGHT };
	uint64_t above = (*depth ? stack[*depth - 1] : OUTER) + 64 + 8 * pick(4);

	if (!pick(wild) && pick(2)) {
		put_more(IL_SWITCH, 1 + pick(3), (uint64_t)getpid());
	} else if (!pick(wild) && pick(2)) {
		put_closing(any_frame(), 1 + pick(2));
	} else if (!pick(wild) && !pick(4)) {
		put_twins(any_frame());
	} else if (!pick(wild) && !pick(4)) {
		put_going_on(any_frame());
	} else if (!pick(wild) && *depth) {
		put_told_of_yield(stack[--*depth]);
	} else if (!pick(wild)) {
		put_event(kinds[pick(5)], any_frame(), pick(2) ? any_frame() : 0);
	} else if (*depth < 40 && (!*depth || pick(2))) {
		put_event(pick(3) ? IL_CALL : IL_RESUME, above, *depth ? stack[*depth - 1] : 0);
		stack[(*depth)++] = above;
	} else {
		put_event(pick(3) ? IL_RETURN : IL_YIELD, stack[--*depth], 0);
	}
}

static void test_taker__sees_the_same_of_anything(void **unused)
{
	static struct seen batches, one_by_one;
	const struct capture_taker taker = { &one_by_one, see, see_steps };

	(void)unused;
	for (uint32_t round = 0; round < 200; round++) {
		uint64_t stack[41];
		uint32_t depth = 0, wild = 1 + round * round / 8;

		begin();
		t.in.layout = layout_find(round & 1 ? 11 : 13, false)->py;
		memset(&batches, 0, sizeof(batches));
		memset(&one_by_one, 0, sizeof(one_by_one));
		while (t.head < RING_BYTES / 2)
			put_anything(stack, &depth, wild);
		assert_int_equal(read_ring(NULL, &batches), 0);
		assert_int_equal(read_ring(&taker, &one_by_one), 0);
		assert_true(batches.kinds[PYE_REC_ENTRY] > 100);
		assert_int_equal(batches.len, one_by_one.len);
		assert_memory_equal(batches.bytes, one_by_one.bytes, batches.len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taker__sees_what_batches_hold),
		cmocka_unit_test(test_taker__has_what_came_before_the_damage),
		cmocka_unit_test(test_taker__sees_the_same_of_anything),
		cmocka_unit_test(test_taker__writes_nothing_behind_the_detach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
