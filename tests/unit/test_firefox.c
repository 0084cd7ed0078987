// SPDX-License-Identifier: Apache-2.0
/*
 * The Firefox exporter, fed with synthetic traces. Without an argument: cmocka tests of the JSON.
 * With a folder: writes each trace there as NAME.json.gz (parts as NAME-2.json.gz, ...) and as
 * NAME.ndjson, for tests/readers/test_firefox.py, which compares the two, checks the files strictly
 * and reads them with the viewer's own loader.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "export/export.h"
#include "export/firefox_map.h"
#include "export/firefox_memory.h"
#include "export/firefox_place.h"
#include "trace_push.h"

enum {
	PARTS_MAX = 16,
	NS_START = 1000
};

/* What an exporter wrote, part by part, as it was compressed. */
struct parts {
	unsigned char *data[PARTS_MAX];
	size_t len[PARTS_MAX];
	unsigned int cnt;
	int fail_after; /* writes that succeed before -ENOSPC; < 0: all */
};

static int parts_write(void *ctx, const void *data, size_t len)
{
	struct parts *p = ctx;
	unsigned int at = p->cnt - 1;

	if (!p->fail_after)
		return -ENOSPC;
	if (p->fail_after > 0)
		p->fail_after--;
	p->data[at] = realloc(p->data[at], p->len[at] + len);
	assert_non_null(p->data[at]);
	memcpy(p->data[at] + p->len[at], data, len);
	p->len[at] += len;
	return 0;
}

static int parts_next(void *ctx)
{
	struct parts *p = ctx;

	assert_true(p->cnt < PARTS_MAX);
	p->cnt++;
	return 0;
}

static void parts_free(struct parts *p)
{
	for (unsigned int i = 0; i < p->cnt; i++)
		free(p->data[i]);
}

/* The JSON of a part, NUL-terminated; checks the gzip member and that nothing follows it. */
static char *parts_text(const struct parts *p, unsigned int part)
{
	size_t size = p->len[part] * 200 + 65536;
	char *text = malloc(size);
	z_stream z = { .next_in = p->data[part],
		       .avail_in = (uInt)p->len[part],
		       .next_out = (unsigned char *)text,
		       .avail_out = (uInt)size - 1 };

	assert_non_null(text);
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	text[z.total_out] = '\0';
	inflateEnd(&z);
	return text;
}

typedef void (*feed_fn)(struct push *p);

static void export_to(feed_fn feed, uint64_t split_events, bool can_split, struct parts *parts)
{
	const struct export_opts opts = { .split_events = split_events };
	const struct export_out out = { .ctx = parts,
					.write = parts_write,
					.next = can_split ? parts_next : NULL };
	struct push p = { .to = &export_firefox.consumer };

	*parts = (struct parts){ .cnt = 1, .fail_after = -1 };
	assert_int_equal(exporter__new(&export_firefox, &p.self, &opts, &out), 0);
	feed(&p);
	exporter__free(&export_firefox, p.self);
}

static char *export_one(feed_fn feed)
{
	struct parts parts;
	char *text;

	export_to(feed, 0, true, &parts);
	assert_int_equal(parts.cnt, 1);
	text = parts_text(&parts, 0);
	parts_free(&parts);
	return text;
}

static void assert_has(const char *text, const char *piece)
{
	if (!strstr(text, piece))
		fail_msg("%s is not in %s", piece, text);
}

static void assert_lacks(const char *text, const char *piece)
{
	if (strstr(text, piece))
		fail_msg("%s is in %s", piece, text);
}

/* --- traces --- */

static void push_process_full(struct push *p, uint32_t id, uint32_t pid, uint64_t end_ns)
{
	static const char *const roots[] = { "/srv/app/lib", "/srv/app", NULL };
	const struct trace_process process = { .id = id,
					       .pid = pid,
					       .start_ns = NS_START,
					       .end_ns = end_ns,
					       .comm = "python3",
					       .exe = "/usr/bin/python3.11",
					       .python = "3.11",
					       .import_roots = roots,
					       .prefix = "/usr/lib/python3.11" };

	assert_int_equal(p->to->process(p->self, &process), 0);
}

static void push_main_thread(struct push *p, uint32_t id, uint32_t process, uint32_t tid,
			     const char *name, uint64_t start_ns, uint64_t end_ns)
{
	const struct trace_thread thread = { .id = id,
					     .process = process,
					     .tid = tid,
					     .is_main = true,
					     .start_ns = start_ns,
					     .end_ns = end_ns,
					     .name = name };

	assert_int_equal(p->to->thread(p->self, &thread), 0);
}

static void begin_one_thread(struct push *p)
{
	push_begin(p, (struct trace_cost){ 100, 90, 300, 310 });
	push_process_full(p, 1, 4242, 0);
	push_main_thread(p, 1, 1, 4242, "python3", NS_START, 0);
	push_func(p, 1, 1, "<module>", "/srv/app/main.py", 1);
	push_func(p, 2, 1, "work", "/srv/app/main.py", 10);
	push_func(p, 3, 1, "JSONEncoder.encode", "/usr/lib/python3.11/json/encoder.py", 183);
	push_func(p, 4, 1, "get", "/usr/lib/python3/dist-packages/requests/api.py", 62);
	push_func(p, 5, 1, "_find_spec", "<frozen importlib._bootstrap>", 921);
}

/* <module> calls work twice with nothing between, and is left open. */
static void feed_twice(struct push *p)
{
	begin_one_thread(p);
	push_event(p, 1, 1000, TRACE_CALL, 1);
	push_event(p, 1, 2500, TRACE_CALL, 2);
	push_event(p, 1, 4000, TRACE_RETURN, 2);
	push_event(p, 1, 4000, TRACE_CALL, 2);
	push_event(p, 1, 9000, TRACE_RETURN, 2);
	push_end(p, 1001000, 5, 0);
}

static void feed_categories(struct push *p)
{
	begin_one_thread(p);
	for (uint32_t func = 1; func <= 5; func++)
		push_event(p, 1, 1000 * func, TRACE_CALL, func);
	for (uint32_t func = 5; func >= 1; func--)
		push_event(p, 1, 1000 * (12 - func), TRACE_RETURN, func);
	push_end(p, 20000, 10, 0);
}

/* A loss in the middle, a stack of three found again at one moment, a switch of greenlets. */
static void feed_gaps(struct push *p)
{
	begin_one_thread(p);
	push_event(p, 1, 2000, TRACE_OPEN, 1);
	push_event(p, 1, 2000, TRACE_OPEN, 2);
	push_event(p, 1, 3000, TRACE_CALL, 3);
	push_gap(p, 1, 4000, 8000, 17, GAP_LOSS);
	push_event(p, 1, 8000, TRACE_OPEN, 1);
	push_event(p, 1, 8000, TRACE_OPEN, 2);
	push_event(p, 1, 8000, TRACE_OPEN, 4);
	push_event(p, 1, 9000, TRACE_UNWIND, 4);
	push_gap(p, 1, 9500, 9500, 0, GAP_SWITCH);
	push_event(p, 1, 9500, TRACE_OPEN, 1);
	push_event(p, 1, 9900, TRACE_RETURN, 1);
	push_end(p, 10000, 3, 17);
}

static void feed_empty(struct push *p)
{
	push_begin(p, (struct trace_cost){ 0 });
	push_end(p, NS_START, 0, 0);
}

/* Two processes with one pid after another, threads that start and end, a generator. */
static void feed_processes(struct push *p)
{
	begin_one_thread(p);
	push_thread(p, 2, 1, 4243, "Renderer", 0);
	push_event(p, 1, 2000, TRACE_CALL, 1);
	push_event(p, 2, 2000, TRACE_CALL, 2);
	push_event(p, 2, 2500, TRACE_YIELD, 2);
	push_event(p, 2, 2600, TRACE_RESUME, 2);
	push_event(p, 2, 2700, TRACE_THROW, 3);
	push_event(p, 2, 2800, TRACE_UNWIND, 3);
	push_thread(p, 2, 1, 4243, "Renderer", 50000);
	push_process_full(p, 1, 4242, 60000);
	push_process_full(p, 2, 4242, 0);
	push_main_thread(p, 3, 2, 4242, "", 70000, 0);
	push_func(p, 6, 2, "work", "/srv/app/main.py", 10);
	push_event(p, 3, 71000, TRACE_CALL, 6);
	push_gap(p, 3, 72000, 73000, 0, GAP_EXEC);
	push_end(p, 5000000000, 7, 0);
}

static void feed_names(struct push *p)
{
	begin_one_thread(p);
	push_func(p, 6, 1, "sur\xed\xb2\x80rogate", "/srv/\xff\"\\\n.py", 0);
	push_func(p, 7, 1, "nul\xc0\x80in \xf0\x9f\x90\x8d", "", 7);
	push_func(p, 8, 1, "sur\x80rogate", "<string>", 1);
	push_event(p, 1, 2000, TRACE_CALL, 6);
	push_event(p, 1, 3000, TRACE_CALL, 7);
	push_event(p, 1, 4000, TRACE_CALL, 8);
	push_end(p, 9000, 3, 0);
}

/* Two threads, recursion and loops: long enough for pieces and for many parts. */
static void feed_long(struct push *p)
{
	uint64_t ts_ns = 5000, written = 0, random = 88172645463325252u;

	begin_one_thread(p);
	push_thread(p, 2, 1, 4243, "worker", 0);
	for (unsigned int i = 0; i < 60000; i++) {
		uint32_t thread = 1 + i / 7 % 2;
		uint32_t depth = p->depth[thread];

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		ts_ns += random % 3000;
		if (depth < 2 || (depth < 12 && random >> 32 & 1))
			push_event(p, thread, ts_ns, TRACE_CALL, 1 + (uint32_t)(random >> 40) % 5);
		else
			push_event(p, thread, ts_ns, TRACE_RETURN, 1);
		written++;
		if (i % 9973 == 9972)
			push_gap(p, thread, ts_ns + 1, ts_ns + 50, 3, GAP_LOSS);
	}
	push_end(p, ts_ns + 1000000, written, 18);
}

/* Five threads with steps of 0 to 2 ns, every kind of event, stacks found again, ends. */
static void feed_wild(struct push *p)
{
	uint64_t ts_ns = 5000, written = 0, lost = 0, random = 88172645463325252u;

	begin_one_thread(p);
	for (uint32_t thread = 2; thread <= 5; thread++)
		push_thread(p, thread, 1, 4250 + thread, "worker", 0);
	for (unsigned int i = 0; i < 20000; i++) {
		uint32_t thread, func;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		thread = 1 + (uint32_t)(random >> 8) % 5;
		func = 1 + (uint32_t)(random >> 16) % 5;
		ts_ns += random % 3;
		if (random >> 24 & 1 && p->depth[thread]) {
			push_event(p, thread, ts_ns, TRACE_RETURN + (random >> 25) % 3, func);
		} else if ((random >> 32) % 50) {
			push_event(p, thread, ts_ns, TRACE_CALL + (random >> 40) % 3, func);
		} else {
			push_gap(p, thread, ts_ns, ts_ns + 1, random >> 40 & 1,
				 random >> 40 & 1 ? GAP_LOSS : GAP_WINDOW);
			lost += random >> 40 & 1;
			for (uint32_t found = 1; found < func; found++)
				push_event(p, thread, ts_ns + 1, TRACE_OPEN, found);
			continue;
		}
		written++;
	}
	push_thread(p, 5, 1, 4255, "worker", ts_ns / 2);
	push_end(p, ts_ns, written, lost);
}

/* --- tests --- */

static void test_every_change_is_a_sample(void **state)
{
	auto_free char *text = export_one(feed_twice);

	(void)state;
	/* work, 1 ns of <module>, work again, <module> to the end, null */
	assert_has(text, "\"stack\":[0,1,0,1,0,null],");
	assert_has(text, "\"timeDeltas\":[0,0.0015,0.0015,0.000001,0.004999,0.992],");
	assert_has(text, "\"weight\":[0.0015,0.0015,0.000001,0.004999,0.992,0]");
	assert_has(text, "\"weightType\":\"tracing-ms\"");
	assert_has(text, "\"preprocessedProfileVersion\":70");
	assert_has(text, "\"pid\":\"4242\",\"tid\":4242");
	assert_has(text, "\"startTime\":1700000000000,");
	assert_has(text, "\"stackTable\":{\"frame\":[0,1],\"prefixOffset\":[0,1],\"length\":2}");
	assert_has(text, "\"lineNumber\":[1,10]");
	assert_lacks(text, "threadCPUDelta\":[");
}

static void test_categories(void **state)
{
	auto_free char *text = export_one(feed_categories);

	(void)state;
	assert_has(text, "\"category\":[1,1,3,2,4],\"subcategory\":[0,0,0,0,0]");
	assert_has(text, "\"resource\":[0,0,1,2,3]");
	assert_has(text, "\"User code\"");
}

static void test_gaps_are_not_bridged(void **state)
{
	auto_free char *text = export_one(feed_gaps);

	(void)state;
	/* a stack found frame by frame at one moment is one sample */
	assert_has(text,
		   "\"stack\":[1,2,null,3,1,null,0,null],"
		   "\"timeDeltas\":[0.001,0.001,0.001,0.004,0.001,0.0005,0.000001,0.000399],");
	assert_has(text, "{\"type\":\"PyLost\",\"reason\":\"lost\",\"count\":17}");
	assert_has(text, "{\"type\":\"PyGap\",\"reason\":\"switch\",\"count\":0}");
	assert_has(text, "{\"label\":\"Lost: ring\",\"format\":\"integer\",\"value\":17}");
	assert_has(text, "{\"label\":\"Lost: user\",\"format\":\"integer\",\"value\":0}");
}

static void test_empty_trace(void **state)
{
	auto_free char *text = export_one(feed_empty);

	(void)state;
	assert_has(text, "no threads seen");
	assert_has(text, "\"profilingEndTime\":0.000001");
	assert_has(text, "\"initialVisibleThreads\":[0]");
}

static void test_processes(void **state)
{
	auto_free char *text = export_one(feed_processes);

	(void)state;
	assert_has(text, "\"pid\":\"4242 (2)\"");
	assert_has(text, "\"name\":\"Thread Renderer\"");
	assert_has(text, "\"name\":\"Thread 4242\"");
	assert_has(text, "\"Process exec\"");
	assert_has(text, "\"processShutdownTime\":0.059,");
	assert_has(text, "\"unregisterTime\":0.049,");
	/* one frame for the same function of two processes */
	assert_has(text, "\"lineNumber\":[1,10,183],");
}

static void test_names(void **state)
{
	auto_free char *text = export_one(feed_names);

	(void)state;
	assert_has(text, "\"sur\\udc80rogate\",\"/srv/\\udcff\\\"\\\\\\n.py\"");
	assert_has(text, "\"nul\\u0000in ");
	/* a byte that is no UTF-8 is the same as the surrogate that stands for it */
	assert_null(strstr(strstr(text, "sur\\udc80rogate") + 1, "sur\\udc80rogate"));
	assert_has(text, "\"lineNumber\":[null,7,1]");
	assert_has(text, "\"source\":[0,null,1]");
}

static void test_split(void **state)
{
	struct parts parts;

	(void)state;
	export_to(feed_long, 10000, true, &parts);
	assert_int_equal(parts.cnt, 6);
	for (unsigned int i = 0; i < parts.cnt; i++) {
		auto_free char *text = parts_text(&parts, i);
		char label[64];

		snprintf(label, sizeof(label), "\"value\":\"part %u%s\"", i + 1,
			 i == 5 ? " (last)" : "");
		assert_has(text, label);
		assert_has(text, "{\"label\":\"Events in this file\",\"format\":\"integer\","
				 "\"value\":10000}");
	}
	parts_free(&parts);
	export_to(feed_long, 10000, false, &parts);
	assert_int_equal(parts.cnt, 1);
	{
		auto_free char *text = parts_text(&parts, 0);

		assert_has(text, "could not be split");
	}
	parts_free(&parts);
}

/* 120,000 waits of 1 to 1,200 us, an eighth of them without a stack. */
static void feed_waits(struct push *p)
{
	static const struct trace_frame frames[] = { { 1, 12 } };
	struct trace_sample s = { .thread = 1, .off_cpu = true, .frames = frames, .count = 1 };

	p->sample_ns = 1000000;
	begin_one_thread(p);
	push_func(p, 1, 1, "ask", "/srv/ask.py", 10);
	s.ts_ns = NS_START;
	for (uint32_t i = 0; i < 120000; i++) {
		s.weight_ns = 1000 * (1 + i % 1200);
		s.ts_ns += s.weight_ns;
		s.frame_cnt = i % 8 ? 1 : 0;
		s.reason = i % 2 ? REASON_LOCK : REASON_GIL;
		s.lock = i % 2 ? 0xabc : 0;
		assert_int_equal(p->to->sample(p->self, &s), 0);
	}
	push_end(p, s.ts_ns, 120000, 0);
}

/* 100,000 changes of a process's memory, to 3 GiB and back to 1 byte less than it began with. */
static void feed_memory(struct push *p)
{
	struct trace_memory m = { .thread = 1 };

	p->sample_ns = 1000000;
	begin_one_thread(p);
	for (uint32_t i = 0; i <= 100000; i++) {
		m.ts_ns = NS_START + 10000000ull * i;
		m.rss_bytes = (i < 50000 ? i : 100000 - i) * 65536ull + (i < 100000 ? 2 : 1);
		assert_int_equal(p->to->memory(p->self, &m), 0);
	}
	push_end(p, m.ts_ns, 0, 0);
}

/* Memory has so many points at most, evenly, and the newest. */
static void test_memory_is_thinned(void **state)
{
	auto_free char *text = export_one(feed_memory);
	const char *counter = strstr(text, "\"counters\":[{\"name\":\"RSS\""), *at;
	int64_t bytes = 0, most = 0;
	uint64_t cnt = 0, length;
	char *next;

	(void)state;
	assert_non_null(counter);
	length = strtoull(strstr(counter, "\"length\":") + 9, NULL, 10);
	assert_in_range(length, FF_MEMORY_POINTS / 2, FF_MEMORY_POINTS);
	for (at = strstr(counter, "\"count\":[") + 8; *at != ']'; at = next) {
		bytes += strtoll(at + 1, &next, 10);
		most = bytes > most ? bytes : most;
		cnt++;
	}
	assert_int_equal(cnt, length);
	assert_int_equal(bytes, 1);
	assert_in_range(most, 3270000000 - 2 * 3276800000 / (length / 2), 3276800002);
}

static uint64_t count_of(const char *text, const char *what)
{
	uint64_t n = 0;

	for (text = strstr(text, what); text; text = strstr(text + 1, what))
		n++;
	return n;
}

/* The longest waits have markers, the others are counted; samples have all of them. */
static void test_waits_are_thinned(void **state)
{
	auto_free char *text = export_one(feed_waits);
	const char *left =
		strstr(text, "\"Waits without a marker\",\"format\":\"integer\",\"value\":");
	const char *min =
		strstr(text, "\"as they were shorter than\",\"format\":\"nanoseconds\",\"value\":");
	uint64_t markers = count_of(text, "\"type\":\"PyLockWait\"") +
			   count_of(text, "\"type\":\"PyGILWait\"");
	uint64_t shorter, min_us;

	(void)state;
	assert_non_null(left);
	assert_non_null(min);
	min_us = strtoull(strstr(min, "value") + 7, NULL, 10) / 1000;
	shorter = strtoull(strstr(left, "value") + 7, NULL, 10);
	assert_in_range(min_us, 2, 1200);
	/* of 1,200 lengths, the same number of each, those below the smallest one that is kept */
	assert_int_equal(shorter, (min_us - 1) * 100);
	assert_int_equal(markers, 120000 - shorter);
	assert_has(text, "\"name\":\"Lock wait\"");
	assert_has(text, "\"line\":\"/srv/ask.py:12\",\"lockType\":\"lock\",\"lock\":\"0xabc\"");
	assert_has(text, "\"samples\":{\"length\":120001,");
}

static void test_errors(void **state)
{
	const struct export_opts opts = { 0 };
	struct parts parts = { .cnt = 1, .fail_after = 0 };
	const struct export_out out = { .ctx = &parts, .write = parts_write };
	const struct trace_event event = { .thread = 7 };
	const struct trace_totals totals = { .end_ns = 5000 };
	struct push p = { .to = &export_firefox.consumer };

	(void)state;
	assert_int_equal(exporter__new(&export_firefox, &p.self, &opts, &out), 0);
	begin_one_thread(&p);
	assert_true(p.to->event(p.self, &event) < 0);
	assert_int_equal(p.to->end(p.self, &totals), -ENOSPC);
	exporter__free(&export_firefox, p.self);
	parts_free(&parts);
	exporter__free(&export_firefox, NULL);
}

static void test_place(void **state)
{
	static const char *const roots[] = { "/srv/app/", "/srv", NULL };
	static const struct {
		const char *file, *prefix, *package;
		enum ff_category category;
	} cases[] = {
		{ "/srv/app/pkg/mod.py", "", "pkg", FF_CAT_USER },
		{ "/srv/app/main.py", "", "main", FF_CAT_USER },
		{ "/srv/tool.py", "", "tool", FF_CAT_USER },
		{ "/home/u/x.py", "", "x", FF_CAT_USER },
		{ "x.py", "", "x", FF_CAT_USER },
		{ "<string>", "", "", FF_CAT_USER },
		{ "", "", "", FF_CAT_OTHER },
		{ "<frozen importlib._bootstrap_external>", "", "importlib", FF_CAT_IMPORTLIB },
		{ "<frozen os>", "", "os", FF_CAT_STDLIB },
		{ "/usr/lib/python3.11/os.py", "/usr/lib/python3.11", "os", FF_CAT_STDLIB },
		{ "/usr/lib/python3.11/json/a.py", "/usr/lib/python3.11/", "json", FF_CAT_STDLIB },
		{ "/usr/lib/python3.11/importlib/util.py", "/usr/lib/python3.11", "importlib",
		  FF_CAT_IMPORTLIB },
		{ "/opt/py/lib/python3.13t/re/_x.py", "", "re", FF_CAT_STDLIB },
		{ "/opt/py/lib/python313.zip/abc.py", "", "abc", FF_CAT_STDLIB },
		{ "/opt/py/lib/python3.13/site-packages/six.py", "/opt/py/lib/python3.13", "six",
		  FF_CAT_PACKAGES },
		{ "/usr/lib/python3/dist-packages/apt/cache.py", "/usr/lib/python3.11", "apt",
		  FF_CAT_PACKAGES },
		{ "/srv/python3things/x.py", "", "python3things", FF_CAT_USER },
		{ "/home/u/python3/x.py", "", "x", FF_CAT_USER },
		{ "/home/u/python3.11/x.py", "", "x", FF_CAT_USER },
		{ "/home/u/mylib/python3.11/x.py", "", "x", FF_CAT_USER },
		{ "/home/u/lib/python3/x.py", "", "x", FF_CAT_USER },
		{ "/home/u/lib/python311/x.py", "", "x", FF_CAT_USER },
		{ "/home/u/app.zip/pkg/x.py", "", "x", FF_CAT_USER },
		{ "lib/python3.9/os.py", "", "os", FF_CAT_STDLIB },
		{ "/usr/lib64/python3.12/os.py", "", "os", FF_CAT_STDLIB },
		{ "/opt/d/lib/python3.13td/os.py", "", "os", FF_CAT_STDLIB },
		{ "/opt/python3/lib/python3.9/os.py", "", "os", FF_CAT_STDLIB },
		{ "/home/u/venv/lib/python3.12/site-packages/six.py", "", "six", FF_CAT_PACKAGES },
		{ "/usr/local/lib/python3.11/dist-packages/a/b.py", "", "a", FF_CAT_PACKAGES },
		{ "/v/lib/python3.9/site-packages/a.egg/a/b.py", "", "a.egg", FF_CAT_PACKAGES },
		{ "<frozen __main__>", "", "", FF_CAT_USER },
		{ "<frozen zipimport>", "", "zipimport", FF_CAT_STDLIB },
		{ "<stdin>", "", "", FF_CAT_USER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ff_place place = ff_place_of(cases[i].file, cases[i].prefix, roots);
		char package[64] = "";

		assert_true(place.package_len < sizeof(package));
		memcpy(package, place.package, place.package_len);
		assert_int_equal(place.category, cases[i].category);
		assert_string_equal(package, cases[i].package);
	}
}

static void test_map(void **state)
{
	struct ff_map m = { 0 };

	(void)state;
	assert_int_equal(ff_map__find(&m, 5), FF_NONE);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 100000; i++)
			assert_int_equal(ff_map__add(&m, (uint64_t)i * 7919 << 20), i);
		for (uint32_t i = 0; i < 100000; i++)
			assert_int_equal(ff_map__find_id(&m, (uint64_t)i * 7919 << 20), i);
		assert_int_equal(ff_map__find(&m, 1), FF_NONE);
		ff_map__clear(&m);
		assert_int_equal(ff_map__find_id(&m, 0), FF_NONE);
	}
	ff_map__done(&m);
}

/* --- files for other readers --- */

struct folder {
	const char *path, *name, *extension;
	unsigned int part;
	int fd;
};

static int folder_next(void *ctx)
{
	struct folder *f = ctx;
	char path[4096], part[16] = "";

	if (f->fd >= 0)
		close(f->fd);
	if (++f->part > 1)
		snprintf(part, sizeof(part), "-%u", f->part);
	snprintf(path, sizeof(path), "%s/%s%s%s", f->path, f->name, part, f->extension);
	f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return f->fd < 0 ? -errno : 0;
}

static int folder_write(void *ctx, const void *data, size_t len)
{
	const struct folder *f = ctx;

	return write(f->fd, data, len) == (ssize_t)len ? 0 : -EIO;
}

static int write_file(const char *path, const char *name, feed_fn feed, uint64_t split_events,
		      const struct exporter *format)
{
	const struct export_opts opts = { .split_events = split_events };
	struct folder f = { path, name, format->extensions[0], 0, -1 };
	const struct export_out out = { .ctx = &f, .write = folder_write, .next = folder_next };
	struct push p = { .to = &format->consumer };

	if (folder_next(&f) || exporter__new(format, &p.self, &opts, &out))
		return 1;
	feed(&p);
	exporter__free(format, p.self);
	return close(f.fd);
}

static int write_files(const char *path)
{
	/* clang-format off */
	static const struct {
		const char *name;
		feed_fn feed;
		uint64_t split_events;
	} files[] = {
		{ "twice",      feed_twice,      0 },
		{ "categories", feed_categories, 0 },
		{ "gaps",       feed_gaps,       0 },
		{ "empty",      feed_empty,      0 },
		{ "names",      feed_names,      0 },
		{ "processes",  feed_processes,  0 },
		{ "long",       feed_long,       0 },
		{ "split",      feed_long,       10000 },
		{ "wild",       feed_wild,       0 },
		{ "wildsplit",  feed_wild,       777 },
	};
	/* clang-format on */
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(files) / sizeof(*files); i++) {
		err = write_file(path, files[i].name, files[i].feed, files[i].split_events,
				 &export_firefox);
		if (!err && !files[i].split_events)
			err = write_file(path, files[i].name, files[i].feed, 0, &export_ndjson);
	}
	return err;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_change_is_a_sample),
		cmocka_unit_test(test_categories),
		cmocka_unit_test(test_gaps_are_not_bridged),
		cmocka_unit_test(test_empty_trace),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_waits_are_thinned),
		cmocka_unit_test(test_memory_is_thinned),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_map),
	};

	if (argc > 1)
		return write_files(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
