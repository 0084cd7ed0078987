// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture_make.h"

static void maker_begin(struct maker *m, size_t chunk_bytes)
{
	struct capw_opts opts = { .chunk_bytes = chunk_bytes };

	m->fd = memfd_create("capture", 0);
	assert_true(m->fd >= 0);
	assert_int_equal(capw__new(&m->w, m->fd, &opts, &some_info), 0);
}

static struct maker *maker_new(size_t chunk_bytes)
{
	struct maker *m = calloc(1, sizeof(*m));

	maker_begin(m, chunk_bytes);
	return m;
}

static void maker_finish(struct maker *m)
{
	struct trace_totals totals = { .end_ns = 1 };

	totals.generated = capw__written(m->w) + capw__lost(m->w);
	assert_int_equal(capw__finish(m->w, &totals), 0);
	capw__free(m->w);
	m->w = NULL;
}

static void maker_free(struct maker *m)
{
	capw__free(m->w);
	close(m->fd);
	free(m->want.v);
	free(m);
}

static int decode(int fd, struct seen *s, struct err *e)
{
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return decode_file(fd, &seen_consumer, s, e);
}

static void check_same(struct maker *m, const struct seen *s)
{
	qsort(m->want.v, m->want.cnt, sizeof(m->want.v[0]), by_time);
	assert_null(s->broken);
	assert_int_equal(s->recs.cnt, m->want.cnt);
	for (size_t i = 0; i < m->want.cnt; i++) {
		struct rec want = m->want.v[i];

		want.number = 0;
		assert_memory_equal(&s->recs.v[i], &want, sizeof(want));
	}
}

static void check_round_trip(struct maker *m)
{
	struct err e = { 0 };
	struct seen s;

	seen_init(&s);
	assert_int_equal(decode(m->fd, &s, &e), 0);
	assert_string_equal(e.what, "");
	check_same(m, &s);
	assert_true(s.totals.complete);
	assert_int_equal(s.begin_cnt, 1);
	assert_int_equal(s.end_cnt, 1);
	assert_string_equal(s.engine, "uprobe");
	assert_string_equal(s.arguments, "trace -p 1");
	assert_int_equal(s.info.start_unix_ns, -7);
	assert_int_equal(s.info.cost.exit_before_ns, 4);
	assert_int_equal(s.totals.generated, s.totals.written);
	seen_done(&s);
}

static uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void random_event(struct maker *m, uint32_t thread, uint64_t ns, uint32_t *seed,
			 uint32_t func_cnt)
{
	uint32_t r = random_next(seed);

	if (r % 997 == 0)
		make_gap(m, thread, ns, ns + r % 50, r % 7);
	else if (m->depth[thread] > r % 60)
		make_leave(m, thread, ns, TRACE_RETURN + r / 64 % 3);
	else
		make_enter(m, thread, ns, r / 64 % 4, 1 + r / 256 % func_cnt);
}

/* Threads come in bursts, as from rings read in turn, so that chunks overlap in time. */
static void random_trace(struct maker *m, uint32_t seed, uint32_t thread_cnt, uint32_t burst_cnt)
{
	uint64_t now[64] = { 0 };

	define_process(m->w, 1, "python3");
	for (uint32_t i = 1; i <= thread_cnt; i++) {
		define_thread(m->w, i, 1);
		now[i] = 100;
	}
	for (uint32_t i = 1; i <= 300; i++)
		define_func(m->w, i, 1);
	for (uint32_t burst = 0; burst < burst_cnt; burst++) {
		for (uint32_t t = 1; t <= thread_cnt; t++) {
			uint64_t until = 100 + (burst + 1) * 20000ull + random_next(&seed) % 30000;

			while (now[t] < until) {
				random_event(m, t, now[t], &seed, 300);
				now[t] += random_next(&seed) % 5 ? random_next(&seed) % 400 : 0;
			}
		}
	}
}

static void test_capfile__round_trip(void **state)
{
	static const size_t chunk_bytes[] = { 1, 4096, 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(chunk_bytes) / sizeof(chunk_bytes[0]); i++) {
		struct maker *m = maker_new(chunk_bytes[i]);

		random_trace(m, 12345 + (uint32_t)i, 20, 20);
		maker_finish(m);
		check_round_trip(m);
		maker_free(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capfile__round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
