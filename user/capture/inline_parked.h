/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as the events of the inline engine show them, and those of a thread's greenlets that do not run: inline_parked.c. */
#ifndef PYEBPF_CAPTURE_INLINE_PARKED_H
#define PYEBPF_CAPTURE_INLINE_PARKED_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/cap_inline.h"

struct track_stack {
	struct cap_inline_frame *frames; /* outermost first; owned */
	uint32_t cnt, size;
	bool cut; /* there are more below, which are not known */
	bool guest; /* of one of several thread states that name the same thread */
	bool stale; /* parked as it was read, perhaps in the middle of an event: its top may have ended */
	struct track_stack *next; /* of those that are parked in the same bucket */
};

struct parked {
	struct track_stack **buckets; /* owned, as the stacks in them; NULL: none was parked yet */
	uint32_t cnt;
};

/* parked_add - its frames are owned by the table then; of more than can be they are freed, and count when they end. 0 or
 * -ENOMEM. */
int parked_add(struct parked *p, const struct track_stack *stack);

/* parked_take - out of the table, to the caller; its address is no longer good. */
struct track_stack parked_take(struct parked *p, struct track_stack *s);
void parked_clear(struct parked *p);

/* parked_rooted - by the outermost frame, if that is known; slow. NULL: none. */
struct track_stack *parked_rooted(const struct parked *p, uint64_t root);

/* parked_with, parked_caller, parked_on, parked_guest - by the innermost frame; by its hash and what it calls, which tells those with
 * the same hash apart; by what lies behind its frames, slow; one of another thread. NULL: none. Theirs until the table changes. */
struct track_stack *parked_with(const struct parked *p, uint64_t frame);
struct track_stack *parked_caller(const struct parked *p, uint32_t bits, uint64_t callee);
struct track_stack *parked_on(const struct parked *p, uint64_t frame);
struct track_stack *parked_guest(const struct parked *p, uint64_t frame, bool whole);

#endif
