// SPDX-License-Identifier: Apache-2.0
/* The object "meta": what the viewer shows about the profile as a whole. */
#include "export/firefox.h"

#include <stdio.h>
#include <string.h>

#include "export/json.h"

enum {
	GECKO_VERSION = 36,
	PROCESSED_VERSION = 70, /* newest with a public description; older viewers refuse newer */
	VISIBLE_MAX = 20,
	PYTHONS_MAX = 16
};

static void put_categories(struct outbuf *b)
{
	static const struct {
		const char *name, *colour;
	} categories[] = {
#define X(id, name, colour) { name, colour },
		FF_CATEGORIES(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(categories) / sizeof(*categories); i++) {
		outbuf__puts(b, i ? ",{\"name\":" : "{\"name\":");
		json_str(b, categories[i].name);
		outbuf__puts(b, ",\"color\":");
		json_str(b, categories[i].colour);
		outbuf__puts(b, ",\"subcategories\":[\"Other\"]}");
	}
}

/* Indexes into @shown of the threads with the most events, most first. Return: how many. */
static uint32_t busiest(const struct firefox *ff, const uint32_t *shown, uint32_t cnt,
			uint32_t best[VISIBLE_MAX])
{
	uint32_t best_cnt = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t events = ff->threads[shown[i]].events;
		uint32_t at = best_cnt < VISIBLE_MAX ? best_cnt++ : VISIBLE_MAX;

		while (at && ff->threads[shown[best[at - 1]]].events < events) {
			if (at < VISIBLE_MAX)
				best[at] = best[at - 1];
			at--;
		}
		if (at < VISIBLE_MAX)
			best[at] = i;
	}
	return best_cnt;
}

static void put_threads_shown(const struct firefox *ff, struct outbuf *b, const uint32_t *shown,
			      uint32_t cnt)
{
	uint32_t best[VISIBLE_MAX] = { 0 };
	uint32_t best_cnt = busiest(ff, shown, cnt, best);

	outbuf__puts(b, ",\"initialVisibleThreads\":[");
	for (uint32_t i = 0; i < (best_cnt ? best_cnt : 1); i++) {
		if (i)
			outbuf__putc(b, ',');
		json_u64(b, best[i]);
	}
	outbuf__puts(b, "],\"initialSelectedThreads\":[");
	json_u64(b, best[0]);
	outbuf__putc(b, ']');
}

/* meta.extra is groups of entries; each kind of value has its own form. */
struct entries {
	struct outbuf *b;
	bool any;
};

static void put_entry(struct entries *e, const char *label, const char *format)
{
	outbuf__puts(e->b, e->any ? ",{\"label\":" : "{\"label\":");
	json_str(e->b, label);
	outbuf__puts(e->b, ",\"format\":");
	json_str(e->b, format);
	outbuf__puts(e->b, ",\"value\":");
	e->any = true;
}

static void put_count(struct entries *e, const char *label, const char *format, uint64_t value)
{
	put_entry(e, label, format);
	json_u64(e->b, value);
	outbuf__putc(e->b, '}');
}

static void put_text(struct entries *e, const char *label, const char *value)
{
	put_entry(e, label, "string");
	json_str(e->b, value);
	outbuf__putc(e->b, '}');
}

/* The different Python versions of the processes, as one text. */
static void put_pythons(const struct firefox *ff, struct entries *e)
{
	struct outbuf *b = e->b;
	uint32_t seen[PYTHONS_MAX], cnt = 0;

	put_entry(e, "Python", "string");
	outbuf__putc(b, '"');
	for (uint32_t i = 0; i < ff->process_ids.cnt && cnt < PYTHONS_MAX; i++) {
		uint32_t python = ff->processes[i].python, at = 0;
		const struct strpool_str *s = &ff->tables.strings.strs[python];

		while (at < cnt && seen[at] != python)
			at++;
		if (at < cnt || !s->len)
			continue;
		if (cnt)
			outbuf__puts(b, ", ");
		json_str_body(b, s->s, s->len);
		seen[cnt++] = python;
	}
	outbuf__puts(b, "\"}");
}

static void put_part(const struct firefox *ff, struct entries *e, bool last)
{
	char text[64];

	snprintf(text, sizeof(text), last ? "part %u (last)" : "part %u", ff->part);
	if (last && ff->part == 1)
		snprintf(text, sizeof(text), "the whole trace");
	put_text(e, "File", text);
	put_count(e, "Events in this file", "integer", ff->part_events);
	put_count(e, "Events lost in this file", "integer", ff->part_lost);
	if (ff->waits_left_out) {
		put_count(e, "Waits without a marker", "integer", ff->waits_left_out);
		put_count(e, "as they were shorter than", "nanoseconds", ff->wait_min_ns);
	}
	if (ff->opts.split_events && ff->events > ff->opts.split_events && !ff->out->next)
		put_text(e, "Note",
			 "more events than the viewer handles well; the output could not be split");
}

static void put_before(struct entries *e, const struct trace_info *info)
{
	const struct trace_before *before = &info->before;

	if (!before->part && !before->keep_ns)
		return;
	if (before->part)
		put_count(e, "Capture of this run, number", "integer", before->part);
	put_count(e,
		  before->part ? "Events in captures before" : "Events the flight recorder forgot",
		  "integer", before->events);
	put_count(e, "Start of the run, before this capture", "nanoseconds",
		  info->start_ns > before->start_ns ? info->start_ns - before->start_ns : 0);
}

static void put_totals(struct entries *e, const struct trace_totals *totals)
{
	uint64_t lost = 0;

	if (!totals) {
		put_text(e, "Losses by reason", "in the last part");
		return;
	}
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += totals->lost[i];
	put_count(e, "Generated", "integer", totals->generated);
	put_count(e, "Written", "integer", totals->written);
	put_count(e, "Lost", "integer", lost);
	for (unsigned int i = 0; i < LOSS_CNT; i++) {
		char label[64];

		snprintf(label, sizeof(label), "Lost: %s", trace_loss_name(i));
		put_count(e, label, "integer", totals->lost[i]);
	}
	put_text(e, "Complete", totals->complete ? "yes" : "no: the capture was cut off");
}

static void put_cost(struct entries *e, const struct trace_cost *cost)
{
	put_count(e, "Entry, before its time stamp", "nanoseconds", cost->entry_before_ns);
	put_count(e, "Entry, after its time stamp", "nanoseconds", cost->entry_after_ns);
	put_count(e, "Exit, before its time stamp", "nanoseconds", cost->exit_before_ns);
	put_count(e, "Exit, after its time stamp", "nanoseconds", cost->exit_after_ns);
}

static void put_extra(const struct firefox *ff, struct outbuf *b, const struct trace_totals *totals)
{
	struct entries e = { .b = b };

	outbuf__puts(b, ",\"extra\":[{\"label\":\"Capture\",\"entries\":[");
	put_text(&e, "Engine", ff->info.engine);
	put_text(&e, "pyebpf", ff->info.version);
	put_pythons(ff, &e);
	outbuf__puts(b, "]},{\"label\":\"Events\",\"entries\":[");
	e.any = false;
	put_part(ff, &e, totals != NULL);
	put_before(&e, &ff->info);
	put_totals(&e, totals);
	outbuf__puts(b, "]},{\"label\":\"Own cost per event (not subtracted)\",\"entries\":[");
	e.any = false;
	put_cost(&e, &ff->info.cost);
	outbuf__puts(b, "]}]");
}

static void put_system(const struct firefox *ff, struct outbuf *b)
{
	outbuf__puts(b, ",\"platform\":\"X11\",\"oscpu\":\"Linux ");
	json_str_body(b, ff->info.kernel, strlen(ff->info.kernel));
	outbuf__puts(b, "\",\"CPUName\":");
	json_str(b, ff->info.cpu);
	if (ff->info.cpu_cnt) {
		outbuf__puts(b, ",\"logicalCPUs\":");
		json_u64(b, ff->info.cpu_cnt);
	}
	outbuf__puts(b, ",\"arguments\":");
	json_str(b, ff->info.arguments);
}

static void put_times(const struct firefox *ff, struct outbuf *b)
{
	uint64_t end_ns = ff_since(ff, ff->part_end_ns);

	outbuf__puts(b, ",\"interval\":");
	json_ms(b, ff->info.sample_ns ? ff->info.sample_ns : 1000);
	outbuf__puts(b, ",\"startTime\":");
	json_ms(b, ff->info.start_unix_ns > 0 ? (uint64_t)ff->info.start_unix_ns : 0);
	outbuf__puts(b, ",\"startTimeAsClockMonotonicNanosecondsSinceBoot\":");
	json_u64(b, ff->info.start_ns);
	outbuf__puts(b, ",\"profilingStartTime\":");
	json_ms(b, ff_since(ff, ff->part_start_ns));
	outbuf__puts(b, ",\"profilingEndTime\":");
	json_ms(b, end_ns ? end_ns : 1); /* 0 would count as absent */
}

void ff_write_meta(struct firefox *ff, const struct trace_totals *totals, const uint32_t *shown,
		   uint32_t cnt)
{
	struct outbuf *b = &ff->json;

	outbuf__puts(b, "{\"version\":");
	json_u64(b, GECKO_VERSION);
	outbuf__puts(b, ",\"preprocessedProfileVersion\":");
	json_u64(b, PROCESSED_VERSION);
	put_times(ff, b);
	outbuf__puts(b, ",\"processType\":0,\"product\":\"pyebpf ");
	outbuf__puts(b, ff->info.sample_ns ? "record" : "trace");
	outbuf__puts(b, "\",\"stackwalk\":1"
			",\"importedFrom\":\"pyebpf\",\"symbolicated\":true"
			",\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true"
			",\"keepProfileThreadOrder\":true"
			",\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\","
			"\"threadCPUDelta\":\"ns\"}");
	put_system(ff, b);
	put_threads_shown(ff, b, shown, cnt);
	outbuf__puts(b, ",\"categories\":[");
	put_categories(b);
	outbuf__puts(b, "],\"markerSchema\":");
	ff_write_marker_schema(b);
	put_extra(ff, b, totals);
	outbuf__putc(b, '}');
}
