/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace in slices of time: how the self time of each function spreads over the run. From that one can
 * tell how much a figure would differ if the run were made again. A consumer of a trace that feeds an
 * aggregate too. There are at most 64 slices; when the trace grows longer, two become one.
 */
#ifndef PYEBPF_PROFILE_SLICES_H
#define PYEBPF_PROFILE_SLICES_H

#include "profile/aggregate.h"

enum {
	SLICES_MAX = 64
};

struct slice {
	int64_t self_ns; /* less the profiler's own cost, also below 0 */
	uint64_t own_ns; /* that cost, in it or taken out */
	uint64_t runs; /* that ended in it */
};

struct slices;

extern const struct trace_consumer slices_consumer; /* self is a struct slices */

/* slices__new - @opts: of the aggregate; may be NULL. Return: 0 or -ENOMEM. */
int slices__new(struct slices **out, const struct aggregate_opts *opts);

/* slices__free - NULL is fine. */
void slices__free(struct slices *s);

/* slices__result - of the aggregate; complete after the consumer's end(); borrowed. */
const struct agg_result *slices__result(const struct slices *s);

/* slices__of - the SLICES_MAX slices of a function; NULL: it has no time. Borrowed. */
const struct slice *slices__of(const struct slices *s, uint32_t func);

#endif
