// SPDX-License-Identifier: Apache-2.0
/*
 * All of `pyebpf convert`: a capture, or a profile of another tool, from any bytes into each format, and what
 * `stats` prints. The first byte chooses the format, the second one its options and an output that fails after
 * so many bytes; the rest is the file, as capture_input.h has it. JSON that was written whole is JSON, and what
 * our importers read is read again.
 */
#include <errno.h>
#include <yajl/yajl_parse.h>

#include "capfile/format.h"
#include "capture_input.h"
#include "checker.h"
#include "decode/decode.h"
#include "export/export.h"
#include "export/stats.h"
#include "export/summary.h"
#include "import/import.h"
#include "import/sink.h"

enum {
	PUSHED_MAX = 20000,
	FAIL_AFTER = 0x20, /* of the second byte: this and what is above count KiB */
	TEXT_MAX = CAP_STRING_MAX > SINK_TEXT_MAX ? CAP_STRING_MAX : SINK_TEXT_MAX
};

struct output {
	uint8_t *data;
	size_t len, room, fail_after;
	bool failed;
};

static const char *const json_formats[] = { "firefox", "speedscope", "chrometrace", "ndjson",
					    NULL };
static const char *const read_formats[] = { "firefox",	 "speedscope", "pprof",
					    "collapsed", "pstats",     NULL };

static bool is_one_of(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

static int on_write(void *ctx, const void *data, size_t len)
{
	struct output *o = ctx;

	if (o->len + len > o->fail_after) {
		o->failed = true;
		return -ENOSPC;
	}
	while (o->len + len > o->room) {
		o->room = o->room ? 2 * o->room : 65536;
		o->data = realloc(o->data, o->room);
		demand(o->data != NULL);
	}
	memcpy(o->data + o->len, data, len);
	o->len += len;
	return 0;
}

static void check_json(const struct output *o)
{
	yajl_handle h = yajl_alloc(NULL, NULL, NULL);

	demand(h != NULL);
	yajl_config(h, yajl_allow_multiple_values, 1);
	demand(yajl_parse(h, o->data, o->len) == yajl_status_ok);
	demand(yajl_complete_parse(h) == yajl_status_ok);
	yajl_free(h);
}

/* A part that is whole. */
static int on_next(void *ctx)
{
	struct output *o = ctx;

	check_json(o);
	o->len = 0;
	return 0;
}

static void on_note(void *ctx, const char *sentence)
{
	(void)ctx;
	demand(strlen(sentence) > 0);
}

/* As input_read(). */
static int read_input(int fd, const struct trace_consumer *consumer, void *self, struct err *e)
{
	return decode_is_capture(fd) ? decode_file(fd, consumer, self, e)
				     : import_file(fd, NULL, consumer, self, e);
}

static int run(int fd, const struct trace_consumer *next, void *next_self, uint64_t *pushed)
{
	static struct checker c;
	struct err e = { 0 };
	int err;

	memset(&c, 0, sizeof(c));
	c.text_max = TEXT_MAX;
	c.depth_max = CAP_DEPTH_MAX;
	c.pushed_max = PUSHED_MAX;
	c.next = next;
	c.next_self = next_self;
	demand(lseek(fd, 0, SEEK_SET) == 0);
	err = read_input(fd, &checker_consumer, &c, &e);
	demand(err != -PYE_EFORMAT || e.what[0]);
	*pushed = c.pushed;
	return err;
}

static void read_again(const struct output *o)
{
	int fd = input_file(o->data, o->len);
	uint64_t pushed;

	demand(!run(fd, NULL, NULL, &pushed));
	close(fd);
}

static void convert(int fd, const struct exporter *format, uint8_t how)
{
	const struct export_opts opts = { .raw = how & 1,
					  .plain = true,
					  .split_events = how & 2 ? 4 : 0,
					  .max_events = how & 4 ? 3 : 0 };
	struct output o = { .fail_after = how >= FAIL_AFTER ? (size_t)(how / FAIL_AFTER) << 10
							    : SIZE_MAX };
	const struct export_out out = {
		.ctx = &o, .write = on_write, .next = how & 8 ? on_next : NULL, .note = on_note
	};
	uint64_t pushed;
	void *self;
	int err;

	if (format->missing || exporter__new(format, &self, &opts, &out))
		return;
	err = run(fd, &format->consumer, self, &pushed);
	demand(!o.failed || err);
	if (!err && is_one_of(json_formats, format->name))
		check_json(&o);
	/* collapsed has nothing but stacks with time */
	if (!err && o.len && is_one_of(read_formats, format->name))
		read_again(&o);
	exporter__free(format, self);
	free(o.data);
}

static void print_stats(const struct aggregate *agg, uint8_t how)
{
	const struct agg_result *r = aggregate__result(agg);
	struct output o = { .fail_after = SIZE_MAX };
	FILE *null = fopen("/dev/null", "we");
	struct ranking k = { 0 };
	struct outbuf b;

	demand(null && !outbuf__init(&b, 4096, on_write, &o));
	summary_print(null, agg, 10);
	demand(!ranking__init(&k, r, (enum ranking_by)(how % 5), (enum ranking_sort)(how / 8 % 3),
			      false));
	stats_print(null, r, &k, 10);
	stats_json(&b, r, &k, 10);
	demand(!outbuf__flush(&b));
	check_json(&o);
	ranking__done(&k);
	outbuf__done(&b);
	fclose(null);
	free(o.data);
}

static void stats(int fd, uint8_t how)
{
	const struct aggregate_opts opts = { .raw = how & 1, .max_stacks = how & 2 ? 5 : 0 };
	struct aggregate *agg;
	uint64_t pushed;

	demand(!aggregate__new(&agg, &opts));
	if (!run(fd, &aggregate_consumer, agg, &pushed))
		print_stats(agg, how);
	aggregate__free(agg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t cnt = 0;
	int fd;

	if (size < 3)
		return 0;
	while (exporter_at(cnt))
		cnt++;
	fd = capture_input(data + 2, size - 2);
	if (data[0] % (cnt + 1) < cnt)
		convert(fd, exporter_at(data[0] % (cnt + 1)), data[1]);
	else
		stats(fd, data[1]);
	close(fd);
	return 0;
}
