/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregated form of a speedscope file: the distinct stacks of each thread with their self
 * times, thread by thread. Those with the least self time are one "[other stacks]" per thread when
 * there are more than a viewer can take.
 */
#ifndef PYEBPF_EXPORT_SPEEDSCOPE_STACKS_H
#define PYEBPF_EXPORT_SPEEDSCOPE_STACKS_H

#include "base/outbuf.h"
#include "profile/aggregate.h"

enum {
	SS_STACKS_MAX = 100000,
	SS_FRAMES_MAX = 256 /* of a stack; the middle of a deeper one is [truncated] */
};

struct ss_stacks;

/* Frames of the file that are no function. */
struct ss_frames {
	const uint32_t *of_func; /* by index of agg_result.funcs */
	const uint32_t *of_gap; /* by index of agg_result.threads */
	uint32_t cut, other;
};

/**
 * ss_stacks__new - collect the stacks
 * @r: borrowed for the life of @out
 *
 * Return: 0 or -ENOMEM.
 */
int ss_stacks__new(struct ss_stacks **out, const struct agg_result *r);

/* ss_stacks__free - NULL is fine. */
void ss_stacks__free(struct ss_stacks *s);

static inline void ss_stacks__freep(struct ss_stacks **s)
{
	ss_stacks__free(*s);
}

/* ss_stacks__total - the sum of a thread's self times and gaps, ns; 0: there is nothing to show. */
uint64_t ss_stacks__total(const struct ss_stacks *s, uint32_t thread);

/* ss_stacks__put - the members "samples" and "weights" of a thread. */
void ss_stacks__put(const struct ss_stacks *s, uint32_t thread, const struct ss_frames *frames,
		    struct outbuf *b);

#endif
