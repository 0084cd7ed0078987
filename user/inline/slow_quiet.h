/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of slow.c: calls of code that is not recorded (--include, --exclude). Such a call leaves nothing but its frame in IL_QUIET, which
 * its end takes out again. Whatever else happens meanwhile makes records of what is there first: then the ring shows the same as
 * without a filter, but for calls in which nothing that is recorded happens. No frame in IL_QUIET is read: its thread can be gone.
 */
#ifndef PYEBPF_INLINE_SLOW_QUIET_H
#define PYEBPF_INLINE_SLOW_QUIET_H

#include "inline/slow_ring.h"

PART uint64_t *cache_slot(const struct il_private *p, uint64_t code)
{
	return (uint64_t *)(uintptr_t)p->cache + IL_CODE_SLOT(code);
}

PART uint64_t *retired_at(const struct il_private *p, uint64_t code)
{
	return (uint64_t *)(uintptr_t)p->retired + (IL_CODE_HASH(code) & (IL_RETIRED_CNT - 1));
}

/*
 * What pyebpf has said since: that a limit of 0 tells, which is put right again. Of a code object that was freed when pyebpf had
 * not read of it yet it speaks no more.
 */
PART void take_verdicts(struct il_private *p, struct il_shared *h)
{
	uint64_t head = __atomic_load_n(&h->verdict_head, __ATOMIC_ACQUIRE);
	const struct il_verdict *v = (const void *)((const uint8_t *)h + IL_VERDICTS);

	if (!p->lost_mode && !has_room(p))
		refill(p, h);
	if (head - h->verdict_tail > IL_VERDICT_CNT)
		h->verdict_tail = head; /* the program writes there, too */
	for (; h->verdict_tail != head; h->verdict_tail++) {
		const struct il_verdict *said = &v[h->verdict_tail & (IL_VERDICT_CNT - 1)];
		uint64_t *known = cache_slot(p, said->code);

		if (*known == said->code && *retired_at(p, said->code) <= said->read_to)
			*known |= IL_CODE_QUIET;
	}
}

/* A code object is freed; its record, if it got one, is in the ring. */
PART void retire_verdict(struct il_private *p, const struct il_shared *h, uint64_t code)
{
	*retired_at(p, code) = h->retire_lost ? ~0ull : p->head;
}

/* Records of what is in IL_QUIET. Whoever looks at them leaves them out, so their time does not matter. */
PART void tell_quiet(struct il_private *p, struct il_shared *h)
{
	const uint64_t *q = (const uint64_t *)(uintptr_t)p->quiet;
	struct il_thread *t = (void *)(uintptr_t)p->slot;
	uint64_t time = now(p) << 16;

	for (uint64_t i = 0; i < p->quiet_at; i += 2) {
		uint64_t bits = q[i + 1] >> 48;

		if (make_room(p, h))
			put(p, time | (bits ? bits : il_frame_hash(q[i + 1])), q[i]);
		else if (!is_over(h))
			count_lost(t);
	}
	h->quiet -= p->quiet_at / 2;
	p->quiet_at = 0;
	p->top = p->run;
	__atomic_store_n(&h->head, p->head, __ATOMIC_RELEASE);
}

/* @caller: the next frame below that events are of; @bits: hash of the next one at all. 0: it is recorded. */
PART int begin_quiet(struct il_private *p, struct il_shared *h, uint64_t frame, uint64_t caller,
		     uint64_t bits)
{
	uint64_t *q = (uint64_t *)(uintptr_t)p->quiet + p->quiet_at, code = code_of(p, frame);

	if (*cache_slot(p, code) != (code | IL_CODE_QUIET) || p->lost_mode || !caller ||
	    caller != p->run || p->quiet_at >= IL_QUIET_WORDS)
		return 0;
	q[0] = IL_CODE_SLOT(code) << 48 | frame | IL_CALL;
	q[1] = bits << 48 | p->run;
	p->quiet_at += 2;
	p->run = frame;
	h->quiet++;
	return 1;
}

PART void end_quiet(struct il_private *p)
{
	p->quiet_at -= 2;
	p->run = AT(uint64_t, p->quiet + 8 * p->quiet_at + 8) & IL_FRAME_MASK;
}

#endif
