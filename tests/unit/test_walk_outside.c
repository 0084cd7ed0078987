// SPDX-License-Identifier: Apache-2.0
/* The walker over structures made up in our own memory, most of them hostile. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpython/interp.h"
#include "cpython/layouts.h"
#include "cpython/outside_pages.h"
#include "cpython/walk_outside.h"
#include "proc/mem.h"

enum {
	FRAMES = 70000
};

/* Sizes are those of 3.12 and larger; fields lie where its layout says. */
struct world {
	uint64_t head;
	uint8_t is[2][128], ts[3][256], cframe[3][16];
	uint8_t frames[FRAMES + 1][80];
};

static struct proc_mem mem;
static struct world *w;
static struct interp *in;
static const struct pye_pylayout *const l = &layout_3_12.py;

static uint64_t addr(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void put(void *object, unsigned int offset, uint64_t value)
{
	memcpy((char *)object + offset, &value, sizeof(value));
}

/* One interpreter with one thread, whose stack is the first @depth frames; the code of frame i is at
 * 0x1000 + 16 * i. Below them is an entry from C. */
static void make_world(uint32_t depth)
{
	memset(w, 0, sizeof(*w));
	w->head = addr(w->is[0]);
	put(w->is[0], l->is_threads, addr(w->ts[0]));
	put(w->ts[0], l->ts_interp, addr(w->is[0]));
	put(w->ts[0], l->ts_frame, addr(w->cframe[0]));
	put(w->ts[0], l->ts_thread_id, 0x7000);
	put(w->ts[0], l->ts_native_id, 77);
	if (depth)
		put(w->cframe[0], l->cframe_frame, addr(w->frames[0]));
	for (uint32_t i = 0; i < depth; i++) {
		put(w->frames[i], l->f_code, 0x1000 + 16 * i);
		put(w->frames[i], l->f_previous, addr(w->frames[i + 1]));
	}
	w->frames[depth][l->f_owner] = 3;
}

static int setup(void **state)
{
	(void)state;
	w = calloc(1, sizeof(*w));
	in = calloc(1, sizeof(*in));
	if (!w || !in)
		return -1;
	in->layout = *l;
	in->interpreters = addr(&w->head);
	return proc_mem__open(getpid(), &mem);
}

static int teardown(void **state)
{
	(void)state;
	proc_mem__close(&mem);
	free(in);
	free(w);
	return 0;
}

/* Walks and gives the only thread. */
static struct outside_thread walk_one(struct outside_stacks *s)
{
	assert_int_equal(walk_outside(&mem, in, s), 0);
	assert_int_equal(s->cnt, 1);
	return s->threads[0];
}

static void test_walk_outside__a_stack(void **state)
{
	struct outside_stacks s;
	struct outside_thread t;

	(void)state;
	make_world(5);
	w->frames[1][l->f_owner] = 3; /* an entry from C */
	put(w->frames[2], l->f_code, 0x1021); /* with a tag */
	t = walk_one(&s);
	assert_int_equal(t.status, OUTSIDE_AGREED);
	assert_int_equal(t.thread_id, 0x7000);
	assert_int_equal(t.native_id, 77);
	assert_int_equal(t.frame_cnt, 4);
	assert_false(t.truncated || s.truncated);
	assert_int_equal(t.frames[0].frame, addr(w->frames[0]));
	assert_int_equal(t.frames[0].code, 0x1000);
	assert_int_equal(t.frames[1].frame, addr(w->frames[2]));
	assert_int_equal(t.frames[1].code, 0x1020);
	assert_int_equal(t.frames[3].code, 0x1040);
	outside_stacks__done(&s);
}

/* A generator that yields has no caller for a moment. */
static void test_walk_outside__a_stack_without_its_end(void **state)
{
	struct outside_stacks s;
	struct outside_thread t;

	(void)state;
	make_world(5);
	put(w->frames[0], l->f_previous, 0);
	t = walk_one(&s);
	assert_int_equal(t.status, OUTSIDE_MOVED);
	assert_int_equal(t.frame_cnt, 0);
	outside_stacks__done(&s);
	/* with another frame on top it does not yield: one that an extension has linked by itself */
	put(w->frames[0], l->f_previous, addr(w->frames[1]));
	put(w->frames[1], l->f_previous, 0);
	t = walk_one(&s);
	assert_int_equal(t.status, OUTSIDE_AGREED);
	assert_int_equal(t.frame_cnt, 2);
	outside_stacks__done(&s);
	put(w->frames[0], l->f_previous, 0);
	in->layout.flags &= ~PYE_LAYOUT_C_ROOT; /* where a stack ends with a frame */
	t = walk_one(&s);
	in->layout = *l;
	assert_int_equal(t.status, OUTSIDE_AGREED);
	assert_int_equal(t.frame_cnt, 1);
	outside_stacks__done(&s);
}

/* Of one that has others on top, where all stand still: the frames that a walk shows. */
static uint32_t frames_held(void)
{
	struct outside_stacks s;
	uint32_t cnt;

	assert_int_equal(walk_outside_held(&mem, in, NULL, NULL, &s), 0);
	assert_int_equal(s.threads[0].status, OUTSIDE_AGREED);
	cnt = s.threads[0].frame_cnt;
	assert_int_equal(s.threads[0].frames[0].frame, addr(w->frames[0]));
	assert_int_equal(s.threads[0].frames[cnt - 1].frame, addr(w->frames[3]));
	assert_false(s.threads[0].truncated);
	outside_stacks__done(&s);
	return cnt;
}

/* A generator that is linked while something is thrown into what it delegates to. Where it runs it is at the same place only
 * when a tool is told that it goes on. */
static void test_walk_outside__linked_generators(void **state)
{
	static const unsigned int minors[] = { 12, 13, 14, 15 };
	struct outside_stacks s;
	uint8_t code[8] = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(minors) / sizeof(*minors); i++) {
		const struct pye_pylayout *now = &layout_find(minors[i], false)->py;

		make_world(4);
		in->layout.resume_ahead = now->resume_ahead;
		memcpy(in->layout.yield_ops, now->yield_ops, sizeof(now->yield_ops));
		memcpy(in->layout.resume_ops, now->resume_ops, sizeof(now->resume_ops));
		code[0] = now->yield_ops[0];
		code[now->resume_ahead] = now->resume_ops[0];
		code[now->resume_ahead + 1] = 3;
		w->frames[1][l->f_owner] = 1;
		put(w->frames[1], l->f_instr, addr(code));
		assert_int_equal(frames_held(), 3);
		assert_int_equal(walk_one(&s).frame_cnt,
				 4); /* it may have run on since it was linked */
		outside_stacks__done(&s);
		put(w->frames[0], 80 - 24, addr(w)); /* it runs */
		assert_int_equal(frames_held(), 4);
		put(w->frames[0], 80 - 24, 0);
		code[now->resume_ahead + 1] = 1; /* it yields */
		assert_int_equal(frames_held(), 4);
		code[now->resume_ahead + 1] = 3;
		w->frames[1][l->f_owner] = 0;
		assert_int_equal(frames_held(), 4);
		make_world(4); /* innermost: nothing says so */
		w->frames[0][l->f_owner] = 1;
		put(w->frames[0], l->f_instr, addr(code));
		assert_int_equal(frames_held(), 4);
		in->layout = *l;
	}
}

/* 3.11: C called what is on top of a frame that does not run; else it can be in an instruction with a cache. */
static void test_walk_outside__idle_frames(void **state)
{
	const struct pye_pylayout *now = &layout_find(11, false)->py;
	uint8_t code[8] = { 0 };

	(void)state;
	in->layout.f_stack = now->f_stack;
	in->layout.f_entry = now->f_entry;
	memcpy(in->layout.idle_ops, now->idle_ops, sizeof(now->idle_ops));
	memcpy(in->layout.begin_ops, now->begin_ops, sizeof(now->begin_ops));
	for (uint32_t op = 0; op < 256; op++) {
		bool idle = memchr(now->idle_ops, (int)op, sizeof(now->idle_ops)) != NULL;
		bool begins = op && memchr(now->begin_ops, (int)op, sizeof(now->begin_ops));

		make_world(4);
		code[0] = (uint8_t)op;
		put(w->frames[1], l->f_instr, addr(code));
		assert_int_equal(frames_held(), 4);
		w->frames[0][now->f_entry] = 1;
		assert_int_equal(frames_held(), idle ? 3 : 4);
		memset(w->frames[1] + now->f_stack, 0xff, 4);
		assert_int_equal(frames_held(), begins ? 3 : 4);
	}
	in->layout = *l;
}

/* 3.10: its stack pointer is saved; so it is of a frame that a trace function is called for, which has a line number then. */
static void test_walk_outside__linked_objects(void **state)
{
	const struct pye_pylayout *now = &layout_find(10, false)->py;
	struct {
		uint8_t frames[4][512];
	} *o = calloc(1, sizeof(*o));
	struct outside_stacks s;

	(void)state;
	assert_non_null(o);
	make_world(0);
	in->layout = *now;
	put(w->is[0], now->is_threads, addr(w->ts[0]));
	put(w->ts[0], now->ts_interp, addr(w->is[0]));
	put(w->ts[0], now->ts_frame, addr(o->frames[0]));
	for (int i = 0; i < 4; i++) {
		put(o->frames[i], now->f_code, 0x1000);
		put(o->frames[i], now->f_previous, i == 3 ? 0 : addr(o->frames[i + 1]));
		memset(o->frames[i] + now->f_stack, 0xff, 4);
	}
	for (int i = 0; i < 3; i++) {
		memset(o->frames[1] + now->f_stack, i ? 0 : 0xff, 4);
		o->frames[1][now->f_instr + 4] = i == 2;
		assert_int_equal(walk_outside_held(&mem, in, NULL, NULL, &s), 0);
		assert_int_equal(s.threads[0].frame_cnt, i == 1 ? 3 : 4);
		assert_false(s.threads[0].truncated);
		outside_stacks__done(&s);
	}
	/* 3.9 does not link it to its caller */
	in->layout.flags &= ~PYE_LAYOUT_FRAME_STATE;
	memset(o->frames, 0, sizeof(o->frames));
	for (int i = 0; i < 2; i++)
		put(o->frames[i], now->f_code, 0x1000);
	put(o->frames[0], now->f_previous, addr(o->frames[1]));
	put(o->frames[1], now->f_gen, addr(o));
	put(o->frames[1], now->f_stack, addr(o));
	assert_int_equal(walk_outside_held(&mem, in, NULL, NULL, &s), 0);
	assert_int_equal(s.threads[0].frame_cnt, 1);
	assert_true(s.threads[0].truncated);
	outside_stacks__done(&s);
	in->layout = *l;
	free(o);
}

static void test_walk_outside__no_frames(void **state)
{
	struct outside_stacks s;

	(void)state;
	make_world(0);
	assert_int_equal(walk_one(&s).status, OUTSIDE_AGREED);
	outside_stacks__done(&s);
	put(w->ts[0], l->ts_frame, 0);
	assert_int_equal(walk_one(&s).frame_cnt, 0);
	outside_stacks__done(&s);
	w->head = 0; /* before start-up */
	assert_int_equal(walk_outside(&mem, in, &s), 0);
	assert_int_equal(s.cnt, 0);
	outside_stacks__done(&s);
	in->interpreters = 0;
	assert_int_equal(walk_outside(&mem, in, &s), -EFAULT);
	in->interpreters = 8;
	assert_int_equal(walk_outside(&mem, in, &s), -EFAULT);
	in->interpreters = addr(&w->head);
}

static void test_walk_outside__cycles_of_frames(void **state)
{
	(void)state;
	for (uint32_t back = 0; back < 40; back++) {
		struct outside_stacks s;
		struct outside_thread t;

		make_world(40);
		put(w->frames[39], l->f_previous, addr(w->frames[back]));
		t = walk_one(&s);
		assert_int_equal(t.status, OUTSIDE_BROKEN);
		assert_null(t.frames);
		outside_stacks__done(&s);
	}
}

static void test_walk_outside__broken_frames(void **state)
{
	static const uint64_t wild[] = { 1,
					 8,
					 0x7fffffffffff,
					 0x800000000000,
					 UINT64_MAX,
					 UINT64_MAX - 79,
					 (uint64_t)INT64_MAX - 3 };
	struct outside_stacks s;

	(void)state;
	for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
		make_world(3);
		put(w->frames[2], l->f_previous, wild[i]);
		assert_int_equal(walk_one(&s).status, OUTSIDE_BROKEN);
		outside_stacks__done(&s);
		make_world(3);
		put(w->ts[0], l->ts_frame, wild[i]);
		assert_int_equal(walk_one(&s).status, OUTSIDE_BROKEN);
		outside_stacks__done(&s);
	}
	make_world(3);
	put(w->frames[1], l->f_code, 0);
	assert_int_equal(walk_one(&s).status, OUTSIDE_BROKEN);
	outside_stacks__done(&s);
}

static void test_walk_outside__very_deep(void **state)
{
	struct outside_stacks s;
	struct outside_thread t;

	(void)state;
	make_world(OUTSIDE_FRAMES_MAX);
	t = walk_one(&s);
	assert_int_equal(t.frame_cnt, OUTSIDE_FRAMES_MAX);
	assert_false(t.truncated);
	outside_stacks__done(&s);
	make_world(FRAMES);
	t = walk_one(&s);
	assert_int_equal(t.frame_cnt, OUTSIDE_FRAMES_MAX);
	assert_true(t.truncated);
	outside_stacks__done(&s);
}

static void test_walk_outside__lists_of_threads(void **state)
{
	struct outside_stacks s;

	(void)state;
	make_world(2);
	for (int i = 1; i < 3; i++) {
		put(w->ts[i - 1], l->ts_next, addr(w->ts[i]));
		put(w->ts[i], l->ts_interp, addr(w->is[0]));
	}
	assert_int_equal(walk_outside(&mem, in, &s), 0);
	assert_int_equal(s.cnt, 3);
	assert_false(s.truncated);
	outside_stacks__done(&s);
	put(w->ts[2], l->ts_next, addr(w->ts[1])); /* a cycle */
	assert_int_equal(walk_outside(&mem, in, &s), 0);
	assert_true(s.cnt < 16 && s.truncated);
	outside_stacks__done(&s);
	put(w->ts[2], l->ts_next, 8); /* nowhere */
	assert_int_equal(walk_outside(&mem, in, &s), 0);
	assert_int_equal(s.cnt, 3);
	assert_true(s.truncated);
	outside_stacks__done(&s);
	put(w->ts[1], l->ts_interp, 0); /* freed */
	assert_int_equal(walk_outside(&mem, in, &s), 0);
	assert_int_equal(s.cnt, 1);
	assert_true(s.truncated);
	outside_stacks__done(&s);
}

static void test_walk_outside__lists_of_interpreters(void **state)
{
	struct outside_stacks s;

	(void)state;
	make_world(2);
	put(w->is[0], l->is_next, addr(w->is[1]));
	put(w->is[1], l->is_threads, addr(w->ts[1]));
	put(w->ts[1], l->ts_interp, addr(w->is[1]));
	assert_int_equal(walk_outside(&mem, in, &s), 0);
	assert_int_equal(s.cnt, 2);
	assert_int_equal(s.threads[1].interp, addr(w->is[1]));
	outside_stacks__done(&s);
	put(w->is[1], l->is_next, addr(w->is[0]));
	assert_int_equal(walk_outside(&mem, in, &s), 0);
	assert_true(s.truncated && s.cnt < 5000);
	outside_stacks__done(&s);
}

static void test_walk_outside__all_together_are_bounded(void **state)
{
	struct outside_stacks s;
	int too_much = 0;

	(void)state;
	make_world(60000);
	/* an interpreter that comes again and again, with a deep stack each time */
	put(w->is[0], l->is_next, addr(w->is[0]));
	assert_int_equal(walk_outside(&mem, in, &s), 0);
	for (size_t i = 0; i < s.cnt; i++)
		too_much += s.threads[i].status == OUTSIDE_TOO_MUCH;
	assert_true(too_much > 0 && s.truncated);
	outside_stacks__done(&s);
}

static unsigned int asked;

static bool slept(void *ctx, const struct outside_thread *t)
{
	asked++;
	assert_int_equal(t->thread_id, 0x7000);
	return *(const bool *)ctx;
}

/* Reads ahead; then frame @changed has other code, and it is read again. */
static struct outside_thread walk_again(struct outside_stacks *s, uint32_t changed, bool is_asleep)
{
	struct outside_known known = { .slept = slept, .ctx = &is_asleep };

	assert_int_equal(walk_outside_held(&mem, in, NULL, NULL, &known.stacks), 0);
	put(w->frames[changed], l->f_code, 0x9990);
	asked = 0;
	assert_int_equal(walk_outside_held(&mem, in, &known, NULL, s), 0);
	outside_stacks__done(&known.stacks);
	assert_int_equal(s->cnt, 1);
	assert_int_equal(s->threads[0].status, OUTSIDE_AGREED);
	return s->threads[0];
}

static void test_walk_outside__what_was_known(void **state)
{
	struct outside_stacks s;
	struct outside_thread t;

	(void)state;
	make_world(1000);
	t = walk_again(&s, 500, true); /* of one that slept it is not looked at so deep */
	assert_int_equal(asked, 1);
	assert_int_equal(t.frame_cnt, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(t.frames[i].code, 0x1000 + 16 * i);
	outside_stacks__done(&s);

	make_world(1000);
	t = walk_again(&s, 500, false);
	assert_int_equal(asked, 1);
	assert_int_equal(t.frame_cnt, 1000);
	assert_int_equal(t.frames[500].code, 0x9990);
	outside_stacks__done(&s);

	make_world(1000);
	t = walk_again(&s, 7, true); /* as deep as that it is */
	assert_int_equal(t.frames[7].code, 0x9990);
	outside_stacks__done(&s);

	make_world(OUTSIDE_KNOWN_MIN - 1);
	t = walk_again(&s, 50, true); /* it is no more work to look */
	assert_int_equal(asked, 0);
	assert_int_equal(t.frames[50].code, 0x9990);
	outside_stacks__done(&s);
}

static void test_walk_outside__known_of_another_thread(void **state)
{
	bool is_asleep = true;
	struct outside_known known = { .slept = slept, .ctx = &is_asleep };
	struct outside_stacks s;

	(void)state;
	make_world(1000);
	put(w->ts[0], l->ts_thread_id, 0x8000);
	assert_int_equal(walk_outside_held(&mem, in, NULL, NULL, &known.stacks), 0);
	put(w->ts[0], l->ts_thread_id, 0x7000);
	put(w->frames[500], l->f_code, 0x9990);
	asked = 0;
	assert_int_equal(walk_outside_held(&mem, in, &known, NULL, &s), 0);
	assert_int_equal(asked, 0);
	assert_int_equal(s.threads[0].frames[500].code, 0x9990);
	outside_stacks__done(&s);
	outside_stacks__done(&known.stacks);
}

/* Another thread of the first interpreter, with 3 frames from @frame on. */
static void add_thread(unsigned int i, uint32_t frame, uint64_t thread_id)
{
	put(w->ts[i - 1], l->ts_next, addr(w->ts[i]));
	put(w->ts[i], l->ts_interp, addr(w->is[0]));
	put(w->ts[i], l->ts_frame, addr(w->cframe[i]));
	put(w->ts[i], l->ts_thread_id, thread_id);
	put(w->cframe[i], l->cframe_frame, addr(w->frames[frame]));
	for (uint32_t k = frame; k < frame + 3; k++) {
		put(w->frames[k], l->f_code, 0x1000 + 16 * k);
		put(w->frames[k], l->f_previous, addr(w->frames[k + 1]));
	}
	w->frames[frame + 3][l->f_owner] = 3;
}

/* Three threads, read ahead; the code of the second frame of each is another one then. */
static struct outside_known three_ahead(void)
{
	static bool is_asleep;
	struct outside_known known = { .slept = slept, .ctx = &is_asleep };

	make_world(3);
	add_thread(1, 100, 0x7001);
	add_thread(2, 200, 0x7002);
	assert_int_equal(walk_outside_held(&mem, in, NULL, NULL, &known.stacks), 0);
	assert_int_equal(known.stacks.cnt, 3);
	for (uint32_t i = 0; i < 3; i++)
		put(w->frames[100 * i + 1], l->f_code, 0x9990);
	return known;
}

static void walk_three(struct outside_known *known, uint64_t only, struct outside_stacks *s)
{
	known->only = only;
	assert_int_equal(walk_outside_held(&mem, in, known, NULL, s), 0);
	assert_false(s->truncated);
	outside_stacks__done(&known->stacks);
}

/* Is this one as it is now, or as it was ahead? */
static void check_thread(const struct outside_thread *t, unsigned int i, bool now)
{
	assert_int_equal(t->tstate, addr(w->ts[i]));
	assert_int_equal(t->status, OUTSIDE_AGREED);
	assert_int_equal(t->known, !now);
	assert_int_equal(t->frame_cnt, 3);
	assert_int_equal(t->frames[0].code, 0x1000 + 1600 * i);
	assert_int_equal(t->frames[1].code, now ? 0x9990 : 0x1010 + 1600 * i);
}

/* Only one has run since: nothing is read of the others. */
static void test_walk_outside__one_has_run(void **state)
{
	struct outside_known known;
	struct outside_stacks s;

	(void)state;
	for (unsigned int only = 0; only < 4; only++) { /* 3: of none of them, as it has ended */
		known = three_ahead();
		walk_three(&known, only < 3 ? addr(w->ts[only]) : 0xdead0, &s);
		assert_int_equal(s.cnt, 3);
		for (unsigned int i = 0; i < 3; i++)
			check_thread(&s.threads[i], i, i == only);
		outside_stacks__done(&s);
	}
	known = three_ahead();
	walk_three(&known, 0, &s); /* all may have */
	for (unsigned int i = 0; i < 3; i++)
		check_thread(&s.threads[i], i, true);
	outside_stacks__done(&s);
	known = three_ahead();
	put(w->ts[2], l->ts_thread_id,
	    0x7000); /* it has another state by now, which was somebody else's */
	known.stacks.threads[2].thread_id = 0x7000;
	walk_three(&known, addr(w->ts[0]), &s);
	check_thread(&s.threads[0], 0, true);
	check_thread(&s.threads[1], 1, false);
	check_thread(&s.threads[2], 2, true);
	outside_stacks__done(&s);
}

/* It can have made other states, and ended. */
static void test_walk_outside__the_one_has_changed_the_list(void **state)
{
	struct outside_known known;
	struct outside_stacks s;

	(void)state;
	known = three_ahead();
	put(w->ts[0], l->ts_next, addr(w->ts[2])); /* the second is no more */
	walk_three(&known, addr(w->ts[1]), &s);
	assert_int_equal(s.cnt, 2);
	check_thread(&s.threads[0], 0, false);
	check_thread(&s.threads[1], 2, false);
	outside_stacks__done(&s);

	known = three_ahead();
	put(w->is[0], l->is_threads, addr(w->ts[1])); /* the first */
	walk_three(&known, addr(w->ts[0]), &s);
	assert_int_equal(s.cnt, 2);
	check_thread(&s.threads[0], 1, false);
	check_thread(&s.threads[1], 2, false);
	outside_stacks__done(&s);

	make_world(3);
	add_thread(1, 100, 0x7001);
	known = (struct outside_known){ .slept = slept };
	assert_int_equal(walk_outside_held(&mem, in, NULL, NULL, &known.stacks), 0);
	add_thread(2, 200, 0x7002); /* a new one comes first */
	put(w->ts[1], l->ts_next, 0);
	put(w->ts[2], l->ts_next, addr(w->ts[0]));
	put(w->is[0], l->is_threads, addr(w->ts[2]));
	put(w->frames[101], l->f_code, 0x9990);
	walk_three(&known, addr(w->ts[1]), &s);
	assert_int_equal(s.cnt, 3);
	assert_false(s.threads[0].known);
	assert_int_equal(s.threads[0].frames[1].code, 0x1000 + 16 * 201);
	check_thread(&s.threads[1], 0, false);
	check_thread(&s.threads[2], 1, true);
	outside_stacks__done(&s);

	known = three_ahead();
	put(w->ts[0], l->ts_thread_id, 0x7009); /* its memory is another one's by now */
	walk_three(&known, addr(w->ts[2]), &s);
	check_thread(&s.threads[0], 0, true);
	check_thread(&s.threads[1], 1, false);
	check_thread(&s.threads[2], 2, true);
	outside_stacks__done(&s);
}

/* Of the list nothing is believed. */
static void test_walk_outside__unchanged_and_hostile(void **state)
{
	struct outside_known known = three_ahead();
	struct outside_stacks s;

	(void)state;
	put(w->ts[2], l->ts_next, addr(w->ts[0]));
	known.only = 0xdead0;
	assert_int_equal(walk_outside_held(&mem, in, &known, NULL, &s), 0);
	assert_true(s.truncated && s.cnt < 100);
	check_thread(&s.threads[2], 2, false);
	outside_stacks__done(&s);
	outside_stacks__done(&known.stacks);

	known = three_ahead();
	put(w->ts[2], l->ts_next, 8);
	known.only = 0xdead0;
	assert_int_equal(walk_outside_held(&mem, in, &known, NULL, &s), 0);
	assert_true(s.truncated);
	assert_int_equal(s.cnt, 3);
	outside_stacks__done(&s);
	outside_stacks__done(&known.stacks);
}

static bool kept(void *ctx, const struct outside_thread *t)
{
	(void)ctx;
	return t->thread_id == 0x7001;
}

/* The second one was kept, the others have run. @is_so: that counts */
static void walk_kept(struct outside_known *known, bool is_so)
{
	struct outside_stacks s;

	known->kept = kept;
	walk_three(known, 0, &s);
	assert_int_equal(s.threads[0].frames[1].code, 0x9990);
	assert_int_equal(s.threads[1].frame_cnt, 3);
	assert_int_equal(s.threads[1].status, OUTSIDE_AGREED);
	assert_int_equal(s.threads[1].frames[1].code, is_so ? 0x1010 + 1600 : 0x9990);
	assert_int_equal(s.threads[2].frames[1].code, 0x9990);
	outside_stacks__done(&s);
}

static void test_walk_outside__one_was_kept(void **state)
{
	struct outside_known known = three_ahead();

	(void)state;
	walk_kept(&known, true);

	known = three_ahead();
	put(w->frames[100], l->f_instr, 0x5555); /* another thread runs with its state */
	walk_kept(&known, false);

	known = three_ahead();
	put(w->cframe[2], l->cframe_frame, addr(w->frames[100]));
	put(w->ts[1], l->ts_frame, addr(w->cframe[2]));
	walk_kept(&known, false);

	known = three_ahead();
	known.stacks.threads[1].thread_id = 0x7003; /* it was another one's */
	walk_kept(&known, false);

	known = three_ahead();
	put(w->is[0], l->is_next, addr(w->is[1])); /* there is another interpreter */
	walk_kept(&known, false);
}

/* It only says what a walk will read: the stacks that were read ahead are there for that. */
static void test_walk_outside__rehearsed(void **state)
{
	struct outside_known known = three_ahead();
	struct outside_pages pages = { 0 };
	struct outside_stacks s;

	(void)state;
	known.kept = kept;
	known.rehearsed = true;
	assert_int_equal(walk_outside_held(&mem, in, &known, &pages, &s), 0);
	assert_int_equal(s.cnt, 3);
	assert_int_equal(s.threads[1].frame_cnt, 0);
	outside_stacks__done(&s);
	known.rehearsed = false;
	walk_kept(&known, true);
	outside_pages__done(&pages);
}

/* The stack of the only thread, by a walk that begins with what the last one needed. */
static void walk_by_pages(struct outside_pages *pages, uint32_t depth, uint32_t changed)
{
	struct outside_stacks s;

	assert_int_equal(walk_outside_held(&mem, in, NULL, pages, &s), 0);
	assert_int_equal(s.cnt, 1);
	assert_int_equal(s.threads[0].status, OUTSIDE_AGREED);
	assert_int_equal(s.threads[0].frame_cnt, depth);
	for (uint32_t i = 0; i < depth; i++)
		assert_int_equal(s.threads[0].frames[i].code,
				 i == changed ? 0x9990 : 0x1000 + 16 * i);
	outside_stacks__done(&s);
}

static void test_walk_outside__pages_that_were_needed(void **state)
{
	struct outside_pages pages = { 0 };
	size_t few;

	(void)state;
	make_world(1000); /* 157 pieces */
	walk_by_pages(&pages, 1000, UINT32_MAX);
	assert_in_range(pages.cnt, 157, 170);
	assert_int_equal(pages.sorted, 0);
	outside_pages__prepare(&pages);
	assert_true(pages.room >= pages.cnt);
	put(w->frames[500], l->f_code, 0x9990); /* what was there before is not believed */
	walk_by_pages(&pages, 1000, 500);
	assert_in_range(pages.sorted, 157, 170);
	assert_int_equal(pages.cnt, pages.sorted); /* none was missing */
	make_world(100);
	walk_by_pages(&pages, 100, UINT32_MAX);
	assert_int_equal(pages.cnt, pages.sorted);
	walk_by_pages(&pages, 100, UINT32_MAX); /* those that nobody needed are not read any more */
	assert_in_range(pages.sorted, 16, 28);
	few = pages.sorted;
	make_world(200);
	walk_by_pages(&pages, 200, UINT32_MAX);
	assert_true(pages.cnt > few && pages.sorted == few);
	outside_pages__done(&pages);
}

static void test_walk_outside__pages_that_are_gone(void **state)
{
	struct outside_pages pages = { 0 };
	uint8_t *gone = mmap(NULL, 3 * PROC_PAGE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(gone, MAP_FAILED);
	for (int i = 0; i < 3; i++)
		outside_pages__need(&pages, addr(gone) + (uint64_t)i * PROC_PAGE_BYTES);
	outside_pages__need(&pages, UINT64_MAX - PROC_PAGE_BYTES + 1);
	assert_int_equal(munmap(gone + PROC_PAGE_BYTES, PROC_PAGE_BYTES), 0);
	gone[0] = 7;
	gone[2 * PROC_PAGE_BYTES] = 8;
	outside_pages__read(&pages, &mem);
	assert_int_equal(pages.sorted, 4);
	assert_int_equal(*outside_pages__find(&pages, addr(gone)), 7);
	assert_null(outside_pages__find(&pages, addr(gone) + PROC_PAGE_BYTES));
	assert_int_equal(*outside_pages__find(&pages, addr(gone) + 2ull * PROC_PAGE_BYTES), 8);
	assert_null(outside_pages__find(&pages, UINT64_MAX - PROC_PAGE_BYTES + 1));
	assert_null(outside_pages__find(&pages, addr(gone) + 3ull * PROC_PAGE_BYTES));
	outside_pages__done(&pages);
	munmap(gone, PROC_PAGE_BYTES);
	munmap(gone + 2ul * PROC_PAGE_BYTES, PROC_PAGE_BYTES);
}

/* A target can have as many as it likes. */
static void test_walk_outside__pages_without_end(void **state)
{
	struct outside_pages pages = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 3 * OUTSIDE_PAGES_MAX; i++)
		outside_pages__need(&pages, i * PROC_PAGE_BYTES);
	assert_int_equal(pages.cnt, OUTSIDE_PAGES_MAX);
	outside_pages__done(&pages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk_outside__a_stack),
		cmocka_unit_test(test_walk_outside__a_stack_without_its_end),
		cmocka_unit_test(test_walk_outside__linked_generators),
		cmocka_unit_test(test_walk_outside__idle_frames),
		cmocka_unit_test(test_walk_outside__linked_objects),
		cmocka_unit_test(test_walk_outside__no_frames),
		cmocka_unit_test(test_walk_outside__cycles_of_frames),
		cmocka_unit_test(test_walk_outside__broken_frames),
		cmocka_unit_test(test_walk_outside__very_deep),
		cmocka_unit_test(test_walk_outside__lists_of_threads),
		cmocka_unit_test(test_walk_outside__lists_of_interpreters),
		cmocka_unit_test(test_walk_outside__all_together_are_bounded),
		cmocka_unit_test(test_walk_outside__what_was_known),
		cmocka_unit_test(test_walk_outside__known_of_another_thread),
		cmocka_unit_test(test_walk_outside__one_was_kept),
		cmocka_unit_test(test_walk_outside__rehearsed),
		cmocka_unit_test(test_walk_outside__one_has_run),
		cmocka_unit_test(test_walk_outside__the_one_has_changed_the_list),
		cmocka_unit_test(test_walk_outside__unchanged_and_hostile),
		cmocka_unit_test(test_walk_outside__pages_that_were_needed),
		cmocka_unit_test(test_walk_outside__pages_that_are_gone),
		cmocka_unit_test(test_walk_outside__pages_without_end),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
