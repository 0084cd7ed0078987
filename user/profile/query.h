/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace says about one function: how its runs ended and how long each took, who called it and
 * what it called. A consumer of a trace that feeds an aggregate too.
 *
 * A run is the time from a call to its end. A generator or coroutine has a run for each time that it
 * goes on (from a call or a resume to the next yield or the end): a trace does not tell which of
 * several suspended ones goes on. Runs whose beginning or end the trace does not show (attach, a gap,
 * the end of the trace) are counted, but have no time.
 */
#ifndef PYEBPF_PROFILE_QUERY_H
#define PYEBPF_PROFILE_QUERY_H

#include "profile/aggregate.h"
#include "profile/histogram.h"

struct query;

/* Times of one caller or callee. */
struct query_edge {
	uint32_t func; /* index into agg_result.funcs; AGG_NONE: the function is the thread's first */
	uint64_t calls, self_ns;
	uint64_t total_ns; /* of a function in itself: only where it is outermost */
	uint64_t own_ns; /* what the profiler cost in self_ns: by the share of the function's calls */
};

struct query_edges {
	struct query_edge *edges; /* owned by the query; most total time first */
	uint32_t cnt;
};

/* Borrowed until query__free(); complete after the consumer's end(). */
struct query_result {
	const struct agg_result *all;
	uint32_t func; /* index of the function; AGG_NONE: none is called so, or several are */
	uint64_t calls, self_ns, total_ns, own_ns; /* of it, in all processes */
	uint64_t ended[TRACE_KIND_CNT]; /* runs with a time, by how they ended */
	uint64_t cut_cnt; /* runs without a time */
	struct histogram run_ns; /* the profiler's own cost is taken out, but with raw */
	uint64_t run_own_ns[HISTOGRAM_BUCKETS]; /* that cost, of the runs in each of its buckets */
	/* self_ns and calls of a caller are those of the function under it; of a callee its own */
	struct query_edges callers, callees;
	const uint32_t *meant; /* all functions that are called so: indexes */
	uint32_t meant_cnt; /* at most QUERY_MEANT_MAX */
};

enum {
	QUERY_MEANT_MAX = 1000
};

extern const struct trace_consumer query_consumer; /* self is a struct query */

/**
 * query__new - ask for a function
 * @name: as func_spec_parse() takes it; borrowed for the life of the query
 * @opts: of the aggregate; may be NULL
 *
 * Return: 0 or -ENOMEM.
 */
int query__new(struct query **out, const char *name, const struct aggregate_opts *opts);

/* query__free - NULL is fine. */
void query__free(struct query *q);

const struct query_result *query__result(const struct query *q);

#endif
