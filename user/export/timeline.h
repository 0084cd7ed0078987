/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as slices that open and close, for formats that draw each thread along the time: what
 * they share. It makes sure of what such formats ask for and a trace does not promise:
 *
 *   - slices of a thread nest exactly and its times never go back;
 *   - a gap is a slice of its own, on the empty stack, from where the stack is not known up to the
 *     thread's next event, the end of the gap or the end of the thread, whichever is first;
 *   - what is open at the end is closed: at the end of its thread, or of the trace;
 *   - a sample stands for the time up to it, and frames that it shares with the one before go on.
 *
 * Times handed on are nanoseconds since the capture began.
 */
#ifndef PYEBPF_EXPORT_TIMELINE_H
#define PYEBPF_EXPORT_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/idmap.h"
#include "base/outbuf.h"
#include "base/strpool.h"
#include "profile/trace.h"

/* Threads and functions are told by index; a definition that comes again keeps a thread's index and
 * gives a function a new one. Return of each: 0 or a negative error, which ends the work. */
struct timeline_ops {
	int (*thread)(void *ctx, uint32_t thread); /* defined, or changed */
	int (*func)(void *ctx, uint32_t func, const struct trace_func *def);
	int (*open)(void *ctx, uint32_t thread, uint64_t ns, uint32_t func);
	int (*gap)(void *ctx, uint32_t thread, uint64_t ns,
		   const struct trace_gap *gap); /* opens */
	/* the newest open slice: of a function, or TIMELINE_GAP */
	int (*close)(void *ctx, uint32_t thread, uint64_t ns, uint32_t func);
};

#define TIMELINE_GAP UINT32_MAX

struct timeline_process {
	uint32_t pid;
	uint32_t comm; /* of strings */
	uint64_t end_ns; /* 0: not known */
};

struct timeline_thread {
	uint32_t process; /* index */
	uint32_t tid;
	uint32_t name; /* of strings */
	uint32_t *open; /* functions of the open slices, or TIMELINE_GAP */
	uint32_t depth, open_cap;
	bool is_main;
	bool in_gap;
	struct trace_gap gap; /* the newest */
	uint64_t last_ns; /* clock of the newest slice, open or closed */
	uint64_t end_ns; /* 0: not known */
	uint64_t sampled_ns; /* of the newest sample, up to which its stack is known; 0: none */
};

struct timeline {
	const struct timeline_ops *ops;
	void *ctx;
	struct timeline_process *processes;
	struct timeline_thread *threads;
	uint32_t process_cnt, process_cap, thread_cnt, thread_cap, func_cnt;
	struct idmap process_ids, thread_ids, func_ids; /* ids of the capture -> index */
	struct strpool strings;
	uint64_t start_ns;
	uint64_t sample_ns; /* of struct trace_info */
	uint64_t newest_ns; /* of all threads */
};

/* timeline__init - @ops and @ctx are borrowed. Return: 0 or -ENOMEM; timeline__done() either way. */
int timeline__init(struct timeline *t, const struct timeline_ops *ops, void *ctx);

/* timeline__done - release the memory. A zeroed @t is fine. */
void timeline__done(struct timeline *t);

/* Members of the consumer. Return: 0, -ENOMEM, -EINVAL for an id that was not defined, or the
 * error of an op. timeline_end closes what is open. */
int timeline_begin(struct timeline *t, const struct trace_info *info);
int timeline_process(struct timeline *t, const struct trace_process *process);
int timeline_thread(struct timeline *t, const struct trace_thread *thread);
int timeline_func(struct timeline *t, const struct trace_func *func);
int timeline_event(struct timeline *t, const struct trace_event *event);
int timeline_sample(struct timeline *t, const struct trace_sample *sample);
int timeline_gap(struct timeline *t, const struct trace_gap *gap);
int timeline_end(struct timeline *t, const struct trace_totals *totals);

/* timeline_close_thread - close what a thread has open, at its newest time; another took its place. */
int timeline_close_thread(struct timeline *t, uint32_t thread);

/**
 * timeline_gap_name - "[lost 5]", or why the stack is not known: "[unknown: switch]"
 * @out: >= 64 bytes
 *
 * Return: @out.
 */
char *timeline_gap_name(char *out, size_t size, const struct trace_gap *gap);

/* timeline_put_thread - "python3 1234 / MainThread 1235", as the inner part of a JSON string. */
void timeline_put_thread(const struct timeline *t, uint32_t thread, struct outbuf *b);

#endif
