// SPDX-License-Identifier: Apache-2.0
/*
 * The sampler's walker (bpf/py/sample.bpf.h) over made-up memory, for every layout: which thread state is
 * taken, whole and deep stacks, shims, and a failure at each single read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cpython/layouts.h"
#include "image.h"
#include "walkers.h"

#include "py/sample.bpf.h"

#define SELF	 0x7f0000001740ULL
#define CODE_CNT 7
#define TSTATE	 512 /* bytes */

static struct image image;
static struct sample_scratch scratch;
static struct sample_parts parts;
static uint64_t codes_made[CODE_CNT];

static const struct layout *const all_layouts[] = {
	&layout_3_6,   &layout_3_7,  &layout_3_8,   &layout_3_9,   &layout_3_10,
	&layout_3_11,  &layout_3_12, &layout_3_13,  &layout_3_13t, &layout_3_14,
	&layout_3_14t, &layout_3_15, &layout_3_15t,
};

#define LAYOUT_CNT (sizeof(all_layouts) / sizeof(all_layouts[0]))

static void begin(const struct layout *layout)
{
	host_reset();
	image.l = &layout->py;
	image.used = 0;
	memset(image.bytes, 0, IMAGE_BYTES);
	memset(&scratch, 0xa5, sizeof(scratch));
	memset(&parts, 0xa5, sizeof(parts));
	host_memory(IMAGE_BASE, image.bytes, IMAGE_BYTES);
	for (uint32_t i = 0; i < CODE_CNT; i++)
		codes_made[i] = image_code(&image, "f", 100 + i, 3);
}

static uint64_t chain(uint32_t depth)
{
	uint64_t frame = 0;

	for (uint32_t i = 0; i < depth; i++) {
		frame = image_frame(&image, codes_made[i % CODE_CNT], frame, 0);
		image_field(&image, frame, image.l->f_instr, 1000 + i,
			    image.l->flags & PYE_LAYOUT_FRAME_OBJECT ? 4 : 8);
	}
	return frame;
}

static uint64_t tstate(uint64_t interp, uint64_t next, uint64_t self, bool bound, uint64_t frame)
{
	const struct pye_pylayout *l = image.l;
	uint64_t addr = image_take(&image, TSTATE);

	if (l->flags & PYE_LAYOUT_CFRAME) {
		uint64_t cframe = image_take(&image, 64);

		image_field(&image, cframe, l->cframe_frame, frame, 8);
		frame = cframe;
	}
	image_field(&image, addr, l->ts_frame, frame, 8);
	image_field(&image, addr, l->ts_next, next, 8);
	image_field(&image, addr, l->ts_interp, interp, 8);
	image_field(&image, addr, l->ts_thread_id, self, 8);
	image_field(&image, addr, l->ts_status, bound ? SAMPLE_STATUS_BOUND | 1 : 1, 4);
	return addr;
}

/* A pointer to an interpreter with these thread states. */
static uint64_t interpreter(uint64_t *interp)
{
	uint64_t head = image_take(&image, 8);

	*interp = image_take(&image, 8192);
	image_put(&image, head, interp, 8);
	return head;
}

static uint32_t walk(uint64_t state)
{
	assert_int_equal(tstate_load(&scratch, state), 0);
	return sample_frames(&scratch, &parts, image.l);
}

static void test_sample__whole_stacks(void **state)
{
	static const uint32_t depths[] = { 1, 2, 30, 200, 1023, 1024 };

	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		for (size_t k = 0; k < sizeof(depths) / sizeof(depths[0]); k++) {
			uint32_t depth = depths[k];

			begin(all_layouts[i]);
			assert_int_equal(walk(tstate(1, 0, SELF, true, chain(depth))),
					 PYE_SAMPLE_OK);
			assert_int_equal(scratch.rec.cnt, depth);
			for (uint32_t n = 0; n < depth; n++) {
				uint32_t from_root = depth - 1 - n;

				assert_int_equal(scratch.rec.frames[n].code,
						 codes_made[from_root % CODE_CNT]);
				assert_int_equal(scratch.rec.frames[n].instr, 1000 + from_root);
			}
		}
	}
}

/* From 3.11 on a frame costs far less than a read of its own. */
static void test_sample__few_reads(void **state)
{
	(void)state;
	begin(&layout_3_12);
	walk(tstate(1, 0, SELF, true, chain(200)));
	/* OBJECT bytes a frame, a page a read */
	assert_in_range(host.reads, 200 * OBJECT / 4096, 200 * OBJECT / 4096 + 5);
}

/* To 3.10 frames are objects: those that lie in one page cost two reads at most, others one each. */
static void test_sample__few_reads_of_objects(void **state)
{
	uint64_t frame = 0;

	(void)state;
	begin(&layout_3_9);
	walk(tstate(1, 0, SELF, true, chain(200)));
	assert_in_range(host.reads, 200 * OBJECT / 4096, 2 * (200 * OBJECT / 4096) + 5);
	begin(&layout_3_9);
	for (uint32_t i = 0; i < 100; i++) {
		frame = image_frame(&image, codes_made[0], frame, 0);
		image_field(&image, frame, image.l->f_instr, 1000 + i, 4);
		image_take(&image, 4096);
	}
	assert_int_equal(walk(tstate(1, 0, SELF, true, frame)), PYE_SAMPLE_OK);
	assert_int_equal(scratch.rec.cnt, 100);
	for (uint32_t n = 0; n < 100; n++)
		assert_int_equal(scratch.rec.frames[n].instr, 1000 + 99 - n);
	assert_in_range(host.reads, 100, 102);
}

/* The middle goes: the inner half and the last frames before the root stay. */
static void test_sample__deep(void **state)
{
	uint32_t depth = 5000, half = PYE_SAMPLE_FRAMES / 2;

	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		begin(all_layouts[i]);
		assert_int_equal(walk(tstate(1, 0, SELF, true, chain(depth))), PYE_SAMPLE_OK);
		assert_int_equal(scratch.rec.cnt, depth);
		for (uint32_t n = 0; n < half; n++)
			assert_int_equal(scratch.rec.frames[n].instr, 1000 + depth - 1 - n);
		for (uint32_t n = depth - half; n < depth; n++)
			assert_int_equal(scratch.rec.frames[half + n % half].instr,
					 1000 + depth - 1 - n);
	}
}

static void test_sample__cycle_ends(void **state)
{
	uint64_t root, top;

	(void)state;
	begin(&layout_3_13);
	root = image_frame(&image, codes_made[0], 0, 0);
	top = image_frame(&image, codes_made[1], root, 0);
	image_field(&image, root, image.l->f_previous, top, 8);
	assert_int_equal(walk(tstate(1, 0, SELF, true, top)), PYE_SAMPLE_DEEP);
	assert_int_equal(scratch.rec.cnt, PYE_SAMPLE_WALK);
}

static void test_sample__shims_are_no_frames(void **state)
{
	uint64_t frame;

	(void)state;
	begin(&layout_3_12);
	frame = image_frame(&image, codes_made[0], 0, 0);
	frame = image_frame(&image, codes_made[1], frame, PYE_OWNER_ENTRY);
	frame = image_frame(&image, codes_made[2], frame, 1);
	frame = image_frame(&image, codes_made[3], frame, PYE_OWNER_ENTRY + 1);
	assert_int_equal(walk(tstate(1, 0, SELF, true, frame)), PYE_SAMPLE_OK);
	assert_int_equal(scratch.rec.cnt, 2);
	assert_int_equal(scratch.rec.frames[0].code, codes_made[2] | PYE_FRAME_ENTRY);
	assert_int_equal(scratch.rec.frames[1].code, codes_made[0]);
}

/* 3.11 says it in the frame itself. */
static void test_sample__entries_of_3_11(void **state)
{
	uint64_t frame;

	(void)state;
	begin(&layout_3_11);
	frame = image_frame(&image, codes_made[0], 0, 0);
	image_field(&image, frame, image.l->f_entry, 1, 1);
	frame = image_frame(&image, codes_made[1], frame, 0);
	assert_int_equal(walk(tstate(1, 0, SELF, true, frame)), PYE_SAMPLE_OK);
	assert_int_equal(scratch.rec.frames[0].code, codes_made[1]);
	assert_int_equal(scratch.rec.frames[1].code, codes_made[0] | PYE_FRAME_ENTRY);
}

/* Whatever read fails, what was read before is there and says so. */
static void test_sample__each_read_fails(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		for (uint64_t fail = 1; fail < 12; fail++) {
			uint32_t status, depth = 40;
			uint64_t t;

			begin(all_layouts[i]);
			t = tstate(1, 0, SELF, true, chain(depth));
			host.fail_read = fail;
			status = walk(t);
			if (host.reads <= fail)
				continue;
			assert_int_equal(status, PYE_SAMPLE_FAULT);
			assert_in_range(scratch.rec.cnt, 0, depth - 1);
			for (uint32_t n = 0; n < scratch.rec.cnt; n++)
				assert_int_equal(scratch.rec.frames[n].instr, 1000 + depth - 1 - n);
		}
	}
}

static void test_sample__thread_state_by_its_thread(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		struct sample_thread who = { .self = SELF };
		uint64_t interp, mine, other, states;

		begin(all_layouts[i]);
		who.interpreters = interpreter(&interp);
		mine = tstate(interp, 0, SELF, true, 0);
		other = tstate(interp, mine, SELF + 4096, true, 0);
		states = other;
		image_field(&image, interp, image.l->is_threads, states, 8);
		assert_int_equal(sample_tstate(&scratch, image.l, &who), mine);
		/* remembered: one look, no search */
		who.tstate = mine;
		host.reads = 0;
		assert_int_equal(sample_tstate(&scratch, image.l, &who), mine);
		assert_int_equal(host.reads, 1);
		/* freed, and its memory another thread's now */
		image_field(&image, mine, image.l->ts_thread_id, SELF + 8192, 8);
		assert_int_equal(sample_tstate(&scratch, image.l, &who), 0);
	}
}

/* A thread can have a state in each interpreter: the one it runs in counts. */
static void test_sample__subinterpreters(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		struct sample_thread who = { .self = SELF };
		uint64_t first, second, in_first, in_second;

		begin(all_layouts[i]);
		who.interpreters = interpreter(&first);
		interpreter(&second);
		in_first = tstate(first, 0, SELF, false, 0);
		in_second = tstate(second, 0, SELF, true, 0);
		image_field(&image, first, image.l->is_threads, in_first, 8);
		image_field(&image, first, image.l->is_next, second, 8);
		image_field(&image, second, image.l->is_threads, in_second, 8);
		who.tstate = in_first;
		if (image.l->ts_status == PYE_NO_FIELD) { /* the holder says it */
			who.tstate_current = image_take(&image, 8);
			image_put(&image, who.tstate_current, &in_second, 8);
		}
		assert_int_equal(sample_tstate(&scratch, image.l, &who), in_second);
	}
}

/* The holder of the lock is another thread: its stack is not this one's. */
static void test_sample__not_the_holder(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		struct sample_thread who = { .self = SELF };
		uint64_t interp, mine, holder;

		begin(all_layouts[i]);
		who.interpreters = interpreter(&interp);
		holder = tstate(interp, 0, SELF + 4096, true, chain(3));
		mine = tstate(interp, holder, SELF, true, chain(5));
		image_field(&image, interp, image.l->is_threads, mine, 8);
		who.tstate_current = image_take(&image, 8);
		image_put(&image, who.tstate_current, &holder, 8);
		assert_int_equal(sample_tstate(&scratch, image.l, &who), mine);
		assert_int_equal(sample_frames(&scratch, &parts, image.l), PYE_SAMPLE_OK);
		assert_int_equal(scratch.rec.cnt, 5);
	}
}

/* Who holds the lock, where it is in _PyRuntime or the interpreter, and where it is apart (3.6). */
static void test_sample__holder(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		struct pye_pylayout l;
		struct sample_gil lock = { .locked = 1 };
		bool apart;
		uint64_t gil;

		begin(all_layouts[i]);
		l = *image.l;
		apart = l.is_gil == PYE_NO_FIELD && l.rt_gil == PYE_NO_FIELD;
		l.gil_before = apart ? 4096 : 0;
		l.gil_behind = apart ? 8192 : 0;
		gil = image_take(&image, sizeof(lock));
		lock.holder = tstate(1, 0, SELF + 4096, true, chain(3));
		image_put(&image, gil, apart ? (void *)&lock.holder : (void *)&lock,
			  apart ? sizeof(lock.holder) : sizeof(lock));
		memset(&scratch.rec.holder, 0, sizeof(scratch.rec.holder));
		holder_take(&scratch, &l, gil);
		assert_int_equal(scratch.rec.holder.code, codes_made[2]);
		assert_int_equal(scratch.rec.holder.instr, 1002);
		/* nobody */
		memset(&lock, 0, sizeof(lock));
		image_put(&image, gil, &lock, apart ? 8 : sizeof(lock));
		assert_int_equal(gil_holder(&l, gil), 0);
		assert_int_equal(gil_holder(&l, IMAGE_BASE - 8), 0);
		assert_true(gil_has(&l, gil, gil));
		assert_false(gil_has(&l, 0, 0));
		assert_int_equal(gil_has(&l, gil, gil - 4096), apart);
		assert_false(gil_has(&l, gil, gil - 4097));
		assert_false(gil_has(&l, gil, gil + 8192));
	}
}

static void test_sample__endless_lists(void **state)
{
	struct sample_thread who = { .self = SELF };
	uint64_t interp, other;

	(void)state;
	begin(&layout_3_14);
	who.interpreters = interpreter(&interp);
	other = tstate(interp, 0, SELF + 4096, true, 0);
	image_field(&image, other, image.l->ts_next, other, 8);
	image_field(&image, interp, image.l->is_threads, other, 8);
	assert_int_equal(sample_tstate(&scratch, image.l, &who), 0);
	assert_in_range(host.reads, PYE_SAMPLE_THREADS, PYE_SAMPLE_THREADS + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample__whole_stacks),
		cmocka_unit_test(test_sample__few_reads),
		cmocka_unit_test(test_sample__few_reads_of_objects),
		cmocka_unit_test(test_sample__deep),
		cmocka_unit_test(test_sample__cycle_ends),
		cmocka_unit_test(test_sample__shims_are_no_frames),
		cmocka_unit_test(test_sample__entries_of_3_11),
		cmocka_unit_test(test_sample__each_read_fails),
		cmocka_unit_test(test_sample__thread_state_by_its_thread),
		cmocka_unit_test(test_sample__subinterpreters),
		cmocka_unit_test(test_sample__not_the_holder),
		cmocka_unit_test(test_sample__holder),
		cmocka_unit_test(test_sample__endless_lists),
	};
	int failed;

	image.bytes = malloc(IMAGE_BYTES);
	if (!image.bytes)
		return 1;
	walkers_maps();
	host_map(&sample_rounds, HOST_ARRAY, 4, 1, PYE_SAMPLE_WALK / SAMPLE_ROUND);
	host_map(&search_rounds, HOST_ARRAY, 4, 1, PYE_SAMPLE_THREADS);
	failed = cmocka_run_group_tests_name("rounds of an array", tests, NULL, NULL);
	host_loop = true;
	failed |= cmocka_run_group_tests_name("bpf_loop()", tests, NULL, NULL);
	host_reset();
	free(image.bytes);
	return failed;
}
