/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consumers that hand what they are told on to another one: members of a trace_consumer for all that a consumer
 * has nothing to add to. Its self begins with a struct forward, so that it can also call these itself:
 *
 *	struct mine {
 *		struct forward next; // first
 *		...
 *	};
 */
#ifndef PYEBPF_PROFILE_FORWARD_H
#define PYEBPF_PROFILE_FORWARD_H

#include "profile/trace.h"

/* Both borrowed. A member of @to can be NULL, as everywhere. */
struct forward {
	const struct trace_consumer *to;
	void *self;
};

int forward_begin(void *self, const struct trace_info *what);
int forward_process(void *self, const struct trace_process *what);
int forward_thread(void *self, const struct trace_thread *what);
int forward_func(void *self, const struct trace_func *what);
int forward_event(void *self, const struct trace_event *what);
int forward_sample(void *self, const struct trace_sample *what);
int forward_memory(void *self, const struct trace_memory *what);
int forward_gap(void *self, const struct trace_gap *what);
int forward_end(void *self, const struct trace_totals *what);

/* Of a struct trace_consumer that adds something only at the end. */
#define FORWARD_TO_THE_END                                                            \
	.begin = forward_begin, .process = forward_process, .thread = forward_thread, \
	.func = forward_func, .event = forward_event, .sample = forward_sample, .gap = forward_gap

#endif
