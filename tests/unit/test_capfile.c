// SPDX-License-Identifier: Apache-2.0
/* The capture file when all goes well, and when the disk does not take it. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "capture_make.h"
#include "capture_seen.h"

static void check_same(struct maker *m, const struct seen *s)
{
	if (m->want.cnt)
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
	assert_int_equal(maker_finish(m), 0);
	assert_int_equal(decode(m->fd, &s, &e), 0);
	assert_string_equal(e.what, "");
	check_same(m, &s);
	assert_true(s.totals.complete);
	assert_int_equal(s.begin_cnt, 1);
	assert_int_equal(s.end_cnt, 1);
	assert_int_equal(s.totals.generated, s.totals.written);
	assert_true(s.totals.end_ns >= s.last_ns);
	seen_done(&s);
	maker_free(m);
}

static uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void random_event(struct maker *m, uint32_t thread, uint64_t ns, uint32_t *seed)
{
	uint32_t r = random_next(seed);

	if (r % 997 == 0)
		make_gap(m, thread, ns, ns + r % 50, r % 7);
	else if (m->depth[thread] > r % 60)
		make_leave(m, thread, ns, TRACE_RETURN + r / 64 % 3);
	else
		make_enter(m, thread, ns, r / 64 % 4, 1 + r / 256 % 300);
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
				random_event(m, t, now[t], &seed);
				now[t] += random_next(&seed) % 5 ? random_next(&seed) % 400 : 0;
			}
		}
	}
}

static void test_capfile__round_trip(void **state)
{
	static const size_t chunk_bytes[] = { 1, 4096, 100000, 0 };

	(void)state;
	for (uint32_t i = 0; i < sizeof(chunk_bytes) / sizeof(chunk_bytes[0]); i++) {
		struct maker *m = maker_new(chunk_bytes[i]);

		random_trace(m, 12345 + i, 20, 20);
		check_round_trip(m);
	}
}

static void test_capfile__info_and_definitions(void **state)
{
	struct maker *m = maker_new(0);
	struct seen s;

	(void)state;
	define_process(m->w, 3, "python3");
	define_thread(m->w, 1, 3);
	assert_int_equal(
		define_func_named(m->w, 9, 3, "Outer.<locals>.\xed\xb3\xbf", "\xed\xb3\xbf"), 0);
	make_enter(m, 1, 10, TRACE_CALL, 9);
	assert_int_equal(maker_finish(m), 0);
	seen_init(&s);
	assert_int_equal(decode(m->fd, &s, NULL), 0);
	assert_null(s.broken);
	assert_string_equal(s.engine, "uprobe");
	assert_string_equal(s.arguments, "trace -p 1");
	assert_int_equal(s.info.start_unix_ns, -7);
	assert_int_equal(s.info.cpu_cnt, 8);
	assert_int_equal(s.info.cost.exit_before_ns, 4);
	assert_string_equal(s.last_comm, "python3");
	assert_string_equal(s.last_root, "/usr/lib/python3");
	assert_string_equal(s.last_func, "Outer.<locals>.\xed\xb3\xbf");
	assert_string_equal(s.last_name, "\xed\xb3\xbf");
	assert_string_equal(s.last_file, "/srv/app/one.py");
	seen_done(&s);
	maker_free(m);
}

static void test_capfile__long_names_are_cut_between_characters(void **state)
{
	struct maker *m = maker_new(0);
	char *name = malloc(70001);
	struct seen s;

	(void)state;
	for (uint32_t i = 0; i < 70000; i += 2)
		memcpy(name + i, "\xc3\xa9", 2);
	name[70000] = '\0';
	define_process(m->w, 1, "python3");
	define_thread(m->w, 1, 1);
	assert_int_equal(define_func_named(m->w, 1, 1, name, "plain"), 0);
	make_enter(m, 1, 10, TRACE_CALL, 1);
	assert_int_equal(maker_finish(m), 0);
	seen_init(&s);
	assert_int_equal(decode(m->fd, &s, NULL), 0);
	assert_int_equal(s.last_func_len, 65534);
	assert_string_equal(s.last_name, "plain");
	seen_done(&s);
	free(name);
	maker_free(m);
}

static void test_capfile__changes_are_told_again(void **state)
{
	struct maker *m = maker_new(0);
	struct trace_thread ended = {
		.id = 1, .process = 1, .tid = 2001, .start_ns = 7, .end_ns = 99, .name = "worker"
	};
	struct seen s;

	(void)state;
	define_process(m->w, 1, "sh");
	define_thread(m->w, 1, 1);
	define_func(m->w, 1, 1);
	make_enter(m, 1, 10, TRACE_CALL, 1);
	assert_int_equal(capw__flush(m->w, NULL), 0);
	make_leave(m, 1, 20, TRACE_RETURN); /* nothing new */
	assert_int_equal(capw__flush(m->w, NULL), 0);
	define_process(m->w, 1, "python3"); /* without an event */
	assert_int_equal(capw__flush(m->w, NULL), 0);
	assert_int_equal(capw__thread(m->w, &ended), 0);
	assert_int_equal(define_func_named(m->w, 1, 1, "Other.name", "name"), 0);
	make_enter(m, 1, 30, TRACE_CALL, 1);
	assert_int_equal(maker_finish(m), 0);
	seen_init(&s);
	assert_int_equal(decode(m->fd, &s, NULL), 0);
	check_same(m, &s);
	assert_int_equal(s.process_cnt, 2);
	assert_string_equal(s.last_comm, "python3");
	assert_int_equal(s.thread_cnt, 2);
	assert_int_equal(s.thread_end_ns, 99);
	assert_int_equal(s.func_cnt, 2);
	assert_string_equal(s.last_func, "Other.name");
	seen_done(&s);
	maker_free(m);
}

static void test_capfile__stays_deep_over_chunks(void **state)
{
	struct maker *m = maker_new(4096);
	uint64_t ns = 10;

	(void)state;
	define_process(m->w, 1, "python3");
	define_thread(m->w, 1, 1);
	define_thread(m->w, 2, 1);
	define_func(m->w, 1, 1);
	define_func(m->w, 2, 1);
	for (uint32_t i = 0; i < 10000; i++)
		make_enter(m, 1, ns++, TRACE_CALL, 1 + i % 2);
	for (uint32_t i = 0; i < 3000; i++) {
		make_enter(m, 1, ns, TRACE_CALL, 2);
		make_enter(m, 2, ns, TRACE_CALL, 1);
		make_leave(m, 2, ++ns, TRACE_UNWIND);
		make_leave(m, 1, ++ns, TRACE_UNWIND);
	}
	assert_int_equal(capw__depth(m->w, 1), 10000);
	for (uint32_t i = 0; i < 10000; i++)
		make_leave(m, 1, ns++, TRACE_RETURN);
	check_round_trip(m);
}

/* Threads that were deep once leave the memory for their stacks to others, also when reading. */
static void test_capfile__deep_one_after_the_other(void **state)
{
	struct maker *m = maker_new(0);
	uint64_t ns = 10;
	struct seen s;

	(void)state;
	define_process(m->w, 1, "python3");
	define_func(m->w, 1, 1);
	for (uint32_t t = 1; t <= 1200; t++) {
		define_thread(m->w, t, 1);
		for (uint32_t i = 0; i < 9000; i++)
			assert_int_equal(capw__enter(m->w, t, ns++, TRACE_CALL, 1), 0);
		for (uint32_t i = 0; i < 8990; i++)
			assert_int_equal(capw__leave(m->w, t, ns++, TRACE_RETURN), 0);
	}
	assert_int_equal(capw__lost(m->w), 0);
	assert_int_equal(maker_finish(m), 0);
	seen_init(&s);
	s.count_only = true;
	assert_int_equal(decode(m->fd, &s, NULL), 0);
	assert_null(s.broken);
	assert_true(s.totals.complete);
	assert_int_equal(s.totals.written, 1200 * 17990);
	seen_done(&s);
	maker_free(m);
}

/* Lost events by the gaps of the decoded file, and by its totals. */
static void check_losses(struct maker *m, uint64_t pushed)
{
	uint64_t in_gaps = 0;
	struct seen s;

	seen_init(&s);
	assert_int_equal(decode(m->fd, &s, NULL), 0);
	assert_null(s.broken);
	for (size_t i = 0; i < s.recs.cnt; i++)
		in_gaps += s.recs.v[i].lost;
	assert_true(s.totals.complete);
	assert_true(s.totals.lost[LOSS_USER] > 0);
	assert_int_equal(in_gaps, s.totals.lost[LOSS_USER]);
	assert_int_equal(s.totals.written + s.totals.lost[LOSS_USER], pushed);
	assert_int_equal(s.totals.generated, pushed);
	seen_done(&s);
}

static void test_capfile__too_deep_is_a_gap(void **state)
{
	struct maker *m = maker_new(0);
	uint64_t ns = 10, pushed = 0;

	(void)state;
	define_process(m->w, 1, "python3");
	define_func(m->w, 1, 1);
	for (uint32_t t = 1; t <= 40; t++) {
		define_thread(m->w, t, 1);
		for (uint32_t i = 0; i < 60000; i++, pushed++)
			assert_int_equal(capw__enter(m->w, t, ns++, TRACE_CALL, 1), 0);
		assert_int_equal(capw__depth(m->w, t), 60000);
	}
	assert_true(capw__lost(m->w) > 500000);
	for (uint32_t t = 1; t <= 40; t++) {
		for (uint32_t i = 0; i < 60000; i++, pushed++)
			assert_int_equal(capw__leave(m->w, t, ns++, TRACE_RETURN), 0);
		assert_int_equal(capw__leave(m->w, t, ns, TRACE_RETURN), -EINVAL);
		assert_int_equal(capw__enter(m->w, t, ns++, TRACE_CALL, 1), 0);
		pushed++;
	}
	assert_int_equal(capw__written(m->w) + capw__lost(m->w), pushed);
	assert_int_equal(maker_finish(m), 0);
	check_losses(m, pushed);
	maker_free(m);
}

static void test_capfile__hidden_thread_may_end_or_lose(void **state)
{
	struct maker *m = maker_new(0);
	struct trace_gap gap = { .thread = 1, .ts_ns = 1, .until_ns = 3, .lost = 5 };
	uint64_t ns = 10, pushed = 5;

	(void)state;
	define_process(m->w, 1, "python3");
	define_func(m->w, 1, 1);
	define_thread(m->w, 1, 1);
	define_thread(m->w, 2, 1);
	for (uint32_t i = 0; i < 1200000; i++, pushed++)
		assert_int_equal(capw__enter(m->w, 1, ns++, TRACE_CALL, 1), 0);
	assert_true(capw__lost(m->w) > 0);
	assert_int_equal(capw__gap(m->w, &gap), 0);
	assert_int_equal(capw__depth(m->w, 1), 0);
	for (uint32_t i = 0; i < 1200000; i++, pushed++)
		assert_int_equal(capw__enter(m->w, 2, ns++, TRACE_CALL, 1), 0);
	capw__retire_thread(m->w, 2);
	{
		struct trace_totals totals = { .generated = pushed,
					       .lost = { [LOSS_USER] = capw__lost(m->w) + 5 } };

		assert_int_equal(capw__finish(m->w, &totals), 0);
	}
	check_losses(m, pushed);
	maker_free(m);
}

/* Functions made by the hundred thousand and dropped, threads that come and go. */
static void test_capfile__forgets_what_is_retired(void **state)
{
	struct maker *m = maker_new(0);
	uint64_t ns = 10;
	size_t before = mallinfo2().uordblks;
	struct seen s;

	(void)state;
	define_process(m->w, 1, "python3");
	for (uint32_t i = 1; i <= 400000; i++) {
		char name[128];

		snprintf(name, sizeof(name), "a_long_name_that_takes_memory_%u.<locals>.<lambda>",
			 i);
		assert_int_equal(define_func_named(m->w, i, 1, name, "<lambda>"), 0);
		if (i % 8 == 1)
			define_thread(m->w, i, 1);
		assert_int_equal(capw__enter(m->w, (i - 1) / 8 * 8 + 1, ns++, TRACE_CALL, i), 0);
		if (i % 100)
			assert_int_equal(capw__leave(m->w, (i - 1) / 8 * 8 + 1, ns++, TRACE_RETURN),
					 0);
		capw__retire_func(m->w, i);
		capw__retire_func(m->w, i);
		if (i % 8 == 0)
			capw__retire_thread(m->w, i - 7);
	}
	assert_true(mallinfo2().uordblks - before < 24 << 20);
	assert_int_equal(capw__flush(m->w, NULL), 0);
	assert_int_equal(capw__enter(m->w, 1, ns, TRACE_CALL, 1), -EINVAL);
	assert_int_equal(capw__depth(m->w, 1), 0);
	assert_int_equal(maker_finish(m), 0);
	seen_init(&s);
	assert_int_equal(decode(m->fd, &s, NULL), 0);
	assert_null(s.broken);
	assert_int_equal(s.func_cnt, 400000);
	assert_int_equal(s.thread_cnt, 50000);
	assert_int_equal(s.totals.written, 400000 + 396000);
	seen_done(&s);
	maker_free(m);
}

static void test_capfile__definitions_have_a_bound(void **state)
{
	struct maker *m = maker_new(0);
	char name[60001];
	int err = 0;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	define_process(m->w, 1, "python3");
	for (uint32_t i = 1; i < 1000 && !err; i++)
		err = define_func_named(m->w, i, 1, name, name);
	assert_int_equal(err, -ENOMEM);
	for (uint32_t i = 1; i < 1000; i++)
		capw__retire_func(m->w, i);
	assert_int_equal(define_func_named(m->w, 1001, 1, name, name), 0);
	check_round_trip(m);
}

static void test_capfile__refuses_what_makes_no_sense(void **state)
{
	struct maker *m = maker_new(0);
	struct trace_thread orphan = { .id = 5, .process = 77, .name = "" };
	struct trace_func f = { .id = 5, .process = 77, .name = "" };
	struct trace_gap gap = { .thread = 9 };

	(void)state;
	assert_int_equal(capw__thread(m->w, &orphan), -EINVAL);
	assert_int_equal(capw__func(m->w, &f), -EINVAL);
	define_process(m->w, 1, "python3");
	define_thread(m->w, 1, 1);
	define_func(m->w, 1, 1);
	assert_int_equal(capw__enter(m->w, 2, 1, TRACE_CALL, 1), -EINVAL);
	assert_int_equal(capw__enter(m->w, 1, 1, TRACE_CALL, 2), -EINVAL);
	assert_int_equal(capw__enter(m->w, UINT32_MAX, 1, TRACE_CALL, UINT32_MAX), -EINVAL);
	assert_int_equal(capw__enter(m->w, 1, 1, TRACE_RETURN, 1), -EINVAL);
	assert_int_equal(capw__enter(m->w, 1, UINT64_MAX, TRACE_CALL, 1), -EINVAL);
	assert_int_equal(capw__leave(m->w, 1, 1, TRACE_RETURN), -EINVAL);
	assert_int_equal(capw__leave(m->w, 1, 1, TRACE_OPEN), -EINVAL);
	assert_int_equal(capw__gap(m->w, &gap), -EINVAL);
	capw__retire_func(m->w, 12);
	capw__retire_thread(m->w, 12);
	make_enter(m, 1, 50, TRACE_CALL, 1);
	assert_int_equal(capw__leave(m->w, 1, 40, TRACE_RETURN), 0); /* raised to 50 */
	recs_add(&m->want,
		 &(struct rec){
			 .ts_ns = 50, .thread = 1, .func = 1, .kind = TRACE_RETURN, .number = 1 });
	check_round_trip(m);
}

static void test_capfile__write_errors(void **state)
{
	const struct capw_opts opts = { .chunk_bytes = 1 };
	struct trace_totals totals = { 0 };
	FILE *full = fopen("/dev/full", "w");
	struct capw *w = NULL;
	int fds[2], err = 0;

	(void)state;
	if (full) {
		assert_int_equal(capw__new(&w, fileno(full), &opts, &some_info), -ENOSPC);
		fclose(full);
	}
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(capw__new(&w, fds[1], &opts, &some_info), 0);
	close(fds[0]);
	define_process(w, 1, "python3");
	define_thread(w, 1, 1);
	define_func(w, 1, 1);
	for (uint32_t i = 0; i < 10000; i++) {
		int e = capw__enter(w, 1, i, TRACE_CALL, 1);

		assert_true(e == 0 || e == -EPIPE);
		err |= e;
	}
	assert_int_equal(err, -EPIPE);
	assert_int_equal(capw__depth(w, 1), 10000);
	assert_int_equal(capw__written(w) + capw__lost(w), 10000);
	assert_int_equal(capw__finish(w, &totals), -EPIPE);
	assert_int_equal(capw__lost(w), 10000);
	capw__free(w);
	close(fds[1]);
}

/* The disk is full for a while: what could not be written is a gap, and the rest can be read. */
static void test_capfile__survives_a_full_disk(void **state)
{
	struct maker *m = maker_new(4096);
	struct rlimit old, limit;
	uint64_t pushed = 0;
	uint32_t seed = 99;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	define_process(m->w, 1, "python3");
	for (uint32_t i = 1; i <= 300; i++)
		define_func(m->w, i, 1);
	for (uint32_t i = 1; i <= 5; i++)
		define_thread(m->w, i, 1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t r = random_next(&seed), t = 1 + r % 5;
		int err = 0;

		if (i == 40000 || i == 50000) {
			limit = old;
			if (i == 40000)
				limit.rlim_cur = capw__bytes(m->w) + 100;
			assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		}
		if (capw__depth(m->w, t) > r / 8 % 20)
			err = capw__leave(m->w, t, 10 + i, TRACE_RETURN);
		else
			err = capw__enter(m->w, t, 10 + i, TRACE_CALL, 1 + r / 256 % 300);
		assert_true(err == 0 || err == -EFBIG);
		pushed++;
	}
	assert_int_equal(capw__written(m->w) + capw__lost(m->w), pushed);
	assert_int_equal(maker_finish(m), -EFBIG);
	check_losses(m, pushed);
	maker_free(m);
}

static void test_capfile__reads_a_pipe(void **state)
{
	struct maker *m = maker_new(0);
	uint8_t buf[60000];
	struct seen s;
	int fds[2];
	ssize_t n;

	(void)state;
	random_trace(m, 77, 3, 3);
	assert_int_equal(maker_finish(m), 0);
	assert_int_equal(pipe(fds), 0);
	n = pread(m->fd, buf, sizeof(buf), 0);
	assert_true(n > 0 && (size_t)n < sizeof(buf));
	assert_int_equal(write(fds[1], buf, (size_t)n), n);
	close(fds[1]);
	seen_init(&s);
	assert_int_equal(decode_file(fds[0], &seen_consumer, &s, NULL), 0);
	check_same(m, &s);
	assert_true(s.totals.complete);
	seen_done(&s);
	close(fds[0]);
	maker_free(m);
}

static void test_decode__consumer_may_stop_or_want_nothing(void **state)
{
	const struct trace_consumer nothing = { 0 };
	struct maker *m = maker_new(4096);
	struct seen s;

	(void)state;
	random_trace(m, 78, 10, 10);
	assert_int_equal(maker_finish(m), 0);
	for (int after = 1; after < 10000; after += 1000) {
		seen_init(&s);
		s.fail_after = after;
		assert_int_equal(decode(m->fd, &s, NULL), -ECANCELED);
		assert_int_equal(s.end_cnt, 0);
		seen_done(&s);
	}
	assert_int_equal(lseek(m->fd, 0, SEEK_SET), 0);
	assert_int_equal(decode_file(m->fd, &nothing, NULL, NULL), 0);
	maker_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capfile__round_trip),
		cmocka_unit_test(test_capfile__info_and_definitions),
		cmocka_unit_test(test_capfile__long_names_are_cut_between_characters),
		cmocka_unit_test(test_capfile__changes_are_told_again),
		cmocka_unit_test(test_capfile__stays_deep_over_chunks),
		cmocka_unit_test(test_capfile__deep_one_after_the_other),
		cmocka_unit_test(test_capfile__too_deep_is_a_gap),
		cmocka_unit_test(test_capfile__hidden_thread_may_end_or_lose),
		cmocka_unit_test(test_capfile__forgets_what_is_retired),
		cmocka_unit_test(test_capfile__definitions_have_a_bound),
		cmocka_unit_test(test_capfile__refuses_what_makes_no_sense),
		cmocka_unit_test(test_capfile__write_errors),
		cmocka_unit_test(test_capfile__survives_a_full_disk),
		cmocka_unit_test(test_capfile__reads_a_pipe),
		cmocka_unit_test(test_decode__consumer_may_stop_or_want_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
