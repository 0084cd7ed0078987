// SPDX-License-Identifier: Apache-2.0
#include "profile/window.h"

#include <errno.h>
#include <stdlib.h>

#include "profile/forward.h"

struct window {
	struct forward next; /* to the lines */
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
	w->next = (struct forward){ &lines_consumer, w->lines };
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
	return forward_sample(w, &part);
}

const struct trace_consumer window_consumer = {
	.begin = forward_begin,
	.process = forward_process,
	.thread = forward_thread,
	.func = forward_func,
	.event = forward_event,
	.sample = on_sample,
	.gap = forward_gap,
	.end = forward_end,
};
