/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic traces for tests of consumers: short calls that fill the structs of the model, keep the
 * depth of each thread, and check that the consumer took them. Include after cmocka.h.
 */
#ifndef PYEBPF_TESTS_UNIT_TRACE_PUSH_H
#define PYEBPF_TESTS_UNIT_TRACE_PUSH_H

#include "profile/trace.h"

enum {
	PUSH_THREADS = 8
};

struct push {
	const struct trace_consumer *to;
	void *self;
	uint64_t sample_ns; /* of struct trace_info */
	uint32_t depth[PUSH_THREADS]; /* by thread id */
};

static inline void push_begin(struct push *p, struct trace_cost cost)
{
	const struct trace_info info = {
		.start_ns = 1000,
		.start_unix_ns = 1700000000000000000,
		.engine = "uprobe",
		.version = "0.1.0",
		.hostname = "host",
		.kernel = "6.1",
		.cpu = "cpu",
		.cpu_cnt = 2,
		.arguments = "pyebpf trace -p 1",
		.cost = cost,
		.sample_ns = p->sample_ns,
	};

	assert_int_equal(p->to->begin(p->self, &info), 0);
}

static inline void push_process(struct push *p, uint32_t id, uint32_t pid, const char *comm)
{
	const struct trace_process process = { .id = id,
					       .pid = pid,
					       .start_ns = 1000,
					       .comm = comm,
					       .exe = "",
					       .python = "3.12",
					       .prefix = "" };

	assert_int_equal(p->to->process(p->self, &process), 0);
}

static inline void push_thread(struct push *p, uint32_t id, uint32_t process, uint32_t tid,
			       const char *name, uint64_t end_ns)
{
	const struct trace_thread thread = { .id = id,
					     .process = process,
					     .tid = tid,
					     .start_ns = 1000,
					     .end_ns = end_ns,
					     .name = name };

	assert_int_equal(p->to->thread(p->self, &thread), 0);
}

static inline void push_func(struct push *p, uint32_t id, uint32_t process, const char *name,
			     const char *file, uint32_t line)
{
	const struct trace_func func = { .id = id,
					 .process = process,
					 .line = line,
					 .qualname = name,
					 .name = name,
					 .file = file };

	assert_int_equal(p->to->func(p->self, &func), 0);
}

static inline void push_event(struct push *p, uint32_t thread, uint64_t ts_ns, enum trace_kind kind,
			      uint32_t func)
{
	struct trace_event event = {
		.ts_ns = ts_ns, .thread = thread, .func = func, .kind = (uint8_t)kind
	};

	if (trace_is_leave(kind))
		p->depth[thread]--;
	event.depth = p->depth[thread];
	if (!trace_is_leave(kind))
		p->depth[thread]++;
	assert_int_equal(p->to->event(p->self, &event), 0);
}

static inline void push_gap(struct push *p, uint32_t thread, uint64_t ts_ns, uint64_t until_ns,
			    uint64_t lost, enum trace_gap_reason reason)
{
	const struct trace_gap gap = { .ts_ns = ts_ns,
				       .until_ns = until_ns,
				       .lost = lost,
				       .thread = thread,
				       .reason = (uint8_t)reason };

	p->depth[thread] = 0;
	assert_int_equal(p->to->gap(p->self, &gap), 0);
}

static inline void push_end(struct push *p, uint64_t end_ns, uint64_t written, uint64_t lost_ring)
{
	const struct trace_totals totals = {
		.end_ns = end_ns,
		.generated = written + lost_ring,
		.written = written,
		.lost = { [LOSS_RING] = lost_ring },
		.complete = true,
	};

	assert_int_equal(p->to->end(p->self, &totals), 0);
}

#endif
