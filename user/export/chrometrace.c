// SPDX-License-Identifier: Apache-2.0
/*
 * The Trace Event Format, which Perfetto and chrome://tracing open: a B event where a frame is
 * entered and an E event where it is left, with the names of processes and threads at the end.
 * Nothing of the events is kept; what repeats in them is made once, as in ndjson.c.
 *
 * Times are microseconds since the capture began, with three decimals: as a double, what a reader
 * makes of them, they are exact to the nanosecond for 104 days.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/idmap.h"
#include "export/export.h"
#include "export/fragments.h"
#include "export/gzip.h"
#include "export/json.h"
#include "export/timeline.h"
#include "profile/place.h"

enum {
	BUFFER_BYTES = 256 << 10
};

struct chrometrace {
	struct timeline timeline;
	struct gzip *gzip; /* NULL: plain */
	struct outbuf out;
	struct fragments fragments;
	uint32_t *thread_fragments, *func_fragments; /* by index */
	uint32_t thread_cap, func_cap;
	struct idmap owners; /* pid, tid -> the newest thread that is called so */
	bool any; /* an event was written */
	bool full_files;
	uint32_t about; /* the capture; a fragment */
};

static void chrometrace__done(void *self)
{
	struct chrometrace *c = self;

	timeline__done(&c->timeline);
	gzip__free(c->gzip);
	outbuf__done(&c->out);
	fragments__done(&c->fragments);
	idmap__done(&c->owners);
	free(c->thread_fragments);
	free(c->func_fragments);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): GROW writes to it */
static int set_at(uint32_t **array, uint32_t *cap, uint32_t index, uint32_t value)
{
	if (GROW(*array, *cap, index))
		return -ENOMEM;
	(*array)[index] = value;
	return 0;
}

static void put_ids(const struct chrometrace *c, uint32_t thread, struct outbuf *b)
{
	const struct timeline_thread *t = &c->timeline.threads[thread];

	outbuf__puts(b, "\"pid\":");
	json_u64(b, c->timeline.processes[t->process].pid);
	outbuf__puts(b, ",\"tid\":");
	json_u64(b, t->tid);
}

/* A reader tells threads apart by pid and tid alone: what one left open must not go on in the next. */
static int on_thread_defined(void *ctx, uint32_t thread)
{
	struct chrometrace *c = ctx;
	const struct timeline_thread *t = &c->timeline.threads[thread];
	uint64_t key = (uint64_t)c->timeline.processes[t->process].pid << 32 | t->tid;
	uint32_t owner = idmap__find(&c->owners, key), id;
	struct outbuf b;
	int err;

	err = owner != IDMAP_NONE && owner != thread ? timeline_close_thread(&c->timeline, owner)
						     : 0;
	err = err ? err : idmap__set(&c->owners, key, thread);
	err = err ? err : fragment_begin(&c->fragments, &b);
	if (err)
		return err;
	outbuf__putc(&b, ',');
	put_ids(c, thread, &b);
	outbuf__puts(&b, ",\"ts\":");
	err = fragment_end(&c->fragments, &b, &id);
	return err ? err : set_at(&c->thread_fragments, &c->thread_cap, thread, id);
}

static int on_func_defined(void *ctx, uint32_t func, const struct trace_func *def)
{
	struct chrometrace *c = ctx;
	const char *file = def->file;
	struct outbuf b;
	uint32_t id;
	int err = fragment_begin(&c->fragments, &b);

	if (err)
		return err;
	if (def->kind != FUNC_PYTHON)
		file = c->full_files ? file : trace_native_file(file);
	else if (!c->full_files)
		file = place_short_file(file);
	outbuf__puts(&b, "\"name\":\"");
	json_shown_body(&b, def->qualname);
	if (*file) {
		outbuf__puts(&b, " (");
		json_shown_body(&b, file);
		if (def->kind == FUNC_PYTHON) {
			outbuf__putc(&b, ':');
			json_u64(&b, def->line);
		}
		outbuf__putc(&b, ')');
	}
	outbuf__putc(&b, '"');
	err = fragment_end(&c->fragments, &b, &id);
	return err ? err : set_at(&c->func_fragments, &c->func_cap, func, id);
}

static char *append(char *at, const char *data, size_t len)
{
	memcpy(at, data, len);
	return at + len;
}

static void put_thread_and_time(struct chrometrace *c, uint32_t thread, uint64_t ns)
{
	const struct strpool_str *ids = &c->fragments.pool.strs[c->thread_fragments[thread]];
	char *at = outbuf__room(&c->out, ids->len + JSON_US_MAX + 1);

	at = append(at, ids->s, ids->len);
	at = json_fmt_us(at, ns);
	*at++ = '}';
	outbuf__used(&c->out, at);
}

static void put_separator(struct chrometrace *c)
{
	if (c->any)
		outbuf__put(&c->out, ",\n", 2);
	c->any = true;
}

/* The format does not ask for a name where a slice ends, but some of its readers do. */
static int put_slice(struct chrometrace *c, const char head[static 10], uint32_t thread,
		     uint64_t ns, uint32_t func)
{
	const struct strpool_str *name;
	char gap[64];

	put_separator(c);
	outbuf__put(&c->out, head, 10);
	if (func == TIMELINE_GAP) {
		outbuf__puts(&c->out, "\"name\":");
		json_str(&c->out,
			 timeline_gap_name(gap, sizeof(gap), &c->timeline.threads[thread].gap));
	} else {
		name = &c->fragments.pool.strs[c->func_fragments[func]];
		outbuf__put(&c->out, name->s, name->len);
	}
	put_thread_and_time(c, thread, ns);
	return c->out.err;
}

static int on_open(void *ctx, uint32_t thread, uint64_t ns, uint32_t func)
{
	return put_slice(ctx, "{\"ph\":\"B\",", thread, ns, func);
}

static int on_gap_opened(void *ctx, uint32_t thread, uint64_t ns, const struct trace_gap *gap)
{
	(void)gap;
	return put_slice(ctx, "{\"ph\":\"B\",", thread, ns, TIMELINE_GAP);
}

static int on_close(void *ctx, uint32_t thread, uint64_t ns, uint32_t func)
{
	return put_slice(ctx, "{\"ph\":\"E\",", thread, ns, func);
}

static const struct timeline_ops timeline_ops = {
	.thread = on_thread_defined,
	.func = on_func_defined,
	.open = on_open,
	.gap = on_gap_opened,
	.close = on_close,
};

static int chrometrace__init(void *self, const struct export_opts *opts,
			     const struct export_out *out)
{
	struct chrometrace *c = self;
	int err;

	c->full_files = opts->full_files;
	err = timeline__init(&c->timeline, &timeline_ops, c);
	err = err ? err : fragments__init(&c->fragments);
	return err ? err
		   : gzip_front(&c->gzip, opts->plain, &c->out, BUFFER_BYTES, out->write, out->ctx);
}

static void put_text(struct outbuf *b, const char *member, const char *text)
{
	outbuf__puts(b, member);
	json_shown(b, text);
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct chrometrace *c = self;
	struct outbuf b;
	int err = fragment_begin(&c->fragments, &b);

	if (err)
		return err;
	put_text(&b, "\"version\":", info->version);
	put_text(&b, ",\"engine\":", info->engine);
	put_text(&b, ",\"hostname\":", info->hostname);
	put_text(&b, ",\"kernel\":", info->kernel);
	put_text(&b, ",\"arguments\":", info->arguments);
	outbuf__puts(&b, ",\"start_unix_ns\":\"");
	json_i64(&b, info->start_unix_ns);
	outbuf__putc(&b, '"');
	err = fragment_end(&c->fragments, &b, &c->about);
	outbuf__puts(&c->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	return err ? err : timeline_begin(&c->timeline, info);
}

static int on_process(void *self, const struct trace_process *process)
{
	return timeline_process(&((struct chrometrace *)self)->timeline, process);
}

static int on_thread(void *self, const struct trace_thread *thread)
{
	return timeline_thread(&((struct chrometrace *)self)->timeline, thread);
}

static int on_func(void *self, const struct trace_func *func)
{
	return timeline_func(&((struct chrometrace *)self)->timeline, func);
}

static int on_event(void *self, const struct trace_event *event)
{
	return timeline_event(&((struct chrometrace *)self)->timeline, event);
}

static int on_sample(void *self, const struct trace_sample *sample)
{
	return timeline_sample(&((struct chrometrace *)self)->timeline, sample);
}

static int on_gap(void *self, const struct trace_gap *gap)
{
	return timeline_gap(&((struct chrometrace *)self)->timeline, gap);
}

static void put_names(struct chrometrace *c)
{
	const struct timeline *t = &c->timeline;
	struct outbuf *b = &c->out;

	for (uint32_t i = 0; i < t->process_cnt; i++) {
		put_separator(c);
		outbuf__puts(b, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":");
		json_u64(b, t->processes[i].pid);
		put_text(b, ",\"tid\":0,\"ts\":0,\"args\":{\"name\":",
			 strpool__get(&t->strings, t->processes[i].comm));
		outbuf__puts(b, "}}");
	}
	for (uint32_t i = 0; i < t->thread_cnt; i++) {
		put_separator(c);
		outbuf__puts(b, "{\"ph\":\"M\",\"name\":\"thread_name\",");
		put_ids(c, i, b);
		put_text(b, ",\"ts\":0,\"args\":{\"name\":",
			 strpool__get(&t->strings, t->threads[i].name));
		outbuf__puts(b, "}}");
	}
}

/* Numbers are texts here: readers take these for labels. */
static void put_totals(struct chrometrace *c, const struct trace_totals *totals)
{
	struct outbuf *b = &c->out;

	outbuf__puts(b, "\n],\"otherData\":{");
	put_fragment(b, &c->fragments, c->about);
	outbuf__puts(b, ",\"generated\":\"");
	json_u64(b, totals->generated);
	outbuf__puts(b, "\",\"written\":\"");
	json_u64(b, totals->written);
	for (unsigned int i = 0; i < LOSS_CNT; i++) {
		outbuf__puts(b, "\",\"lost_");
		outbuf__puts(b, trace_loss_name(i));
		outbuf__puts(b, "\":\"");
		json_u64(b, totals->lost[i]);
	}
	outbuf__puts(b, "\",\"complete\":\"");
	json_bool(b, totals->complete);
	outbuf__puts(b, "\"}}\n");
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct chrometrace *c = self;
	int err = timeline_end(&c->timeline, totals);

	if (err)
		return err;
	put_names(c);
	put_totals(c, totals);
	return gzip_front_end(c->gzip, &c->out);
}

const struct exporter export_chrometrace = {
	.name = "chrometrace",
	.aliases = (const char *const[]){ "chrome", "perfetto", NULL },
	.extensions = (const char *const[]){ ".trace.json.gz", ".trace.json", NULL },
	.help = "Chrome's trace events, for Perfetto: every call in its place in time",
	.hint = "open https://ui.perfetto.dev and drop @ onto it",
	.size = sizeof(struct chrometrace),
	.init = chrometrace__init,
	.consumer = {
		.begin = on_begin,
		.process = on_process,
		.thread = on_thread,
		.func = on_func,
		.event = on_event,
		.sample = on_sample,
		.gap = on_gap,
		.end = on_end,
	},
	.done = chrometrace__done,
};
