/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace adds up to: calls and time per distinct stack and per function. A consumer of a
 * trace; memory grows with the distinct stacks, functions and threads, not with the events.
 *
 * Functions are told apart by process, file, qualified name and line: code objects that are made
 * again and again are one function. Stacks are a tree, one root per thread. The time between two
 * events of a thread is the self time of the frame on top between them; so a suspended generator
 * gets none, and a frame that is open at a gap, at the end of its thread or of the trace gets the
 * time up to that point.
 *
 * Of a sampled trace `calls` counts samples, and their weights are the times; those of threads that had
 * no CPU are told apart.
 *
 * The profiler's own cost (struct trace_cost) falls into those times and is taken out of them
 * again, per stack: of each interval, what comes after its first event and before its second one.
 */
#ifndef PYEBPF_PROFILE_AGGREGATE_H
#define PYEBPF_PROFILE_AGGREGATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strpool.h"
#include "profile/trace.h"

#define AGG_NONE UINT32_MAX

struct aggregate;

struct aggregate_opts {
	bool raw; /* keep the profiler's own cost in the times */
	bool full_files; /* functions are shown with their whole paths */
	bool merge_threads; /* of samples: those of a process are one */
	bool lines; /* of samples: stacks whose frames were at different lines are different */
	bool part; /* only to be merged into another: functions get no total time */
	uint32_t max_stacks; /* 0: the default, 4 million; past it callers become "[truncated]" */
};

/* Strings are ids of agg_result.strings. Other numbers are indexes into the arrays there. */
struct agg_process {
	uint32_t pid;
	uint32_t comm, exe, python;
};

struct agg_thread {
	uint32_t process, tid;
	uint32_t name;
	bool is_main;
	uint64_t gap_ns; /* in which its stack was not known */
	uint64_t lost; /* events missing there */
};

struct agg_func {
	uint32_t process;
	uint32_t qualname, name, file;
	uint32_t short_file; /* from its import root on; the whole path without one */
	uint32_t line;
	uint8_t kind; /* enum trace_func_kind */
	uint64_t calls;
	uint64_t self_ns;
	uint64_t total_ns; /* recursion counted once */
	uint64_t own_ns; /* what the profiler cost in it, also where that was more than there was */
};

/* One distinct stack: the frame on top and, by parent, those below. */
struct agg_stack {
	uint32_t parent; /* a smaller index; AGG_NONE for a thread's root, which is no frame */
	uint32_t func; /* AGG_NONE for a root */
	uint32_t thread;
	uint32_t last_child; /* of the collector: a guess */
	uint64_t calls;
	uint64_t self_ns;
	uint64_t off_ns; /* of self_ns, off the CPU */
	uint64_t total_ns; /* with all above it; while collecting: the profiler's own cost */
};

/* Borrowed until aggregate__free(); complete after the consumer's end(). */
struct agg_result {
	const struct agg_process *processes;
	const struct agg_thread *threads;
	const struct agg_func *funcs;
	const struct agg_stack *stacks;
	const uint32_t *stack_lines; /* at which each was, 0: not known; NULL: not by line */
	uint32_t process_cnt, thread_cnt, func_cnt, stack_cnt;
	struct strpool strings;
	uint32_t engine, version, hostname, kernel, arguments;
	uint64_t start_ns;
	int64_t start_unix_ns;
	struct trace_cost cost;
	struct trace_before before;
	uint64_t sample_ns; /* of struct trace_info */
	struct trace_totals totals;
	uint64_t self_ns; /* of all functions */
	uint64_t off_ns; /* of that, off the CPU */
	uint64_t own_ns; /* the profiler's own part of the times: taken out, but with raw */
	uint64_t gap_cnt;
	uint64_t cut_cnt; /* calls whose callers are "[truncated]" */
	bool raw, full_files;
	bool threads_merged; /* each process has one thread: "all threads", tid 0 */
};

/* How well the profiler's own cost is known, from run to run. */
#define AGG_OWN_DOUBT 0.15

/* agg_doubt_ns - what a self time is not known by of which the profiler cost @own_ns. */
static inline uint64_t agg_doubt_ns(const struct agg_result *r, uint64_t own_ns)
{
	return r->raw ? 0 : (uint64_t)(AGG_OWN_DOUBT * (double)own_ns);
}

/* agg_shown_file - what tells a reader where a function is; of r->strings, 0 if that is not known. */
static inline uint32_t agg_shown_file(const struct agg_result *r, const struct agg_func *f)
{
	return r->full_files ? f->file : f->short_file;
}

extern const struct trace_consumer aggregate_consumer; /* self is a struct aggregate */

/**
 * aggregate__new - an empty aggregate
 * @opts: may be NULL
 *
 * Return: 0 or -ENOMEM.
 */
int aggregate__new(struct aggregate **out, const struct aggregate_opts *opts);

/**
 * aggregate__merge - add what another aggregate holds
 * @a:    new, or only merged into so far; aggregate__close() completes it
 * @from: after its end(); may be freed afterwards
 *
 * Processes of the same name, executable and version become one, as do their threads of the same name;
 * a pid or tid that is then not the same for all is 0. Wall times add up, the start is the earliest.
 *
 * All have samples or none has; the caller sees to that.
 *
 * Return: 0, -ENOMEM or -EOVERFLOW.
 */
int aggregate__merge(struct aggregate *a, const struct agg_result *from);

/* aggregate__close - complete the sums after merging. Return: 0 or -ENOMEM. */
int aggregate__close(struct aggregate *a);

/**
 * aggregate_push - what was collected, as a trace of samples
 * @r: after the consumer's end(), or aggregate__close()
 *
 * For consumers that know nothing but traces. A stack is one sample, or two when it was off the CPU too, one after the
 * other on one clock; lines are not known. A stack without time is not there.
 *
 * Return: 0, -ENOMEM, or what the consumer returned.
 */
int aggregate_push(const struct agg_result *r, const struct trace_consumer *to, void *self);

/* aggregate__free - NULL is fine. */
void aggregate__free(struct aggregate *a);

/* aggregate__result - what was collected; borrowed. */
const struct agg_result *aggregate__result(const struct aggregate *a);

/* aggregate__func_index - of a function's id in the capture; AGG_NONE for one that was not defined. Only
 * while collecting. */
uint32_t aggregate__func_index(const struct aggregate *a, uint32_t id);

/* aggregate__func - also while collecting; borrowed until the next call. Its strings are those of the
 * result. */
const struct agg_func *aggregate__func(const struct aggregate *a, uint32_t index);

/**
 * agg_group_totals - time with all that was called, per group of functions; recursion counted once
 * @r:        after the consumer's end()
 * @group_of: group of each function, < @group_cnt; AGG_NONE: in none
 * @total_ns: room for @group_cnt
 *
 * A stack that holds a group several times counts where the group is outermost.
 *
 * Return: 0 or -ENOMEM.
 */
int agg_group_totals(const struct agg_result *r, const uint32_t *group_of, uint32_t group_cnt,
		     uint64_t *total_ns);

#endif
