// SPDX-License-Identifier: Apache-2.0
/* Events that come many at a time make the same capture, to the byte, as their records do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "assemble/filter.h"
#include "assemble_seen.h"
#include "capture/step_record.h"

#define THREADS 3u
#define FUNCS	300u
#define BASE	0x7f0000001000ull
#define EVENTS	60000u

static uint32_t state;

static uint32_t pick(uint32_t n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 16) % n;
}

/* What one thread does next, and what of it does not fit. */
struct maker {
	uint64_t stack[4000];
	uint32_t depth, seq, wild, depth_max;
};

static uint64_t now_at;

static void damage(struct trace_step *s, struct maker *m)
{
	switch (pick(6)) {
	case 0:
		m->seq += pick(5); /* some are missing */
		break;
	case 1:
		s->frame += 64;
		break;
	case 2:
		s->func = FUNCS + 1 + pick(3); /* nobody has defined it */
		break;
	case 3:
		s->func |= PYE_CODE_GENERATOR;
		break;
	case 4:
		s->ts_ns -= s->ts_ns > 5000 ? pick(5000) : 0;
		break;
	default:
		s->ts_ns = UINT64_MAX - pick(2);
	}
}

static struct trace_step make(struct maker *m)
{
	static const uint8_t entries[] = { TRACE_CALL, TRACE_CALL, TRACE_RESUME, TRACE_THROW };
	static const uint8_t leaves[] = { TRACE_RETURN, TRACE_RETURN, TRACE_YIELD, TRACE_UNWIND };
	bool enters = m->depth < m->depth_max &&
		      (!m->depth || pick(20) < 10 + (m->depth_max > 100));
	struct trace_step s = { .ts_ns = now_at += 1 + pick(pick(50) ? 100 : 100000) };

	if (enters) {
		s.kind = entries[pick(4)];
		s.func = 1 + pick(FUNCS);
		s.frame = BASE + 96ull * m->depth + 8 * pick(4);
		m->stack[m->depth++] = s.frame;
	} else {
		s.kind = leaves[pick(4)];
		s.frame = m->stack[--m->depth];
	}
	if (m->wild && !pick(m->wild))
		damage(&s, m);
	return s;
}

/* The stack as it is found behind a place that nobody has seen. */
static void walk(struct assembly *as, uint32_t tix, const struct maker *m)
{
	struct pye_walk_frame frames[PYE_WALK_FRAMES];
	uint32_t cnt = m->depth < PYE_WALK_FRAMES ? m->depth : PYE_WALK_FRAMES;

	for (uint32_t i = 0; i < cnt; i++)
		frames[i] = (struct pye_walk_frame){ .frame = m->stack[m->depth - 1 - i],
						     .code = 1 + i };
	make_walk(&as->b, tix, m->seq, frames, cnt, PYE_WALK_SWITCH,
		  cnt == m->depth ? PYE_WALK_ROOT : PYE_WALK_CUT, 0);
	assembly_feed(as);
}

static void as_records(struct assembly *as, uint32_t tix, uint32_t seq,
		       const struct trace_step *steps, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		struct pye_entry_rec rec;
		uint32_t bytes = step_record(&steps[i], tix, seq + i, 0, &rec);

		assembler__record(as->a, &rec, bytes);
	}
}

/* What is wanted of them; entries of a process can be taken back by the next record. */
struct how {
	const struct assembler_filter *filter;
	bool watches, taken_back;
};

static struct assembly *begin(const struct how *how)
{
	struct assembly *as = assembly_new(how->taken_back ? PYE_LAYOUT_FRAME_OBJECT : 0);
	char name[16];

	if (how->filter)
		assert_int_equal(assembler__filter(as->a, how->filter), 0);
	if (how->watches)
		assert_int_equal(assembler__watch(as->a, "app:f1", 200), 0);
	for (uint32_t i = 1; i <= FUNCS; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		make_code(&as->b, 1, i, name);
	}
	for (uint32_t i = 1; i <= THREADS; i++)
		make_thread(&as->b, i, 1, 100 + i, 0);
	assembly_feed(as);
	return as;
}

static void same_files(const struct assembly *x, const struct assembly *y)
{
	off_t size = lseek(x->fd, 0, SEEK_END);
	const void *a, *b;

	assert_true(size > 0 && size == lseek(y->fd, 0, SEEK_END));
	a = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, x->fd, 0);
	b = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, y->fd, 0);
	assert_true(a != MAP_FAILED && b != MAP_FAILED);
	assert_memory_equal(a, b, (size_t)size);
}

static void take_back(struct assembly *as, uint32_t tix, const struct maker *m)
{
	make_exit(&as->b, tix, m->seq, m->stack[m->depth], PYE_EXIT_REFUSED);
	assembly_feed(as);
}

static void same_calls(const struct assembly *x, const struct assembly *y)
{
	const struct assembler_slow *a = assembler__slow(x->a, 0), *b = assembler__slow(y->a, 0);

	assert_true(a->slow > 10 && a->calls > a->slow);
	assert_memory_equal(a, b, sizeof(*a));
}

/* @wild: one event of so many does not fit; 0: none */
static uint64_t compare(uint32_t wild, uint32_t depth_max, const struct how *how)
{
	struct assembly *x = begin(how), *y = begin(how);
	static struct maker makers[THREADS + 1];
	uint64_t written;

	memset(makers, 0, sizeof(makers));
	now_at = 100000;
	for (uint32_t made = 0; made < EVENTS;) {
		uint32_t tix = 1 + pick(THREADS), cnt = 1 + pick(pick(4) ? 400 : 3);
		struct maker *m = &makers[tix];
		struct trace_step steps[400];

		m->wild = wild;
		m->depth_max = depth_max;
		if (wild && !pick(8)) {
			walk(x, tix, m);
			walk(y, tix, m);
		}
		for (uint32_t i = 0; i < cnt; i++) {
			uint32_t seq = m->seq;

			steps[i] = make(m);
			if (m->seq == seq)
				continue;
			steps[0] = steps[i]; /* behind the hole */
			cnt = 1;
		}
		as_records(x, tix, m->seq, steps, cnt);
		assembler__steps(y->a, tix, m->seq, steps, cnt);
		m->seq += cnt;
		made += cnt;
		if (how->taken_back && !trace_is_leave(steps[cnt - 1].kind)) {
			m->depth--;
			take_back(x, tix, m);
			take_back(y, tix, m);
			m->seq++;
		}
	}
	assembly_finish(x);
	assembly_finish(y);
	assert_memory_equal(&x->totals, &y->totals, sizeof(x->totals));
	same_files(x, y);
	if (how->watches)
		same_calls(x, y);
	written = y->totals.written;
	assembly_free(x);
	assembly_free(y);
	return written;
}

static const struct how all;

static void test_steps__of_programs(void **unused)
{
	(void)unused;
	for (uint32_t seed = 1; seed < 12; seed += 3) {
		state = seed;
		assert_true(compare(0, 30, &all) >= EVENTS);
	}
	assert_true(compare(0, 3500, &all) >= EVENTS); /* the stacks grow */
}

static void test_steps__that_do_not_fit(void **unused)
{
	(void)unused;
	for (uint32_t wild = 3; wild < 3000; wild *= 3) {
		state = wild;
		assert_true(compare(wild, 30, &all) > 0);
		assert_true(compare(wild, 1000, &all) > 0);
	}
}

/* Somebody chooses among them, folds them, waits for some, or takes some back. */
static void test_steps__that_are_not_all_written(void **unused)
{
	const struct assembler_filter folds = { .min_ns = 300 };
	const struct how folded = { .filter = &folds }, watched = { .watches = true },
			 taken_back = { .taken_back = true };

	(void)unused;
	state = 7;
	assert_in_range(compare(0, 30, &folded), 100, EVENTS - 1000);
	assert_true(compare(50, 30, &folded) > 0);
	assert_true(compare(0, 30, &watched) >= EVENTS);
	assert_in_range(compare(0, 30, &taken_back), 100, EVENTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps__of_programs),
		cmocka_unit_test(test_steps__that_do_not_fit),
		cmocka_unit_test(test_steps__that_are_not_all_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
