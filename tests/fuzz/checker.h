/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer that aborts when what it gets breaks a rule that every consumer relies on (profile/trace.h), and
 * hands on to another one.
 */
#ifndef PYEBPF_FUZZ_CHECKER_H
#define PYEBPF_FUZZ_CHECKER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fuzz.h"
#include "profile/trace.h"

enum {
	CHECKER_IDS = 1 << 16
};

/* The limits of what is tested, and who is next: set them in a zeroed struct. */
struct checker {
	size_t text_max; /* bytes of a string */
	uint32_t depth_max; /* frames; 0: as many as there are */
	uint32_t pushed_max; /* events and samples, then the consumer has had enough; 0: never */
	bool ids_again; /* a thread's id can be another thread's: what is open then is not known */
	bool after_start; /* nothing is earlier than the start of the trace; a capture's is what it says */
	const struct trace_consumer *next; /* NULL: nobody */
	void *next_self;
	/* what was seen */
	uint64_t last_ns;
	uint64_t pushed;
	uint64_t events; /* without frames that were only found; of a sample what it stands for */
	bool begun, ended;
	uint8_t processes[CHECKER_IDS], threads[CHECKER_IDS]; /* known; ids modulo CHECKER_IDS */
	uint8_t funcs[CHECKER_IDS];
	uint32_t depth[CHECKER_IDS]; /* of thread ids below CHECKER_IDS */
};

/* Reads every byte of a string. */
static inline void checker_text(const struct checker *c, const char *s)
{
	demand(s && strlen(s) <= c->text_max);
}

#define CHECKER_NEXT(c, member, what) \
	((c)->next && (c)->next->member ? (c)->next->member((c)->next_self, what) : 0)

static inline int checker_begin(void *self, const struct trace_info *info)
{
	struct checker *c = self;

	demand(!c->begun);
	c->begun = true;
	checker_text(c, info->engine);
	checker_text(c, info->version);
	checker_text(c, info->hostname);
	checker_text(c, info->kernel);
	checker_text(c, info->cpu);
	checker_text(c, info->arguments);
	c->last_ns = c->after_start ? info->start_ns : 0;
	return CHECKER_NEXT(c, begin, info);
}

static inline int checker_process(void *self, const struct trace_process *p)
{
	struct checker *c = self;

	demand(c->begun && !c->ended);
	checker_text(c, p->comm);
	checker_text(c, p->exe);
	checker_text(c, p->python);
	checker_text(c, p->prefix);
	for (uint32_t i = 0; p->import_roots && p->import_roots[i]; i++)
		checker_text(c, p->import_roots[i]);
	c->processes[p->id % CHECKER_IDS] = 1;
	return CHECKER_NEXT(c, process, p);
}

static inline int checker_thread(void *self, const struct trace_thread *t)
{
	struct checker *c = self;

	demand(c->begun && !c->ended && c->processes[t->process % CHECKER_IDS]);
	checker_text(c, t->name);
	c->threads[t->id % CHECKER_IDS] = 1;
	return CHECKER_NEXT(c, thread, t);
}

static inline int checker_func(void *self, const struct trace_func *f)
{
	struct checker *c = self;

	demand(c->begun && !c->ended && c->processes[f->process % CHECKER_IDS]);
	checker_text(c, f->qualname);
	checker_text(c, f->name);
	checker_text(c, f->file);
	c->funcs[f->id % CHECKER_IDS] = 1;
	return CHECKER_NEXT(c, func, f);
}

static inline void checker_when(struct checker *c, uint64_t ts_ns, uint32_t thread)
{
	demand(c->begun && !c->ended && ts_ns >= c->last_ns);
	demand(c->threads[thread % CHECKER_IDS]);
	c->last_ns = ts_ns;
}

static inline void checker_nest(struct checker *c, const struct trace_event *e)
{
	uint32_t *depth = &c->depth[e->thread];

	if (c->ids_again && !e->depth && !trace_is_leave(e->kind))
		*depth = 0;
	if (trace_is_leave(e->kind))
		demand(--*depth == e->depth);
	else
		demand((*depth)++ == e->depth);
}

static inline bool checker_has_enough(struct checker *c)
{
	return ++c->pushed > c->pushed_max && c->pushed_max;
}

static inline int checker_event(void *self, const struct trace_event *e)
{
	struct checker *c = self;

	checker_when(c, e->ts_ns, e->thread);
	demand(e->kind < TRACE_KIND_CNT && (!c->depth_max || e->depth < c->depth_max));
	demand(c->funcs[e->func % CHECKER_IDS]);
	c->events += e->kind != TRACE_OPEN;
	if (e->thread < CHECKER_IDS)
		checker_nest(c, e);
	return checker_has_enough(c) ? -1 : CHECKER_NEXT(c, event, e);
}

static inline int checker_sample(void *self, const struct trace_sample *s)
{
	struct checker *c = self;

	checker_when(c, s->ts_ns, s->thread);
	demand(s->frame_cnt <= TRACE_SAMPLE_FRAMES && s->reason < REASON_CNT);
	for (uint32_t i = 0; i < s->frame_cnt; i++)
		demand(c->funcs[s->frames[i].func % CHECKER_IDS]);
	demand(!s->holder.func || c->funcs[s->holder.func % CHECKER_IDS]);
	c->events = s->count > UINT64_MAX - c->events ? UINT64_MAX : c->events + s->count;
	return checker_has_enough(c) ? -1 : CHECKER_NEXT(c, sample, s);
}

static inline int checker_gap(void *self, const struct trace_gap *g)
{
	struct checker *c = self;

	checker_when(c, g->ts_ns, g->thread);
	demand(g->until_ns >= g->ts_ns && g->reason < GAP_CNT);
	if (g->thread < CHECKER_IDS)
		c->depth[g->thread] = 0;
	return CHECKER_NEXT(c, gap, g);
}

static inline int checker_end(void *self, const struct trace_totals *t)
{
	struct checker *c = self;

	demand(c->begun && !c->ended);
	demand(t->end_ns >= c->last_ns && t->written <= c->events);
	c->ended = true;
	return CHECKER_NEXT(c, end, t);
}

static const struct trace_consumer checker_consumer = { .begin = checker_begin,
							.process = checker_process,
							.thread = checker_thread,
							.func = checker_func,
							.event = checker_event,
							.sample = checker_sample,
							.gap = checker_gap,
							.end = checker_end };

#endif
