// SPDX-License-Identifier: Apache-2.0
/* Markers of a thread: its life, and on a main thread that of the process; gaps and losses; waits. */
#include "export/firefox.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "export/json.h"

enum mark_kind {
	MARK_PROCESS_START,
	MARK_PROCESS_EXIT,
	MARK_PROCESS_EXEC,
	MARK_THREAD_START,
	MARK_THREAD_EXIT,
	MARK_GAP,
	MARK_LOST,
	MARK_WAIT
};

/* One marker, sorted by time before it is written. */
struct mark {
	enum mark_kind kind;
	uint64_t start_ns, end_ns; /* of the profile; end only where there is an interval */
	const struct trace_gap *gap;
	const struct ff_wait *wait;
};

static const struct {
	const char *name;
	const char *event; /* what happened, of lives */
	const char *schema;
} kinds[] = {
	[MARK_PROCESS_START] = { "Process first seen", "first seen", "PyProcess" },
	[MARK_PROCESS_EXIT] = { "Process exit", "exit", "PyProcess" },
	[MARK_PROCESS_EXEC] = { "Process exec", "exec", "PyProcess" },
	[MARK_THREAD_START] = { "Thread first seen", "first seen", "PyThread" },
	[MARK_THREAD_EXIT] = { "Thread exit", "exit", "PyThread" },
	[MARK_GAP] = { "Gap", NULL, "PyGap" },
	[MARK_LOST] = { "Lost events", NULL, "PyLost" },
};

void ff_write_marker_schema(struct outbuf *b)
{
	outbuf__putc(b, '[');
	ff_wait_write_schemas(b);
	outbuf__puts(
		b,
		"{\"name\":\"PyProcess\","
		"\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
		"\"tooltipLabel\":\"{marker.name}\","
		"\"tableLabel\":\"{marker.data.event} {marker.data.comm}\","
		"\"chartLabel\":\"{marker.data.comm}\","
		"\"description\":\"A process is seen for the first time, executes a program or ends\","
		"\"fields\":[{\"key\":\"event\",\"label\":\"Event\",\"format\":\"string\"},"
		"{\"key\":\"pid\",\"label\":\"Process\",\"format\":\"pid\"},"
		"{\"key\":\"comm\",\"label\":\"Name\",\"format\":\"sanitized-string\"},"
		"{\"key\":\"exe\",\"label\":\"Executable\",\"format\":\"file-path\"},"
		"{\"key\":\"python\",\"label\":\"Python\",\"format\":\"string\"}]},");
	outbuf__puts(b, "{\"name\":\"PyThread\",\"display\":[\"marker-chart\",\"marker-table\"],"
			"\"tooltipLabel\":\"{marker.name}\","
			"\"tableLabel\":\"{marker.data.event} {marker.data.name}\","
			"\"chartLabel\":\"{marker.data.name}\","
			"\"description\":\"A thread is seen for the first time, or ends\","
			"\"fields\":[{\"key\":\"event\",\"label\":\"Event\",\"format\":\"string\"},"
			"{\"key\":\"tid\",\"label\":\"Thread\",\"format\":\"tid\"},"
			"{\"key\":\"name\",\"label\":\"Name\",\"format\":\"sanitized-string\"}]},");
	outbuf__puts(
		b,
		"{\"name\":\"PyGap\","
		"\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
		"\"tooltipLabel\":\"Gap: {marker.data.reason}\","
		"\"tableLabel\":\"{marker.data.reason}\",\"chartLabel\":\"{marker.data.reason}\","
		"\"description\":\"The stack of the thread is not known here\","
		"\"fields\":[{\"key\":\"reason\",\"label\":\"Reason\",\"format\":\"string\"},"
		"{\"key\":\"count\",\"label\":\"Events lost\",\"format\":\"integer\"}]},");
	outbuf__puts(b,
		     "{\"name\":\"PyLost\","
		     "\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
		     "\"tooltipLabel\":\"{marker.data.count} events lost\","
		     "\"tableLabel\":\"{marker.data.count} events ({marker.data.reason})\","
		     "\"chartLabel\":\"{marker.data.count} lost\","
		     "\"description\":\"Events of the thread are missing here\","
		     "\"fields\":[{\"key\":\"reason\",\"label\":\"Reason\",\"format\":\"string\"},"
		     "{\"key\":\"count\",\"label\":\"Events lost\",\"format\":\"integer\"}]}]");
}

static void put_member(const struct firefox *ff, struct outbuf *b, const char *key, uint32_t string)
{
	const struct strpool_str *s = &ff->tables.strings.strs[string];

	outbuf__puts(b, ",\"");
	outbuf__puts(b, key);
	outbuf__puts(b, "\":");
	json_strn(b, s->s, s->len);
}

static int put_data(struct firefox *ff, const struct ff_thread *t, const struct mark *m)
{
	struct outbuf *b = &ff->json;
	const struct ff_process *p = &ff->processes[t->process];

	if (m->wait)
		return ff_wait_write(ff, m->wait);
	outbuf__puts(b, "{\"type\":");
	json_str(b, kinds[m->kind].schema);
	if (m->gap) {
		outbuf__puts(b, ",\"reason\":");
		json_str(b, trace_gap_name(m->gap->reason));
		outbuf__puts(b, ",\"count\":");
		json_u64(b, m->gap->lost);
		outbuf__putc(b, '}');
		return 0;
	}
	outbuf__puts(b, ",\"event\":");
	json_str(b, kinds[m->kind].event);
	if (m->kind >= MARK_THREAD_START) {
		outbuf__puts(b, ",\"tid\":");
		json_u64(b, t->tid);
		put_member(ff, b, "name", t->name);
	} else {
		put_member(ff, b, "pid", p->pid_text);
		put_member(ff, b, "comm", p->comm);
		put_member(ff, b, "exe", p->exe);
		put_member(ff, b, "python", p->python);
	}
	outbuf__putc(b, '}');
	return 0;
}

static void add_life(const struct firefox *ff, struct mark *marks, uint32_t *cnt,
		     enum mark_kind kind, uint64_t ts_ns)
{
	if (ts_ns && ff_in_part(ff, ts_ns))
		marks[(*cnt)++] = (struct mark){ .kind = kind, .start_ns = ff_since(ff, ts_ns) };
}

static uint32_t collect(const struct firefox *ff, const struct ff_thread *t, struct mark *marks)
{
	const struct ff_process *p = &ff->processes[t->process];
	uint32_t cnt = 0;

	if (t->is_main) {
		add_life(ff, marks, &cnt, MARK_PROCESS_START, p->start_ns);
		add_life(ff, marks, &cnt, MARK_PROCESS_EXIT, p->end_ns);
	}
	add_life(ff, marks, &cnt, MARK_THREAD_START, t->start_ns);
	add_life(ff, marks, &cnt, MARK_THREAD_EXIT, t->end_ns);
	for (uint32_t i = 0; i < t->gap_cnt; i++) {
		const struct trace_gap *gap = &t->gaps[i];
		uint64_t until_ns = gap->until_ns > gap->ts_ns ? gap->until_ns : gap->ts_ns;

		marks[cnt++] =
			(struct mark){ .kind = gap->reason == GAP_LOSS ? MARK_LOST : MARK_GAP,
				       .start_ns = ff_since(ff, gap->ts_ns),
				       .end_ns = ff_since(ff, until_ns),
				       .gap = gap };
		if (gap->reason == GAP_EXEC && t->is_main)
			marks[cnt++] = (struct mark){ .kind = MARK_PROCESS_EXEC,
						      .start_ns = ff_since(ff, gap->ts_ns) };
	}
	for (uint32_t i = 0; i < t->wait_cnt; i++)
		marks[cnt++] = (struct mark){ .kind = MARK_WAIT,
					      .start_ns = t->waits[i].start_ns,
					      .end_ns = t->waits[i].end_ns,
					      .wait = &t->waits[i] };
	return cnt;
}

static int by_time(const void *left, const void *right)
{
	const struct mark *l = left, *r = right;

	if (l->start_ns != r->start_ns)
		return l->start_ns < r->start_ns ? -1 : 1;
	return (int)l->kind - (int)r->kind;
}

static int put_names(struct firefox *ff, const struct mark *marks, uint32_t cnt)
{
	outbuf__puts(&ff->json, ",\"name\":[");
	for (uint32_t i = 0; i < cnt; i++) {
		const struct ff_wait *wait = marks[i].wait;
		uint32_t name = ff_tables__text(&ff->tables, wait ? ff_wait_name(wait->reason)
								  : kinds[marks[i].kind].name);

		if (name == FF_NONE)
			return -ENOMEM;
		if (i)
			outbuf__putc(&ff->json, ',');
		json_u64(&ff->json, name);
	}
	return 0;
}

static bool is_interval(const struct mark *m)
{
	return m->gap || m->wait;
}

static enum ff_category category_of(const struct mark *m)
{
	if (m->wait)
		return ff_wait_category(m->wait->reason);
	return m->gap ? FF_CAT_GAP : FF_CAT_OTHER;
}

static void put_columns(struct firefox *ff, const struct mark *marks, uint32_t cnt)
{
	struct outbuf *b = &ff->json;

	outbuf__puts(b, "],\"startTime\":[");
	for (uint32_t i = 0; i < cnt; i++) {
		if (i)
			outbuf__putc(b, ',');
		json_ms(b, marks[i].start_ns);
	}
	outbuf__puts(b, "],\"endTime\":[");
	for (uint32_t i = 0; i < cnt; i++) {
		if (i)
			outbuf__putc(b, ',');
		if (is_interval(&marks[i]))
			json_ms(b, marks[i].end_ns);
		else
			outbuf__puts(b, "null");
	}
	outbuf__puts(b, "],\"phase\":[");
	for (uint32_t i = 0; i < cnt; i++) {
		if (i)
			outbuf__putc(b, ',');
		outbuf__putc(b, is_interval(&marks[i]) ? '1' : '0');
	}
	outbuf__puts(b, "],\"category\":[");
	for (uint32_t i = 0; i < cnt; i++) {
		if (i)
			outbuf__putc(b, ',');
		json_u64(b, category_of(&marks[i]));
	}
}

int ff_write_markers(struct firefox *ff, const struct ff_thread *t)
{
	auto_free struct mark *marks =
		calloc((size_t)t->gap_cnt * 2 + t->wait_cnt + 4, sizeof(*marks));
	struct outbuf *b = &ff->json;
	uint32_t cnt;
	int err;

	if (!marks)
		return -ENOMEM;
	cnt = collect(ff, t, marks);
	qsort(marks, cnt, sizeof(*marks), by_time);
	outbuf__puts(b, "\"markers\":{\"length\":");
	json_u64(b, cnt);
	err = put_names(ff, marks, cnt);
	if (err)
		return err;
	put_columns(ff, marks, cnt);
	outbuf__puts(b, "],\"data\":[");
	for (uint32_t i = 0; !err && i < cnt; i++) {
		if (i)
			outbuf__putc(b, ',');
		err = put_data(ff, t, &marks[i]);
	}
	outbuf__puts(b, "]}");
	return err;
}
