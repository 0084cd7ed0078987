// SPDX-License-Identifier: Apache-2.0
/* Stacks that do not run now (greenlets), by their innermost frames: programs have thousands of them, and each switch asks
 * for one. */
#include <errno.h>
#include <stdlib.h>

#include "capture/inline_priv.h"

#define BUCKETS	   4096u
#define PARKED_MAX 65536u

/* Frames at one place of their chunks have similar hashes. */
static uint32_t bucket_of(uint32_t bits)
{
	return bits * 0x9e3779b1u >> 20;
}

int parked_add(struct parked *p, const struct track_stack *stack)
{
	struct track_stack *s;
	uint32_t bucket = bucket_of(il_frame_hash(track_top(stack)));

	if (p->cnt == PARKED_MAX) {
		free(stack->frames);
		return 0;
	}
	if (!p->buckets)
		p->buckets = calloc(BUCKETS, sizeof(struct track_stack *));
	s = p->buckets ? malloc(sizeof(*s)) : NULL;
	if (!s)
		return -ENOMEM;
	*s = *stack;
	s->next = p->buckets[bucket];
	p->buckets[bucket] = s;
	p->cnt++;
	return 0;
}

struct track_stack parked_take(struct parked *p, struct track_stack *s)
{
	struct track_stack **at = &p->buckets[bucket_of(il_frame_hash(track_top(s)))], taken = *s;

	while (*at && *at != s)
		at = &(*at)->next;
	*at = taken.next;
	p->cnt--;
	free(s);
	taken.next = NULL;
	return taken;
}

struct track_stack *parked_with(const struct parked *p, uint64_t frame)
{
	struct track_stack *s = p->cnt ? p->buckets[bucket_of(il_frame_hash(frame))] : NULL;

	while (s && track_top(s) != frame)
		s = s->next;
	return s;
}

struct track_stack *parked_caller(const struct parked *p, uint32_t bits, uint64_t callee)
{
	struct track_stack *s = p->cnt ? p->buckets[bucket_of(bits)] : NULL, *found = NULL;

	for (; s; s = s->next)
		if (il_frame_hash(track_top(s)) == bits &&
		    (!found || track_is_behind(callee, track_top(s))))
			found = s;
	return found;
}

struct track_stack *parked_on(const struct parked *p, uint64_t frame)
{
	struct track_stack *found = NULL;

	for (uint32_t i = 0; p->cnt && i < BUCKETS; i++)
		for (struct track_stack *s = p->buckets[i]; s; s = s->next)
			if (track_is_on(s, frame) &&
			    (!found || frame - track_top(s) < frame - track_top(found)))
				found = s;
	return found;
}

struct track_stack *parked_rooted(const struct parked *p, uint64_t root)
{
	for (uint32_t i = 0; p->cnt && i < BUCKETS; i++)
		for (struct track_stack *s = p->buckets[i]; s; s = s->next)
			if (track_is_rooted(s, root))
				return s;
	return NULL;
}

struct track_stack *parked_guest(const struct parked *p, uint64_t frame, bool whole)
{
	uint32_t bits = whole ? il_frame_hash(frame) : (uint32_t)frame;
	struct track_stack *s = p->cnt ? p->buckets[bucket_of(bits)] : NULL;

	while (s && !track_is_guest(s, frame, whole))
		s = s->next;
	return s;
}

void parked_clear(struct parked *p)
{
	for (uint32_t i = 0; p->cnt && i < BUCKETS; i++) {
		for (struct track_stack *s = p->buckets[i], *next; s; s = next) {
			next = s->next;
			free(s->frames);
			free(s);
		}
	}
	free(p->buckets);
	*p = (struct parked){ 0 };
}
