/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a sampled trace that lies in a span of time, of threads that run or of those that wait, as
 * sums by function and by line. A consumer of a trace.
 */
#ifndef PYEBPF_PROFILE_WINDOW_H
#define PYEBPF_PROFILE_WINDOW_H

#include "profile/lines.h"

enum window_of {
	WINDOW_CPU, /* threads that run */
	WINDOW_WAITS, /* threads that wait */
	WINDOW_WALL, /* both */
	WINDOW_OF_CNT
};

struct window_opts {
	enum window_of of;
	uint64_t from_ns,
		until_ns; /* of a sample that begins before or ends after it only this part counts */
};

/* Whatever was asked for. */
struct window_totals {
	uint64_t samples, cpu_ns;
	uint64_t wait_ns[REASON_CNT];
};

struct window;

extern const struct trace_consumer window_consumer; /* self is a struct window */

/* window__new - @opts: copied. Return: 0 or -ENOMEM. */
int window__new(struct window **out, const struct window_opts *opts);

/* window__free - NULL is fine. */
void window__free(struct window *w);

/* window__lines, window__totals - complete after the consumer's end(); borrowed. */
const struct lines *window__lines(const struct window *w);
const struct window_totals *window__totals(const struct window *w);

#endif
