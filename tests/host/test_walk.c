// SPDX-License-Identifier: Apache-2.0
/*
 * The walkers of bpf/py over made-up memory, for every layout: whole stacks, what is skipped in them,
 * hostile ones, and a failure at each single read and each single record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cpython/layouts.h"
#include "image.h"
#include "walkers.h"

#define ENTRY_FROM_C 3
#define CODE_CNT     7
#define GENERATOR    3 /* of these */

static struct image image;
static uint64_t codes_made[CODE_CNT];

static const struct layout *const all_layouts[] = {
	&layout_3_6,   &layout_3_7,  &layout_3_8,   &layout_3_9,   &layout_3_10,
	&layout_3_11,  &layout_3_12, &layout_3_13,  &layout_3_13t, &layout_3_14,
	&layout_3_14t, &layout_3_15, &layout_3_15t,
};

#define LAYOUT_CNT (sizeof(all_layouts) / sizeof(all_layouts[0]))

/* A thread of an interpreter with this layout that runs nothing yet. */
static struct thread *begin(const struct layout *layout)
{
	host_reset();
	image.l = &layout->py;
	image.used = 0;
	memset(image.bytes, 0, IMAGE_BYTES);
	host_memory(IMAGE_BASE, image.bytes, IMAGE_BYTES);
	for (uint32_t i = 0; i < CODE_CNT; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		codes_made[i] = image_code(&image, name, 100 + i, i == GENERATOR ? 0x20 : 3);
	}
	return walkers_thread(&layout->py);
}

static uint64_t chain(uint32_t depth)
{
	uint64_t frame = 0;

	for (uint32_t i = 0; i < depth; i++)
		frame = image_frame(&image, codes_made[i % CODE_CNT], frame,
				    i % CODE_CNT == GENERATOR);
	return frame;
}

static uint64_t previous_of(uint64_t frame)
{
	uint64_t previous;

	memcpy(&previous, image.bytes + (frame - IMAGE_BASE) + image.l->f_previous, 8);
	return previous;
}

/* What must hold after anything: else the next event would read or write outside. */
static void check_state(const struct thread *t)
{
	assert_in_range(t->walk_cnt, 0, PYE_WALK_FRAMES);
	assert_in_range(t->valid, 0, PYE_STACK_SLOTS);
	for (size_t i = 0; i < host.record_cnt; i++) {
		const struct host_record *r = host.records[i];
		const struct pye_head *head = (const void *)r->data;

		assert_true(r->submitted);
		if (head->kind == PYE_REC_WALK)
			assert_in_range(((const struct pye_walk_rec *)r->data)->cnt, 0,
					PYE_WALK_FRAMES);
		if (head->kind == PYE_REC_STR) {
			const struct pye_str_rec *s = (const void *)r->data;

			assert_int_equal(r->size, sizeof(*s) + s->room);
			assert_in_range(s->data_len, 0, s->room);
		}
	}
}

/* The frames of all walk records, from the top down; the flags of the first and last. */
static uint32_t walked(uint64_t *frames, uint32_t room, uint32_t *first, uint32_t *last)
{
	uint32_t n = 0, records = 0;

	*first = *last = 0;
	for (size_t i = 0; i < host.record_cnt; i++) {
		const struct pye_walk_rec *w = (const void *)host.records[i]->data;

		if (w->head.kind != PYE_REC_WALK)
			continue;
		if (!records++)
			*first = w->head.sub;
		*last = w->head.sub;
		for (uint32_t k = 0; k < w->cnt && n < room; k++)
			frames[n++] = w->frames[k].frame;
	}
	return n;
}

static uint32_t definitions(void)
{
	uint32_t n = 0;

	for (size_t i = 0; i < host.record_cnt; i++)
		n += ((const struct pye_head *)host.records[i]->data)->kind == PYE_REC_DEF;
	return n;
}

/* The tracked stack is the chain from @top, as far down as the slots reach. */
static void check_stack(const struct thread *t, uint64_t top, uint32_t depth)
{
	assert_int_equal(t->valid, depth < PYE_STACK_SLOTS ? depth : PYE_STACK_SLOTS);
	assert_int_equal(t->below, depth - t->valid);
	for (uint32_t i = 0; i < t->valid; i++, top = previous_of(top))
		assert_int_equal(SLOT_FRAME(t->stack[SLOT(t->pos - 1 - i)]), top);
}

static void check_whole(const struct layout *layout, uint32_t depth)
{
	struct thread *t = begin(layout);
	uint64_t top = chain(depth), frame = top;
	uint64_t *frames = calloc(depth + 1, sizeof(*frames));
	uint32_t first, last;

	assert_non_null(frames);
	t->pos = 1000; /* it wraps: where it is does not matter */
	assert_int_equal(walk_all(top, PYE_WALK_UNKNOWN), 0);
	check_state(t);
	check_stack(t, top, depth);
	assert_int_equal(walked(frames, depth + 1, &first, &last), depth);
	assert_true(first & PYE_WALK_FIRST);
	assert_true(last & PYE_WALK_ROOT);
	for (uint32_t i = 0; i < depth; i++, frame = previous_of(frame))
		assert_int_equal(frames[i], frame);
	assert_int_equal(definitions(), depth < CODE_CNT ? depth : CODE_CNT);
	free(frames);
}

static void test_walk__whole_stack(void **state)
{
	static const uint32_t depths[] = { 0, 1, 2, 7, 23, 24, 25, 48, 255, 256, 257, 600 };

	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++)
		for (size_t k = 0; k < sizeof(depths) / sizeof(depths[0]); k++)
			check_whole(all_layouts[i], depths[k]);
}

static void test_walk__deep_stack(void **state)
{
	(void)state;
	check_whole(&layout_3_9, 10000);
	check_whole(&layout_3_13, 50000);
}

/* Deeper than there are rounds: the top of it is shown, and nothing hangs. */
static void test_walk__too_deep_stack(void **state)
{
	struct thread *t = begin(&layout_3_11);
	uint64_t code = codes_made[0], frame = 0;

	(void)state;
	/* 70000 frames of the usual size are more than the image */
	for (uint32_t i = 0; i < 70000; i++) {
		uint64_t addr = IMAGE_BASE + (4u << 20) + i * 128ULL;

		image_field(&image, addr, image.l->f_code, code, 8);
		image_field(&image, addr, image.l->f_previous, frame, 8);
		frame = addr;
	}
	assert_int_equal(walk_all(frame, PYE_WALK_UNKNOWN), 0);
	check_state(t);
	assert_int_equal(t->valid + t->below, PYE_WALK_MAX + 1);
	assert_true(t->flags & T_CUT);
}

/* Entries from C (3.11 to 3.15) and code of the interpreter's own (3.12 on) show no frame. */
static void test_walk__skips_what_is_no_frame(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		struct thread *t = begin(all_layouts[i]);
		const struct pye_pylayout *l = &all_layouts[i]->py;
		uint64_t frames[8], root, entry = 0, shim, top;
		uint32_t first, last;

		root = image_frame(&image, codes_made[0], 0, 0);
		shim = root;
		if (l->f_owner != PYE_NO_FIELD)
			shim = entry = image_frame(&image, 0, root, ENTRY_FROM_C);
		if (l->co_hidden)
			shim = image_frame(&image, image_code(&image, "shim", 1, l->co_hidden | 3),
					   shim, 0);
		top = image_frame(&image, codes_made[1], shim, 0);
		assert_int_equal(walk_all(top, PYE_WALK_UNKNOWN), 0);
		assert_int_equal(walked(frames, 8, &first, &last), 2);
		assert_int_equal(frames[0], top);
		assert_int_equal(frames[1], root);
		assert_int_equal(t->valid, 2);
		assert_int_equal(frame_real(shim, 1), root);
		if (entry)
			assert_int_equal(frame_real(entry, 1), root);
		check_state(t);
	}
}

/* A generator's function that has not made it yet: in 3.15 that calls Python. */
static void test_walk__skips_what_has_not_begun(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		struct thread *t = begin(all_layouts[i]);
		bool skipped = all_layouts[i]->py.resume_skip != 0xff;
		uint64_t frames[8], root, before, top;
		uint32_t first, last;

		root = image_frame(&image, codes_made[0], 0, 0);
		before = image_frame(&image, codes_made[GENERATOR], root, 0);
		top = image_frame(&image, codes_made[1], before, 0);
		assert_int_equal(walk_all(top, PYE_WALK_UNKNOWN), 0);
		assert_int_equal(walked(frames, 8, &first, &last), skipped ? 2 : 3);
		assert_int_equal(frames[1], skipped ? root : before);
		check_state(t);
	}
}

/* A suspended generator that is linked into the chain (thrown into by way of yield from). */
static void test_walk__skips_linked_generators(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		const struct pye_pylayout *l = &all_layouts[i]->py;
		struct thread *t;
		uint64_t frames[8], root, linked, top, depth = 1;
		uint32_t first, last;

		if (!(l->flags & PYE_LAYOUT_FRAME_OBJECT))
			continue;
		t = begin(all_layouts[i]);
		root = image_frame(&image, codes_made[0], 0, 0);
		linked = image_frame(&image, codes_made[GENERATOR], root, 0);
		image_field(&image, linked, l->f_stack,
			    l->flags & PYE_LAYOUT_FRAME_STATE ? depth : linked + 64,
			    l->flags & PYE_LAYOUT_FRAME_STATE ? 4 : 8);
		top = image_frame(&image, codes_made[GENERATOR], linked, 0);
		assert_int_equal(walk_all(top, PYE_WALK_UNKNOWN), 0);
		assert_int_equal(walked(frames, 8, &first, &last), 2);
		assert_int_equal(frames[1], root);
		assert_true(t->stack[SLOT(t->pos - 1)] & SLOT_GENERATOR);
		check_state(t);
	}
}

/* 3.11: frames of which sys.settrace() is told before their RESUME and after their RETURN_VALUE, and in which the collector
 * runs before RESUME. */
static void test_walk__frames_that_are_traced(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		const struct pye_pylayout *l = &all_layouts[i]->py;
		uint64_t frames[8], root, middle, top, instr;
		uint32_t first, last;

		if (!l->idle_ops[0])
			continue;
		for (uint32_t op = 0; op < 256; op++) {
			bool begins = memchr(l->begin_ops, (int)op, sizeof(l->begin_ops)) != NULL;
			bool idle = memchr(l->idle_ops, (int)op, sizeof(l->idle_ops)) != NULL;

			begin(all_layouts[i]);
			instr = image_take(&image, 8);
			image_field(&image, instr, 0, op, 2);
			root = image_frame(&image, codes_made[0], 0, 0);
			middle = image_frame(&image, codes_made[1], root, 0);
			image_field(&image, middle, l->f_instr, instr, 8);
			image_field(&image, middle, l->f_stack, 3, 4);
			top = image_frame(&image, codes_made[2], middle, 0);
			image_field(&image, top, l->f_instr, instr, 8);
			assert_int_equal(frame_real(middle, SURE_CALLS), idle ? root : middle);
			assert_int_equal(frame_real(middle, SURE_RUNS), middle);
			assert_int_equal(walk_all(top, PYE_WALK_UNKNOWN), 0);
			assert_int_equal(walked(frames, 8, &first, &last), idle ? 2 : 3);
			assert_int_equal(frames[1], idle ? root : middle);
			image_field(&image, middle, l->f_stack, UINT32_MAX, 4);
			assert_int_equal(frame_real(middle, SURE_CALLS), begins ? root : middle);
		}
	}
}

static void test_walk__cycles_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		for (int entries = 0; entries < 2; entries++) {
			struct thread *t = begin(all_layouts[i]);
			uint64_t a =
				image_frame(&image, codes_made[0], 0, entries ? ENTRY_FROM_C : 0);
			uint64_t b =
				image_frame(&image, codes_made[1], a, entries ? ENTRY_FROM_C : 0);

			image_field(&image, a, image.l->f_previous, b, 8);
			host.ring_records = 400;
			walk_all(b, PYE_WALK_UNKNOWN);
			check_state(t);
			host_forget_records();
			t->stack[SLOT(t->pos - 1)] = 0x1000;
			t->valid = 1;
			assert_int_equal(walk_near(b), NOT_NEAR);
			stack_refill(b);
			check_state(t);
		}
	}
}

static uint64_t torn(uint64_t seed)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^ seed << 17;
}

/* Pointers into the middle of things, unaligned ones, ones into nothing. */
static void test_walk__torn_pointers(void **state)
{
	uint64_t seed = 88172645463325252ULL;

	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		for (int round = 0; round < 300; round++) {
			struct thread *t = NULL;
			uint64_t top;

			if (!round || round % 100 == 0)
				t = begin(all_layouts[i]), top = chain(40);
			t = host_thread_storage(sizeof(*t));
			top = IMAGE_BASE + image.used - OBJECT;
			for (int k = 0; k < 20; k++) {
				seed = torn(seed);
				image.bytes[seed % image.used] = (uint8_t)(seed >> 32);
			}
			walk_all(top, PYE_WALK_UNKNOWN);
			walk_near(top);
			stack_refill(top);
			check_state(t);
			host_forget_records();
		}
	}
}

/* Every read fails once, and from every read on all fail: nothing breaks, and what was shown is a part
 * of the stack from its top. */
static void test_walk__fault_at_every_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		uint64_t reads = 1;

		for (uint64_t at = 0; at < 2 * reads; at++) {
			struct thread *t = begin(all_layouts[i]);
			uint64_t top = chain(30), frames[32], frame = top;
			uint32_t first, last, n;

			host.fail_read = at / 2;
			host.fail_all_reads = at & 1;
			walk_all(top, PYE_WALK_UNKNOWN);
			check_state(t);
			n = walked(frames, 32, &first, &last);
			for (uint32_t k = 0; k < n; k++, frame = previous_of(frame))
				assert_int_equal(frames[k], frame);
			assert_int_equal(t->valid, n);
			reads = host.reads > reads ? host.reads : reads;
		}
		assert_in_range(reads, 60, 2000);
	}
}

/* Every record fails once, and from every record on all fail: the tracked stack is right all the same,
 * and user space is told nothing or all. */
static void test_walk__full_ring_at_every_record(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		uint64_t reserves = 1;

		for (uint64_t at = 0; at < 2 * reserves; at++) {
			struct thread *t = begin(all_layouts[i]);
			uint64_t top = chain(60);
			int err;

			host.fail_reserve = at / 2;
			host.fail_all_reserves = at & 1;
			err = walk_all(top, PYE_WALK_UNKNOWN);
			check_state(t);
			check_stack(t, top, 60);
			reserves = host.reserves > reserves ? host.reserves : reserves;
			assert_int_equal(err, at / 2 < reserves ? -1 : 0);
			/* the next one, with room again, shows it all */
			host.fail_reserve = HOST_NEVER;
			host.fail_all_reserves = false;
			host_forget_records();
			assert_int_equal(walk_all(top, PYE_WALK_UNKNOWN), 0);
			check_stack(t, top, 60);
		}
	}
}

static void test_near__frames_without_an_event(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		for (uint32_t n = 1; n < NEAR_FRAMES + 3; n++) {
			struct thread *t = begin(all_layouts[i]);
			uint64_t anchor = chain(300), top = anchor, frames[16];
			uint32_t first, last;

			assert_int_equal(walk_all(anchor, PYE_WALK_UNKNOWN), 0);
			host_forget_records();
			for (uint32_t k = 0; k < n; k++)
				top = image_frame(&image, codes_made[GENERATOR], top, 1);
			if (n > NEAR_FRAMES) {
				assert_int_equal(walk_near(top), NOT_NEAR);
				check_stack(t, anchor, 300);
				continue;
			}
			assert_int_equal(walk_near(top), n);
			check_stack(t, top, 300 + n);
			assert_int_equal(walked(frames, 16, &first, &last), n);
			assert_int_equal(frames[0], top);
			assert_int_equal(first, PYE_WALK_FIRST | PYE_WALK_ANCHORED);
			check_state(t);
		}
	}
}

static void test_near__full_ring(void **state)
{
	struct thread *t = begin(&layout_3_12);
	uint64_t anchor = chain(10), top = anchor;

	(void)state;
	walk_all(anchor, PYE_WALK_UNKNOWN);
	for (int k = 0; k < 3; k++)
		top = image_frame(&image, codes_made[GENERATOR], top, 1);
	host.fail_reserve = 0;
	host.fail_all_reserves = true;
	assert_int_equal(walk_near(top), NOT_NEAR - 3);
	check_stack(t, top, 13);
	check_state(t);
	t->flags |= T_NEED_WALK; /* while events are lost nothing is sent */
	host.fail_all_reserves = false;
	host_forget_records();
	top = image_frame(&image, codes_made[GENERATOR], top, 1);
	assert_int_equal(walk_near(top), NOT_NEAR - 1);
	check_stack(t, top, 14);
	assert_int_equal(host.record_cnt, 0);
}

/* More than its ring holds: the top is shown, and when that is left the rest is walked. */
static void test_walk__deeper_than_the_ring(void **state)
{
	uint32_t most = 100 * PYE_WALK_FRAMES, first, last;
	struct thread *t = begin(&layout_3_12);
	uint64_t top = chain(most + 1000), *frames = calloc(most + 1, sizeof(*frames));

	(void)state;
	assert_non_null(frames);
	host_walk_records = 100;
	assert_int_equal(walk_all(top, PYE_WALK_UNKNOWN), 0);
	assert_int_equal(walked(frames, most + 1, &first, &last), most);
	assert_int_equal(last, PYE_WALK_CUT);
	assert_int_equal(t->flags & (T_KNOWN | T_CUT | T_NEED_WALK), T_KNOWN | T_CUT);
	for (uint32_t i = 0; i < PYE_STACK_SLOTS; i++, top = previous_of(top)) {
		assert_int_equal(SLOT_FRAME(stack_top(t)), top);
		assert_false(t->flags & T_NEED_WALK);
		stack_pop(t, top);
	}
	assert_true(t->flags & T_NEED_WALK);
	assert_int_equal(SLOT_FRAME(stack_top(t)), top);
	assert_int_equal(t->valid, PYE_STACK_SLOTS);
	for (uint32_t i = 0; i < most; i++, top = previous_of(top))
		stack_pop(t, top);
	assert_int_equal(SLOT_FRAME(stack_top(t)), top);
	host_forget_records();
	assert_int_equal(walk_all(top, PYE_WALK_UNKNOWN), 0);
	assert_int_equal(walked(frames, most + 1, &first, &last), 1000 - PYE_STACK_SLOTS);
	assert_true(last & PYE_WALK_ROOT);
	assert_false(t->flags & T_CUT);
	host_walk_records = 4096;
	free(frames);
}

/* A stack deeper than the slots is left frame by frame: the slots are filled again from below. */
static void test_refill__deep_stack(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		struct thread *t = begin(all_layouts[i]);
		uint64_t top = chain(700);

		walk_all(top, PYE_WALK_UNKNOWN);
		for (uint32_t depth = 700; depth > 1; depth--) {
			assert_int_equal(SLOT_FRAME(stack_top(t)), top);
			t->valid--;
			t->pos--;
			if (!t->valid && t->below)
				stack_refill(top);
			top = previous_of(top);
			assert_int_equal(t->valid + t->below, depth - 1);
		}
		assert_int_equal(SLOT_FRAME(stack_top(t)), top);
		assert_int_equal(walkers_counter(CNT_REFILLS), 2);
	}
}

static const struct pye_str_rec *string_record(uint32_t which)
{
	for (size_t i = 0; i < host.record_cnt; i++) {
		const struct pye_str_rec *s = (const void *)host.records[i]->data;

		if (s->head.kind == PYE_REC_STR && s->head.sub == which)
			return s;
	}
	fail_msg("no STR record %u", which);
	return NULL;
}

static uint64_t code_named(uint64_t name)
{
	uint64_t code = image_code(&image, "x", 7, 3);

	image_field(&image, code, image.l->co_name, name, 8);
	return code;
}

static void test_code__definition(void **state)
{
	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		struct thread *t = begin(all_layouts[i]);
		const struct pye_pylayout *l = image.l;
		const struct pye_def_rec *def;
		uint32_t id = code_id(t, codes_made[GENERATOR]),
			 strings = l->co_qualname == PYE_NO_FIELD ? 2 : 3;

		assert_true(id & PYE_CODE_GENERATOR);
		assert_int_equal(host.record_cnt, 1 + strings);
		def = (const void *)host.records[0]->data;
		assert_int_equal(def->head.kind, PYE_REC_DEF);
		assert_int_equal(def->head.sub, strings);
		assert_int_equal(def->head.frame, codes_made[GENERATOR]);
		assert_int_equal(def->line, 103);
		assert_int_equal(def->flags, 0x20);
		assert_int_equal(def->code, id & PYE_CODE_ID);
		assert_memory_equal(string_record(PYE_STR_NAME)->data, "f3", 2);
		assert_memory_equal(string_record(PYE_STR_FILE)->data, "file.py", 7);
		/* known from now on, until it dies */
		assert_int_equal(code_id(t, codes_made[GENERATOR]), id);
		assert_int_equal(host.record_cnt, 1 + strings);
		code_retire(t, codes_made[GENERATOR]);
		assert_int_not_equal(code_id(t, codes_made[GENERATOR]), id);
	}
}

/* Data is copied whole up to PYE_STR_BYTES, and in records of three sizes. */
static void test_code__strings_of_all_sizes(void **state)
{
	static const uint32_t sizes[] = {
		0, 1, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097, 100000
	};
	static uint8_t data[400000];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8));
	for (unsigned int kind = 1; kind <= 4; kind *= 2) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct thread *t = begin(&layout_3_12);
			uint32_t bytes = sizes[i] * kind;
			uint64_t name = image_str_raw(&image, sizes[i], kind, 0, data, bytes);
			const struct pye_str_rec *s;

			assert_true(code_id(t, code_named(name)));
			check_state(t);
			s = string_record(PYE_STR_NAME);
			assert_int_equal(s->str.bytes, bytes);
			assert_int_equal(s->str.length, sizes[i]);
			if (bytes <= PYE_STR_BYTES) {
				assert_int_equal(s->status, PYE_STR_OK);
				assert_int_equal(s->data_len, bytes);
				assert_memory_equal(s->data, data, bytes);
				continue;
			}
			assert_int_equal(s->status, PYE_STR_CUT);
			assert_int_equal(s->data_len, PYE_STR_BYTES);
			assert_memory_equal(s->data, data, PYE_STR_BYTES / 2);
			assert_memory_equal(s->data + PYE_STR_BYTES / 2,
					    data + bytes - PYE_STR_BYTES / 2, PYE_STR_BYTES / 2);
		}
	}
}

/* Lengths and states that no interpreter writes. */
static void test_code__lying_strings(void **state)
{
	static const uint64_t lengths[] = { 1ULL << 63, UINT64_MAX, 1ULL << 32,
					    0x3fffffff, 0x40000000, 0x80000010 };

	(void)state;
	for (size_t i = 0; i < LAYOUT_CNT; i++) {
		for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
			for (uint32_t bits = 0; bits < 256; bits += 4) {
				struct thread *t = begin(all_layouts[i]);
				uint64_t name = image_str(&image, "name");

				image_field(&image, name, image.l->str_length, lengths[k], 8);
				image_field(&image, name, image.l->str_state, bits, 4);
				assert_true(code_id(t, code_named(name)));
				check_state(t);
			}
		}
	}
}

/* What is not there (paged out, or a pointer into nothing) is left to user space; the id stays. */
static void test_code__strings_that_cannot_be_read(void **state)
{
	struct thread *t = begin(&layout_3_12);
	uint64_t name = image_str_raw(&image, 600, 1, 1, "short", 5);

	(void)state;
	image_field(&image, name, image.l->str_length, IMAGE_BYTES, 8);
	assert_true(code_id(t, code_named(name)));
	assert_int_equal(string_record(PYE_STR_NAME)->status, PYE_STR_FAULT);
	assert_int_equal(string_record(PYE_STR_NAME)->data_len, 0);
	assert_int_equal(walkers_counter(CNT_STR_FAULT), 1);
	host_forget_records();
	assert_true(code_id(t, code_named(0x1000)));
	assert_int_equal(string_record(PYE_STR_NAME)->status, PYE_STR_FAULT);
	host_forget_records();
	host.paged_out = true; /* the programs may sleep */
	assert_true(code_id(t, codes_made[0]));
	assert_int_equal(string_record(PYE_STR_NAME)->status, PYE_STR_OK);
}

static int setup(void **state)
{
	(void)state;
	image.bytes = malloc(IMAGE_BYTES);
	walkers_maps();
	return !image.bytes;
}

static int teardown(void **state)
{
	(void)state;
	host_reset();
	free(image.bytes);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk__whole_stack),
		cmocka_unit_test(test_walk__deep_stack),
		cmocka_unit_test(test_walk__too_deep_stack),
		cmocka_unit_test(test_walk__skips_what_is_no_frame),
		cmocka_unit_test(test_walk__skips_what_has_not_begun),
		cmocka_unit_test(test_walk__skips_linked_generators),
		cmocka_unit_test(test_walk__frames_that_are_traced),
		cmocka_unit_test(test_walk__cycles_end),
		cmocka_unit_test(test_walk__deeper_than_the_ring),
		cmocka_unit_test(test_walk__torn_pointers),
		cmocka_unit_test(test_walk__fault_at_every_read),
		cmocka_unit_test(test_walk__full_ring_at_every_record),
		cmocka_unit_test(test_near__frames_without_an_event),
		cmocka_unit_test(test_near__full_ring),
		cmocka_unit_test(test_refill__deep_stack),
		cmocka_unit_test(test_code__definition),
		cmocka_unit_test(test_code__strings_of_all_sizes),
		cmocka_unit_test(test_code__lying_strings),
		cmocka_unit_test(test_code__strings_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
