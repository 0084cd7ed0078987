// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/outbuf.h"
#include "export/export.h"

#include "trace_push.h"

static void test_ndjson__every_kind_of_line(void **state)
{
	static const char want[] =
		"{\"ts_ns\":2000,\"pid\":77,\"tid\":78,\"ev\":\"open\",\"func\":\"<module>\","
		"\"name\":\"<module>\",\"file\":\"/a.py\",\"line\":1,\"depth\":0}\n"
		"{\"ts_ns\":2001,\"pid\":77,\"tid\":78,\"ev\":\"call\",\"func\":\"f\\udc80\\\"\","
		"\"name\":\"f\\udc80\\\"\",\"file\":\"/a.py\",\"line\":4294967295,\"depth\":1}\n"
		"{\"ts_ns\":2002,\"pid\":77,\"tid\":78,\"ev\":\"yield\",\"func\":\"f\\udc80\\\"\","
		"\"name\":\"f\\udc80\\\"\",\"file\":\"/a.py\",\"line\":4294967295,\"depth\":1}\n"
		"{\"ts_ns\":2003,\"pid\":77,\"tid\":78,\"ev\":\"gap\",\"reason\":\"lost\",\"n\":5,"
		"\"until_ns\":18446744073709551615}\n"
		"{\"ev\":\"meta\",\"ts_ns\":3000,\"generated\":7,\"written\":2,\"dropped\":{\"ring\":5,"
		"\"map\":0,\"read\":0,\"kernel\":0,\"user\":0,\"throttle\":0},\"probe_ns\":25,"
		"\"probe_entry_ns\":30,\"probe_exit_ns\":20,\"start_ns\":1000,"
		"\"start_unix_ns\":1700000000000000000,\"complete\":true,\"engine\":\"uprobe\","
		"\"version\":\"0.1.0\"}\n";
	struct membuf got = { 0 };
	const struct export_out out = { .ctx = &got, .write = membuf__write };
	const struct export_opts opts = { 0 };
	struct push p = { .to = &export_ndjson.consumer };

	(void)state;
	assert_int_equal(exporter__new(&export_ndjson, &p.self, &opts, &out), 0);
	push_begin(&p, (struct trace_cost){ 10, 5, 20, 15 });
	push_process(&p, 1, 77, "python3");
	push_thread(&p, 1, 1, 78, "main", 0);
	push_func(&p, 1, 1, "<module>", "/a.py", 1);
	push_func(&p, 2, 1, "f\xed\xb2\x80\"", "/a.py", UINT32_MAX);
	push_event(&p, 1, 2000, TRACE_OPEN, 1);
	push_event(&p, 1, 2001, TRACE_CALL, 2);
	push_event(&p, 1, 2002, TRACE_YIELD, 2);
	push_gap(&p, 1, 2003, UINT64_MAX, 5, GAP_LOSS);
	push_end(&p, 3000, 2, 5);
	membuf__write(&got, "", 1);
	assert_string_equal(got.data, want);
	exporter__free(&export_ndjson, p.self);
	exporter__free(&export_ndjson, NULL);
	membuf__done(&got);
}

static int disk_full(void *ctx, const void *data, size_t len)
{
	(void)ctx, (void)data, (void)len;
	return -28;
}

static void test_ndjson__stops_when_the_disk_is_full(void **state)
{
	const struct export_out out = { .write = disk_full };
	const struct export_opts opts = { 0 };
	struct push p = { .to = &export_ndjson.consumer };
	const struct trace_event event = { .thread = 1, .func = 1 };
	int err = 0;

	(void)state;
	assert_int_equal(exporter__new(&export_ndjson, &p.self, &opts, &out), 0);
	push_begin(&p, (struct trace_cost){ 0 });
	push_process(&p, 1, 77, "python3");
	push_thread(&p, 1, 1, 78, "main", 0);
	push_func(&p, 1, 1, "f", "/a.py", 1);
	for (int i = 0; i < 100000 && !err; i++)
		err = p.to->event(p.self, &event);
	assert_int_equal(err, -28);
	exporter__free(&export_ndjson, p.self);
}

static void test_exporters__by_name_and_path(void **state)
{
	(void)state;
	assert_ptr_equal(exporter_by_name("ndjson"), &export_ndjson);
	assert_ptr_equal(exporter_by_path("dir/x.ndjson"), &export_ndjson);
	assert_null(exporter_by_path(".ndjson"));
	assert_null(exporter_by_path("x.pyebpf"));
	assert_null(exporter_by_name("nope"));
	for (size_t i = 0; exporter_at(i); i++) {
		assert_ptr_equal(exporter_by_name(exporter_at(i)->name), exporter_at(i));
		assert_non_null(exporter_at(i)->help);
		assert_non_null(exporter_at(i)->extensions[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ndjson__every_kind_of_line),
		cmocka_unit_test(test_ndjson__stops_when_the_disk_is_full),
		cmocka_unit_test(test_exporters__by_name_and_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
