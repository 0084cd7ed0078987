/* SPDX-License-Identifier: Apache-2.0 */
/* Between the two files of the aggregate. */
#ifndef PYEBPF_PROFILE_AGGREGATE_PRIV_H
#define PYEBPF_PROFILE_AGGREGATE_PRIV_H

#include "profile/aggregate.h"

/**
 * agg_settle - take the profiler's own cost out and add up stacks and functions
 * @r:      its counts are read, its sums written
 * @stacks: total_ns is the own cost before and the total after; put into @r
 *
 * Return: 0 or -ENOMEM.
 */
int agg_settle(struct agg_result *r, struct agg_func *funcs, struct agg_stack *stacks);

#endif
