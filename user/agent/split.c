// SPDX-License-Identifier: Apache-2.0
#include "agent/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/idmap.h"

struct group {
	const struct trace_consumer *to;
	void *self;
	uint64_t samples;
};

/* In the maps, where IDMAP_NONE says that there is nothing. */
#define UNWANTED (IDMAP_NONE - 1)

struct split {
	const struct split_ops *ops;
	void *ctx;
	struct group *groups;
	uint32_t group_cnt, group_cap;
	struct group unwanted; /* its consumer has no members */
	struct idmap by_process, by_thread; /* id -> group */
	struct trace_info info; /* strings are ours */
	char *strings[6];
};

int split__new(struct split **out, const struct split_ops *ops, void *ctx)
{
	static const struct trace_consumer nobody = { 0 };
	struct split *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->ops = ops;
	s->ctx = ctx;
	s->unwanted.to = &nobody;
	*out = s;
	return 0;
}

void split__free(struct split *s)
{
	if (!s)
		return;
	idmap__done(&s->by_process);
	idmap__done(&s->by_thread);
	for (size_t i = 0; i < sizeof(s->strings) / sizeof(s->strings[0]); i++)
		free(s->strings[i]);
	free(s->groups);
	free(s);
}

uint64_t split__samples(const struct split *s, uint32_t group)
{
	return group < s->group_cnt ? s->groups[group].samples : 0;
}

uint64_t split__unwanted(const struct split *s)
{
	return s->unwanted.samples;
}

static struct group *group_at(struct split *s, uint32_t number)
{
	return number == UNWANTED ? &s->unwanted : &s->groups[number];
}

/* Groups come later than begin(), so what it says is kept. */
static int split_begin(void *self, const struct trace_info *info)
{
	struct split *s = self;
	const char **const of[] = { &s->info.engine, &s->info.version, &s->info.hostname,
				    &s->info.kernel, &s->info.cpu,     &s->info.arguments };

	s->info = *info;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		free(s->strings[i]);
		s->strings[i] = strdup(*of[i]);
		if (!s->strings[i])
			return -ENOMEM;
		*of[i] = s->strings[i];
	}
	return 0;
}

static int open_group(struct split *s)
{
	struct group *g;
	int err;

	if (GROW(s->groups, s->group_cap, s->group_cnt))
		return -ENOMEM;
	g = &s->groups[s->group_cnt];
	*g = (struct group){ 0 };
	err = s->ops->open(s->ctx, s->group_cnt, &g->to, &g->self);
	if (err)
		return err;
	s->group_cnt++;
	return g->to->begin ? g->to->begin(g->self, &s->info) : 0;
}

static int split_process(void *self, const struct trace_process *process)
{
	struct split *s = self;
	uint32_t number = idmap__find(&s->by_process, process->id);
	struct group *g;
	int err = 0;

	if (number == IDMAP_NONE) {
		err = s->ops->group(s->ctx, process, &number);
		if (!err && number == SPLIT_NONE)
			number = UNWANTED;
		else if (!err && number == s->group_cnt)
			err = open_group(s);
		err = err ? err : idmap__set(&s->by_process, process->id, number);
	}
	if (err)
		return err;
	g = group_at(s, number);
	return g->to->process ? g->to->process(g->self, process) : 0;
}

/* The group of an id, NULL with -EINVAL for one that was not defined. */
static struct group *group_by(struct split *s, const struct idmap *map, uint32_t id)
{
	uint32_t number = idmap__find(map, id);

	return number == IDMAP_NONE ? NULL : group_at(s, number);
}

static int split_thread(void *self, const struct trace_thread *thread)
{
	struct split *s = self;
	struct group *g = group_by(s, &s->by_process, thread->process);
	int err;

	if (!g)
		return -EINVAL;
	err = idmap__set(&s->by_thread, thread->id, idmap__find(&s->by_process, thread->process));
	if (err)
		return err;
	return g->to->thread ? g->to->thread(g->self, thread) : 0;
}

static int split_func(void *self, const struct trace_func *func)
{
	struct split *s = self;
	struct group *g = group_by(s, &s->by_process, func->process);

	if (!g)
		return -EINVAL;
	return g->to->func ? g->to->func(g->self, func) : 0;
}

static int split_sample(void *self, const struct trace_sample *sample)
{
	struct split *s = self;
	struct group *g = group_by(s, &s->by_thread, sample->thread);

	if (!g)
		return -EINVAL;
	g->samples++;
	return g->to->sample ? g->to->sample(g->self, sample) : 0;
}

static int split_event(void *self, const struct trace_event *event)
{
	struct split *s = self;
	struct group *g = group_by(s, &s->by_thread, event->thread);

	if (!g)
		return -EINVAL;
	g->samples++;
	return g->to->event ? g->to->event(g->self, event) : 0;
}

static int split_gap(void *self, const struct trace_gap *gap)
{
	struct split *s = self;
	struct group *g = group_by(s, &s->by_thread, gap->thread);

	if (!g)
		return -EINVAL;
	return g->to->gap ? g->to->gap(g->self, gap) : 0;
}

/* What was lost is known of the whole only: each group is told all of it. */
static int split_end(void *self, const struct trace_totals *totals)
{
	struct split *s = self;
	int err = 0;

	for (uint32_t i = 0; i < s->group_cnt && !err; i++) {
		struct group *g = &s->groups[i];
		struct trace_totals own = *totals;

		own.written = own.generated = g->samples;
		for (unsigned int loss = 0; loss < LOSS_CNT; loss++)
			own.generated += own.lost[loss];
		err = g->samples && g->to->end ? g->to->end(g->self, &own) : 0;
		err = err || !s->ops->close ? err : s->ops->close(s->ctx, i);
	}
	return err;
}

const struct trace_consumer split_consumer = {
	.begin = split_begin,
	.process = split_process,
	.thread = split_thread,
	.func = split_func,
	.event = split_event,
	.sample = split_sample,
	.gap = split_gap,
	.end = split_end,
};
