// SPDX-License-Identifier: Apache-2.0
/* Samples through a capture: random stacks, which share much and little, over many chunks, and back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "capture_make.h"
#include "decode/decode.h"
#include "profile/aggregate.h"

#define FUNCS	100u
#define THREADS 3u
#define SAMPLES 6000u

struct kept {
	struct trace_sample sample;
	struct trace_frame *frames;
};

struct samples {
	struct kept want[SAMPLES];
	uint32_t at;
	uint32_t memory_cnt, func_cnt;
	uint64_t weight_ns, off_ns;
};

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static int see_sample(void *self, const struct trace_sample *got)
{
	struct samples *s = self;
	const struct trace_sample *want = &s->want[s->at].sample;

	assert_in_range(s->at, 0, SAMPLES - 1);
	assert_int_equal(got->ts_ns, want->ts_ns);
	assert_int_equal(got->weight_ns, want->weight_ns);
	assert_int_equal(got->thread, want->thread);
	assert_int_equal(got->off_cpu, want->off_cpu);
	assert_int_equal(got->reason, want->reason);
	assert_int_equal(got->lock, want->lock);
	assert_int_equal(got->lock_type, want->lock_type);
	assert_int_equal(got->frame_cnt, want->frame_cnt);
	if (want->frame_cnt)
		assert_memory_equal(got->frames, s->want[s->at].frames,
				    want->frame_cnt * sizeof(got->frames[0]));
	s->at++;
	return 0;
}

/* Each seventh sample has one before it. */
static uint64_t memory_at(uint32_t i)
{
	return (uint64_t)i << (i % 40);
}

static int see_memory(void *self, const struct trace_memory *got)
{
	struct samples *s = self;

	assert_int_equal(s->at % 7, 0);
	assert_int_equal(got->ts_ns, s->want[s->at].sample.ts_ns);
	assert_int_equal(got->thread, s->want[s->at].sample.thread);
	assert_int_equal(got->rss_bytes, memory_at(s->at));
	s->memory_cnt++;
	return 0;
}

/* Those of other kinds come after Python's, so that there are chunks without any. */
static uint8_t kind_of(uint32_t func)
{
	return func <= FUNCS / 2 ? FUNC_PYTHON : func % 2 ? FUNC_NATIVE : FUNC_KERNEL;
}

static int see_func(void *self, const struct trace_func *got)
{
	struct samples *s = self;

	assert_int_equal(got->kind, kind_of(got->id));
	assert_int_equal(got->line, got->id);
	s->func_cnt++;
	return 0;
}

static void define(struct capw *w)
{
	define_process(w, 1, "python3");
	for (uint32_t t = 1; t <= THREADS; t++)
		define_thread(w, t, 1);
	for (uint32_t f = 1; f <= FUNCS; f++) {
		char name[16];
		struct trace_func func = { .id = f,
					   .process = 1,
					   .line = f,
					   .kind = kind_of(f),
					   .name = name,
					   .qualname = name,
					   .file = "a.py" };

		snprintf(name, sizeof(name), "f%u", f);
		assert_int_equal(capw__func(w, &func), 0);
	}
}

static void write_samples(struct capw *w, struct samples *s)
{
	struct trace_frame now[THREADS + 1][TRACE_SAMPLE_FRAMES];
	uint32_t len[THREADS + 1] = { 0 }, seed = 7;

	for (uint32_t i = 0; i < SAMPLES; i++) {
		uint32_t thread = 1 + next_random(&seed) % THREADS;
		uint32_t funcs = i < SAMPLES / 2 ? FUNCS / 2 : FUNCS;
		uint32_t keep = next_random(&seed) % (len[thread] + 1);
		uint32_t cnt = i % 500 == 499 ? TRACE_SAMPLE_FRAMES
					      : keep + next_random(&seed) % 20;
		struct kept *k = &s->want[i];

		if (cnt > TRACE_SAMPLE_FRAMES)
			cnt = TRACE_SAMPLE_FRAMES;
		for (uint32_t n = keep; n < cnt; n++)
			now[thread][n] = (struct trace_frame){ 1 + next_random(&seed) % funcs,
							       next_random(&seed) % 3000 };
		len[thread] = cnt;
		k->frames = calloc(cnt + 1ul, sizeof(k->frames[0]));
		assert_non_null(k->frames);
		memcpy(k->frames, now[thread], cnt * sizeof(k->frames[0]));
		k->sample = (struct trace_sample){ .ts_ns = 1000 + 10 * i,
						   .weight_ns = next_random(&seed),
						   .frames = k->frames,
						   .frame_cnt = cnt,
						   .thread = thread,
						   .off_cpu = next_random(&seed) & 1,
						   .reason = next_random(&seed) % REASON_CNT,
						   .lock = i % 3 ? 0 : 0x7f0000000000 + 16 * i,
						   .lock_type = i % 6 ? 0 : i / 6 % LOCK_CNT };
		const struct trace_memory memory = { k->sample.ts_ns, memory_at(i), thread };

		if (i % 7 == 0)
			assert_int_equal(capw__memory(w, &memory), 0);
		assert_int_equal(capw__sample(w, &k->sample), 0);
		s->weight_ns += cnt ? k->sample.weight_ns : 0;
		s->off_ns += cnt && k->sample.off_cpu ? k->sample.weight_ns : 0;
	}
}

static void test_samples__round_trip(void **state)
{
	const struct trace_info info = { .start_ns = 10, .sample_ns = 1000, .engine = "sample" };
	const struct capw_opts opts = { .chunk_bytes = 64 << 10 };
	const struct trace_consumer see = { .func = see_func,
					    .sample = see_sample,
					    .memory = see_memory };
	const struct trace_totals totals = {
		.end_ns = 100000, .generated = SAMPLES, .written = SAMPLES, .complete = true
	};
	struct samples *s = calloc(1, sizeof(*s));
	int fd = memfd_create("samples", MFD_CLOEXEC);
	struct aggregate *agg = NULL;
	const struct agg_result *r;
	struct err e = { 0 };
	struct capw *w;

	(void)state;
	assert_non_null(s);
	assert_int_equal(capw__new(&w, fd, &opts, &info), 0);
	define(w);
	write_samples(w, s);
	assert_int_equal(capw__written(w), SAMPLES);
	assert_int_equal(capw__finish(w, &totals), 0);
	capw__free(w);
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(decode_file(fd, &see, s, &e), 0);
	assert_string_equal(e.what, "");
	assert_int_equal(s->at, SAMPLES);
	assert_int_equal(s->memory_cnt, (SAMPLES + 6) / 7);
	assert_int_equal(s->func_cnt, FUNCS);
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(aggregate__new(&agg, NULL), 0);
	assert_int_equal(decode_file(fd, &aggregate_consumer, agg, &e), 0);
	r = aggregate__result(agg);
	assert_int_equal(r->sample_ns, 1000);
	assert_int_equal(r->self_ns, s->weight_ns);
	assert_int_equal(r->off_ns, s->off_ns);
	aggregate__free(agg);
	for (uint32_t i = 0; i < SAMPLES; i++)
		free(s->want[i].frames);
	free(s);
	close(fd);
}

static void test_samples__refused(void **state)
{
	const struct trace_info info = { .start_ns = 10, .sample_ns = 1000, .engine = "sample" };
	const struct trace_frame unknown = { 7777, 1 };
	struct trace_sample sample = { .ts_ns = 20, .thread = 1 };
	int fd = memfd_create("samples", MFD_CLOEXEC);
	struct capw *w;

	(void)state;
	assert_int_equal(capw__new(&w, fd, NULL, &info), 0);
	define(w);
	sample.frames = &unknown;
	sample.frame_cnt = 1;
	assert_int_equal(capw__sample(w, &sample), -EINVAL);
	sample.frame_cnt = TRACE_SAMPLE_FRAMES + 1;
	assert_int_equal(capw__sample(w, &sample), -EINVAL);
	sample.frame_cnt = 0;
	sample.lock_type = LOCK_CNT;
	assert_int_equal(capw__sample(w, &sample), -EINVAL);
	sample.lock_type = 0;
	sample.thread = 99;
	assert_int_equal(capw__sample(w, &sample), -EINVAL);
	assert_int_equal(capw__memory(w, &(struct trace_memory){ 20, 1, 99 }), -EINVAL);
	assert_int_equal(capw__written(w), 0);
	capw__free(w);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples__round_trip),
		cmocka_unit_test(test_samples__refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
