// SPDX-License-Identifier: Apache-2.0
/*
 * To 3.10: an event that follows on the last one leaves the record that the slow path leaves, without it. Whatever is not so takes the
 * slow path.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "inline/slow.h"
#include "inline_run.h"

#define FIRST_MINOR 6
#define LAST_MINOR  10

static struct {
	uint8_t state[512];
	uint64_t tstate; /* the interpreter's pointer to it */
} w;

/* The caller runs, thread and code object are known. */
static void begin(unsigned int minor)
{
	make_eval_objects(minor);
	memset(&w, 0, sizeof(w));
	memset(t.caller, 0, sizeof(t.caller));
	set64(t.caller, t.layout.f_code, address(t.code));
	fresh();
	memset(t.base + IL_ROOTS, 0, IL_SHARED - IL_ROOTS);
	inline_describe_roots(&t.layout, address(t.base), t.private);
	w.tstate = address(w.state);
	t.private->tstate_current = address(&w.tstate);
	pye_inline_eval(t.private, address(t.caller), 0, INLINE_EVAL_ENTRY);
	assert_int_equal(t.shared->slow, 1);
	assert_int_equal(t.private->thread, pthread_self());
	assert_int_equal(t.private->top, address(t.caller));
}

static void set_top(uint32_t kind)
{
	t.private->top = address(kind == INLINE_EVAL_ENTRY ? t.caller : t.frame);
}

/* The one record that is left, which is taken back. */
static struct il_rec event_by(void (*by)(struct il_private *, uint64_t, uint64_t, uint32_t),
			      uint32_t kind)
{
	uint64_t head = t.shared->head;
	struct il_rec made;

	set_top(kind);
	by(t.private, address(t.frame), 0, kind);
	assert_int_equal(t.private->top, address(kind == INLINE_EVAL_ENTRY ? t.frame : t.caller));
	assert_int_equal(t.private->run, t.private->top);
	assert_int_equal(t.shared->head, head + sizeof(made));
	assert_int_equal(t.private->head, head + sizeof(made));
	memcpy(&made, t.base + IL_RING + head, sizeof(made));
	t.shared->head = t.private->head = head;
	return made;
}

static void expect(uint32_t kind, unsigned int what)
{
	uint64_t slow = t.shared->slow;
	struct il_rec fast = event_by(pye_inline_eval, kind), full;

	assert_int_equal(t.shared->slow, slow);
	full = event_by(pye_inline_slow, kind);
	assert_int_equal(t.shared->slow, slow + 1);
	assert_int_equal(fast.what, full.what);
	assert_int_equal(fast.what & 7, what);
	assert_int_equal(fast.time & 0xffff, full.time & 0xffff);
	assert_true(fast.time >> 16 && fast.time >> 16 <= full.time >> 16);
}

static void follow(void)
{
	memset(t.frame + t.layout.f_instr, 0xff, 4);
	expect(INLINE_EVAL_ENTRY, IL_CALL);
	memset(t.frame + t.layout.f_instr, 0, 4);
	expect(INLINE_EVAL_ENTRY, IL_RESUME);
	set_suspended(true);
	expect(INLINE_EVAL_EXIT, IL_YIELD);
	set_suspended(false);
	expect(INLINE_EVAL_EXIT, IL_RETURN);
}

static void test_eval__what_follows_on_the_last_event(void **state)
{
	(void)state;
	for (unsigned int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++) {
		begin(minor);
		follow();
		inline_describe_quiet(address(t.base), t.private); /* it is left in */
		follow();
	}
}

/* Of what is left out nothing is left but its frame in IL_QUIET, until it ends. */
static void test_eval__what_is_left_out(void **state)
{
	const uint64_t *quiet = (const uint64_t *)(const void *)(t.base + IL_QUIET);

	(void)state;
	for (unsigned int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++) {
		uint64_t head;

		begin(minor);
		head = t.shared->head;
		inline_describe_quiet(address(t.base), t.private);
		((uint64_t *)(void *)(t.base + IL_CACHE))[slot_of_code()] |= IL_CODE_QUIET;
		memset(t.frame + t.layout.f_instr, 0xff, 4);
		for (uint64_t i = 1; i <= 3; i++) {
			pye_inline_eval(t.private, address(t.frame), 0, INLINE_EVAL_ENTRY);
			assert_int_equal(t.shared->quiet, i);
			assert_int_equal(t.private->quiet_at, 2);
			assert_int_equal(t.private->run, address(t.frame));
			assert_int_equal(quiet[0] & IL_FRAME_MASK,
					 address(t.frame) | (uint64_t)IL_CALL);
			assert_int_equal(quiet[1] & IL_FRAME_MASK, address(t.caller));
			pye_inline_eval(t.private, address(t.frame), 0, INLINE_EVAL_EXIT);
			assert_int_equal(t.private->quiet_at, 0);
			assert_int_equal(t.private->run, address(t.caller));
		}
		assert_int_equal(t.shared->slow, 1);
		/* a resume is recorded */
		memset(t.frame + t.layout.f_instr, 0, 4);
		assert_int_equal(t.shared->head, head);
		pye_inline_eval(t.private, address(t.frame), 0, INLINE_EVAL_ENTRY);
		assert_int_equal(t.shared->slow, 2);
		assert_true(t.shared->head > head);
	}
}

enum otherwise {
	NO_ROOM,
	ANOTHER_THREAD,
	INSIDE_WHAT_IS_LEFT_OUT,
	NO_CALLER,
	ANOTHER_STACK,
	RAISING,
	UNKNOWN_CODE,
	OTHERWISE_CNT
};

static void make(enum otherwise what)
{
	const uint64_t slot = IL_CODE_SLOT(address(t.code));

	switch (what) {
	case NO_ROOM:
		t.private->limit = t.private->head;
		break;
	case ANOTHER_THREAD:
		t.private->thread = 8;
		break;
	case INSIDE_WHAT_IS_LEFT_OUT:
		inline_describe_quiet(address(t.base), t.private);
		t.private->quiet_at = 2;
		break;
	case NO_CALLER:
		set64(t.frame, t.layout.f_previous, 0);
		break;
	case ANOTHER_STACK:
		t.private->top = 8;
		break;
	case RAISING:
		set64(w.state, t.layout.ts_exception, 8);
		break;
	default:
		((uint64_t *)(void *)(t.base + IL_CACHE))[slot] = 0;
	}
}

static void test_eval__all_else_is_the_slow_paths(void **state)
{
	static const uint32_t kinds[] = { INLINE_EVAL_ENTRY, INLINE_EVAL_EXIT };

	(void)state;
	for (unsigned int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++)
		for (unsigned int what = 0; what < OTHERWISE_CNT; what++)
			for (int i = 0; i < 2; i++) {
				bool needs_code = what != UNKNOWN_CODE || !i;

				begin(minor);
				set_top(kinds[i]);
				make(what);
				pye_inline_eval(t.private, address(t.frame), 0, kinds[i]);
				assert_int_equal(t.shared->slow, 1 + needs_code);
				assert_true(t.shared->head > 0);
			}
}

/* Its page was wiped: nothing is known there, and nothing is written. */
static void test_eval__in_a_forked_child(void **state)
{
	uint64_t head;

	(void)state;
	begin(LAST_MINOR);
	head = t.shared->head;
	memset(t.private, 0, sizeof(*t.private));
	pye_inline_eval(t.private, address(t.frame), 0, INLINE_EVAL_ENTRY);
	pye_inline_eval(t.private, address(t.frame), 0, INLINE_EVAL_EXIT);
	assert_int_equal(t.shared->head, head);
	assert_int_equal(t.private->head, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eval__what_follows_on_the_last_event),
		cmocka_unit_test(test_eval__what_is_left_out),
		cmocka_unit_test(test_eval__all_else_is_the_slow_paths),
		cmocka_unit_test(test_eval__in_a_forked_child),
	};

	return cmocka_run_group_tests(tests, region_set_up, region_tear_down);
}
