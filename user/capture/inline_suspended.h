/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that have yielded and did not go on since: generators and coroutines, of all threads of a process. A table with so many
 * places for each hash of a frame, which forgets the oldest of those that share one. For inline_track.c, which asks, and
 * inline_steps.c, which goes past it.
 */
#ifndef PYEBPF_CAPTURE_INLINE_SUSPENDED_H
#define PYEBPF_CAPTURE_INLINE_SUSPENDED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "inline/record.h"

/* So many frames have one hash: of 10,000 generators that wait, rarely more. */
#define SUSPENDED_WAYS 4

/* A generator's frame that has yielded. */
struct suspended {
	uint64_t frame; /* 0: none */
	uint32_t code;
	uint32_t by; /* hash of the frame that it yielded to; 0: not known */
};

struct suspended_table {
	struct suspended of[65536][SUSPENDED_WAYS]; /* by il_frame_hash() */
	bool any; /* since it was cleared */
};

/* suspended_find - NULL: it runs, is over, or is not known. Valid until the next one is added. */
static inline struct suspended *suspended_find(struct suspended_table *t, uint64_t frame)
{
	struct suspended *all = t->of[il_frame_hash(frame)];

	for (int i = 0; frame && i < SUSPENDED_WAYS; i++)
		if (all[i].frame == frame)
			return &all[i];
	return NULL;
}

/* suspended_only - the one with this hash; NULL: there is none, or several. Valid as above. */
static inline struct suspended *suspended_only(struct suspended_table *t, uint32_t bits)
{
	struct suspended *found = NULL;

	for (int i = 0; bits && i < SUSPENDED_WAYS; i++) {
		if (!t->of[bits][i].frame)
			continue;
		if (found)
			return NULL;
		found = &t->of[bits][i];
	}
	return found;
}

/* suspended_any - is there one with this hash? */
static inline bool suspended_any(const struct suspended_table *t, uint32_t bits)
{
	for (int i = 0; bits && i < SUSPENDED_WAYS; i++)
		if (t->of[bits][i].frame)
			return true;
	return false;
}

/* suspended_forget - it runs, or is over. */
static inline void suspended_forget(struct suspended_table *t, uint64_t frame)
{
	struct suspended *f = suspended_find(t, frame);

	if (f)
		f->frame = 0;
}

/* suspended_add - one that was freed can have had its address. Where there is no place, one is forgotten that may have been freed
 * long ago. */
static inline void suspended_add(struct suspended_table *t, const struct suspended *now)
{
	struct suspended *all = t->of[il_frame_hash(now->frame)];
	int i = 0;

	suspended_forget(t, now->frame);
	while (i < SUSPENDED_WAYS && all[i].frame)
		i++;
	if (i == SUSPENDED_WAYS)
		memmove(&all[0], &all[1], --i * sizeof(all[0]));
	all[i] = *now;
	t->any = true;
}

/* suspended_clear - 4 MB, which may be untouched. */
static inline void suspended_clear(struct suspended_table *t)
{
	if (t->any)
		memset(t, 0, sizeof(*t));
}

#endif
