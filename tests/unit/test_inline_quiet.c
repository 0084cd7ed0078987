// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of code that is left out (--include, --exclude): for every register in which an interpreter can have its frame each stub is
 * executed, and nothing but IL_QUIET changes, until something happens that is recorded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inline/slow.h"
#include "inline_run.h"

#define FIRST_MINOR 12
#define LAST_MINOR  15

enum {
	ENTRY,
	YIELD,
	CAUGHT,
	RETURN,
	UNWIND,
	DEALLOC,
	PATCHES
};

static const uint8_t kinds[PATCHES] = { INLINE_ENTRY,  INLINE_YIELD,  INLINE_CAUGHT,
					INLINE_RETURN, INLINE_UNWIND, INLINE_DEALLOC };

static bool is_call(unsigned int n)
{
	return n >= RETURN;
}

static void run(unsigned int n)
{
	const struct il_patch *p = &((const struct il_header *)(const void *)t.base)->patches[n];

	run_stub(is_call(n) ? p->at + 4 + (uint64_t)(int64_t)(int32_t)p->new : p->new, kinds[n],
		 is_call(n));
}

static void build(uint8_t frame, uint8_t instr)
{
	const struct stub_how how = { .switches = true, .quiet = true };
	struct inline_plan *p = &t.plan;
	struct err e;

	*p = (struct inline_plan){ .frame_reg = frame, .instr_reg = instr };
	for (unsigned int n = 0; n < PATCHES; n++)
		if (is_call(n))
			p->calls[p->call_cnt++] =
				(struct inline_call){ .at = address(t.base) - 4096 + 16 * n,
						      .target = address(cpu_land),
						      .kind = kinds[n] };
		else
			p->words[p->word_cnt++] = (struct inline_word){ .at = 8 * n,
									.target = address(cpu_land),
									.kind = kinds[n] };
	assert_return_code(mprotect(t.base, IL_CODE_BYTES, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(stub_image(p, &t.layout, 0, address(t.base), &how, t.base, &e), 0);
	assert_return_code(mprotect(t.base, IL_CODE_BYTES, PROT_READ | PROT_EXEC), 0);
}

static uint64_t *known(void)
{
	return (uint64_t *)(void *)(t.base + IL_CACHE) + slot_of_code();
}

/* pyebpf has said that the code object is left out. */
static void say(uint64_t read_to)
{
	struct il_verdict *v = (void *)(t.base + IL_SHARED + IL_VERDICTS);

	v[t.shared->verdict_head++ % IL_VERDICT_CNT] =
		(struct il_verdict){ address(t.code), read_to };
	t.private->limit = 0;
}

/* The caller runs, and the code object is known, as left out. */
static void begin(unsigned int minor, uint8_t frame, uint8_t instr)
{
	t.layout = layout_find(minor, false)->py;
	make_objects();
	set64(t.caller, t.layout.f_previous, 0);
	set64(t.caller, t.layout.f_code, address(t.code));
	build(frame, instr);
	t.instr[1] = 0;
	fresh();
	memset(t.base + IL_ROOTS, 0, IL_SHARED - IL_ROOTS);
	inline_describe_roots(&t.layout, address(t.base), t.private);
	inline_describe_quiet(address(t.base), t.private);
	run(ENTRY); /* thread, stack and code object */
	run(RETURN);
	assert_int_equal(t.private->top, address(t.caller));
	assert_int_equal(t.private->run, address(t.caller));
	assert_int_equal(*known(), address(t.code));
	say(t.shared->head);
	run(ENTRY);
	assert_int_equal(*known(), address(t.code) | IL_CODE_QUIET);
	assert_int_equal(t.shared->verdict_tail, t.shared->verdict_head);
	assert_int_not_equal(t.private->limit, 0);
	run(RETURN);
}

/* What is in no record: @cnt frames. */
static void expect_quiet(uint64_t head, uint32_t cnt, const void *runs)
{
	assert_int_equal(t.shared->head, head);
	assert_int_equal(t.private->head, head);
	assert_int_equal(t.private->quiet_at, 2 * cnt);
	assert_int_equal(t.private->run, address(runs));
}

static void run_quiet(void)
{
	uint64_t head = t.shared->head, calls = t.shared->quiet, slow = t.shared->slow;

	run(ENTRY);
	expect_quiet(head, 1, t.frame);
	run(CAUGHT);
	expect_quiet(head, 1, t.frame);
	run(RETURN);
	expect_quiet(head, 0, t.caller);
	assert_int_equal(t.private->top, address(t.caller));
	assert_int_equal(t.shared->quiet, calls + 1);
	assert_int_equal(t.shared->slow, slow); /* nothing of it takes the slow path */
	run(ENTRY);
	run(UNWIND);
	expect_quiet(head, 0, t.caller);
	assert_int_equal(t.shared->quiet, calls + 2);
}

static void test_every_register(void **state)
{
	(void)state;
	for (unsigned int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++)
		for (uint8_t frame = 0; frame < 16; frame++)
			for (uint8_t instr = 0; instr < 16; instr++) {
				if (frame == instr || frame == PREG_RSP || instr == PREG_RSP)
					continue;
				begin(minor, frame, instr);
				run_quiet();
			}
}

/* A frame above it that is recorded: that and the one that was not come into the ring, in their order. */
static void test_what_calls_recorded_code(void **state)
{
	static uint8_t inner[256] __attribute__((aligned(16)));
	static uint8_t other[512] __attribute__((aligned(32)));
	const struct il_rec *r;
	uint64_t head, calls;

	(void)state;
	begin(LAST_MINOR, PREG_RBX, PREG_R13);
	calls = t.shared->quiet;
	run(ENTRY);
	head = t.shared->head;
	/* the frame is the caller of another one now */
	memcpy(inner, t.frame, sizeof(inner));
	memcpy(other, t.code, sizeof(other));
	set64(inner, t.layout.f_code, address(other));
	set64(inner, t.layout.f_previous, address(t.frame));
	pye_inline_slow(t.private, address(inner), 0, INLINE_ENTRY);
	r = (const void *)(t.base + IL_RING + head);
	assert_int_equal(r->what, slot_of_code() << 48 | address(t.frame) | IL_CALL);
	assert_int_equal(r->time & 0xffff, il_frame_hash(address(t.caller)));
	r = (const void *)(t.base + IL_RING + t.shared->head - sizeof(*r));
	assert_int_equal(r->what & IL_FRAME_MASK, address(inner) | IL_CALL);
	assert_int_equal(r->time & 0xffff, il_frame_hash(address(t.frame)));
	assert_int_equal(t.private->quiet_at, 0);
	assert_int_equal(t.private->run, address(inner));
	assert_int_equal(t.private->top, address(inner));
	assert_int_equal(t.shared->quiet, calls); /* it is recorded after all */
	pye_inline_slow(t.private, address(inner), 0, INLINE_RETURN);
	head = t.shared->head;
	run(RETURN); /* and so is its end */
	assert_int_equal(t.shared->head, head + sizeof(*r));
	assert_int_equal(t.private->run, address(t.caller));
}

static void test_more_than_have_a_place(void **state)
{
	uint64_t head;

	(void)state;
	begin(LAST_MINOR, PREG_RBX, PREG_R13);
	head = t.shared->head;
	run(ENTRY);
	t.private->quiet_at = IL_QUIET_WORDS;
	t.private->run = address(t.caller);
	run(ENTRY); /* all of them are recorded, and this one */
	assert_int_equal(t.private->quiet_at, 0);
	assert_int_equal(t.shared->head, head + 16 * (IL_QUIET_WORDS / 2 + 1));
}

/* A generator's frame that goes on is no call; nor is what another stack calls. */
static void test_what_is_recorded_all_the_same(void **state)
{
	uint64_t head;

	(void)state;
	begin(LAST_MINOR, PREG_RBX, PREG_R13);
	head = t.shared->head;
	t.private->run = t.private->top = address(t.entry);
	run(ENTRY);
	assert_int_equal(t.private->quiet_at, 0);
	assert_true(t.shared->head > head);
	begin(LAST_MINOR, PREG_RBX, PREG_R13);
	t.private->lost_mode = 1;
	t.private->limit = 0;
	run(ENTRY);
	assert_int_equal(t.private->quiet_at, 0);
}

/* Its address is another one's by now: pyebpf had not read of that yet. */
static void test_a_code_object_that_was_freed(void **state)
{
	uint64_t read_to;

	(void)state;
	begin(LAST_MINOR, PREG_RBX, PREG_R13);
	read_to = t.shared->head;
	run(DEALLOC);
	assert_int_equal(*known(), 0);
	run(ENTRY);
	run(RETURN);
	say(read_to);
	run(ENTRY);
	assert_int_equal(*known(), address(t.code));
	run(RETURN);
	say(t.shared->head); /* now it has */
	run(ENTRY);
	assert_int_equal(*known(), address(t.code) | IL_CODE_QUIET);
}

/* Another thread goes on: what this one had not recorded is its own. */
static void test_another_thread(void **state)
{
	const struct il_more_rec *r;
	uint64_t head;

	(void)state;
	begin(LAST_MINOR, PREG_RBX, PREG_R13);
	run(ENTRY);
	head = t.shared->head;
	t.private->thread = 1;
	run(YIELD);
	r = (const void *)(t.base + IL_RING + head);
	assert_int_equal(r->head.what, slot_of_code() << 48 | address(t.frame) | IL_CALL);
	r = (const void *)(t.base + IL_RING + head + 16);
	assert_int_equal(r->head.what >> 48, IL_SWITCH);
	assert_int_equal(t.private->quiet_at, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_register),
		cmocka_unit_test(test_what_calls_recorded_code),
		cmocka_unit_test(test_more_than_have_a_place),
		cmocka_unit_test(test_what_is_recorded_all_the_same),
		cmocka_unit_test(test_a_code_object_that_was_freed),
		cmocka_unit_test(test_another_thread),
	};

	return cmocka_run_group_tests_name("inline_quiet", tests, region_set_up, region_tear_down);
}
