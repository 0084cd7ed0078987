// SPDX-License-Identifier: Apache-2.0
/*
 * One JSON object per line: an event, a gap, and the totals ("meta") last. Nothing of the events is
 * kept. What repeats in a line is made once: a fragment per thread and one per function, so that an
 * event is four copies and three numbers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/idmap.h"
#include "base/strpool.h"
#include "export/export.h"
#include "export/fragments.h"
#include "export/json.h"

enum {
	BUFFER_BYTES = 256 << 10
};

struct ndjson {
	struct outbuf out;
	struct fragments fragments;
	struct idmap pids; /* process id -> pid */
	struct idmap by_thread; /* thread id -> fragment */
	struct idmap by_func; /* function id -> fragment */
	uint64_t start_ns;
	int64_t start_unix_ns;
	struct trace_cost cost;
	struct trace_before before;
	bool sampled;
	uint32_t engine, version; /* fragments */
};

static const struct kind_text {
	char text[16];
	uint8_t len;
} kind_texts[TRACE_KIND_CNT] = {
#define K(name)                                                      \
	{                                                            \
		name "\",\"func\":", sizeof(name "\",\"func\":") - 1 \
	}
	[TRACE_CALL] = K("call"),     [TRACE_RESUME] = K("resume"), [TRACE_THROW] = K("throw"),
	[TRACE_OPEN] = K("open"),     [TRACE_RETURN] = K("return"), [TRACE_YIELD] = K("yield"),
	[TRACE_UNWIND] = K("unwind"),
#undef K
};

static void ndjson__done(void *self)
{
	struct ndjson *n = self;

	outbuf__done(&n->out);
	fragments__done(&n->fragments);
	idmap__done(&n->pids);
	idmap__done(&n->by_thread);
	idmap__done(&n->by_func);
}

static int ndjson__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	struct ndjson *n = self;
	int err;

	(void)opts;
	err = fragments__init(&n->fragments);
	if (!err)
		err = outbuf__init(&n->out, BUFFER_BYTES, out->write, out->ctx);
	return err;
}

static int quoted(struct ndjson *n, const char *s, uint32_t *id)
{
	struct outbuf b;
	int err = fragment_begin(&n->fragments, &b);

	if (err)
		return err;
	json_str(&b, s ? s : "");
	return fragment_end(&n->fragments, &b, id);
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct ndjson *n = self;
	int err;

	n->start_ns = info->start_ns;
	n->start_unix_ns = info->start_unix_ns;
	n->cost = info->cost;
	n->before = info->before;
	n->sampled = info->sample_ns != 0;
	err = quoted(n, info->engine, &n->engine);
	return err ? err : quoted(n, info->version, &n->version);
}

static int on_process(void *self, const struct trace_process *process)
{
	struct ndjson *n = self;

	return idmap__set(&n->pids, process->id, process->pid);
}

static int on_thread(void *self, const struct trace_thread *thread)
{
	struct ndjson *n = self;
	uint32_t pid = idmap__find(&n->pids, thread->process), id;
	struct outbuf b;
	int err = fragment_begin(&n->fragments, &b);

	if (err)
		return err;
	outbuf__puts(&b, ",\"pid\":");
	json_u64(&b, pid == IDMAP_NONE ? 0 : pid);
	outbuf__puts(&b, ",\"tid\":");
	json_u64(&b, thread->tid);
	outbuf__puts(&b, ",\"ev\":\"");
	err = fragment_end(&n->fragments, &b, &id);
	return err ? err : idmap__set(&n->by_thread, thread->id, id);
}

static int on_func(void *self, const struct trace_func *func)
{
	struct ndjson *n = self;
	struct outbuf b;
	int err = fragment_begin(&n->fragments, &b);
	uint32_t id;

	if (err)
		return err;
	json_str(&b, func->qualname);
	outbuf__puts(&b, ",\"name\":");
	json_str(&b, func->name);
	if (func->kind != FUNC_PYTHON) {
		outbuf__puts(&b, ",\"kind\":");
		json_str(&b, trace_kind_name(func->kind));
	}
	outbuf__puts(&b, ",\"file\":");
	json_str(&b, func->file);
	outbuf__puts(&b, ",\"line\":");
	if (!n->sampled) { /* a sample's frame has a line of its own */
		json_u64(&b, func->line);
		outbuf__puts(&b, ",\"depth\":");
	}
	err = fragment_end(&n->fragments, &b, &id);
	return err ? err : idmap__set(&n->by_func, func->id, id);
}

static char *append(char *at, const char *data, size_t len)
{
	memcpy(at, data, len);
	return at + len;
}

static int on_event(void *self, const struct trace_event *event)
{
	static const char head[] = "{\"ts_ns\":";
	struct ndjson *n = self;
	uint32_t thread_id = idmap__find(&n->by_thread, event->thread);
	uint32_t func_id = idmap__find(&n->by_func, event->func);
	const struct kind_text *kind;
	const struct strpool_str *thread, *func;
	size_t most;
	char *at;

	if (thread_id == IDMAP_NONE || func_id == IDMAP_NONE || event->kind >= TRACE_KIND_CNT)
		return -EINVAL;
	thread = &n->fragments.pool.strs[thread_id];
	func = &n->fragments.pool.strs[func_id];
	kind = &kind_texts[event->kind];
	most = sizeof(head) + thread->len + sizeof(kind->text) + 2 * (size_t)JSON_U64_MAX + 2;
	at = outbuf__room(&n->out, most);
	at = append(at, head, sizeof(head) - 1);
	at = json_fmt_u64(at, event->ts_ns);
	at = append(at, thread->s, thread->len);
	at = append(at, kind->text, kind->len);
	outbuf__used(&n->out, at);
	outbuf__put(&n->out, func->s, func->len);
	at = json_fmt_u64(outbuf__room(&n->out, JSON_U64_MAX + 2), event->depth);
	at = append(at, "}\n", 2);
	outbuf__used(&n->out, at);
	return n->out.err;
}

/* What an off sample says of a lock: its address, and what its holder ran. */
static int put_lock(struct ndjson *n, const struct trace_sample *sample)
{
	uint32_t func = sample->holder.func ? idmap__find(&n->by_func, sample->holder.func) : 0;
	struct outbuf *b = &n->out;
	char text[32];

	if (sample->holder.func && func == IDMAP_NONE)
		return -EINVAL;
	if (sample->lock) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)sample->lock);
		outbuf__puts(b, ",\"lock\":\"");
		outbuf__puts(b, text);
		outbuf__putc(b, '"');
	}
	if (sample->lock_type) {
		outbuf__puts(b, ",\"lock_type\":");
		json_str(b, trace_lock_name(sample->lock_type));
	}
	if (sample->holder.func) {
		outbuf__puts(b, ",\"holder\":{\"func\":");
		put_fragment(b, &n->fragments, func);
		json_u64(b, sample->holder.line);
		outbuf__putc(b, '}');
	}
	return 0;
}

static int on_sample(void *self, const struct trace_sample *sample)
{
	struct ndjson *n = self;
	uint32_t thread = idmap__find(&n->by_thread, sample->thread);
	struct outbuf *b = &n->out;

	if (thread == IDMAP_NONE)
		return -EINVAL;
	outbuf__puts(b, "{\"ts_ns\":");
	json_u64(b, sample->ts_ns);
	put_fragment(b, &n->fragments, thread);
	outbuf__puts(b, "sample\",\"weight_ns\":");
	json_u64(b, sample->weight_ns);
	outbuf__puts(b, sample->off_cpu ? ",\"state\":\"off\",\"reason\":\""
					: ",\"state\":\"on\",\"reason\":\"");
	outbuf__puts(b, trace_reason_name(sample->reason));
	outbuf__putc(b, '"');
	if (put_lock(n, sample))
		return -EINVAL;
	outbuf__puts(b, ",\"stack\":[");
	for (uint32_t i = 0; i < sample->frame_cnt; i++) {
		uint32_t func = idmap__find(&n->by_func, sample->frames[i].func);

		if (func == IDMAP_NONE)
			return -EINVAL;
		outbuf__puts(b, i ? ",{\"func\":" : "{\"func\":");
		put_fragment(b, &n->fragments, func);
		json_u64(b, sample->frames[i].line);
		outbuf__putc(b, '}');
	}
	outbuf__puts(b, "]}\n");
	return b->err;
}

static int on_memory(void *self, const struct trace_memory *memory)
{
	struct ndjson *n = self;
	uint32_t thread = idmap__find(&n->by_thread, memory->thread);
	struct outbuf *b = &n->out;

	if (thread == IDMAP_NONE)
		return -EINVAL;
	outbuf__puts(b, "{\"ts_ns\":");
	json_u64(b, memory->ts_ns);
	put_fragment(b, &n->fragments, thread);
	outbuf__puts(b, "memory\",\"rss_bytes\":");
	json_u64(b, memory->rss_bytes);
	outbuf__puts(b, "}\n");
	return b->err;
}

static int on_gap(void *self, const struct trace_gap *gap)
{
	struct ndjson *n = self;
	uint32_t thread = idmap__find(&n->by_thread, gap->thread);
	struct outbuf *b = &n->out;

	if (thread == IDMAP_NONE)
		return -EINVAL;
	outbuf__puts(b, "{\"ts_ns\":");
	json_u64(b, gap->ts_ns);
	put_fragment(b, &n->fragments, thread);
	outbuf__puts(b, "gap\",\"reason\":\"");
	outbuf__puts(b, trace_gap_name(gap->reason));
	outbuf__puts(b, "\",\"n\":");
	json_u64(b, gap->lost);
	outbuf__puts(b, ",\"until_ns\":");
	json_u64(b, gap->until_ns);
	outbuf__puts(b, "}\n");
	return b->err;
}

static void member_u64(struct outbuf *b, const char *text, uint64_t value)
{
	outbuf__puts(b, text);
	json_u64(b, value);
}

static void put_cost(struct outbuf *b, const struct trace_cost *cost)
{
	uint64_t entry = (uint64_t)cost->entry_before_ns + cost->entry_after_ns;
	uint64_t exit = (uint64_t)cost->exit_before_ns + cost->exit_after_ns;

	member_u64(b, ",\"probe_ns\":", (entry + exit) / 2);
	member_u64(b, ",\"probe_entry_ns\":", entry);
	member_u64(b, ",\"probe_exit_ns\":", exit);
}

/* Only of a capture that is not the whole run. */
static void put_before(struct outbuf *b, const struct trace_before *before)
{
	if (!before->part && !before->keep_ns)
		return;
	member_u64(b, ",\"before\":{\"part\":", before->part);
	member_u64(b, ",\"recorder_ns\":", before->keep_ns);
	member_u64(b, ",\"run_start_ns\":", before->start_ns);
	member_u64(b, ",\"events\":", before->events);
	member_u64(b, ",\"chunks\":", before->chunks);
	outbuf__puts(b, "}");
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct ndjson *n = self;
	struct outbuf *b = &n->out;

	member_u64(b, "{\"ev\":\"meta\",\"ts_ns\":", totals->end_ns);
	member_u64(b, ",\"generated\":", totals->generated);
	member_u64(b, ",\"written\":", totals->written);
	outbuf__puts(b, ",\"dropped\":{");
	for (unsigned int i = 0; i < LOSS_CNT; i++) {
		outbuf__puts(b, i ? ",\"" : "\"");
		outbuf__puts(b, trace_loss_name(i));
		member_u64(b, "\":", totals->lost[i]);
	}
	outbuf__puts(b, "}");
	put_cost(b, &n->cost);
	put_before(b, &n->before);
	member_u64(b, ",\"start_ns\":", n->start_ns);
	outbuf__puts(b, ",\"start_unix_ns\":");
	json_i64(b, n->start_unix_ns);
	outbuf__puts(b, ",\"complete\":");
	json_bool(b, totals->complete);
	outbuf__puts(b, ",\"engine\":");
	put_fragment(b, &n->fragments, n->engine);
	outbuf__puts(b, ",\"version\":");
	put_fragment(b, &n->fragments, n->version);
	outbuf__puts(b, "}\n");
	return outbuf__flush(b);
}

const struct exporter export_ndjson = {
	.name = "ndjson",
	.aliases = (const char *const[]){ "jsonl", NULL },
	.extensions = (const char *const[]){ ".ndjson", ".jsonl", NULL },
	.help = "one JSON object per event, in time order",
	.hint = "tail -n 1 @",
	.size = sizeof(struct ndjson),
	.init = ndjson__init,
	.consumer = {
		.begin = on_begin,
		.process = on_process,
		.thread = on_thread,
		.func = on_func,
		.event = on_event,
		.sample = on_sample,
		.memory = on_memory,
		.gap = on_gap,
		.end = on_end,
	},
	.done = ndjson__done,
};
