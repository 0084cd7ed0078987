// SPDX-License-Identifier: Apache-2.0
#include "export/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/json.h"

int timeline__init(struct timeline *t, const struct timeline_ops *ops, void *ctx)
{
	*t = (struct timeline){ .ops = ops, .ctx = ctx };
	return strpool__init(&t->strings);
}

void timeline__done(struct timeline *t)
{
	for (uint32_t i = 0; i < t->thread_cnt; i++)
		free(t->threads[i].open);
	free(t->processes);
	free(t->threads);
	idmap__done(&t->process_ids);
	idmap__done(&t->thread_ids);
	idmap__done(&t->func_ids);
	strpool__done(&t->strings);
}

/* Room for one more in an array of @size bytes each. */
static int reserve(void *array, uint32_t *cap, uint32_t cnt, size_t size)
{
	uint32_t more = *cap ? *cap * 2 : 16;
	void *grown;

	if (cnt < *cap)
		return 0;
	if (more < *cap || more > IDMAP_NONE / 2)
		return -EOVERFLOW;
	grown = realloc(*(void **)array, more * size);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*cap = more;
	return 0;
}

int timeline_begin(struct timeline *t, const struct trace_info *info)
{
	t->start_ns = t->newest_ns = info->start_ns;
	t->sample_ns = info->sample_ns;
	return 0;
}

int timeline_process(struct timeline *t, const struct trace_process *process)
{
	struct timeline_process p = { .pid = process->pid, .end_ns = process->end_ns };
	uint32_t i = idmap__find(&t->process_ids, process->id);
	int err = strpool__add(&t->strings, process->comm, strlen(process->comm), &p.comm);

	if (!err && i == IDMAP_NONE) {
		i = t->process_cnt;
		err = reserve(&t->processes, &t->process_cap, i, sizeof(p));
		err = err ? err : idmap__set(&t->process_ids, process->id, i);
		t->process_cnt += !err;
	}
	if (err)
		return err;
	t->processes[i] = p;
	return 0;
}

static int add_thread(struct timeline *t, uint32_t id, uint32_t *index)
{
	uint32_t i = t->thread_cnt;
	int err = reserve(&t->threads, &t->thread_cap, i, sizeof(*t->threads));

	err = err ? err : idmap__set(&t->thread_ids, id, i);
	if (err)
		return err;
	t->threads[i] = (struct timeline_thread){ .last_ns = t->start_ns };
	t->thread_cnt++;
	*index = i;
	return 0;
}

int timeline_thread(struct timeline *t, const struct trace_thread *thread)
{
	uint32_t process = idmap__find(&t->process_ids, thread->process), name;
	uint32_t i = idmap__find(&t->thread_ids, thread->id);
	struct timeline_thread *live;
	int err;

	if (process == IDMAP_NONE)
		return -EINVAL;
	err = strpool__add(&t->strings, thread->name, strlen(thread->name), &name);
	if (!err && i == IDMAP_NONE)
		err = add_thread(t, thread->id, &i);
	if (err)
		return err;
	live = &t->threads[i];
	live->process = process;
	live->tid = thread->tid;
	live->name = name;
	live->is_main = thread->is_main;
	live->end_ns = thread->end_ns;
	return t->ops->thread ? t->ops->thread(t->ctx, i) : 0;
}

int timeline_func(struct timeline *t, const struct trace_func *func)
{
	int err;

	if (t->func_cnt == IDMAP_NONE - 1)
		return -EOVERFLOW;
	err = idmap__set(&t->func_ids, func->id, t->func_cnt);
	return err ? err : t->ops->func(t->ctx, t->func_cnt++, func);
}

/* Moves the thread's clock on and returns it as time since the start. */
static uint64_t advance(struct timeline *t, struct timeline_thread *live, uint64_t ts_ns)
{
	if (ts_ns > live->last_ns)
		live->last_ns = ts_ns;
	if (live->last_ns > t->newest_ns)
		t->newest_ns = live->last_ns;
	return live->last_ns - t->start_ns;
}

static int close_one(struct timeline *t, uint32_t i, uint64_t ts_ns)
{
	struct timeline_thread *live = &t->threads[i];

	live->depth--;
	return t->ops->close(t->ctx, i, advance(t, live, ts_ns), live->open[live->depth]);
}

static int push(struct timeline_thread *live, uint32_t func)
{
	int err = reserve(&live->open, &live->open_cap, live->depth, sizeof(*live->open));

	if (!err)
		live->open[live->depth++] = func;
	return err;
}

/* Closes the slice of a gap, at @ts_ns at the latest. */
static int leave_gap(struct timeline *t, uint32_t i, uint64_t ts_ns)
{
	struct timeline_thread *live = &t->threads[i];

	live->in_gap = false;
	return close_one(t, i, live->gap.until_ns < ts_ns ? live->gap.until_ns : ts_ns);
}

static int close_all(struct timeline *t, uint32_t i, uint64_t ts_ns)
{
	int err = t->threads[i].in_gap ? leave_gap(t, i, ts_ns) : 0;

	while (!err && t->threads[i].depth)
		err = close_one(t, i, ts_ns);
	return err;
}

int timeline_close_thread(struct timeline *t, uint32_t thread)
{
	return close_all(t, thread, t->threads[thread].last_ns);
}

int timeline_event(struct timeline *t, const struct trace_event *event)
{
	uint32_t i = idmap__find(&t->thread_ids, event->thread), func;
	struct timeline_thread *live;
	int err = 0;

	if (i == IDMAP_NONE || event->kind >= TRACE_KIND_CNT)
		return -EINVAL;
	live = &t->threads[i];
	if (live->in_gap)
		err = leave_gap(t, i, event->ts_ns);
	if (err)
		return err;
	if (trace_is_leave(event->kind))
		return live->depth ? close_one(t, i, event->ts_ns) : 0;
	func = idmap__find(&t->func_ids, event->func);
	if (func == IDMAP_NONE)
		return -EINVAL;
	err = push(live, func);
	return err ? err : t->ops->open(t->ctx, i, advance(t, live, event->ts_ns), func);
}

/* Up to when the stack of a thread is known that ends at @ts_ns at the latest. */
static uint64_t known_until(const struct timeline_thread *live, uint64_t ts_ns)
{
	return live->sampled_ns && live->sampled_ns < ts_ns ? live->sampled_ns : ts_ns;
}

int timeline_sample(struct timeline *t, const struct trace_sample *sample)
{
	uint64_t start_ns = sample->ts_ns > sample->weight_ns ? sample->ts_ns - sample->weight_ns
							      : 0;
	uint32_t i = idmap__find(&t->thread_ids, sample->thread), common = 0;
	struct timeline_thread *live;
	int err = 0;

	if (i == IDMAP_NONE)
		return -EINVAL;
	live = &t->threads[i];
	/* ticks come late, and what runs for less than one is not seen: that is no hole */
	if (live->in_gap || known_until(live, start_ns) + t->sample_ns < start_ns)
		err = close_all(t, i, known_until(live, start_ns));
	while (common < live->depth && common < sample->frame_cnt &&
	       live->open[common] == idmap__find(&t->func_ids, sample->frames[common].func))
		common++;
	while (!err && live->depth > common)
		err = close_one(t, i, start_ns);
	for (; !err && common < sample->frame_cnt; common++) {
		uint32_t func = idmap__find(&t->func_ids, sample->frames[common].func);

		if (func == IDMAP_NONE)
			return -EINVAL;
		err = push(live, func);
		err = err ? err : t->ops->open(t->ctx, i, advance(t, live, start_ns), func);
	}
	live->sampled_ns = sample->ts_ns;
	return err;
}

int timeline_gap(struct timeline *t, const struct trace_gap *gap)
{
	uint32_t i = idmap__find(&t->thread_ids, gap->thread);
	struct timeline_thread *live;
	int err;

	if (i == IDMAP_NONE)
		return -EINVAL;
	live = &t->threads[i];
	err = close_all(t, i, known_until(live, gap->ts_ns));
	err = err ? err : push(live, TIMELINE_GAP);
	if (err)
		return err;
	live->in_gap = true;
	live->gap = *gap;
	return t->ops->gap(t->ctx, i, advance(t, live, gap->ts_ns), gap);
}

int timeline_end(struct timeline *t, const struct trace_totals *totals)
{
	uint64_t end_ns = totals->end_ns > t->newest_ns ? totals->end_ns : t->newest_ns;
	int err = 0;

	for (uint32_t i = 0; i < t->thread_cnt && !err; i++) {
		uint64_t thread_end_ns = t->threads[i].end_ns;
		uint64_t process_end_ns = t->processes[t->threads[i].process].end_ns;
		uint64_t at_ns = end_ns;

		if (process_end_ns && process_end_ns < at_ns)
			at_ns = process_end_ns;
		if (thread_end_ns && thread_end_ns < at_ns)
			at_ns = thread_end_ns;
		err = close_all(t, i, known_until(&t->threads[i], at_ns));
	}
	t->newest_ns = end_ns;
	return err;
}

char *timeline_gap_name(char *out, size_t size, const struct trace_gap *gap)
{
	if (gap->lost)
		snprintf(out, size, "[lost %" PRIu64 "]", gap->lost);
	else
		snprintf(out, size, "[unknown: %s]", trace_gap_name(gap->reason));
	return out;
}

void timeline_put_thread(const struct timeline *t, uint32_t thread, struct outbuf *b)
{
	const struct timeline_thread *live = &t->threads[thread];
	const struct timeline_process *process = &t->processes[live->process];

	json_shown_body(b, strpool__get(&t->strings, process->comm));
	outbuf__putc(b, ' ');
	json_u64(b, process->pid);
	outbuf__puts(b, " / ");
	json_shown_body(b, strpool__get(&t->strings, live->name));
	outbuf__putc(b, ' ');
	json_u64(b, live->tid);
}
