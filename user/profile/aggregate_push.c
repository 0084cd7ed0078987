// SPDX-License-Identifier: Apache-2.0
/* What an aggregate holds, as a trace: for consumers that know only traces. */
#include <errno.h>
#include <stdlib.h>

#include "profile/aggregate.h"

struct push {
	const struct agg_result *r;
	const struct trace_consumer *to;
	void *self;
	uint64_t now_ns;
	struct trace_frame frames[TRACE_SAMPLE_FRAMES];
};

static const char *text(const struct push *p, uint32_t id)
{
	return strpool__get(&p->r->strings, id);
}

static int push_begin(struct push *p)
{
	const struct agg_result *r = p->r;
	const struct trace_info info = {
		.start_ns = r->start_ns,
		.start_unix_ns = r->start_unix_ns,
		.engine = text(p, r->engine),
		.version = text(p, r->version),
		.hostname = text(p, r->hostname),
		.kernel = text(p, r->kernel),
		.cpu = "",
		.arguments = text(p, r->arguments),
		.sample_ns = r->sample_ns,
	};

	return p->to->begin ? p->to->begin(p->self, &info) : 0;
}

/* Ids are the indexes and 1. */
static int push_processes(struct push *p)
{
	int err = 0;

	for (uint32_t i = 0; i < p->r->process_cnt && !err && p->to->process; i++) {
		const struct agg_process *from = &p->r->processes[i];
		const struct trace_process process = { .id = i + 1,
						       .pid = from->pid,
						       .start_ns = p->r->start_ns,
						       .comm = text(p, from->comm),
						       .exe = text(p, from->exe),
						       .python = text(p, from->python),
						       .prefix = "" };

		err = p->to->process(p->self, &process);
	}
	return err;
}

static int push_threads(struct push *p)
{
	int err = 0;

	for (uint32_t i = 0; i < p->r->thread_cnt && !err && p->to->thread; i++) {
		const struct agg_thread *from = &p->r->threads[i];
		const struct trace_thread thread = { .id = i + 1,
						     .process = from->process + 1,
						     .tid = from->tid,
						     .is_main = from->is_main,
						     .start_ns = p->r->start_ns,
						     .name = text(p, from->name) };

		err = p->to->thread(p->self, &thread);
	}
	return err;
}

static int push_funcs(struct push *p)
{
	int err = 0;

	for (uint32_t i = 0; i < p->r->func_cnt && !err && p->to->func; i++) {
		const struct agg_func *from = &p->r->funcs[i];
		const struct trace_func func = { .id = i + 1,
						 .process = from->process + 1,
						 .line = from->line,
						 .kind = from->kind,
						 .qualname = text(p, from->qualname),
						 .name = text(p, from->name),
						 .file = text(p, from->file) };

		err = p->to->func(p->self, &func);
	}
	return err;
}

/* The frames of a stack, outermost first; how many. Of a deeper one than samples are, the innermost ones are left
 * out. */
static uint32_t frames_of(struct push *p, const struct agg_stack *stack)
{
	const struct agg_stack *stacks = p->r->stacks;
	uint32_t depth = 0, at;

	for (const struct agg_stack *s = stack; s->parent != AGG_NONE; s = &stacks[s->parent])
		depth++;
	at = depth;
	for (const struct agg_stack *s = stack; s->parent != AGG_NONE; s = &stacks[s->parent])
		if (--at < TRACE_SAMPLE_FRAMES)
			p->frames[at] = (struct trace_frame){ .func = s->func + 1 };
	return depth < TRACE_SAMPLE_FRAMES ? depth : TRACE_SAMPLE_FRAMES;
}

static int push_sample(struct push *p, const struct agg_stack *stack, uint32_t frame_cnt,
		       uint64_t weight_ns, bool off_cpu)
{
	const struct trace_sample sample = { .ts_ns = p->now_ns += weight_ns,
					     .weight_ns = weight_ns,
					     .frames = p->frames,
					     .frame_cnt = frame_cnt,
					     .thread = stack->thread + 1,
					     .off_cpu = off_cpu,
					     .reason = off_cpu ? REASON_OTHER : REASON_NONE };

	return p->to->sample && weight_ns ? p->to->sample(p->self, &sample) : 0;
}

static int push_stacks(struct push *p)
{
	int err = 0;

	for (uint32_t i = 0; i < p->r->stack_cnt && !err; i++) {
		const struct agg_stack *s = &p->r->stacks[i];
		uint64_t off_ns = s->off_ns < s->self_ns ? s->off_ns : s->self_ns;
		uint32_t cnt;

		if (!s->self_ns || s->parent == AGG_NONE)
			continue;
		cnt = frames_of(p, s);
		err = push_sample(p, s, cnt, s->self_ns - off_ns, false);
		err = err ? err : push_sample(p, s, cnt, off_ns, true);
	}
	return err;
}

int aggregate_push(const struct agg_result *r, const struct trace_consumer *to, void *self)
{
	struct push *p = malloc(sizeof(*p));
	struct trace_totals totals = r->totals;
	int err;

	if (!p)
		return -ENOMEM;
	*p = (struct push){ .r = r, .to = to, .self = self, .now_ns = r->start_ns };
	err = push_begin(p);
	err = err ? err : push_processes(p);
	err = err ? err : push_threads(p);
	err = err ? err : push_funcs(p);
	err = err ? err : push_stacks(p);
	totals.end_ns = p->now_ns;
	if (!err && to->end)
		err = to->end(self, &totals);
	free(p);
	return err;
}
