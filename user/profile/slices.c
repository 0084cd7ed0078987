// SPDX-License-Identifier: Apache-2.0
#include "profile/slices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/idmap.h"
#include "profile/forward.h"

#define FIRST_WIDTH_NS 100000

struct slices_thread {
	uint32_t *frames; /* functions, the outermost first */
	uint32_t depth, cap;
	uint64_t last_ns;
	uint32_t after_ns; /* cost that follows the last event */
};

struct slices {
	struct forward next; /* to the aggregate */
	struct aggregate *agg;
	bool raw;
	uint64_t start_ns, width_ns;
	struct slice **of; /* by function; NULL: no time so far */
	uint32_t func_cap;
	struct idmap thread_ids;
	struct slices_thread *threads;
	uint32_t thread_cnt, thread_cap;
	uint32_t before_ns[TRACE_KIND_CNT], after_ns[TRACE_KIND_CNT];
};

int slices__new(struct slices **out, const struct aggregate_opts *opts)
{
	struct slices *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->width_ns = FIRST_WIDTH_NS;
	s->raw = opts && opts->raw;
	err = aggregate__new(&s->agg, opts);
	if (err) {
		free(s);
		return err;
	}
	s->next = (struct forward){ &aggregate_consumer, s->agg };
	*out = s;
	return 0;
}

void slices__free(struct slices *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->func_cap; i++)
		free(s->of[i]);
	for (uint32_t i = 0; i < s->thread_cnt; i++)
		free(s->threads[i].frames);
	free(s->of);
	free(s->threads);
	idmap__done(&s->thread_ids);
	aggregate__free(s->agg);
	free(s);
}

const struct agg_result *slices__result(const struct slices *s)
{
	return aggregate__result(s->agg);
}

const struct slice *slices__of(const struct slices *s, uint32_t func)
{
	return func < s->func_cap ? s->of[func] : NULL;
}

static void halve(struct slices *s)
{
	s->width_ns *= 2;
	for (uint32_t f = 0; f < s->func_cap; f++) {
		struct slice *slice = s->of[f];

		if (!slice)
			continue;
		for (size_t i = 0; i < SLICES_MAX / 2; i++)
			slice[i] = (struct slice){
				.self_ns = slice[2 * i].self_ns + slice[2 * i + 1].self_ns,
				.own_ns = slice[2 * i].own_ns + slice[2 * i + 1].own_ns,
				.runs = slice[2 * i].runs + slice[2 * i + 1].runs
			};
		memset(slice + SLICES_MAX / 2, 0, SLICES_MAX / 2 * sizeof(*slice));
	}
}

/* Return: the slice of a function at a time; NULL without memory. */
static struct slice *slice_at(struct slices *s, uint32_t func, uint64_t ts_ns)
{
	uint64_t at_ns = ts_ns > s->start_ns ? ts_ns - s->start_ns : 0;

	while (at_ns / s->width_ns >= SLICES_MAX)
		halve(s);
	if (GROW(s->of, s->func_cap, func))
		return NULL;
	if (!s->of[func])
		s->of[func] = calloc(SLICES_MAX, sizeof(**s->of));
	return s->of[func] ? &s->of[func][at_ns / s->width_ns] : NULL;
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct slices *s = self;

	s->start_ns = info->start_ns;
	trace_cost_by_kind(&info->cost, s->before_ns, s->after_ns);
	return forward_begin(s, info);
}

static int thread_of(struct slices *s, uint32_t id, struct slices_thread **out)
{
	uint32_t i = idmap__find(&s->thread_ids, id);
	int err = 0;

	if (i == IDMAP_NONE) {
		i = s->thread_cnt;
		err = GROW(s->threads, s->thread_cap, i);
		err = err ? err : idmap__set(&s->thread_ids, id, i);
		s->thread_cnt += !err;
	}
	*out = err ? NULL : &s->threads[i];
	return err;
}

static int push(struct slices_thread *t, uint32_t func)
{
	if (GROW(t->frames, t->cap, t->depth))
		return -ENOMEM;
	t->frames[t->depth++] = func;
	return 0;
}

/* The time since the last event of the thread is that of the frame on top. */
static int charge(struct slices *s, struct slices_thread *t, uint64_t ts_ns, uint32_t before_ns,
		  bool ends)
{
	struct slice *slice;

	if (t->depth && ts_ns >= t->last_ns) {
		slice = slice_at(s, t->frames[t->depth - 1], ts_ns);
		if (!slice)
			return -ENOMEM;
		slice->self_ns += (int64_t)(ts_ns - t->last_ns);
		slice->own_ns += (uint64_t)t->after_ns + before_ns;
		slice->self_ns -= s->raw ? 0 : (int64_t)t->after_ns + before_ns;
		slice->runs += ends;
	}
	t->last_ns = ts_ns;
	return 0;
}

static int on_event(void *self, const struct trace_event *event)
{
	struct slices *s = self;
	struct slices_thread *t;
	bool leave = trace_is_leave(event->kind);
	int err = forward_event(s, event);

	err = err ? err : thread_of(s, event->thread, &t);
	err = err ? err : charge(s, t, event->ts_ns, s->before_ns[event->kind], leave);
	if (err)
		return err;
	t->after_ns = s->after_ns[event->kind];
	if (!leave)
		return push(t, aggregate__func_index(s->agg, event->func));
	t->depth -= t->depth > 0;
	return 0;
}

static int on_sample(void *self, const struct trace_sample *sample)
{
	struct slices *s = self;
	struct slice *slice;
	int err = forward_sample(s, sample);

	if (err || !sample->frame_cnt)
		return err;
	slice = slice_at(s,
			 aggregate__func_index(s->agg, sample->frames[sample->frame_cnt - 1].func),
			 sample->ts_ns);
	if (!slice)
		return -ENOMEM;
	slice->self_ns += (int64_t)sample->weight_ns;
	return 0;
}

static int on_gap(void *self, const struct trace_gap *gap)
{
	struct slices *s = self;
	struct slices_thread *t;
	int err = forward_gap(s, gap);

	err = err ? err : thread_of(s, gap->thread, &t);
	err = err ? err : charge(s, t, gap->ts_ns, 0, false);
	if (err)
		return err;
	t->depth = 0;
	t->after_ns = 0;
	return 0;
}

const struct trace_consumer slices_consumer = {
	.begin = on_begin,
	.process = forward_process,
	.thread = forward_thread,
	.func = forward_func,
	.event = on_event,
	.sample = on_sample,
	.gap = on_gap,
	.end = forward_end,
};
