// SPDX-License-Identifier: Apache-2.0
#include "export/firefox.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "export/firefox_defs.h"

enum {
	JSON_BYTES = 64 << 10
};

static struct ff_thread *find_thread(struct firefox *ff, uint32_t id)
{
	uint32_t index = ff_map__find_id(&ff->thread_ids, id);

	return index == FF_NONE ? NULL : &ff->threads[index];
}

static inline uint32_t top_stack(const struct ff_thread *t)
{
	return t->depth ? t->open[t->depth - 1].stack : FF_NONE;
}

/* Time of a change in this file. A cut can lie some ns after the events that follow it. */
static inline uint64_t change_time(const struct firefox *ff, uint64_t ts_ns)
{
	return ff_since(ff, ts_ns > ff->part_start_ns ? ts_ns : ff->part_start_ns);
}

/* Ends what is open in the thread as far as this file goes; the open frames themselves stay. */
static int close_samples(struct firefox *ff, struct ff_thread *t, uint64_t ts_ns)
{
	if (!t->samples.cnt || t->samples.stack == FF_NONE)
		return 0;
	return ff_samples__add(&t->samples, ff->gzip, change_time(ff, ts_ns), FF_NONE);
}

/* The first sample of a thread in a new file: the frames open at the cut, no call. */
static int reopen_samples(struct firefox *ff, struct ff_thread *t, uint64_t since_ns)
{
	uint32_t stack = FF_NONE;

	for (uint32_t i = 0; i < t->depth; i++) {
		stack = ff_tables__stack(&ff->tables, stack, t->open[i].frame);
		if (stack == FF_NONE)
			return -ENOMEM;
		t->open[i].stack = stack;
	}
	return t->depth ? ff_samples__add(&t->samples, ff->gzip, since_ns, stack) : 0;
}

/* Of a sampled thread nothing is known past its last sample. */
static uint64_t sampled_until(const struct firefox *ff, const struct ff_thread *t, uint64_t end_ns)
{
	uint64_t known_ns = ff->info.start_ns + t->sampled_ns;

	return t->sampled_ns && known_ns < end_ns ? known_ns : end_ns;
}

static int next_part(struct firefox *ff)
{
	uint64_t cut_ns = ff->last_ns + 1;
	int err = 0;

	/* a thread can be ahead of its events: its samples are kept 1 ns apart */
	for (uint32_t i = 0; i < ff->thread_ids.cnt; i++) {
		uint64_t last_ns = ff->info.start_ns + ff->threads[i].samples.last_ns;

		if (ff->threads[i].samples.cnt && last_ns >= cut_ns)
			cut_ns = last_ns + 1;
	}
	for (uint32_t i = 0; !err && i < ff->thread_ids.cnt; i++)
		err = close_samples(ff, &ff->threads[i],
				    sampled_until(ff, &ff->threads[i], cut_ns));
	ff->part_end_ns = cut_ns;
	if (!err)
		err = ff_write_file(ff, NULL);
	if (!err)
		err = ff->out->next(ff->out->ctx);
	ff->part++;
	ff->part_start_ns = cut_ns;
	ff->part_events = ff->part_lost = 0;
	ff_tables__next_file(&ff->tables);
	ff_waits_next_file(ff);
	ff_memory_next_file(ff, cut_ns);
	for (uint32_t i = 0; !err && i < ff->thread_ids.cnt; i++) {
		struct ff_thread *t = &ff->threads[i];

		ff_samples__clear(&t->samples);
		t->events = 0;
		t->gap_cnt = 0;
		err = reopen_samples(ff, t, ff_since(ff, cut_ns));
	}
	return err;
}

static int enter(struct firefox *ff, struct ff_thread *t, const struct trace_event *event)
{
	uint32_t func = ff_map__find_id(&ff->func_ids, event->func);
	uint64_t since_ns = change_time(ff, event->ts_ns);
	struct ff_open *open;

	if (func == FF_NONE)
		return -PYE_EFORMAT;
	if (ff_grow((void **)&t->open, &t->open_cap, t->depth, sizeof(*t->open)))
		return -ENOMEM;
	open = &t->open[t->depth];
	open->frame = ff->func_frames[func];
	open->stack = ff_tables__stack(&ff->tables, top_stack(t), open->frame);
	if (open->stack == FF_NONE)
		return -ENOMEM;
	t->depth++;
	if (event->kind == TRACE_OPEN)
		return ff_samples__find(&t->samples, ff->gzip, since_ns, open->stack);
	return ff_samples__add(&t->samples, ff->gzip, since_ns, open->stack);
}

static int on_event(void *self, const struct trace_event *event)
{
	struct firefox *ff = self;
	struct ff_thread *t = find_thread(ff, event->thread);

	if (!t)
		return -PYE_EFORMAT;
	if (event->kind != TRACE_OPEN) {
		if (ff->opts.split_events && ff->part_events >= ff->opts.split_events &&
		    ff->out->next) {
			int err = next_part(ff);

			if (err)
				return err;
		}
		ff->part_events++;
		ff->events++;
		t->events++;
	}
	if (event->ts_ns > ff->last_ns)
		ff->last_ns = event->ts_ns;
	if (!trace_is_leave(event->kind))
		return enter(ff, t, event);
	if (!t->depth)
		return 0;
	t->depth--;
	return ff_samples__add(&t->samples, ff->gzip, change_time(ff, event->ts_ns), top_stack(t));
}

static int sampled_stack(struct firefox *ff, const struct trace_sample *sample, uint32_t *stack,
			 uint32_t *frame)
{
	for (uint32_t i = 0; i < sample->frame_cnt; i++) {
		uint32_t func = ff_map__find_id(&ff->func_ids, sample->frames[i].func);

		if (func == FF_NONE)
			return -PYE_EFORMAT;
		*frame = ff_tables__frame_at(&ff->tables, ff->func_frames[func],
					     sample->frames[i].line);
		if (*frame == FF_NONE)
			return -ENOMEM;
		*stack = ff_tables__stack(&ff->tables, *stack, *frame);
		if (*stack == FF_NONE)
			return -ENOMEM;
	}
	return 0;
}

/* Of a wait: its marker, and the stack with the leaf that says for what. Short waits before it are in its
 * weight; the marker is not longer than the thread was away. */
static int wait_stack(struct firefox *ff, struct ff_thread *t, const struct trace_sample *sample,
		      uint64_t start_ns, uint32_t frame, uint32_t *stack)
{
	uint32_t leaf = ff_wait_frame(ff, sample->reason);
	int err;

	if (start_ns < t->sampled_ns)
		start_ns = t->sampled_ns;
	err = ff_wait_add(ff, t, sample, start_ns, *stack, frame);
	if (err || leaf == FF_NONE)
		return err ? err : -ENOMEM;
	*stack = ff_tables__stack(&ff->tables, *stack, leaf);
	return *stack == FF_NONE ? -ENOMEM : 0;
}

/* A sample stands for the time up to it: its stack begins then, and ends with it unless the next one's
 * time follows at once. */
static int on_sample(void *self, const struct trace_sample *sample)
{
	uint64_t end_ns = sample->ts_ns, start_ns;
	struct ff_thread *t = find_thread(self, sample->thread);
	struct firefox *ff = self;
	uint32_t stack = FF_NONE, frame = FF_NONE;
	int err = 0;

	if (!t)
		return -PYE_EFORMAT;
	if (ff->opts.split_events && ff->part_events >= ff->opts.split_events && ff->out->next)
		err = next_part(ff);
	if (err)
		return err;
	ff->part_events++;
	ff->events++;
	t->events++;
	err = sampled_stack(ff, sample, &stack, &frame);
	if (err)
		return err;
	start_ns = change_time(ff, end_ns > sample->weight_ns ? end_ns - sample->weight_ns : 0);
	/* ticks come late, and what runs for less than one is not seen: that is no hole */
	if (t->samples.cnt && t->sampled_ns + ff->info.sample_ns < start_ns)
		err = close_samples(ff, t, ff->info.start_ns + t->sampled_ns);
	if (!err && sample->off_cpu)
		err = wait_stack(ff, t, sample, start_ns, frame, &stack);
	if (end_ns > ff->last_ns)
		ff->last_ns = end_ns;
	t->sampled_ns = ff_since(ff, end_ns);
	t->samples.sampled = true;
	err = err ? err : ff_samples__add(&t->samples, ff->gzip, start_ns, stack);
	t->samples.on_cpu = !sample->off_cpu;
	return err;
}

static int on_gap(void *self, const struct trace_gap *gap)
{
	struct firefox *ff = self;
	struct ff_thread *t = find_thread(ff, gap->thread);
	int err;

	if (!t)
		return -PYE_EFORMAT;
	if (ff_grow((void **)&t->gaps, &t->gap_cap, t->gap_cnt, sizeof(*t->gaps)))
		return -ENOMEM;
	t->gaps[t->gap_cnt++] = *gap;
	if (gap->ts_ns > ff->last_ns)
		ff->last_ns = gap->ts_ns;
	ff->part_lost += gap->lost;
	err = close_samples(ff, t, gap->ts_ns);
	t->depth = 0;
	return err;
}

/* When the frames still open in a thread ended, as far as known. */
static uint64_t thread_end(const struct firefox *ff, const struct ff_thread *t)
{
	uint64_t end_ns = ff->part_end_ns;
	uint64_t process_end_ns = ff->processes[t->process].end_ns;

	if (process_end_ns && process_end_ns < end_ns)
		end_ns = process_end_ns;
	if (t->end_ns && t->end_ns < end_ns)
		end_ns = t->end_ns;
	return sampled_until(ff, t, end_ns);
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct firefox *ff = self;
	int err = 0;

	ff->part_end_ns = totals->end_ns > ff->last_ns ? totals->end_ns : ff->last_ns;
	for (uint32_t i = 0; !err && i < ff->thread_ids.cnt; i++) {
		struct ff_thread *t = &ff->threads[i];

		err = close_samples(ff, t, thread_end(ff, t));
		if (t->samples.cnt && ff->info.start_ns + t->samples.last_ns > ff->part_end_ns)
			ff->part_end_ns = ff->info.start_ns + t->samples.last_ns;
	}
	return err ? err : ff_write_file(ff, totals);
}

static void firefox__done(void *self)
{
	struct firefox *ff = self;

	ff_defs_done(ff);
	ff_tables__done(&ff->tables);
	outbuf__done(&ff->json);
	ff_gzip__free(ff->gzip);
}

static int firefox__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	struct firefox *ff = self;
	int err;

	ff->opts = *opts;
	ff->out = out;
	err = ff_tables__init(&ff->tables);
	if (!err)
		err = ff_gzip__new(&ff->gzip, opts->plain, out->write, out->ctx);
	if (!err)
		err = outbuf__init(&ff->json, JSON_BYTES, ff_gzip__write, ff->gzip);
	return err;
}

static const char *const aliases[] = { "gecko", NULL };
static const char *const extensions[] = { ".json.gz", ".json", NULL };

const struct exporter export_firefox = {
	.name = "firefox",
	.aliases = aliases,
	.extensions = extensions,
	.help = "Firefox Profiler (processed format 70; gzip but for .json), a track per process and thread",
	.hint = "open https://profiler.firefox.com and drop the file onto it",
	.size = sizeof(struct firefox),
	.init = firefox__init,
	.consumer = {
		.begin = ff_begin,
		.process = ff_process,
		.thread = ff_thread,
		.func = ff_func,
		.event = on_event,
		.sample = on_sample,
		.memory = ff_memory,
		.gap = on_gap,
		.end = on_end,
	},
	.done = firefox__done,
};
