/* SPDX-License-Identifier: Apache-2.0 */
/* What --count has in the region of a target: its tables, behind the ring. */
#ifndef PYEBPF_INLINE_REGION_COUNT_H
#define PYEBPF_INLINE_REGION_COUNT_H

#include "inline/region.h"

/* Behind the second mapping of the ring, which is IL_COUNT_RING long; shared too. */
#define IL_COUNT_RING	(4ull << 20) /* names come fast where code is made again and again */
#define IL_FUNCS	(IL_RING + 2 * IL_COUNT_RING)
#define IL_FUNC_CNT	65536u
#define IL_NODES	(IL_FUNCS + 32ull * IL_FUNC_CNT) /* these only with --time */
#define IL_NODE_CNT	65536u
#define IL_ACTIVE	(IL_NODES + 32ull * IL_NODE_CNT)
#define IL_ACTIVE_CNT	65536u
#define IL_SPANS	(IL_ACTIVE + 48ull * IL_ACTIVE_CNT)
#define IL_SPAN_CNT	16384u
#define IL_SPAN_BUCKETS 96u /* two for each power of two of ticks */
#define IL_COUNT_BYTES	(IL_SPANS + 8ull * IL_SPAN_BUCKETS * IL_SPAN_CNT - IL_FUNCS)

/* Of a frame that runs: its number there, or one of the next ones. Frames of a deep stack lie at equal distances: so do these. */
#define IL_ACTIVE_PLACE(frame) (((frame) >> 3) * 0x9e3779b97f4a7c15ull >> 40 & (IL_ACTIVE_CNT - 1))

/* --count: a code object. In its slot, IL_CODE_HASH(), or one of the next ones. */
struct il_func {
	uint64_t code; /* 0: free; IL_FREED: pyebpf has to read the counts, and to free it */
	uint64_t calls, resumes; /* without --time */
	uint32_t id; /* from 1 on, never given again */
	uint32_t span; /* number of its durations, from 1 on; stays with the slot */
};

#define IL_FREED 1u

/* --time: a function as called from another node. Number 0 is the outermost one. pyebpf gives back those of freed ones. */
struct il_node {
	uint64_t key; /* number of the caller's node << 32 | il_func.id; 0: free */
	uint64_t calls, resumes;
	uint64_t self; /* ticks in it, and in nothing that it called */
};

/* --time: a frame that runs, or waits for one that it called. */
struct il_active {
	uint64_t frame; /* 0: free */
	uint64_t caller; /* frame, which was active as number caller_at; 0: none */
	uint64_t start, inner; /* ticks; inner: in what it called, and that has ended */
	uint32_t node, caller_at, func; /* func: slot */
	uint16_t depth;
	uint16_t again; /* its function called itself */
};

/* --count: what a code object that was freed had; IL_RETIRE without --count is a struct il_more_rec. */
struct il_retired {
	struct il_rec head;
	uint32_t slot, total; /* bytes of the record */
	uint64_t calls, resumes;
	uint64_t spans[]; /* IL_SPAN_BUCKETS, or none */
};

/* Of a number of ticks. */
static inline uint32_t il_span_bucket(uint64_t ticks)
{
	uint32_t log = ticks ? 63 - (uint32_t)__builtin_clzll(ticks) : 0;
	uint32_t half = log ? (uint32_t)(ticks >> (log - 1) & 1) : 0, bucket = 2 * log + half;

	return bucket < IL_SPAN_BUCKETS ? bucket : IL_SPAN_BUCKETS - 1;
}

_Static_assert(sizeof(struct il_func) == 32 && sizeof(struct il_node) == 32 &&
		       sizeof(struct il_active) == 48,
	       "layout");

#endif
