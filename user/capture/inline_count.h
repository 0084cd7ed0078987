/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the inline engine counts without events (--count): its tables, and the names that come through its ring.
 * Memory grows with the distinct functions, with --time also with the paths to those that were freed, both up to a bound.
 * Whatever is read there is checked: the target can write there.
 */
#ifndef PYEBPF_CAPTURE_INLINE_COUNT_H
#define PYEBPF_CAPTURE_INLINE_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strpool.h"
#include "inline/engine.h"
#include "inline/region_count.h"

#define INLINE_COUNT_NONE UINT32_MAX
#define INLINE_COUNT_MORE \
	"[more functions]" /* what all are called for which there is no room any more */

/* Code objects of the same names and line are one function. Texts are numbers in inline_count_view.strings. */
struct inline_count_func {
	uint32_t file, name, qualname;
	uint32_t line;
	uint64_t calls, resumes;
	uint64_t *spans; /* IL_SPAN_BUCKETS, how many took so long; NULL: none has ended, or not known yet */
	bool roomless; /* with --time: one of its code objects got no room for that */
};

/* With --time: a function as it was called from another one. */
struct inline_count_node {
	uint32_t caller; /* a smaller index, or INLINE_COUNT_NONE */
	uint32_t func;
	uint64_t calls, resumes, self_ns;
};

/* Borrowed until something is read again. */
struct inline_count_view {
	const struct strpool *strings;
	const struct inline_count_func *funcs;
	const struct inline_count_node *nodes;
	uint32_t func_cnt, node_cnt;
	uint64_t lost; /* calls for which there was no room */
	uint64_t ticks_per_second;
};

struct inline_count;

/* inline_count__new - of an engine that is or will be attached with .count; borrowed. 0 or -ENOMEM */
int inline_count__new(struct inline_count **out, struct inline_engine *e);
void inline_count__free(struct inline_count *c); /* NULL is fine */

/* inline_count__read - take what the ring holds. 1, or 0 when there was nothing; -ENOMEM; -EILSEQ when it holds what
 * no stub writes. */
int inline_count__read(struct inline_count *c);

/* inline_count__snapshot - the sums by now; with --time also of the calls that have not ended. 0, -ENOMEM, -EILSEQ */
int inline_count__snapshot(struct inline_count *c, struct inline_count_view *view);

#endif
