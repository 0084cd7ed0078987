/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the source samples were: a row per line that a frame was at. A consumer of a trace that feeds
 * an aggregate too; of a trace with calls and returns, which does not know such lines, it has no rows.
 */
#ifndef PYEBPF_PROFILE_LINES_H
#define PYEBPF_PROFILE_LINES_H

#include "profile/aggregate.h"

struct line_row {
	uint32_t func; /* index into agg_result.funcs: one of those of its process, file and name */
	uint32_t line; /* 0: not known */
	uint64_t samples, self_ns; /* in which it was on top */
	uint64_t total_ns; /* in which it was in the stack, once each */
	uint64_t seen; /* while collecting: the last sample that was counted in total_ns */
};

struct lines;

extern const struct trace_consumer lines_consumer; /* self is a struct lines */

enum lines_by {
	LINES_OF_FUNCTIONS, /* a line with several functions on it is a row for each */
	LINES_OF_FILES,
};

/* lines__new - @opts: of the aggregate; may be NULL. Return: 0 or -ENOMEM. */
int lines__new(struct lines **out, enum lines_by by, const struct aggregate_opts *opts);

/* lines__free - NULL is fine. */
void lines__free(struct lines *l);

/* lines__result - of the aggregate; complete after the consumer's end(); borrowed. */
const struct agg_result *lines__result(const struct lines *l);

/* lines__by - as it was made. */
enum lines_by lines__by(const struct lines *l);

/* lines__rows - borrowed until lines__free(); in no order. */
const struct line_row *lines__rows(const struct lines *l, uint32_t *cnt);

#endif
