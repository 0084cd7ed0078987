// SPDX-License-Identifier: Apache-2.0
/* Slices of a thread, by the formats made of them: gaps, frames open at the end, odd names, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/outbuf.h"
#include "export/export.h"
#include "export/speedscope_stacks.h"

#include "trace_push.h"

struct note {
	struct membuf got; /* first: the ctx of membuf__write() */
	char text[512];
};

static void take_note(void *ctx, const char *sentence)
{
	struct note *n = ctx;

	snprintf(n->text, sizeof(n->text), "%s", sentence);
}

static struct push start_sampled(const struct exporter *x, struct note *n, struct export_out *out,
				 uint64_t max_events, uint64_t sample_ns)
{
	const struct export_opts opts = { .plain = true, .max_events = max_events };
	struct push p = { .to = &x->consumer, .sample_ns = sample_ns };

	*out = (struct export_out){ .ctx = n, .write = membuf__write, .note = take_note };
	assert_int_equal(exporter__new(x, &p.self, &opts, out), 0);
	push_begin(&p, (struct trace_cost){ 0 });
	push_process(&p, 1, 77, "py\"thon");
	push_thread(&p, 1, 1, 78, "a\x1b\xed\xb2\x80", 0);
	push_func(&p, 1, 1, "<module>", "/usr/lib/python3.12/a.py", 1);
	push_func(&p, 2, 1, "</script>\xff\n\"", "", 2);
	return p;
}

static struct push start(const struct exporter *x, struct note *n, struct export_out *out,
			 uint64_t max_events)
{
	return start_sampled(x, n, out, max_events, 0);
}

/* Ends the text, so that it can be compared. */
static const char *text_of(struct note *n)
{
	membuf__write(&n->got, "", 1);
	return n->got.data;
}

static void finish(const struct exporter *x, struct push *p, struct note *n)
{
	exporter__free(x, p->self);
	exporter__free(x, NULL);
	membuf__done(&n->got);
}

/* What every such format has to get right. */
static void feed(struct push *p)
{
	push_event(p, 1, 1000, TRACE_OPEN, 1);
	push_event(p, 1, 1100, TRACE_CALL, 2);
	push_event(p, 1, 1103, TRACE_YIELD, 2);
	push_event(p, 1, 1104, TRACE_RESUME, 2);
	push_gap(p, 1, 1110, 1200, 5, GAP_LOSS);
	push_event(p, 1, 1200, TRACE_OPEN, 1);
	push_gap(p, 1, 1210, UINT64_MAX, 0, GAP_SWITCH);
	push_event(p, 1, 1220, TRACE_CALL, 2);
	push_end(p, 3000, 5, 5);
}

#define SPEEDSCOPE_HEAD                                                                     \
	"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":" \
	"\"pyebpf 0.1.0\",\"name\":\"pyebpf: py\\\"thon 77\",\"activeProfileIndex\":0,"     \
	"\"shared\":{\"frames\":[{\"name\":\"<module>\",\"file\":\"/usr/lib/python3.12/"    \
	"a.py\",\"line\":1},{\"name\":\"</script>\\\\xff\\\\x0a\\\"\",\"line\":2},"         \
	"{\"name\":\"[lost 5]\"},{\"name\":\"[unknown: switch]\"}]},\"profiles\":[\n"

static void test_speedscope__every_kind_of_slice(void **state)
{
	static const char want[] = SPEEDSCOPE_HEAD
		"{\"type\":\"evented\",\"name\":\"py\\\"thon 77 / a\\\\x1b\\\\udc80 78\","
		"\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":2000,\"events\":["
		"{\"type\":\"O\",\"frame\":0,\"at\":0},{\"type\":\"O\",\"frame\":1,\"at\":100},"
		"{\"type\":\"C\",\"frame\":1,\"at\":103},{\"type\":\"O\",\"frame\":1,\"at\":104},"
		"{\"type\":\"C\",\"frame\":1,\"at\":110},{\"type\":\"C\",\"frame\":0,\"at\":110},"
		"{\"type\":\"O\",\"frame\":2,\"at\":110},{\"type\":\"C\",\"frame\":2,\"at\":200},"
		"{\"type\":\"O\",\"frame\":0,\"at\":200},{\"type\":\"C\",\"frame\":0,\"at\":210},"
		"{\"type\":\"O\",\"frame\":3,\"at\":210},{\"type\":\"C\",\"frame\":3,\"at\":220},"
		"{\"type\":\"O\",\"frame\":1,\"at\":220},{\"type\":\"C\",\"frame\":1,\"at\":2000}"
		"]}]}\n";
	struct note n = { 0 };
	struct export_out out;
	struct push p = start(&export_speedscope, &n, &out, 0);

	(void)state;
	feed(&p);
	assert_string_equal(text_of(&n), want);
	assert_string_equal(n.text, "");
	finish(&export_speedscope, &p, &n);
}

static void sample(struct push *p, uint64_t ts_ns, uint64_t weight_ns, uint32_t cnt, uint32_t outer,
		   uint32_t inner)
{
	const struct trace_frame frames[] = { { .func = outer }, { .func = inner } };
	const struct trace_sample s = {
		.ts_ns = ts_ns,
		.weight_ns = weight_ns,
		.frames = frames,
		.frame_cnt = cnt,
		.thread = 1,
	};

	assert_int_equal(p->to->sample(p->self, &s), 0);
}

/* Frames that samples share go on over less than a tick; not over a time without samples, however much
 * the next one stands for, nor to the end of the trace. */
static void test_speedscope__samples(void **state)
{
	struct note n = { 0 };
	struct export_out out;
	struct push p = start_sampled(&export_speedscope, &n, &out, 0, 100);

	(void)state;
	sample(&p, 1100, 100, 2, 1, 2);
	sample(&p, 1200, 100, 2, 1, 2);
	sample(&p, 1305, 100, 1, 1, 0);
	sample(&p, 1900, 100, 2, 2, 1);
	sample(&p, 2500, 450, 2, 2, 1);
	push_end(&p, 3000, 5, 0);
	assert_non_null(strstr(text_of(&n), "[{\"type\":\"O\",\"frame\":0,\"at\":0},"
					    "{\"type\":\"O\",\"frame\":1,\"at\":0},"
					    "{\"type\":\"C\",\"frame\":1,\"at\":205},"
					    "{\"type\":\"C\",\"frame\":0,\"at\":305},"
					    "{\"type\":\"O\",\"frame\":1,\"at\":800},"
					    "{\"type\":\"O\",\"frame\":0,\"at\":800},"
					    "{\"type\":\"C\",\"frame\":0,\"at\":900},"
					    "{\"type\":\"C\",\"frame\":1,\"at\":900},"
					    "{\"type\":\"O\",\"frame\":1,\"at\":1050},"
					    "{\"type\":\"O\",\"frame\":0,\"at\":1050},"
					    "{\"type\":\"C\",\"frame\":0,\"at\":1500},"
					    "{\"type\":\"C\",\"frame\":1,\"at\":1500}]"));
	finish(&export_speedscope, &p, &n);
}

/* A thread that ended, and one whose clock a gap has put ahead of its next event. */
static void test_speedscope__times_never_go_back(void **state)
{
	struct note n = { 0 };
	struct export_out out;
	struct push p = start(&export_speedscope, &n, &out, 0);

	(void)state;
	push_event(&p, 1, 2000, TRACE_CALL, 1);
	push_event(&p, 1, 1500, TRACE_CALL, 2);
	push_thread(&p, 1, 1, 78, "x", 2500);
	push_end(&p, 3000, 2, 0);
	assert_non_null(strstr(text_of(&n), "[{\"type\":\"O\",\"frame\":0,\"at\":1000},"
					    "{\"type\":\"O\",\"frame\":1,\"at\":1000},"
					    "{\"type\":\"C\",\"frame\":1,\"at\":1500},"
					    "{\"type\":\"C\",\"frame\":0,\"at\":1500}]"));
	finish(&export_speedscope, &p, &n);
}

static void test_speedscope__one_event_too_many(void **state)
{
	struct note n = { 0 };
	struct export_out out;
	struct push p = start(&export_speedscope, &n, &out, 13);

	(void)state;
	feed(&p);
	assert_non_null(strstr(text_of(&n), "\"type\":\"sampled\""));
	assert_non_null(strstr(n.got.data, "(aggregated: not in order of time, 14 events are too "
					   "many)\",\"unit\":\"nanoseconds\",\"startValue\":0"));
	assert_non_null(strstr(n.text, "14 events are too many for speedscope (13)"));
	finish(&export_speedscope, &p, &n);
	n = (struct note){ 0 };
	p = start(&export_speedscope, &n, &out, 14);
	feed(&p);
	assert_non_null(strstr(text_of(&n), "\"type\":\"evented\""));
	finish(&export_speedscope, &p, &n);
}

static uint64_t sum_of_numbers(const char *list)
{
	uint64_t sum = 0;

	for (char *end; *list != ']'; list = *end == ',' ? end + 1 : end)
		sum += strtoull(list, &end, 10);
	return sum;
}

/* More distinct stacks than are written: those with the least time are one, and no time is lost. */
static void test_speedscope__too_many_stacks(void **state)
{
	enum {
		FUNCS = SS_STACKS_MAX + 1000
	};
	struct note n = { 0 };
	struct export_out out;
	struct push p = start(&export_speedscope, &n, &out, 1);
	uint64_t ts_ns = 1000;
	char name[32];
	unsigned int samples = 0;

	(void)state;
	for (uint32_t i = 0; i < FUNCS; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		push_func(&p, 10 + i, 1, name, "/a.py", 1);
		push_event(&p, 1, ts_ns, TRACE_CALL, 10 + i);
		ts_ns += 1 + i;
		push_event(&p, 1, ts_ns, TRACE_RETURN, 10 + i);
	}
	push_end(&p, ts_ns, 2ull * FUNCS, 0);
	assert_int_equal(sum_of_numbers(strstr(text_of(&n), "\"weights\":[") + 11), ts_ns - 1000);
	/* 1 + 2 + ... + 1000 */
	assert_non_null(strstr(n.got.data, ",500500,0]}]}\n"));
	for (const char *at = strstr(n.got.data, "\"samples\":["); at; at = strchr(at + 1, '['))
		samples++;
	/* the others and the gaps, the two arrays themselves, and where the walk began */
	assert_int_equal(samples, SS_STACKS_MAX + 2 + 2 + 1);
	finish(&export_speedscope, &p, &n);
}

#define MODULE "\"name\":\"<module> (a.py:1)\",\"pid\":77,\"tid\":78,\"ts\":"
#define SCRIPT "\"name\":\"</script>\\\\xff\\\\x0a\\\"\",\"pid\":77,\"tid\":78,\"ts\":"
#define LOST   "\"name\":\"[lost 5]\",\"pid\":77,\"tid\":78,\"ts\":"
#define SWITCH "\"name\":\"[unknown: switch]\",\"pid\":77,\"tid\":78,\"ts\":"

static void test_chrometrace__every_kind_of_slice(void **state)
{
	static const char want[] =
		"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
		"{\"ph\":\"B\"," MODULE "0},\n{\"ph\":\"B\"," SCRIPT "0.100},\n"
		"{\"ph\":\"E\"," SCRIPT "0.103},\n{\"ph\":\"B\"," SCRIPT "0.104},\n"
		"{\"ph\":\"E\"," SCRIPT "0.110},\n{\"ph\":\"E\"," MODULE "0.110},\n"
		"{\"ph\":\"B\"," LOST "0.110},\n{\"ph\":\"E\"," LOST "0.200},\n"
		"{\"ph\":\"B\"," MODULE "0.200},\n{\"ph\":\"E\"," MODULE "0.210},\n"
		"{\"ph\":\"B\"," SWITCH "0.210},\n{\"ph\":\"E\"," SWITCH "0.220},\n"
		"{\"ph\":\"B\"," SCRIPT "0.220},\n{\"ph\":\"E\"," SCRIPT "2},\n"
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":77,\"tid\":0,\"ts\":0,"
		"\"args\":{\"name\":\"py\\\"thon\"}},\n"
		"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":77,\"tid\":78,\"ts\":0,"
		"\"args\":{\"name\":\"a\\\\x1b\\\\udc80\"}}\n"
		"],\"otherData\":{\"version\":\"0.1.0\",\"engine\":\"uprobe\","
		"\"hostname\":\"host\",\"kernel\":\"6.1\",\"arguments\":\"pyebpf trace -p 1\","
		"\"start_unix_ns\":\"1700000000000000000\",\"generated\":\"10\","
		"\"written\":\"5\",\"lost_ring\":\"5\",\"lost_map\":\"0\",\"lost_read\":\"0\","
		"\"lost_kernel\":\"0\",\"lost_user\":\"0\",\"lost_throttle\":\"0\","
		"\"complete\":\"true\"}}\n";
	struct note n = { 0 };
	struct export_out out;
	struct push p = start(&export_chrometrace, &n, &out, 0);

	(void)state;
	feed(&p);
	assert_string_equal(text_of(&n), want);
	finish(&export_chrometrace, &p, &n);
}

/* A thread id that is used again: what its first owner left open ends before the second begins. */
static void test_chrometrace__a_thread_id_again(void **state)
{
	struct note n = { 0 };
	struct export_out out;
	struct push p = start(&export_chrometrace, &n, &out, 0);

	(void)state;
	push_event(&p, 1, 1000, TRACE_CALL, 1);
	push_event(&p, 1, 1100, TRACE_CALL, 2);
	push_thread(&p, 2, 1, 78, "again", 0);
	push_event(&p, 2, 1200, TRACE_CALL, 2);
	push_end(&p, 3000, 3, 0);
	assert_non_null(strstr(text_of(&n),
			       "{\"ph\":\"B\"," SCRIPT "0.100},\n{\"ph\":\"E\"," SCRIPT
			       "0.100},\n{\"ph\":\"E\"," MODULE "0.100},\n{\"ph\":\"B\"," SCRIPT
			       "0.200},\n{\"ph\":\"E\"," SCRIPT "2},\n{\"ph\":\"M\""));
	finish(&export_chrometrace, &p, &n);
}

static int disk_full(void *ctx, const void *data, size_t len)
{
	(void)ctx, (void)data, (void)len;
	return -28;
}

static void test_all__stop_when_the_disk_is_full(void **state)
{
	static const struct exporter *const all[] = { &export_speedscope, &export_chrometrace,
						      &export_pstats, &export_text };
	const struct export_out out = { .write = disk_full };
	const struct trace_totals totals = { .end_ns = 5000 };
	const struct export_opts opts = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct push p = { .to = &all[i]->consumer };

		assert_int_equal(exporter__new(all[i], &p.self, &opts, &out), 0);
		push_begin(&p, (struct trace_cost){ 0 });
		assert_int_equal(p.to->end(p.self, &totals), -28);
		exporter__free(all[i], p.self);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_speedscope__every_kind_of_slice),
		cmocka_unit_test(test_speedscope__samples),
		cmocka_unit_test(test_speedscope__times_never_go_back),
		cmocka_unit_test(test_speedscope__one_event_too_many),
		cmocka_unit_test(test_speedscope__too_many_stacks),
		cmocka_unit_test(test_chrometrace__every_kind_of_slice),
		cmocka_unit_test(test_chrometrace__a_thread_id_again),
		cmocka_unit_test(test_all__stop_when_the_disk_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
