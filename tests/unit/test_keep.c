// SPDX-License-Identifier: Apache-2.0
/* Captures that begin in the middle of a run: what a flight recorder holds, and the parts of a split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "capture_make.h"
#include "capture_seen.h"

#define MS	1000000ull
#define THREADS 5u
#define FUNCS	40u

static struct maker *new_maker(const struct capw_opts *opts)
{
	struct maker *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->fd = memfd_create("capture", 0);
	assert_true(m->fd >= 0);
	assert_int_equal(capw__new(&m->w, m->fd, opts, &some_info), 0);
	define_process(m->w, 1, "python3");
	for (uint32_t i = 1; i <= THREADS; i++)
		define_thread(m->w, i, 1);
	for (uint32_t i = 1; i <= FUNCS; i++)
		define_func(m->w, i, 1);
	return m;
}

static struct trace_totals totals_at(const struct maker *m, uint64_t ns, uint64_t ring)
{
	struct trace_totals t = { .end_ns = ns, .lost = { [LOSS_RING] = ring } };

	t.lost[LOSS_USER] = capw__lost(m->w);
	t.generated = capw__written(m->w) + ring + t.lost[LOSS_USER];
	return t;
}

/* One event each ms and thread; thread 1 goes three frames deep at the beginning and then rests. */
static void one_step(struct maker *m, uint64_t ns, uint32_t *seed)
{
	for (uint32_t t = 2; t <= THREADS; t++) {
		*seed = *seed * 1103515245 + 12345;
		if (m->depth[t] > (*seed >> 16) % 30)
			make_leave(m, t, ns + t, TRACE_RETURN);
		else
			make_enter(m, t, ns + t, TRACE_CALL, 1 + (*seed >> 8) % FUNCS);
	}
}

static void rest_deep(struct maker *m)
{
	for (uint32_t i = 0; i < 3; i++)
		make_enter(m, 1, 10 + i, TRACE_CALL, 7 + i);
}

static int dump(struct maker *m, struct seen *s)
{
	int fd = memfd_create("dump", 0), err;
	struct err e = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(capw__dump(m->w, fd), 0);
	seen_init(s);
	err = decode(fd, s, &e);
	close(fd);
	assert_string_equal(e.what, "");
	assert_null(s->broken);
	return err;
}

/* What came out is the last of what each thread did, begun with the frames that were open then. */
static void check_tail(const struct maker *m, const struct seen *s, uint64_t since_ns)
{
	for (uint32_t t = 1; t <= THREADS; t++) {
		uint32_t stack[64], depth = 0;
		size_t n = 0, skip, all = 0, late = 0;

		for (size_t i = 0; i < s->recs.cnt; i++)
			n += s->recs.v[i].thread == t && s->recs.v[i].kind != TRACE_OPEN;
		for (size_t i = 0; i < m->want.cnt; i++) {
			all += m->want.v[i].thread == t;
			late += m->want.v[i].thread == t && m->want.v[i].ts_ns >= since_ns;
		}
		assert_true(n <= all && n >= late);
		skip = all - n;
		for (size_t i = 0, j = 0; i < m->want.cnt; i++) {
			const struct rec *want = &m->want.v[i], *got;

			if (want->thread != t)
				continue;
			if (skip) {
				skip--;
				if (want->kind < TRACE_OPEN)
					stack[depth++] = want->func;
				else
					depth--;
				continue;
			}
			for (; s->recs.v[j].thread != t || s->recs.v[j].kind == TRACE_OPEN; j++)
				continue;
			got = &s->recs.v[j++];
			assert_int_equal(got->kind, want->kind);
			assert_int_equal(got->func, want->func);
			assert_int_equal(got->depth, want->depth);
			assert_true(got->ts_ns == want->ts_ns);
		}
		for (size_t i = 0, at = 0; i < s->recs.cnt; i++) {
			const struct rec *r = &s->recs.v[i];

			assert_int_not_equal(r->kind, REC_GAP);
			if (r->thread != t || r->kind != TRACE_OPEN)
				continue;
			assert_true(at < depth);
			assert_int_equal(r->func, stack[at++]);
			assert_true(r->ts_ns <= since_ns);
		}
	}
}

static void check_sums(const struct seen *s)
{
	uint64_t events = 0, lost = 0;

	for (size_t i = 0; i < s->recs.cnt; i++)
		events += s->recs.v[i].kind != TRACE_OPEN && s->recs.v[i].kind != REC_GAP;
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += s->totals.lost[i];
	assert_int_equal(s->totals.written, events);
	assert_int_equal(s->totals.generated, events + lost);
	assert_true(s->totals.complete);
}

static uint32_t open_cnt(const struct seen *s, uint32_t thread)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s->recs.cnt; i++)
		n += s->recs.v[i].thread == thread && s->recs.v[i].kind == TRACE_OPEN;
	return n;
}

static void test_keep__the_last_second_of_a_minute(void **state)
{
	struct capw_opts opts = { .keep_ns = 1000 * MS, .chunk_bytes = 2000 };
	struct maker *m = new_maker(&opts);
	uint64_t most = 0, ns = 0, flushes = 0, dumps = 0;
	struct capw_kept kept;
	uint32_t seed = 1;
	struct seen s;

	(void)state;
	rest_deep(m);
	for (uint32_t i = 0; i < 60000; i++) {
		ns = (i + 1) * MS;
		one_step(m, ns, &seed);
		if (i % 100 == 99) {
			struct trace_totals t = totals_at(m, ns + MS / 2, ++flushes);

			assert_int_equal(capw__flush(m->w, &t), 0);
			capw__kept(m->w, &kept);
			if (kept.bytes > most)
				most = kept.bytes;
		}
		if (i % 20000 != 19999)
			continue;
		assert_int_equal(dump(m, &s), 0);
		dumps++;
		check_tail(m, &s, ns + MS / 2 - 1000 * MS);
		check_sums(&s);
		assert_int_equal(open_cnt(&s, 1), 3); /* it rested all the time */
		assert_true(s.info.start_ns < ns - 1000 * MS);
		assert_true(s.info.start_ns >= ns - 1500 * MS);
		assert_int_equal(s.info.start_unix_ns, -7 + (int64_t)s.info.start_ns - 5);
		assert_int_equal(s.info.before.keep_ns, 1000 * MS);
		assert_true(s.info.before.chunks > 0);
		assert_true(s.totals.lost[LOSS_RING] > 8 && s.totals.lost[LOSS_RING] < 16);
		assert_int_equal(s.info.before.events + s.totals.generated,
				 capw__written(m->w) + flushes);
		seen_done(&s);
	}
	assert_int_equal(dumps, 3);
	assert_true(most < 50000);
	assert_int_equal(lseek(m->fd, 0, SEEK_END), 0); /* nothing went to the disk */
	maker_free(m);
}

static void test_keep__all_of_a_short_run(void **state)
{
	struct capw_opts opts = { .keep_ns = 1000 * MS };
	struct maker *m = new_maker(&opts);
	struct trace_totals t;
	uint32_t seed = 1;
	struct seen s;

	(void)state;
	rest_deep(m);
	for (uint32_t i = 0; i < 500; i++)
		one_step(m, (i + 1) * MS, &seed);
	t = totals_at(m, 501 * MS, 0);
	assert_int_equal(capw__finish(m->w, &t), 0);
	assert_int_equal(dump(m, &s), 0);
	check_tail(m, &s, 0);
	check_sums(&s);
	assert_int_equal(s.totals.written, capw__written(m->w));
	assert_int_equal(s.info.before.chunks, 0);
	assert_int_equal(s.info.start_ns, 5);
	seen_done(&s);
	maker_free(m);
}

/* More events than the memory takes: it stays below, and says that time did not decide. */
static void test_keep__bytes_decide(void **state)
{
	struct capw_opts opts = { .keep_ns = 3600000 * MS, .keep_bytes = 1 << 20 };
	struct maker *m = new_maker(&opts);
	struct capw_kept kept;
	struct trace_totals t;
	uint32_t seed = 1;
	uint64_t ns = 0;
	struct seen s;

	(void)state;
	rest_deep(m);
	for (uint32_t i = 0; i < 400000; i++) {
		ns = (i + 1) * 1000ull;
		one_step(m, ns, &seed);
		capw__kept(m->w, &kept);
		assert_true(kept.bytes <= 1300000);
		if (i % 10000)
			continue;
		t = totals_at(m, ns + 10, 0);
		assert_int_equal(capw__flush(m->w, &t), 0);
	}
	t = totals_at(m, ns + 10, 0);
	assert_int_equal(capw__flush(m->w, &t), 0);
	capw__kept(m->w, &kept);
	assert_true(kept.full && kept.dropped_chunks > 10 && kept.bytes > 500000);
	assert_int_equal(dump(m, &s), 0);
	check_tail(m, &s, kept.start_ns + 1);
	check_sums(&s);
	assert_true(open_cnt(&s, 1) == 3);
	seen_done(&s);
	maker_free(m);
}

/* Ten parts: each opens alone, and together they hold everything once. */
static void test_parts__open_alone_and_add_up(void **state)
{
	struct capw_opts opts = { .in_parts = true, .chunk_bytes = 3000 };
	uint64_t events = 0, generated = 0, ring = 0, before = 0;
	struct maker *m = new_maker(&opts);
	int fd = dup(m->fd);
	uint32_t seed = 1;

	(void)state;
	rest_deep(m);
	for (uint32_t part = 1; part <= 10; part++) {
		int next = memfd_create("part", 0);
		struct trace_totals t;
		struct err e = { 0 };
		uint64_t ns = 0;
		struct seen s;

		for (uint32_t i = 0; i < 500; i++) {
			ns = (part * 1000ull + i) * MS;
			one_step(m, ns, &seed);
			if (i % 100 == 50) {
				t = totals_at(m, ns + 100, part * 3);
				assert_int_equal(capw__flush(m->w, &t), 0);
			}
		}
		t = totals_at(m, ns + 100, part * 3);
		assert_int_equal(
			part < 10 ? capw__next_part(m->w, next, &t) : capw__finish(m->w, &t), 0);
		seen_init(&s);
		assert_int_equal(decode(fd, &s, &e), 0);
		assert_string_equal(e.what, "");
		check_sums(&s);
		assert_int_equal(s.info.before.part, part);
		assert_int_equal(s.info.before.events, before);
		assert_int_equal(open_cnt(&s, 1), part > 1 ? 3 : 0);
		events += s.totals.written;
		generated += s.totals.generated;
		ring += s.totals.lost[LOSS_RING];
		before = generated;
		seen_done(&s);
		close(fd);
		fd = next;
	}
	close(fd);
	assert_int_equal(events, capw__written(m->w));
	assert_int_equal(events, m->want.cnt);
	assert_int_equal(ring, 30);
	maker_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keep__the_last_second_of_a_minute),
		cmocka_unit_test(test_keep__all_of_a_short_run),
		cmocka_unit_test(test_keep__bytes_decide),
		cmocka_unit_test(test_parts__open_alone_and_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
