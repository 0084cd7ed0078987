// SPDX-License-Identifier: Apache-2.0
/* The rings of threads that run at once: what depends on another thread's is read behind it, whatever the target writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/event.h"
#include "capture/cap_inline.h"
#include "cpython/layouts.h"

#define RING_BYTES   ((size_t)65536)
#define MEMORY_BYTES (IL_SHARED_HEAD + 2 * RING_BYTES + IL_LANE_CNT * IL_LANE_BYTES(RING_BYTES))
#define CODE	     0x7f0000100000ull
#define FRAME	     0x7f0000001000ull
#define SLOT	     7
#define NOBODY	     0x3ffffffe /* no thread has this number */

static struct {
	uint8_t *memory;
	struct inline_engine engine;
	struct interp in;
	struct cap_inline *cap;
	struct cap_inline_ids ids;
	uint64_t now, random;
} t;

static int set_up(void **state)
{
	(void)state;
	t.memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(t.memory != MAP_FAILED);
	t.in.layout = layout_find(13, true)->py;
	t.engine = (struct inline_engine){ .in = &t.in,
					   .shared = (void *)t.memory,
					   .threads = (void *)(t.memory + IL_THREADS - IL_SHARED),
					   .ring = t.memory + IL_SHARED_HEAD,
					   .ring_bytes = RING_BYTES,
					   .lane_ring = RING_BYTES,
					   .hz = tsc_per_second() };
	assert_int_equal(cap_inline__new(&t.cap, 1, getpid(), &t.ids, NULL), 0);
	cap_inline__use(t.cap, &t.engine);
	t.now = tsc_now() - t.engine.hz / 100; /* in what is past */
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	cap_inline__free(t.cap);
	return munmap(t.memory, MEMORY_BYTES);
}

/* The last one is the ring of those who have none. */
static struct inline_lane lane_no(uint32_t i)
{
	if (i < IL_LANE_CNT)
		return inline__lane(&t.engine, i);
	return (struct inline_lane){ .shared = t.engine.shared, .ring = t.engine.ring };
}

static void *end_of(uint32_t lane)
{
	struct inline_lane l = lane_no(lane);

	return (uint8_t *)(uintptr_t)l.ring + (l.shared->head & (RING_BYTES - 1));
}

static void put(uint32_t lane, uint64_t when, uint64_t what)
{
	*(struct il_rec *)end_of(lane) = (struct il_rec){ (t.now + when) << 16, what };
	lane_no(lane).shared->head += 16;
}

static void put_more(uint32_t lane, uint64_t when, uint64_t more, uint64_t w2, uint64_t w3)
{
	*(struct il_more_rec *)end_of(lane) =
		(struct il_more_rec){ { (t.now + when) << 16, IL_MORE | more << 48 }, w2, w3 };
	lane_no(lane).shared->head += 32;
}

static void put_def(uint32_t lane, uint64_t when, uint32_t line)
{
	struct il_def *d = end_of(lane);

	*d = (struct il_def){ .head = { (t.now + when) << 16, IL_MORE | (uint64_t)IL_DEF << 48 },
			      .code = CODE,
			      .slot = SLOT,
			      .line = line,
			      .total = (sizeof(*d) + 15) & ~15u };
	lane_no(lane).shared->head += d->total;
}

static void put_thread(uint32_t lane, uint64_t when)
{
	put_more(lane, when, IL_SWITCH, lane + 1, (uint64_t)getpid() + lane);
}

#define CALL(frame)   ((uint64_t)SLOT << 48 | (frame) | IL_CALL)
#define RETURN(frame) ((frame) | IL_RETURN)

/* What a pass shows: a letter for each record of interest; the lines of the code objects that calls name. */
static struct {
	char kinds[64];
	uint32_t lines[64], line_of[64];
} seen;

static int read_once(void)
{
	struct capture_batch batch;
	size_t at = 0, cnt = strlen(seen.kinds), calls = 0;
	const void *rec;
	uint32_t len;
	int got = cap_inline_ops.next(t.cap, &batch);

	while (seen.lines[calls])
		calls++;
	while (got > 0 && (rec = capture_record(&batch, &at, &len)) && cnt < 60) {
		const struct pye_head *head = rec;
		const struct pye_def_rec *def = rec;
		const struct pye_entry_rec *entry = rec;

		switch (head->kind) {
		case PYE_REC_DEF:
			seen.line_of[def->code & 63] = def->line;
			seen.kinds[cnt++] = 'd';
			break;
		case PYE_REC_ENTRY:
			seen.lines[calls++] = seen.line_of[entry->code & 63];
			seen.kinds[cnt++] = 'c';
			break;
		case PYE_REC_EXIT:
			seen.kinds[cnt++] = 'r';
			break;
		case PYE_REC_RETIRE:
			seen.kinds[cnt++] = 'x';
			break;
		default:
			break;
		}
	}
	return got;
}

/* One address, one code object after the other; each thread in whichever lane. */
static void test_lanes__a_code_object_behind_the_other(void **state)
{
	for (uint32_t first = 0; first < 3; first++) {
		uint32_t second = first == 1 ? 0 : 1, third = 2 + first;

		memset(&seen, 0, sizeof(seen));
		put_thread(first, 1);
		put_def(first, 2, 10);
		put(first, 3, CALL(FRAME));
		put(first, 30, RETURN(FRAME));
		put_more(first, 40, IL_RETIRE, CODE, 0);
		put_thread(third, 4);
		put_def(third, 5, 10); /* the same one, while it lives */
		put(third, 6, CALL(FRAME + 512));
		put(third, 7, RETURN(FRAME + 512));
		put_def(third, 80, 20);
		put(third, 81, CALL(FRAME + 512));
		put(third, 82, RETURN(FRAME + 512));
		put_thread(second, 50);
		put_def(second, 60, 20);
		put(second, 61, CALL(FRAME + 256));
		put(second, 62, RETURN(FRAME + 256));
		while (read_once() > 0)
			;
		assert_int_equal(strlen(seen.kinds), 11);
		assert_int_equal(seen.lines[0] + seen.lines[1], 20);
		assert_int_equal(seen.lines[2], 20);
		assert_int_equal(seen.lines[3], 20);
		assert_true(strchr(seen.kinds, 'x') < strrchr(seen.kinds, 'd'));
		assert_true(cap_inline__is_at_end(t.cap));
		tear_down(state);
		set_up(state);
	}
}

/* What is younger than the moment at which a pass begins has to wait: what it depends on can be missing. */
static void test_lanes__no_further_than_now(void **state)
{
	uint64_t ahead = t.engine.hz / 100 + t.engine.hz / 50;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	put_thread(0, 1);
	put_def(0, 2, 10);
	put(0, ahead, CALL(FRAME));
	while (read_once() > 0)
		;
	assert_string_equal(seen.kinds, "d");
	assert_false(cap_inline__is_at_end(t.cap));
	usleep(40000);
	assert_int_equal(read_once(), 1);
	assert_string_equal(seen.kinds, "dc");
	assert_true(cap_inline__is_at_end(t.cap));
}

/* A line of the clock after the other, for all lanes. */
static void test_lanes__clocks(void **state)
{
	struct clock_pair pair;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	put_thread(0, 1);
	put_def(0, 2, 10);
	put_thread(1, 3);
	put_def(1, 4, 10);
	pair = clock_pair_read();
	for (uint32_t i = 0; i < 8; i++) {
		pair.tsc = t.now + 1000 * i + 50;
		pair.ns += 1000000;
		cap_inline__adjust(t.cap, &pair);
		put(i % 2, 1000 * i + 100, CALL(FRAME + 256ull * (i % 2)));
		put(i % 2, 1000 * i + 200, RETURN(FRAME + 256ull * (i % 2)));
	}
	while (read_once() > 0)
		;
	assert_true(cap_inline__is_at_end(t.cap));
	assert_int_equal(strlen(seen.kinds), 17);
}

static void test_lanes__losses(void **state)
{
	struct inline_lane lane = inline__lane(&t.engine, 3);

	(void)state;
	assert_false(cap_inline__is_lossy(t.cap));
	lane.shared->lost_mode = 1;
	lane.shared->lost_other = 5;
	*lane.thread = (struct il_thread){ .self = 4, .tid = (uint64_t)getpid(), .lost = 3 };
	assert_true(cap_inline__is_lossy(t.cap));
	assert_int_equal(cap_inline__lost(t.cap), 5);
	cap_inline__recount(t.cap);
	assert_int_equal(lane.thread->lost, 0);
}

/* A thread whose lane is full frees a code object, of which nothing but that is told; another one has room for what comes to its
 * address. It can have been defined, or be on a stack that was read. */
static void test_lanes__an_end_that_is_lost(void **state)
{
	for (int on_stack = 0; on_stack < 2; on_stack++) {
		bool is_new;

		memset(&seen, 0, sizeof(seen));
		t.ids.code = 0;
		put_thread(0, 1);
		if (on_stack) {
			assert_int_equal(cap_inline__code(t.cap, CODE, &is_new), 1);
		} else {
			put_def(0, 2, 10);
			put(0, 3, CALL(FRAME));
			put(0, 4, RETURN(FRAME));
		}
		lane_no(0).shared->lost_mode = lane_no(0).shared->retire_lost = 1;
		put_thread(1, 5);
		put_def(1, 6, 20);
		put(1, 7, CALL(FRAME + 256));
		put(1, 8, RETURN(FRAME + 256));
		put_thread(2, 9);
		put_def(2, 10, 20); /* the same one */
		put(2, 11, CALL(FRAME + 512));
		while (read_once() > 0)
			;
		assert_string_equal(seen.kinds, on_stack ? "dcrc" : "dcrdcrc");
		assert_int_equal(seen.lines[1 - on_stack], 20);
		assert_int_equal(seen.lines[2 - on_stack], 20);
		assert_int_equal(t.ids.code, 2);
		tear_down(state);
		set_up(state);
	}
}

/* A call in the first lane, whose thread is seen to be gone by then. */
static void call_of_one_that_has_ended(void)
{
	struct inline_lane lane = lane_no(0);

	memset(&seen, 0, sizeof(seen));
	put_more(0, 1, IL_SWITCH, 1, NOBODY);
	put_def(0, 2, 10);
	put(0, 3, CALL(FRAME));
	*lane.thread = (struct il_thread){ .self = 1, .tid = NOBODY };
	lane.state->owner = NOBODY;
	assert_int_equal(read_once(), 1);
	cap_inline__reap(t.cap);
}

/* Its lane is for others when its thread has ended, and all that it wrote is read. */
static void test_lanes__of_a_thread_that_has_ended(void **state)
{
	struct inline_lane lane = inline__lane(&t.engine, 0);

	(void)state;
	call_of_one_that_has_ended();
	assert_int_equal(lane.state->owner, NOBODY | IL_OWNER_ENDED);
	assert_int_equal(t.engine.shared->freed, 0);
	usleep(1000);
	read_once();
	cap_inline__reap(t.cap);
	assert_int_equal(lane.state->owner, NOBODY | IL_OWNER_FREE);
	assert_int_equal(t.engine.shared->freed, 1);
}

/* Its lane is claimed meanwhile: it is not for others, whether all that the first one wrote is read or not. */
static void test_lanes__of_one_that_is_claimed_anew(void **state)
{
	struct inline_lane lane = lane_no(0);

	(void)state;
	call_of_one_that_has_ended();
	lane.state->owner = NOBODY;
	usleep(1000);
	read_once();
	cap_inline__reap(t.cap);
	assert_int_equal(lane.state->owner, NOBODY);
	assert_int_equal(t.engine.shared->freed, 0);
}

/* So many times something is read, and it is seen who has ended. */
static void look(int times)
{
	for (int i = 0; i < times; i++) {
		assert_true(read_once() >= 0);
		cap_inline__reap(t.cap);
		usleep(1000);
	}
}

/* A thread with the tid and the pthread_self() of one that has ended, of which the target says nothing: it goes on in the middle of its
 * calls, and so does one that comes when the first one is forgotten. */
static void test_lanes__another_one_with_its_number(void **state)
{
	for (uint32_t i = 0; i <= IL_LANE_CNT; i += IL_LANE_CNT) {
		memset(&seen, 0, sizeof(seen));
		t.ids.thread = 0;
		put_more(i, 1, IL_SWITCH, 1, NOBODY);
		put_def(i, 2, 10);
		put(i, 3, CALL(FRAME));
		put(i, 4, RETURN(FRAME));
		look(1);
		t.now = tsc_now();
		put(i, 0, CALL(FRAME));
		usleep(1000);
		look(1);
		put(i, 1, RETURN(FRAME));
		look(1);
		assert_string_equal(seen.kinds, "dcrcr");
		assert_int_equal(t.ids.thread, 1);
		look(2); /* now it is seen that there is nobody */
		put(i, 2, CALL(FRAME));
		put(i, 3, RETURN(FRAME));
		look(1);
		assert_string_equal(seen.kinds, "dcrcrcr");
		assert_int_equal(t.ids.thread, 2);
		assert_int_equal(cap_inline__unmatched(t.cap), 0);
		tear_down(state);
		set_up(state);
	}
}

static uint64_t any(void)
{
	t.random ^= t.random << 13;
	t.random ^= t.random >> 7;
	t.random ^= t.random << 17;
	return t.random;
}

static void test_lanes__any_bytes(void **state)
{
	int damaged = 0;

	t.random = 3;
	for (unsigned int round = 0; round < 60; round++) {
		for (uint32_t i = 0; i < 4; i++) {
			struct inline_lane lane = inline__lane(&t.engine, i);
			uint64_t *words = (void *)(uintptr_t)lane.ring;

			for (size_t k = 0; k < RING_BYTES / 8; k++)
				words[k] = any() % 4 ? any() : (t.now + any() % 1000) << 16;
			if (round % 2) {
				lane.shared->head = 0;
				put_thread(i, 1);
			}
			lane.shared->head = any() % 8 ? any() % RING_BYTES & ~15ull : any();
			lane.shared->tail = any();
		}
		memset(&seen, 0, sizeof(seen));
		for (int i = 0, got = 1; i < 100 && got >= 0; i++) {
			got = read_once();
			damaged += got == -EILSEQ;
		}
		cap_inline__recount(t.cap);
		tear_down(state);
		set_up(state);
	}
	assert_true(damaged);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lanes__a_code_object_behind_the_other),
		TEST(test_lanes__no_further_than_now),
		TEST(test_lanes__clocks),
		TEST(test_lanes__losses),
		TEST(test_lanes__an_end_that_is_lost),
		TEST(test_lanes__of_a_thread_that_has_ended),
		TEST(test_lanes__of_one_that_is_claimed_anew),
		TEST(test_lanes__another_one_with_its_number),
		TEST(test_lanes__any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
