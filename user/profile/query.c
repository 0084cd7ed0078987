// SPDX-License-Identifier: Apache-2.0
#include "profile/query.h"

#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/idmap.h"
#include "profile/forward.h"
#include "profile/module.h"
#include "profile/query_priv.h"

/* A run that has not ended. */
struct run {
	uint64_t ts_ns, own_ns;
	uint32_t depth;
};

struct query_thread {
	struct run *runs;
	uint32_t cnt, cap;
	uint64_t own_ns; /* what the profiler cost this thread so far */
};

struct query {
	struct forward next; /* to the aggregate */
	struct query_result r;
	struct aggregate *agg;
	struct func_spec spec;
	bool raw;
	uint32_t *meant;
	struct idmap targets; /* ids of functions -> 1: the one that is meant */
	struct idmap thread_ids;
	struct query_thread *threads;
	uint32_t thread_cnt, thread_cap;
	uint32_t before_ns[TRACE_KIND_CNT], after_ns[TRACE_KIND_CNT];
};

int query__new(struct query **out, const char *name, const struct aggregate_opts *opts)
{
	struct query *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->raw = opts && opts->raw;
	q->r.func = AGG_NONE;
	func_spec_parse(&q->spec, name);
	q->meant = calloc(QUERY_MEANT_MAX, sizeof(*q->meant));
	if (!q->meant || aggregate__new(&q->agg, opts)) {
		query__free(q);
		return -ENOMEM;
	}
	q->next = (struct forward){ &aggregate_consumer, q->agg };
	*out = q;
	return 0;
}

void query__free(struct query *q)
{
	if (!q)
		return;
	for (uint32_t i = 0; i < q->thread_cnt; i++)
		free(q->threads[i].runs);
	free(q->threads);
	idmap__done(&q->targets);
	idmap__done(&q->thread_ids);
	free(q->r.callers.edges);
	free(q->r.callees.edges);
	free(q->meant);
	aggregate__free(q->agg);
	free(q);
}

const struct query_result *query__result(const struct query *q)
{
	return &q->r;
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct query *q = self;

	trace_cost_by_kind(&info->cost, q->before_ns, q->after_ns);
	return forward_begin(q, info);
}

static int on_thread(void *self, const struct trace_thread *thread)
{
	struct query *q = self;

	return forward_thread(q, thread);
}

/* Notes a function that is called as asked for; the first one and its likes are followed. */
static bool is_target(struct query *q, uint32_t index)
{
	const struct agg_func *f = aggregate__func(q->agg, index);
	const struct strpool *strings = &aggregate__result(q->agg)->strings;

	if (!func_spec_matches(&q->spec, strpool__get(strings, f->file),
			       strpool__get(strings, f->short_file),
			       strpool__get(strings, f->qualname), f->line))
		return false;
	for (uint32_t i = 0; i < q->r.meant_cnt; i++) {
		if (query_same_func(aggregate__func(q->agg, q->meant[i]), f))
			return i == 0;
	}
	if (q->r.meant_cnt < QUERY_MEANT_MAX)
		q->meant[q->r.meant_cnt++] = index;
	return q->r.meant_cnt == 1;
}

static int on_func(void *self, const struct trace_func *func)
{
	struct query *q = self;
	int err = forward_func(q, func);
	bool target = !err && is_target(q, aggregate__func_index(q->agg, func->id));

	/* an id that meant another function before has to be set even if it is no target now */
	if (!err && (target || idmap__find(&q->targets, func->id) != IDMAP_NONE))
		err = idmap__set(&q->targets, func->id, target);
	return err;
}

static int thread_of(struct query *q, uint32_t id, struct query_thread **out)
{
	uint32_t i = idmap__find(&q->thread_ids, id);
	int err = 0;

	if (i == IDMAP_NONE) {
		i = q->thread_cnt;
		err = GROW(q->threads, q->thread_cap, i);
		err = err ? err : idmap__set(&q->thread_ids, id, i);
		q->thread_cnt += !err;
	}
	*out = err ? NULL : &q->threads[i];
	return err;
}

static int push(struct query_thread *t, const struct trace_event *event)
{
	if (GROW(t->runs, t->cap, t->cnt))
		return -ENOMEM;
	t->runs[t->cnt++] = (struct run){ event->ts_ns, t->own_ns, event->depth };
	return 0;
}

static void pop(struct query *q, struct query_thread *t, const struct trace_event *event)
{
	const struct run *run = &t->runs[t->cnt - 1];
	uint64_t ns, own_ns;

	if (!t->cnt || run->depth != event->depth)
		return;
	ns = event->ts_ns - run->ts_ns;
	own_ns = q->raw ? 0 : t->own_ns - run->own_ns;
	ns = ns > own_ns ? ns - own_ns : 0;
	histogram__add(&q->r.run_ns, ns);
	q->r.run_own_ns[histogram_bucket(ns)] += own_ns;
	q->r.ended[event->kind]++;
	t->cnt--;
}

static int on_event(void *self, const struct trace_event *event)
{
	struct query *q = self;
	struct query_thread *t;
	int err = forward_event(q, event);

	err = err ? err : thread_of(q, event->thread, &t);
	if (err)
		return err;
	t->own_ns += q->before_ns[event->kind];
	if (trace_is_leave(event->kind)) {
		if (t->cnt)
			pop(q, t, event);
	} else if (idmap__find(&q->targets, event->func) == 1) {
		if (event->kind == TRACE_OPEN)
			q->r.cut_cnt++;
		else
			err = push(t, event);
	}
	t->own_ns += q->after_ns[event->kind];
	return err;
}

static int on_gap(void *self, const struct trace_gap *gap)
{
	struct query *q = self;
	struct query_thread *t;
	int err = forward_gap(q, gap);

	err = err ? err : thread_of(q, gap->thread, &t);
	if (err)
		return err;
	q->r.cut_cnt += t->cnt;
	t->cnt = 0;
	return 0;
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct query *q = self;
	int err = forward_end(q, totals);

	q->r.all = aggregate__result(q->agg);
	q->r.meant = q->meant;
	for (uint32_t i = 0; i < q->thread_cnt; i++)
		q->r.cut_cnt += q->threads[i].cnt;
	if (err || q->r.meant_cnt != 1)
		return err;
	q->r.func = q->meant[0];
	return query_relate(&q->r);
}

const struct trace_consumer query_consumer = {
	.begin = on_begin,
	.process = forward_process,
	.thread = on_thread,
	.func = on_func,
	.event = on_event,
	.sample = forward_sample, /* they have no runs, but callers and callees */
	.gap = on_gap,
	.end = on_end,
};
