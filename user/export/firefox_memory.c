// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_memory.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "export/firefox.h"
#include "export/json.h"

/* Every second point, the last one in any case. */
static void thin(struct ff_memory *m)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < m->cnt; i++)
		if (i % 2 == 0 || i == m->cnt - 1)
			m->points[kept++] = m->points[i];
	m->every_ns = 2 * (m->points[kept - 1].ns - m->points[0].ns) / FF_MEMORY_POINTS;
	m->cnt = kept;
}

int ff_memory(void *self, const struct trace_memory *memory)
{
	struct firefox *ff = self;
	uint32_t index = ff_map__find_id(&ff->thread_ids, memory->thread);
	struct ff_memory_point point = { ff_since(ff, memory->ts_ns), memory->rss_bytes };
	struct ff_memory *m;

	if (index == FF_NONE)
		return -PYE_EFORMAT;
	m = &ff->processes[ff->threads[index].process].memory;
	if (m->cnt == FF_MEMORY_POINTS)
		thin(m);
	if (memory->ts_ns > ff->last_ns)
		ff->last_ns = memory->ts_ns;
	/* threads of a process are merged by time; a file can be wrong */
	if (m->cnt && point.ns < m->points[m->cnt - 1].ns)
		point.ns = m->points[m->cnt - 1].ns;
	/* the last point is the newest, whatever its distance; it makes room for the next one */
	if (m->cnt > 1 && m->points[m->cnt - 1].ns - m->points[m->cnt - 2].ns < m->every_ns)
		m->cnt--;
	if (ff_grow((void **)&m->points, &m->cap, m->cnt, sizeof(*m->points)))
		return -ENOMEM;
	m->points[m->cnt++] = point;
	return 0;
}

void ff_memory_next_file(struct firefox *ff, uint64_t cut_ns)
{
	for (uint32_t i = 0; i < ff->process_ids.cnt; i++) {
		struct ff_memory *m = &ff->processes[i].memory;

		if (!m->cnt)
			continue;
		m->points[0].bytes = m->points[m->cnt - 1].bytes;
		m->points[0].ns = ff_since(ff, cut_ns);
		m->cnt = ff->processes[i].end_ns && ff->processes[i].end_ns < cut_ns ? 0 : 1;
		m->every_ns = 0;
	}
}

/* A count is the difference to the one before, the first one to nothing. */
static void put_samples(struct outbuf *b, const struct ff_memory *m)
{
	outbuf__printf(b, "\"samples\":{\"length\":%" PRIu32 ",\"timeDeltas\":[", m->cnt);
	for (uint32_t i = 0; i < m->cnt; i++) {
		if (i)
			outbuf__putc(b, ',');
		json_ms(b, m->points[i].ns - (i ? m->points[i - 1].ns : 0));
	}
	outbuf__puts(b, "],\"count\":[");
	for (uint32_t i = 0; i < m->cnt; i++) {
		if (i)
			outbuf__putc(b, ',');
		json_i64(b, (int64_t)(m->points[i].bytes - (i ? m->points[i - 1].bytes : 0)));
	}
	outbuf__puts(b, "]}");
}

static void put_counter(struct firefox *ff, const struct ff_process *p, uint32_t main_thread)
{
	const struct strpool_str *pid = &ff->tables.strings.strs[p->pid_text];
	struct outbuf *b = &ff->json;

	outbuf__puts(b, "{\"name\":\"RSS\",\"category\":\"Memory\","
			"\"description\":\"Memory of the process that is in RAM\",\"pid\":");
	json_strn(b, pid->s, pid->len);
	outbuf__printf(b, ",\"mainThreadIndex\":%" PRIu32 ",", main_thread);
	put_samples(b, &p->memory);
	outbuf__puts(b, ",\"display\":{\"graphType\":\"line-accumulated\",\"unit\":\"bytes\","
			"\"color\":\"orange\",\"markerSchemaLocation\":\"timeline-memory\","
			"\"sortWeight\":20,\"label\":\"RSS\",\"tooltipRows\":["
			"{\"type\":\"value\",\"source\":\"accumulated\","
			"\"format\":{\"unit\":\"bytes\"},\"label\":\"above the least of it\"},"
			"{\"type\":\"value\",\"source\":\"count-range\","
			"\"format\":{\"unit\":\"bytes\"},\"label\":\"least to most\"}]}}");
}

void ff_memory_write(struct firefox *ff, const uint32_t *shown, uint32_t cnt)
{
	uint32_t before = FF_NONE;
	bool any = false;

	outbuf__puts(&ff->json, "\"counters\":[");
	for (uint32_t i = 0; i < cnt; i++) { /* sorted by process, its main thread first */
		uint32_t process = ff->threads[shown[i]].process;

		if (process == before || !ff->processes[process].memory.cnt)
			continue;
		before = process;
		if (any)
			outbuf__putc(&ff->json, ',');
		any = true;
		put_counter(ff, &ff->processes[process], i);
	}
	outbuf__putc(&ff->json, ']');
}
