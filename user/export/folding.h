/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exporters of aggregates (collapsed, pprof) share: they collect the trace in a struct
 * aggregate, and at its end write the distinct stacks.
 */
#ifndef PYEBPF_EXPORT_FOLDING_H
#define PYEBPF_EXPORT_FOLDING_H

#include <stdint.h>

#include "export/export.h"
#include "profile/aggregate.h"
#include "profile/forward.h"

/*
 * The self of such an exporter begins with it, so that the members of its consumer are those of profile/forward.h.
 * @agg is made and freed by these two.
 */
struct folding {
	struct forward next; /* to @agg */
	struct aggregate *agg;
	bool given; /* @agg is complete, and is not ours */
};

#define FOLDING_LINES  1u /* stacks of samples are told apart by their lines, too */
#define FOLDING_MERGES 2u /* the threads of a process can be one, if the options say so */
#define FOLDING_STACKS 4u /* of stacks alone: functions need no total time */

/* @how: FOLDING_* */
int folding__init(struct folding *f, const struct export_opts *opts, uint32_t how);
void folding__done(struct folding *f);

/* folding__give - write an aggregate that is complete already: the consumer's end() then does. Borrowed. */
void folding__give(struct folding *f, struct aggregate *agg);

/* The consumer's end(): of the aggregate alone. @self is a struct folding. */
int folding_end(void *self, const struct trace_totals *totals);

/* In place of frames left out of a stack. */
#define FOLDING_CUT UINT32_MAX

struct folded_stack {
	const uint32_t *funcs; /* indexes, or FOLDING_CUT; the outermost frame first; borrowed */
	const uint32_t *lines; /* of them, 0: not known; NULL: not told apart by line, or cut */
	const uint32_t *stacks; /* index of the stack that ends at each of them; NULL: cut */
	uint32_t func_cnt;
	uint32_t thread;
	uint64_t calls, self_ns, off_ns; /* as in struct agg_stack */
};

/**
 * folding_each - the stacks that have calls or self time; after each one those above it
 * @max_frames: >= 3; of deeper stacks the outermost and the innermost frames are kept, half each, with
 *              FOLDING_CUT between; those that are then equal are one. Recursion n deep would
 *              otherwise need n * n / 2 frames.
 * @fn:         0 or a negative number, which ends the walk
 *
 * Return: 0, -ENOMEM, or what @fn returned.
 */
int folding_each(const struct agg_result *r, uint32_t max_frames,
		 int (*fn)(void *ctx, const struct folded_stack *stack), void *ctx);

#endif
