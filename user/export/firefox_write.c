// SPDX-License-Identifier: Apache-2.0
/* One file: which threads it shows, and the object around everything else. */
#include "export/firefox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/json.h"

/* Threads whose life does not touch this file are left out. */
static bool shown_here(const struct firefox *ff, const struct ff_thread *t)
{
	if (t->samples.cnt || t->gap_cnt)
		return true;
	if (t->end_ns && t->end_ns < ff->part_start_ns)
		return false;
	return t->start_ns <= ff->part_end_ns;
}

/* An index of a thread with what it is sorted by. */
struct place {
	uint32_t process, index;
	bool is_main;
};

static int by_process(const void *left, const void *right)
{
	const struct place *l = left, *r = right;

	if (l->process != r->process)
		return l->process < r->process ? -1 : 1;
	if (l->is_main != r->is_main)
		return l->is_main ? -1 : 1;
	return l->index < r->index ? -1 : l->index > r->index;
}

static int choose_threads(const struct firefox *ff, uint32_t **out, uint32_t *cnt_out)
{
	uint32_t total = ff->thread_ids.cnt, cnt = 0;
	auto_free struct place *places = calloc((size_t)total + 1, sizeof(*places));
	uint32_t *shown = calloc((size_t)total + 1, sizeof(*shown));

	if (!places || !shown) {
		free(shown);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < total; i++) {
		const struct ff_thread *t = &ff->threads[i];

		if (shown_here(ff, t))
			places[cnt++] = (struct place){ t->process, i, t->is_main };
	}
	qsort(places, cnt, sizeof(*places), by_process);
	for (uint32_t i = 0; i < cnt; i++)
		shown[i] = places[i].index;
	*out = shown;
	*cnt_out = cnt;
	return 0;
}

/* Names that mean something else to the viewer. */
static bool reserved_name(const char *name)
{
	static const char *const whole[] = { "GeckoMain", "Compositor", "Renderer" };
	static const char *const begin[] = { "Audio", "Media", "GraphRunner", "WebrtcWorker" };

	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++)
		if (!strcmp(name, whole[i]))
			return true;
	for (size_t i = 0; i < sizeof(begin) / sizeof(*begin); i++)
		if (!strncmp(name, begin[i], strlen(begin[i])))
			return true;
	return false;
}

static void put_string(struct firefox *ff, uint32_t string)
{
	const struct strpool_str *s = &ff->tables.strings.strs[string];

	json_strn(&ff->json, s->s, s->len);
}

static void put_name(struct firefox *ff, const struct ff_thread *t)
{
	const char *name = ff->tables.strings.strs[t->name].s;
	struct outbuf *b = &ff->json;

	if (*name && !reserved_name(name)) {
		json_str(b, name);
		return;
	}
	outbuf__puts(b, "\"Thread ");
	if (*name)
		json_str_body(b, name, strlen(name));
	else
		json_u64(b, t->tid);
	outbuf__putc(b, '"');
}

static void put_process_name(struct firefox *ff, const struct ff_process *p)
{
	const struct strpool_str *comm = &ff->tables.strings.strs[p->comm];

	if (comm->len) {
		json_strn(&ff->json, comm->s, comm->len);
		return;
	}
	outbuf__puts(&ff->json, "\"pid ");
	json_u64(&ff->json, p->pid);
	outbuf__putc(&ff->json, '"');
}

static void put_time_or_null(struct firefox *ff, const char *key, uint64_t ts_ns)
{
	outbuf__puts(&ff->json, key);
	if (ts_ns)
		json_ms(&ff->json, ff_since(ff, ts_ns));
	else
		outbuf__puts(&ff->json, "null");
}

static int put_thread(struct firefox *ff, const struct ff_thread *t)
{
	const struct ff_process *p = &ff->processes[t->process];
	struct outbuf *b = &ff->json;
	int err;

	outbuf__puts(b, "{\"name\":");
	put_name(ff, t);
	outbuf__puts(b, ",\"isMainThread\":");
	json_bool(b, t->is_main);
	outbuf__puts(b, ",\"processType\":\"default\",\"processName\":");
	put_process_name(ff, p);
	outbuf__puts(b, ",\"pid\":");
	put_string(ff, p->pid_text);
	outbuf__puts(b, ",\"tid\":");
	json_u64(b, t->tid);
	outbuf__puts(b, ",\"processStartupTime\":");
	json_ms(b, ff_since(ff, p->start_ns));
	put_time_or_null(ff, ",\"processShutdownTime\":", p->end_ns);
	outbuf__puts(b, ",\"registerTime\":");
	json_ms(b, ff_since(ff, t->start_ns));
	put_time_or_null(ff, ",\"unregisterTime\":", t->end_ns);
	outbuf__puts(b, ",\"pausedRanges\":[],\"showMarkersInTimeline\":true,\"samples\":{");
	err = ff_samples__write(&t->samples, b, ff->gzip);
	outbuf__puts(b, "},");
	if (!err)
		err = ff_write_markers(ff, t);
	outbuf__putc(b, '}');
	return err;
}

/* The viewer refuses a profile without threads. */
static void put_no_threads(struct outbuf *b)
{
	outbuf__puts(b, "{\"name\":\"no threads seen\",\"isMainThread\":true,"
			"\"processType\":\"default\",\"processName\":\"pyebpf\",\"pid\":\"0\","
			"\"tid\":0,\"processStartupTime\":0,\"processShutdownTime\":null,"
			"\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],"
			"\"showMarkersInTimeline\":true,\"samples\":{");
	outbuf__puts(b, "\"length\":0,\"weightType\":\"tracing-ms\",\"stack\":[],"
			"\"timeDeltas\":[],\"weight\":[]},\"markers\":{\"length\":0,\"name\":[],"
			"\"startTime\":[],\"endTime\":[],\"phase\":[],\"category\":[],"
			"\"data\":[]}}");
}

int ff_write_file(struct firefox *ff, const struct trace_totals *totals)
{
	auto_free uint32_t *shown = NULL;
	struct outbuf *b = &ff->json;
	uint32_t cnt;
	int err = choose_threads(ff, &shown, &cnt);

	if (err)
		return err;
	outbuf__puts(b, "{\"meta\":");
	ff_write_meta(ff, totals, shown, cnt);
	outbuf__puts(b, ",\"libs\":[],\"pages\":[],");
	ff_memory_write(ff, shown, cnt);
	outbuf__puts(b, ",\"threads\":[");
	for (uint32_t i = 0; !err && i < cnt; i++) {
		if (i)
			outbuf__putc(b, ',');
		err = put_thread(ff, &ff->threads[shown[i]]);
	}
	if (!cnt)
		put_no_threads(b);
	outbuf__puts(b, "],");
	ff_tables__write(&ff->tables, b);
	outbuf__puts(b, "}\n");
	if (!err)
		err = outbuf__flush(b);
	return err ? err : ff_gzip__finish(ff->gzip);
}
