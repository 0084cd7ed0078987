/* SPDX-License-Identifier: Apache-2.0 */
/* What a writer has that is a flight recorder: keep.c. */
#ifndef PYEBPF_CAPFILE_KEEP_H
#define PYEBPF_CAPFILE_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/trace.h"

struct capw;
struct capw_opts;

/* A chunk of a flight recorder, as it will lie in a file but for its number. Chunks form groups: the
 * first of a group has the open frames of all threads, so a file can begin with it. */
struct kept {
	struct kept *next;
	bool begins; /* a group */
	struct trace_totals base; /* what had happened when the group began */
	uint64_t min_ns;
	size_t len;
	uint8_t data[];
};

struct keep {
	uint64_t ns; /* 0: this is no flight recorder */
	size_t bytes_max;
	struct kept *first, **end;
	size_t bytes, group_bytes;
	struct trace_totals base; /* of the group being filled */
	bool begins; /* the next chunk begins it */
	bool full;
	uint64_t dropped_chunks;
};

/* capw_keep_init - the writer is a flight recorder. */
void capw_keep_init(struct capw *w, const struct capw_opts *opts);

/* capw_keep_add - a chunk that is finished, with its header; 0 or -ENOMEM. capw_keep_tick - begin a
 * new group if it is time, and forget the oldest. */
int capw_keep_add(struct capw *w, const uint8_t *chunk, size_t len, uint64_t min_ns);
void capw_keep_tick(struct capw *w, uint64_t now_ns);
void capw_keep_done(struct capw *w);

#endif
