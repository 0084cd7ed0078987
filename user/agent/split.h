/* SPDX-License-Identifier: Apache-2.0 */
/* One sampled trace into several: the processes of each group to a consumer of its own. */
#ifndef PYEBPF_AGENT_SPLIT_H
#define PYEBPF_AGENT_SPLIT_H

#include <stdint.h>

#include "profile/trace.h"

struct split;

#define SPLIT_NONE UINT32_MAX

/**
 * struct split_ops - what the groups are
 * @group: of a process; numbers count up from 0, a new one is the next; SPLIT_NONE: nobody wants it
 * @open:  a group's consumer, when its first process comes; its begin() is called after that
 * @close: a group's consumer is used no more, before the next one's end() is called; that of a group without samples is not called. May be NULL
 *
 * Return: 0 or a negative number, which ends the trace.
 */
struct split_ops {
	int (*group)(void *ctx, const struct trace_process *process, uint32_t *group);
	int (*open)(void *ctx, uint32_t group, const struct trace_consumer **to, void **self);
	int (*close)(void *ctx, uint32_t group);
};

extern const struct trace_consumer split_consumer; /* self is a struct split */

/* split__new - @ctx is borrowed. 0 or -ENOMEM. split__free - NULL is fine. */
int split__new(struct split **out, const struct split_ops *ops, void *ctx);
void split__free(struct split *s);

static inline void split__freep(struct split **s)
{
	split__free(*s);
}

/* split__samples - samples, or events, of a group so far. */
uint64_t split__samples(const struct split *s, uint32_t group);

/* split__unwanted - samples of processes that nobody wants. */
uint64_t split__unwanted(const struct split *s);

#endif
