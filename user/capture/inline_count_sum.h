/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of --count over several processes: functions of the same names, and the same callers, are one. Memory grows
 * with the distinct ones, not with the processes, and up to a bound: what comes then is one more function, INLINE_COUNT_MORE. */
#ifndef PYEBPF_CAPTURE_INLINE_COUNT_SUM_H
#define PYEBPF_CAPTURE_INLINE_COUNT_SUM_H

#include "capture/inline_count.h"

#define INLINE_COUNT_SUM_FUNCS (1u << 18) /* of 0.8 kB each, with their durations */
#define INLINE_COUNT_SUM_NODES (1u << 20)

struct inline_count_sum;

int inline_count_sum__new(struct inline_count_sum **out); /* 0 or -ENOMEM */
void inline_count_sum__free(struct inline_count_sum *s); /* NULL is fine */

/* inline_count_sum__add - copied. 0 or -ENOMEM, then part of it is missing. */
int inline_count_sum__add(struct inline_count_sum *s, const struct inline_count_view *view);

/* inline_count_sum__view - borrowed until something is added */
void inline_count_sum__view(const struct inline_count_sum *s, struct inline_count_view *view);

#endif
