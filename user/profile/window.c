// SPDX-License-Identifier: Apache-2.0
#include "profile/window.h"

#include <errno.h>
#include <stdlib.h>

struct window {
	struct window_opts opts;
	struct lines *lines;
	struct window_totals totals;
};

int window__new(struct window **out, const struct window_opts *opts)
{
	struct window *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->opts = *opts;
	if (lines__new(&w->lines, LINES_OF_FUNCTIONS, NULL)) {
		window__free(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

void window__free(struct window *w)
{
	if (!w)
		return;
	lines__free(w->lines);
	free(w);
}

const struct lines *window__lines(const struct window *w)
{
	return w->lines;
}

const struct window_totals *window__totals(const struct window *w)
{
	return &w->totals;
}

static int on_begin(void *self, const struct trace_info *info)
{
	return lines_consumer.begin(((struct window *)self)->lines, info);
}

static int on_process(void *self, const struct trace_process *process)
{
	return lines_consumer.process(((struct window *)self)->lines, process);
}

static int on_thread(void *self, const struct trace_thread *thread)
{
	return lines_consumer.thread(((struct window *)self)->lines, thread);
}

static int on_func(void *self, const struct trace_func *func)
{
	return lines_consumer.func(((struct window *)self)->lines, func);
}

static int on_event(void *self, const struct trace_event *event)
{
	return lines_consumer.event(((struct window *)self)->lines, event);
}

static int on_gap(void *self, const struct trace_gap *gap)
{
	return lines_consumer.gap(((struct window *)self)->lines, gap);
}

/* How much of the time that a sample stands for lies in the window. */
static uint64_t inside(const struct window_opts *o, const struct trace_sample *s)
{
	uint64_t from = s->ts_ns > s->weight_ns ? s->ts_ns - s->weight_ns : 0, until = s->ts_ns;

	if (from < o->from_ns)
		from = o->from_ns;
	if (until > o->until_ns)
		until = o->until_ns;
	return until > from ? until - from : 0;
}

static int on_sample(void *self, const struct trace_sample *sample)
{
	struct window *w = self;
	struct trace_sample part = *sample;

	part.weight_ns = inside(&w->opts, sample);
	if (!part.weight_ns)
		return 0;
	w->totals.samples += part.count;
	if (!part.off_cpu)
		w->totals.cpu_ns += part.weight_ns;
	else if (part.reason < REASON_CNT)
		w->totals.wait_ns[part.reason] += part.weight_ns;
	if (w->opts.of != WINDOW_WALL && part.off_cpu != (w->opts.of == WINDOW_WAITS))
		return 0;
	return lines_consumer.sample(w->lines, &part);
}

static int on_end(void *self, const struct trace_totals *totals)
{
	return lines_consumer.end(((struct window *)self)->lines, totals);
}

const struct trace_consumer window_consumer = {
	.begin = on_begin,
	.process = on_process,
	.thread = on_thread,
	.func = on_func,
	.event = on_event,
	.sample = on_sample,
	.gap = on_gap,
	.end = on_end,
};
