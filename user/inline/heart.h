/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells the stubs that pyebpf lives: a thread of its own, for one that waits for a slow disk or pipe, or for a CPU, is not dead. A
 * killed or stopped one has none that runs: its targets go on within a second.
 */
#ifndef PYEBPF_INLINE_HEART_H
#define PYEBPF_INLINE_HEART_H

#include <stdint.h>

struct inline_engine;
struct inline_heart;

/* inline_heart__new - it beats from here on. @patience_ns: so long a reader that does nothing counts as one. NULL: no memory, or no
 * thread: the functions below are fine with that, and inline__alive() is all that is left. */
struct inline_heart *inline_heart__new(uint64_t patience_ns);

/* inline_heart__add - an engine that is attached; borrowed until inline_heart__remove(), which comes before its detach and
 * may come again. */
void inline_heart__add(struct inline_heart *h, struct inline_engine *e);
void inline_heart__remove(struct inline_heart *h, const struct inline_engine *e);

/* inline_heart__reads - the reader is at work: to be called all the time */
void inline_heart__reads(struct inline_heart *h);

void inline_heart__free(struct inline_heart *h);

#endif
