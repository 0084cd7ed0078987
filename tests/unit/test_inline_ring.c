// SPDX-License-Identifier: Apache-2.0
/* What a target writes into the ring is any bytes: the reader takes it, or says that it is damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/event.h"
#include "base/clock.h"
#include "capture/cap_inline.h"
#include "capture/inline_priv.h"
#include "cpython/layouts.h"

#define RING_BYTES ((size_t)65536)
#define ROUNDS	   500
#define FRAMES	   32 /* few, so that they meet */
#define NOBODY	   0x3ffffffe /* no thread has this number */

static struct {
	uint8_t memory[IL_SHARED_HEAD + 2 * RING_BYTES] __attribute__((aligned(64)));
	struct inline_engine engine;
	struct interp in;
	struct cap_inline *cap;
	struct cap_inline_ids ids;
	uint64_t random;
} t;

static uint64_t any(void)
{
	t.random ^= t.random << 13;
	t.random ^= t.random >> 7;
	t.random ^= t.random << 17;
	return t.random;
}

static void begin(unsigned int minor)
{
	memset(t.memory, 0, sizeof(t.memory));
	t.in.layout = layout_find(minor, false)->py;
	t.engine = (struct inline_engine){ .in = &t.in,
					   .shared = (void *)t.memory,
					   .threads = (void *)(t.memory + IL_THREADS - IL_SHARED),
					   .ring = t.memory + IL_SHARED_HEAD,
					   .ring_bytes = RING_BYTES };
	assert_int_equal(cap_inline__new(&t.cap, 1, getpid(), &t.ids, NULL), 0);
	cap_inline__use(t.cap, &t.engine);
}

/* The records of one batch make sense by their sizes; what they hold is for the assembler to judge. */
static void check_batch(const struct capture_batch *batch)
{
	const uint8_t *at = batch->data, *end = at + batch->len;

	while (at < end) {
		uint32_t bytes;

		memcpy(&bytes, at, 4);
		assert_in_range(bytes, 1, end - at - CAPTURE_HEADER_BYTES);
		at += CAPTURE_HEADER_BYTES + ((bytes + 7u) & ~7u);
	}
	assert_ptr_equal(at, end);
}

/* Until it is empty; -EILSEQ when something in it was none. */
static int read_all(void)
{
	struct capture_batch batch;
	int got;

	while ((got = cap_inline_ops.next(t.cap, &batch)) > 0)
		check_batch(&batch);
	assert_true(got == 0 || got == -EILSEQ);
	return got;
}

static void put(uint64_t at, uint64_t word)
{
	uint8_t *ring = t.memory + IL_SHARED_HEAD;

	at &= RING_BYTES - 1;
	memcpy(ring + at, &word, 8); /* twice, as it is mapped */
	memcpy(ring + RING_BYTES + at, &word, 8);
}

/* A record that could be one, mostly; its size. */
static uint64_t make(uint64_t at)
{
	uint64_t kind = any() % 8, frame = 0x7f0000001000 + any() % FRAMES * 0x68;
	uint64_t more = any() % (IL_FRAME + 1), size = 16;

	if (any() % 64 == 0)
		frame = 0;
	put(at, any() << 16 | il_frame_hash(frame - 0x68));
	put(at + 8, (kind == 7 ? more : any() % 16) << 48 | frame | kind);
	if (kind != 7)
		return size;
	size = 32;
	put(at + 16, more == IL_SWITCH || more == IL_CLOSED ? any() % 4 : any());
	put(at + 24, more == IL_SWITCH || more == IL_CLOSE ? any() % 4 : any());
	if (more == 2) { /* a definition: slot, total; three texts */
		size = 16 * (any() % 12 + 1);
		put(at + 16, 0x7f0000100000 + any() % 64 * 32);
		put(at + 24, (size & 0xffffffff) << 32 | any() % 16);
		for (uint64_t i = 32; i < size; i += 8)
			put(at + i, any() % 3 ? any() % 64 : any());
	}
	return size;
}

static void test_ring__any_bytes(void **state)
{
	int damaged = 0;

	(void)state;
	t.random = 1;
	for (unsigned int i = 0; i < ROUNDS / 10; i++) {
		begin(12 + i % 4);
		for (uint64_t at = 0; at < RING_BYTES; at += 8)
			put(at, any());
		t.engine.shared->head = i % 2 ? any() % RING_BYTES & ~15ull : any();
		damaged += read_all() != 0;
		cap_inline__recount(t.cap);
		cap_inline__free(t.cap);
	}
	assert_true(damaged);
}

static void test_ring__records_in_any_order(void **state)
{
	int damaged = 0, fine = 0;

	(void)state;
	t.random = 2;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t head = 32;
		int err;

		begin(8 + i % 8);
		put(0, 0); /* a thread */
		put(8, 7 | 1ull << 48);
		put(16, 1);
		put(24, (uint64_t)getpid());
		for (unsigned int k = any() % 64; k--;)
			head += make(head);
		t.engine.shared->head = head;
		err = read_all();
		damaged += err != 0;
		fine += !err;
		for (unsigned int k = 0; k < 16; k++)
			((struct il_thread *)(uintptr_t)t.engine.threads)[any() % IL_THREAD_CNT] =
				(struct il_thread){ any() % 4, any() % 4, any(), 0 };
		cap_inline__recount(t.cap);
		cap_inline__free(t.cap);
	}
	assert_true(damaged && fine);
}

/* What says that it is longer than what is there, or than it may be, is not read. */
static void test_ring__a_definition_too_long(void **state)
{
	static const uint32_t totals[] = { 0, 16, 8, 4096, 32768, 65536, UINT32_MAX & ~15u };

	(void)state;
	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		begin(12);
		put(8, 7 | (uint64_t)IL_DEF << 48);
		put(24, (uint64_t)totals[i] << 32);
		t.engine.shared->head = 256;
		assert_int_equal(read_all(), -EILSEQ);
		cap_inline__free(t.cap);
	}
}

/* Whoever waits for more has to know that there is none. */
static void test_ring__at_end(void **state)
{
	struct capture_batch batch;

	(void)state;
	begin(12);
	assert_false(cap_inline__is_at_end(t.cap));
	assert_int_equal(cap_inline_ops.next(t.cap, &batch), 0);
	assert_true(cap_inline__is_at_end(t.cap));
	put(0, 0);
	put(8, IL_MORE | (uint64_t)IL_SWITCH << 48);
	put(16, 1);
	put(24, (uint64_t)getpid());
	t.engine.shared->head = 32;
	assert_true(cap_inline_ops.next(t.cap, &batch) > 0);
	assert_true(cap_inline__is_at_end(t.cap));
	put(40, IL_MORE);
	t.engine.shared->head = 64;
	assert_int_equal(cap_inline_ops.next(t.cap, &batch), -EILSEQ);
	assert_false(cap_inline__is_at_end(t.cap));
	cap_inline__free(t.cap);
}

static uint64_t put_record(uint64_t at, uint64_t kind, uint64_t frame, uint64_t caller)
{
	put(at, at << 16 | il_frame_hash(caller));
	put(at + 8, frame | kind);
	return at + 16;
}

static uint64_t put_more(uint64_t at, uint64_t more, uint64_t frame, uint64_t w2, uint64_t w3)
{
	put_record(at, IL_MORE, more << 48 | frame, 0);
	put(at + 16, w2);
	put(at + 24, w3);
	return at + 32;
}

static uint64_t put_definition(uint64_t at, uint32_t slot)
{
	struct il_def def = { .code = 4096ull * slot,
			      .slot = slot,
			      .total = (sizeof(def) + 15) & ~15u };

	memcpy(t.memory + IL_SHARED_HEAD + at, &def, sizeof(def));
	put(at, at << 16);
	put(at + 8, IL_MORE | (uint64_t)IL_DEF << 48);
	return at + def.total;
}

#define OUTER	 0x7f0000001000ull
#define SHIM	 (OUTER + 0x200)
#define INNER	 (SHIM + 8 * 12ull)
#define STRANGER 0x7f0000009000ull
#define CHUNK	 0x4000ull

/* The numbers of the events and the walks in a batch. */
static uint32_t read_events(uint32_t *seqs, uint32_t *walks)
{
	struct capture_batch batch;
	const void *rec;
	size_t at = 0;
	uint32_t len, cnt = 0;

	*walks = 0;
	assert_int_equal(cap_inline_ops.next(t.cap, &batch), 1);
	while ((rec = capture_record(&batch, &at, &len))) {
		const struct pye_head *head = rec;

		*walks += head->kind == PYE_REC_WALK;
		if (head->kind == PYE_REC_ENTRY || head->kind == PYE_REC_EXIT)
			seqs[cnt++] = head->seq;
	}
	return cnt;
}

/* Nothing happened for days: an event has its time all the same. */
static void test_ring__a_long_silence(void **state)
{
	struct capture_batch batch;
	const struct pye_head *head;
	uint64_t now, seen = 0;
	uint32_t len;
	size_t at = 0;

	(void)state;
	begin(12);
	t.cap->last_tsc -= (1ull << 47) + (1ull << 40);
	assert_int_equal(cap_inline_ops.next(t.cap, &batch), 0);
	now = inline_clock__ticks(&t.cap->clock);
	put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	put_record(32, IL_CALL, OUTER, 0);
	put(0, now << 16);
	put(32, (now - 1000) << 16); /* it was on its way when we looked */
	t.engine.shared->head = 48;
	assert_int_equal(cap_inline_ops.next(t.cap, &batch), 1);
	while ((head = capture_record(&batch, &at, &len)))
		if (head->kind == PYE_REC_ENTRY)
			seen = head->ts_ns;
	/* also where the machine has just started */
	assert_in_range(now_ns() - seen, 0, 600000000000ull);
	cap_inline__free(t.cap);
}

/* The end of a frame that is on no stack is a loss, which the numbers show, and the stack is shown anew. */
static void test_ring__an_end_of_nothing(void **state)
{
	uint32_t seqs[8], walks;
	uint64_t at;

	(void)state;
	for (unsigned int minor = 11; minor <= 15; minor++) {
		begin(minor);
		at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
		at = put_record(at, IL_CALL, OUTER, 0);
		at = put_more(at, IL_UNWIND, STRANGER, 0, 4096);
		at = put_record(at, IL_RETURN, STRANGER, 0);
		at = put_record(at, IL_RETURN, OUTER, 0);
		t.engine.shared->head = at;
		assert_int_equal(read_events(seqs, &walks), 2);
		assert_int_equal(seqs[0], 0);
		assert_int_equal(seqs[1], 3);
		assert_int_equal(walks, 1);
		assert_int_equal(cap_inline__unmatched(t.cap), 2);
		cap_inline__free(t.cap);
	}
}

/* So is one that is missing: a frame below goes on, or ends. */
static void test_ring__ends_that_are_missing(void **state)
{
	uint32_t seqs[8], walks;
	uint64_t at;

	(void)state;
	begin(14);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_record(at, IL_CALL, OUTER + 0x100, OUTER);
	at = put_record(at, IL_CALL, OUTER + 0x200, OUTER + 0x100);
	at = put_record(at, IL_CALL, OUTER + 0x300, OUTER);
	at = put_record(at, IL_RETURN, OUTER, 0);
	t.engine.shared->head = at;
	assert_int_equal(read_events(seqs, &walks), 5);
	assert_int_equal(seqs[2], 2);
	assert_int_equal(seqs[3], 5);
	assert_int_equal(seqs[4], 7);
	assert_int_equal(walks, 2);
	assert_int_equal(cap_inline__unmatched(t.cap), 3);
	cap_inline__free(t.cap);
}

/* Of the frames that a batch shows to begin: is what is below each, by what the batch says, its caller? */
static void expect_callers(const uint64_t *want, uint32_t cnt)
{
	struct capture_batch batch;
	uint64_t stack[16] = { 0 };
	uint32_t len, depth = 0, seen = 0;
	const void *rec;
	size_t at = 0;

	assert_int_equal(cap_inline_ops.next(t.cap, &batch), 1);
	while ((rec = capture_record(&batch, &at, &len))) {
		const struct pye_head *head = rec;
		const struct pye_walk_rec *walk = rec;

		if (head->kind == PYE_REC_WALK) {
			for (depth = 0; depth < walk->cnt; depth++)
				stack[depth] = walk->frames[walk->cnt - 1 - depth].frame;
		} else if (head->kind == PYE_REC_ENTRY) {
			assert_true(seen < cnt && depth < 16);
			assert_int_equal(depth ? stack[depth - 1] : 0, want[seen++]);
			stack[depth++] = head->frame;
		} else if (head->kind == PYE_REC_EXIT) {
			depth--;
		}
	}
	assert_int_equal(seen, cnt);
}

/* What is in the ring up to @at are these entries, and nothing did not fit. */
static void end_with(uint64_t at, const uint64_t *want, uint32_t cnt)
{
	t.engine.shared->head = at;
	expect_callers(want, cnt);
	assert_int_equal(cap_inline__unmatched(t.cap), 0);
	cap_inline__free(t.cap);
}

/* Two greenlets whose frames have one hash: the caller is the one that the callee lies behind. */
static void test_ring__stacks_with_one_hash(void **state)
{
	const uint64_t twin = OUTER + (1ull << 35), want[] = { 0, 0, twin, OUTER, OUTER, twin };
	uint64_t at;

	(void)state;
	assert_int_equal(il_frame_hash(OUTER), il_frame_hash(twin));
	begin(12);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_record(at, IL_CALL, twin, 0);
	for (int i = 0; i < 2; i++) {
		at = put_record(at, IL_CALL, (i ? OUTER : twin) + 0x60, OUTER);
		at = put_record(at, IL_RETURN, (i ? OUTER : twin) + 0x60, 0);
	}
	for (int i = 0; i < 2; i++) {
		at = put_record(at, IL_CALL, (i ? twin : OUTER) + 0x60, OUTER);
		at = put_record(at, IL_RETURN, (i ? twin : OUTER) + 0x60, 0);
	}
	end_with(at, want, 6);
}

/* A target can have any number of stacks, or say so. */
static void test_ring__more_stacks_than_can_be(void **state)
{
	const uint32_t cnt = 66000;
	struct capture_batch batch;
	uint64_t at;

	(void)state;
	begin(12);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	for (uint64_t i = 0; i < 2ull * cnt; i++) { /* they begin, and end, the last ones first */
		uint64_t n = i < cnt ? i : 2ull * cnt - 1 - i;

		at = put_record(at, i < cnt ? IL_CALL : IL_RETURN, OUTER + n * CHUNK, 0);
		t.engine.shared->head = at;
		if (i % 1024 == 0)
			assert_int_equal(cap_inline_ops.next(t.cap, &batch), 1);
	}
	assert_int_equal(read_all(), 0);
	assert_int_equal(cap_inline__unmatched(t.cap), cnt - 65536 - 1);
	cap_inline__free(t.cap);
}

/* 3.11: a suspended generator has the hash of the caller, which is on top of another stack: that is the one. */
static void test_ring__a_generator_with_the_hash_of_a_caller(void **state)
{
	const uint64_t twin = STRANGER + (1ull << 35), want[] = { 0, 0, 0, twin };
	uint64_t at;

	(void)state;
	assert_int_equal(il_frame_hash(STRANGER), il_frame_hash(twin));
	begin(11);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, STRANGER, 0);
	at = put_record(at, IL_YIELD, STRANGER, 0);
	at = put_record(at, IL_CALL, twin, 0);
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_record(at, IL_CALL, twin + 0x60, twin);
	at = put_record(at, IL_RETURN, twin + 0x60, 0);
	at = put_record(at, IL_RETURN, twin, 0);
	at = put_record(at, IL_RETURN, OUTER, 0);
	end_with(at, want, 4);
}

/* 3.11: a generator was freed where it waited; what has its address now calls a trace function before it has shown itself. */
static void test_ring__another_one_where_a_generator_waited(void **state)
{
	const uint64_t leaf = OUTER + 0x200, want[] = { 0, OUTER, OUTER, OUTER };
	uint64_t at;

	(void)state;
	begin(11);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_record(at, IL_CALL, STRANGER, OUTER);
	at = put_record(at, IL_YIELD, STRANGER, 0);
	at = put_more(at, IL_FRAME, STRANGER, IL_FRAME_KNOWN | IL_FRAME_BEGINS, 0);
	at = put_record(at, IL_CALL, leaf, STRANGER);
	at = put_record(at, IL_RETURN, leaf, 0);
	at = put_record(at, IL_CALL, STRANGER, OUTER);
	at = put_record(at, IL_RETURN, STRANGER, 0);
	at = put_record(at, IL_RETURN, OUTER, 0);
	end_with(at, want, 4);
}

/* 3.11: the target says by its whole address which frame calls that has not shown itself: it is none that has the same hash, and
 * a generator that goes on only if it is that one. */
static void test_ring__a_caller_that_is_unseen(void **state)
{
	const uint64_t twin = STRANGER + (1ull << 35), leaf = OUTER + 0x200;
	const uint64_t want[] = { 0, OUTER, STRANGER, OUTER, OUTER, STRANGER, 0, 0, STRANGER };
	uint64_t at;

	(void)state;
	begin(11);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_record(at, IL_CALL, STRANGER, OUTER);
	at = put_more(at, IL_FRAME, twin, IL_FRAME_KNOWN, 0);
	at = put_record(at, IL_CALL, leaf, twin);
	at = put_record(at, IL_RETURN, leaf, 0);
	at = put_record(at, IL_YIELD, STRANGER, 0);
	at = put_more(at, IL_FRAME, twin, IL_FRAME_KNOWN, 0);
	at = put_record(at, IL_CALL, leaf, twin);
	at = put_record(at, IL_RETURN, leaf, 0);
	at = put_more(at, IL_FRAME, STRANGER, IL_FRAME_KNOWN, 0);
	at = put_record(at, IL_CALL, leaf, STRANGER);
	at = put_record(at, IL_RETURN, leaf, 0);
	at = put_more(at, IL_FRAME, 0, IL_FRAME_KNOWN, 0); /* another greenlet's first one */
	at = put_more(at, IL_FRAME, twin, IL_FRAME_KNOWN, 0);
	at = put_record(at, IL_CALL, leaf, twin);
	at = put_record(at, IL_RETURN, leaf, 0);
	at = put_record(at, IL_CALL, twin, 0);
	at = put_record(at, IL_RETURN, twin, 0);
	at = put_more(at, IL_FRAME, STRANGER, IL_FRAME_KNOWN, 0);
	at = put_record(at, IL_CALL, leaf, STRANGER);
	at = put_record(at, IL_RETURN, leaf, 0);
	at = put_record(at, IL_RETURN, STRANGER, 0);
	at = put_record(at, IL_RETURN, OUTER, 0);
	end_with(at, want, 9);
}

/* The target tells a stack that was never seen; what it tells of one that is known is not better. */
static void test_ring__a_stack_that_is_told(void **state)
{
	const uint64_t inner = STRANGER + 0x60, want[] = { 0, inner, OUTER, inner };
	uint64_t at;

	(void)state;
	begin(12);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_more(at, IL_FRAME, inner, IL_FRAME_FIRST, 0);
	at = put_more(at, IL_FRAME, STRANGER, IL_FRAME_LAST, 0);
	at = put_record(at, IL_CALL, inner + 0x60, inner);
	at = put_record(at, IL_RETURN, inner + 0x60, 0);
	at = put_more(at, IL_FRAME, OUTER, IL_FRAME_FIRST | IL_FRAME_LAST, 0);
	at = put_record(at, IL_CALL, OUTER + 0x60, OUTER);
	at = put_record(at, IL_RETURN, OUTER + 0x60, 0);
	at = put_more(at, IL_FRAME, STRANGER, IL_FRAME_FIRST | IL_FRAME_LAST, 0);
	at = put_record(at, IL_CALL, inner + 0x60, inner);
	at = put_record(at, IL_RETURN, inner + 0x60, 0);
	at = put_record(at, IL_RETURN, inner, 0);
	at = put_record(at, IL_RETURN, STRANGER, 0);
	at = put_record(at, IL_RETURN, OUTER, 0);
	end_with(at, want, 4);
}

/* Tops of two stacks have the same hash, and either can have the callee behind it: the target says which one goes on, by its
 * top or, where it does not know any more that it told of it, by all of its frames. */
static void test_ring__a_known_stack_goes_on(void **state)
{
	const uint64_t twin = STRANGER + (1ull << 35), leaf = twin + 0x60;
	const uint64_t want[] = { 0, 0, STRANGER, twin, STRANGER, twin };
	const uint64_t flags[] = { IL_FRAME_KNOWN, IL_FRAME_FIRST | IL_FRAME_LAST };
	uint64_t at;

	(void)state;
	begin(10);
	t.engine.switches = true;
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, STRANGER, 0);
	at = put_record(at, IL_CALL, twin, 0);
	for (int i = 0; i < 2; i++) {
		at = put_more(at, IL_FRAME, STRANGER, flags[i], 0);
		at = put_record(at, IL_CALL, leaf, STRANGER);
		at = put_record(at, IL_RETURN, leaf, 0);
		at = put_more(at, IL_FRAME, twin, flags[i], 0);
		at = put_record(at, IL_CALL, leaf, twin);
		at = put_record(at, IL_RETURN, leaf, 0);
	}
	at = put_more(at, IL_FRAME, OUTER, IL_FRAME_KNOWN, 0); /* a lie changes nothing */
	at = put_record(at, IL_RETURN, twin, 0);
	at = put_record(at, IL_RETURN, STRANGER, 0);
	end_with(at, want, 6);
}

/* A stack was read in the middle of the end of a call, and goes on after another one has run: what the target tells of it is
 * right, not what was read. */
static void test_ring__a_told_stack_that_was_read(void **state)
{
	const uint64_t inner = STRANGER + 0x60, leaf = inner + 0x60, want[] = { OUTER, inner };
	const struct cap_inline_frame read[] = { { .frame = STRANGER, .code = 1 },
						 { .frame = inner, .code = 2 },
						 { .frame = leaf, .code = 3 } };
	uint64_t at;

	(void)state;
	begin(12);
	assert_int_equal(cap_inline__stack(t.cap, 1, getpid(), read, 3, false), 0);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_more(at, IL_FRAME, OUTER, IL_FRAME_FIRST | IL_FRAME_LAST, 0);
	at = put_record(at, IL_CALL, OUTER + 0x60, OUTER);
	at = put_record(at, IL_RETURN, OUTER + 0x60, 0);
	at = put_more(at, IL_FRAME, inner, IL_FRAME_FIRST, 0);
	at = put_more(at, IL_FRAME, STRANGER, IL_FRAME_LAST, 0);
	at = put_record(at, IL_CALL, leaf, inner);
	at = put_record(at, IL_RETURN, leaf, 0);
	at = put_record(at, IL_RETURN, inner, 0);
	at = put_record(at, IL_RETURN, STRANGER, 0);
	at = put_record(at, IL_RETURN, OUTER, 0);
	end_with(at, want, 2);
}

/* Stacks are read since another thread has lost something; this one has not, but runs another stack by then: that is on top from the
 * next event on, and what its events have shown goes on where it was. */
static void test_ring__another_stack_that_was_read(void **state)
{
	const uint64_t other = STRANGER + 0x60, leaf = other + 0x60;
	const uint64_t want[] = { other, OUTER };
	const struct cap_inline_frame read[] = { { .frame = STRANGER }, { .frame = other } };
	struct capture_batch batch;
	uint64_t at;

	(void)state;
	for (int known = 0; known < 2; known++) {
		begin(12);
		at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
		if (known) { /* it has run before */
			at = put_record(at, IL_CALL, STRANGER, 0);
			at = put_record(at, IL_CALL, other, STRANGER);
		}
		at = put_record(at, IL_CALL, OUTER, 0);
		t.engine.shared->head = at;
		assert_int_equal(cap_inline_ops.next(t.cap, &batch), 1);
		assert_int_equal(cap_inline__stack(t.cap, 1, getpid(), read, 2, false), 0);
		at = put_record(at, IL_CALL, leaf, other);
		at = put_record(at, IL_RETURN, leaf, 0);
		at = put_record(at, IL_CALL, OUTER + 0x60, OUTER);
		at = put_record(at, IL_RETURN, OUTER + 0x60, 0);
		at = put_record(at, IL_RETURN, OUTER, 0);
		at = put_record(at, IL_RETURN, other, 0);
		at = put_record(at, IL_RETURN, STRANGER, 0);
		end_with(at, want, 2);
	}
}

/* A frame as small as a shim of `__init__`, of another stack: no shim is where that one is, or far from the running stack. */
static void test_ring__no_shim_but_another_stack(void **state)
{
	const uint64_t other = OUTER + (1u << 20), small = 8 * 12ull;
	const uint64_t want[] = { 0, 0, OUTER, other, 0 };
	uint64_t at;

	(void)state;
	begin(14);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_record(at, IL_CALL, other, 0);
	at = put_record(at, IL_CALL, OUTER + small, OUTER);
	at = put_record(at, IL_CALL, other + small, other);
	at = put_record(at, IL_CALL, STRANGER + CHUNK + small, STRANGER + CHUNK);
	at = put_record(at, IL_RETURN, STRANGER + CHUNK + small, 0);
	at = put_record(at, IL_RETURN, STRANGER + CHUNK,
			0); /* a greenlet's from before the attach */
	end_with(at, want, 5);
}

/* A shim has its place on the stack, too, where both halves of its address add up to nothing. */
static void test_ring__a_shim_that_adds_up_to_nothing(void **state)
{
	const uint64_t shim = 0x7f0000000000, want[] = { 0, shim - 0x100 };
	uint64_t at;

	(void)state;
	begin(14);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, shim - 0x100, 0);
	at = put_record(at, IL_CALL, shim + 8 * 12ull, shim);
	at = put_record(at, IL_RETURN, shim + 8 * 12ull, 0);
	at = put_record(at, IL_RETURN, shim, 0);
	at = put_record(at, IL_RETURN, shim - 0x100, 0);
	end_with(at, want, 2);
}

/* Nor was one that came before its stack was read: the thread stood still behind it, with the frame still on top. */
static void test_ring__an_end_before_the_first_event(void **state)
{
	const struct cap_inline_frame frames[] = { { .frame = OUTER }, { .frame = OUTER + 0x100 } };
	uint32_t seqs[8], walks;
	uint64_t at;

	(void)state;
	begin(14);
	assert_int_equal(cap_inline__stack(t.cap, 1, getpid(), frames, 2, false), 0);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER + 0x200, OUTER);
	at = put_record(at, IL_RETURN, OUTER + 0x200, 0);
	at = put_record(at, IL_RETURN, OUTER, 0);
	t.engine.shared->head = at;
	assert_int_equal(read_events(seqs, &walks), 3);
	assert_int_equal(seqs[2], 2);
	assert_int_equal(walks, 1);
	assert_int_equal(cap_inline__unmatched(t.cap), 0);
	cap_inline__free(t.cap);
}

/* A frame at no address is none: were it taken for the top of an empty stack, that would have less than nothing. */
static void test_ring__a_frame_that_is_none(void **state)
{
	static const uint64_t kinds[] = { IL_UNWIND, IL_THROW, IL_CLOSE, IL_FRAME };
	uint64_t at;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		begin(12);
		at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
		at = put_more(at, kinds[i], 0, 0, 4096);
		at = put_record(at, IL_CALL, OUTER, 0);
		t.engine.shared->head = at;
		assert_int_equal(read_all(), -EILSEQ);
		cap_inline__free(t.cap);
	}
}

/* What a frame holds that is cleared ends within it; frames that never started are cleared there, too. */
static void test_ring__what_a_closed_frame_holds(void **state)
{
	static const uint64_t frames[] = { OUTER,	  OUTER + 0x100, OUTER + 0x200,
					   OUTER + 0x300, OUTER + 0x300, OUTER + 0x200,
					   OUTER + 0x100, STRANGER,	 STRANGER,
					   OUTER };
	struct capture_batch batch;
	const void *rec;
	size_t pos = 0;
	uint32_t len, cnt = 0;
	uint64_t at;

	(void)state;
	begin(14);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_more(at, IL_CLOSE, OUTER + 0x100, 0, 0x5000);
	at = put_more(at, IL_CLOSE, OUTER + 0x200, 0, 0x4000);
	at = put_record(at, IL_CALL, OUTER + 0x300, OUTER); /* a finalizer */
	at = put_record(at, IL_RETURN, OUTER + 0x300, 0);
	at = put_more(at, IL_CLOSED, 0, 0x3000, 0);
	at = put_more(at, IL_CLOSED, 0, 0x4000, 0);
	at = put_more(at, IL_CLOSED, 0, 0x5000, 0);
	at = put_more(at, IL_CLOSE, STRANGER, 0, 0); /* holds nothing */
	at = put_more(at, IL_CLOSED, 0, 0x5000, 0);
	at = put_record(at, IL_RETURN, OUTER, 0);
	t.engine.shared->head = at;
	assert_int_equal(cap_inline_ops.next(t.cap, &batch), 1);
	while ((rec = capture_record(&batch, &pos, &len))) {
		const struct pye_head *head = rec;

		assert_int_not_equal(head->kind, PYE_REC_WALK);
		if (head->kind == PYE_REC_ENTRY || head->kind == PYE_REC_EXIT)
			assert_int_equal(head->frame, frames[cnt++]);
	}
	assert_int_equal(cnt, sizeof(frames) / sizeof(*frames));
	assert_int_equal(cap_inline__unmatched(t.cap), 0);
	cap_inline__free(t.cap);
}

/* That of a frame for which no recursion was left, or of the interpreter's own below `__init__`, is none. */
static void test_ring__ends_that_show_nothing(void **state)
{
	uint32_t seqs[8], walks;
	uint64_t at;

	(void)state;
	for (unsigned int minor = 11; minor <= 15; minor++) {
		uint64_t first, wanted = 2;

		begin(minor);
		first = t.in.layout.co_code_adaptive - (minor <= 12 ? 2u : 0u);
		at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
		at = put_record(at, IL_CALL, OUTER, 0);
		at = put_more(at, IL_UNWIND, STRANGER, 0, first);
		if (minor >= 13) { /* the finalizer of what INNER held comes between the two ends */
			at = put_record(at, IL_CALL, INNER, SHIM);
			at = put_record(at, IL_RETURN, INNER, 0);
			at = put_record(at, IL_CALL, STRANGER, SHIM);
			at = put_record(at, IL_RETURN, STRANGER, 0);
			at = put_record(at, IL_RETURN, SHIM, 0);
			wanted = 6;
		}
		at = put_record(at, IL_RETURN, OUTER, 0);
		t.engine.shared->head = at;
		assert_int_equal(read_events(seqs, &walks), wanted);
		for (uint32_t i = 0; i < wanted; i++)
			assert_int_equal(seqs[i], i);
		assert_int_equal(walks, 0);
		assert_int_equal(cap_inline__unmatched(t.cap), 0);
		cap_inline__free(t.cap);
	}
}

/*
 * What runs before its caller has shown itself (3.11), or out of one that was suspended at the attach, is called by that one's
 * caller, as far as its stack goes; out of another chunk of memory it is on another stack. A trace function that is told of a
 * yield is not a generator that goes on.
 */
static void test_ring__callers_that_come_later(void **state)
{
	uint32_t seqs[8], walks;
	uint64_t at;

	(void)state;
	for (unsigned int minor = 11; minor <= 12; minor++) {
		begin(minor);
		at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
		at = put_record(at, IL_CALL, OUTER, 0);
		at = put_record(at, IL_CALL, OUTER + 0x200, OUTER + 0x100);
		at = put_record(at, IL_RETURN, OUTER + 0x200, 0);
		at = put_record(at, IL_CALL, OUTER + 0x100, OUTER);
		at = put_record(at, IL_CALL, STRANGER + 0x10100, STRANGER + 0x10000);
		t.engine.shared->head = at;
		assert_int_equal(read_events(seqs, &walks), 5);
		assert_int_equal(walks, 1);
		cap_inline__free(t.cap);
	}
	begin(11);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_record(at, IL_CALL, STRANGER, OUTER);
	at = put_record(at, IL_YIELD, STRANGER, 0);
	at = put_record(at, IL_CALL, OUTER + 0x100, STRANGER);
	at = put_record(at, IL_RETURN, OUTER + 0x100, 0);
	at = put_record(at, IL_RETURN, OUTER, 0);
	t.engine.shared->head = at;
	assert_int_equal(read_events(seqs, &walks), 6);
	assert_int_equal(walks, 0);
	assert_int_equal(cap_inline__unmatched(t.cap), 0);
	cap_inline__free(t.cap);
}

/* Frames that call but show nothing else, as those of what was compiled by Nuitka: one gap, not one for each call. */
static void test_ring__callers_that_nobody_knows(void **state)
{
	uint32_t seqs[16], walks;
	uint64_t at;

	(void)state;
	for (unsigned int minor = 12; minor <= 15; minor++) {
		begin(minor);
		at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
		at = put_record(at, IL_CALL, OUTER, 0);
		for (uint64_t i = 0; i < 4; i++) {
			at = put_record(at, IL_CALL, STRANGER, STRANGER + 0x100000 * (i + 1));
			at = put_record(at, IL_RETURN, STRANGER, 0);
		}
		at = put_record(at, IL_CALL, OUTER + 0x100, OUTER); /* that is known */
		t.engine.shared->head = at;
		assert_int_equal(read_events(seqs, &walks), 10);
		for (uint32_t i = 0; i < 10; i++)
			assert_int_equal(seqs[i], i);
		assert_int_equal(walks, 2);
		assert_int_equal(cap_inline__unmatched(t.cap), 0);
		cap_inline__free(t.cap);
	}
}

/* RESUME that runs twice is one entry; of another code object at the same address it is a new one, and an end is missing. */
static void test_ring__the_same_frame_again(void **state)
{
	uint32_t seqs[8], walks;
	uint64_t at;

	(void)state;
	begin(13);
	at = put_more(0, IL_SWITCH, 0, 1, (uint64_t)getpid());
	at = put_definition(at, 1);
	at = put_definition(at, 2);
	at = put_record(at, IL_CALL, OUTER, 0);
	at = put_record(at, 1ull << 48 | IL_CALL, OUTER + 0x100, OUTER);
	at = put_record(at, 1ull << 48 | IL_CALL, OUTER + 0x100, OUTER);
	at = put_record(at, 2ull << 48 | IL_CALL, OUTER + 0x100, OUTER);
	at = put_record(at, IL_RETURN, OUTER + 0x100, 0);
	t.engine.shared->head = at;
	assert_int_equal(read_events(seqs, &walks), 4);
	assert_int_equal(seqs[1], 1);
	assert_int_equal(seqs[2], 3);
	assert_int_equal(walks, 1);
	assert_int_equal(cap_inline__unmatched(t.cap), 1);
	cap_inline__free(t.cap);
}

static uint64_t put_now(uint64_t at, uint64_t kind, uint64_t frame)
{
	put(at, inline_clock__ticks(&t.cap->clock) << 16);
	put(at + 8, frame | kind);
	t.engine.shared->head = at + 16;
	return at + 16;
}

/* It has called and returned, and is seen to be gone; the ring's head. */
static uint64_t begin_with_one_that_has_ended(void)
{
	uint32_t seqs[8], walks;
	uint64_t at;

	begin(13);
	at = put_more(0, IL_SWITCH, 0, 1, NOBODY);
	put(0, inline_clock__ticks(&t.cap->clock) << 16);
	at = put_definition(at, 1);
	put(32, inline_clock__ticks(&t.cap->clock) << 16);
	at = put_now(at, 1ull << 48 | IL_CALL, OUTER);
	at = put_now(at, IL_RETURN, OUTER);
	assert_int_equal(read_events(seqs, &walks), 2);
	usleep(1000);
	cap_inline__reap(t.cap);
	usleep(1000);
	return at;
}

/* A thread gets the tid and the pthread_self() of one that has ended before that is known to be read: its calls go on, and it ends itself. */
static void test_ring__another_one_with_its_number(void **state)
{
	uint32_t seqs[8], walks;
	uint64_t at;

	(void)state;
	at = begin_with_one_that_has_ended();
	at = put_now(at, 1ull << 48 | IL_CALL, OUTER);
	assert_int_equal(read_events(seqs, &walks), 1);
	cap_inline__reap(t.cap);
	at = put_now(at, IL_RETURN, OUTER);
	assert_int_equal(read_events(seqs, &walks), 1);
	assert_int_equal(seqs[0], 3);
	assert_int_equal(cap_inline__unmatched(t.cap), 0);

	/* another one's, behind its end */
	usleep(1000);
	cap_inline__reap(t.cap);
	at = put_more(at, IL_SWITCH, 0, 2, (uint64_t)getpid());
	t.engine.shared->head = at;
	assert_int_equal(read_all(), 0);
	assert_int_equal(HASH_COUNT(t.cap->threads), 2);
	cap_inline__reap(t.cap);
	assert_int_equal(HASH_COUNT(t.cap->threads), 1);
	cap_inline__free(t.cap);
}

/* So does one that has lost all of its events so far, but was there when stacks were read. */
static void test_ring__another_one_that_lost_its_events(void **state)
{
	const struct cap_inline_frame outer = { .frame = OUTER, .code = 1 };
	uint32_t seqs[8], walks;
	uint64_t at;

	(void)state;
	at = begin_with_one_that_has_ended();
	assert_int_equal(cap_inline__stack(t.cap, 1, NOBODY, &outer, 1, false), 0);
	at = put_more(at, IL_SWITCH, 0, 1, NOBODY);
	t.engine.shared->head = at;
	assert_int_equal(read_all(), 0);
	cap_inline__reap(t.cap);
	put_now(at, IL_RETURN, OUTER);
	assert_int_equal(read_events(seqs, &walks), 1);
	assert_int_equal(cap_inline__unmatched(t.cap), 0);
	cap_inline__free(t.cap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring__any_bytes),
		cmocka_unit_test(test_ring__records_in_any_order),
		cmocka_unit_test(test_ring__a_definition_too_long),
		cmocka_unit_test(test_ring__at_end),
		cmocka_unit_test(test_ring__a_long_silence),
		cmocka_unit_test(test_ring__an_end_of_nothing),
		cmocka_unit_test(test_ring__ends_that_are_missing),
		cmocka_unit_test(test_ring__an_end_before_the_first_event),
		cmocka_unit_test(test_ring__stacks_with_one_hash),
		cmocka_unit_test(test_ring__more_stacks_than_can_be),
		cmocka_unit_test(test_ring__another_one_where_a_generator_waited),
		cmocka_unit_test(test_ring__a_caller_that_is_unseen),
		cmocka_unit_test(test_ring__a_stack_that_is_told),
		cmocka_unit_test(test_ring__a_known_stack_goes_on),
		cmocka_unit_test(test_ring__a_told_stack_that_was_read),
		cmocka_unit_test(test_ring__another_stack_that_was_read),
		cmocka_unit_test(test_ring__a_generator_with_the_hash_of_a_caller),
		cmocka_unit_test(test_ring__no_shim_but_another_stack),
		cmocka_unit_test(test_ring__a_shim_that_adds_up_to_nothing),
		cmocka_unit_test(test_ring__a_frame_that_is_none),
		cmocka_unit_test(test_ring__what_a_closed_frame_holds),
		cmocka_unit_test(test_ring__ends_that_show_nothing),
		cmocka_unit_test(test_ring__callers_that_come_later),
		cmocka_unit_test(test_ring__the_same_frame_again),
		cmocka_unit_test(test_ring__callers_that_nobody_knows),
		cmocka_unit_test(test_ring__another_one_with_its_number),
		cmocka_unit_test(test_ring__another_one_that_lost_its_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
