/* SPDX-License-Identifier: Apache-2.0 */
/* Of slow.c: who writes, whether there is room, and a record. It runs in the target. */
#ifndef PYEBPF_INLINE_SLOW_RING_H
#define PYEBPF_INLINE_SLOW_RING_H

#include "inline/slow_parts.h"
#include "proc/self_tid.h"

/* Is there memory at so much behind what is there? That it is mapped is known of its own page. */
PART int is_on_page(uint64_t self, uint64_t at)
{
	return !(((self + at) ^ self) & ~0xfffull);
}

/*
 * Its number. Where the C library has that is seen when the kernel is asked for the first time, and then it is not any more: that takes its time, and a
 * filter of system calls that the program has put in place since may kill it for one that it does not make itself.
 */
PART uint64_t own_tid(struct il_private *p, uint64_t self)
{
	uint64_t tid;

	if (p->own_tid_at)
		return AT(uint32_t, self + p->own_tid_at);
	tid = (uint64_t)call0(NR_gettid);
	if (is_on_page(self, MUSL_TID) && AT(uint32_t, self + MUSL_TID) == tid)
		p->own_tid_at = MUSL_TID;
	else if (is_on_page(self, GLIBC_TID) && AT(uint32_t, self + GLIBC_TID) == tid)
		p->own_tid_at = GLIBC_TID;
	return tid;
}

PART struct il_thread *thread_slot(struct il_private *p, uint64_t self)
{
	struct il_shared *h = (void *)(uintptr_t)p->shared;
	struct il_thread *t;
	uint64_t tid;

	if (p->slot_self == self)
		return (void *)(uintptr_t)p->slot;
	tid = own_tid(p, self);
	t = (struct il_thread *)(uintptr_t)p->threads + (tid & p->thread_mask);
	if (t->tid != tid) {
		h->lost_other += IL_LOST_CNT(t->lost);
		t->lost = 0;
	}
	t->tid = tid;
	t->self = self;
	p->slot = (uint64_t)(uintptr_t)t;
	p->slot_self = self;
	return t;
}

/* In one instruction: pyebpf sets it to 0 while this thread may be stopped here. */
PART void count_lost(struct il_thread *t)
{
	__asm__ volatile("incq %0" : "+m"(t->lost));
}

PART void note_lost_frames(struct il_thread *t)
{
	__asm__ volatile("btsq $63, %0" : "+m"(t->lost));
}

/* pyebpf has taken the stubs out, and reads no more: what has no room is none of its events. */
PART int is_over(const struct il_shared *h)
{
	return !__atomic_load_n(&h->deadline, __ATOMIC_RELAXED);
}

/* Whether there is some, which a full ring may make the target wait for. */
PART int wait_for_room(struct il_private *p, struct il_shared *h)
{
	if (refill(p, h))
		return 1;
	if (!p->wait)
		return 0;
	h->waits++;
	while (now(p) < __atomic_load_n(&h->deadline, __ATOMIC_RELAXED)) {
		call0(NR_yield);
		if (refill(p, h))
			return 1;
	}
	return 0;
}

/* 0: the event has no room. */
PART int make_room(struct il_private *p, struct il_shared *h)
{
	if (has_room(p))
		return 1;
	if (p->lost_mode)
		return 0;
	if (wait_for_room(p, h))
		return 1;
	if (is_over(h))
		return 0;
	/* until pyebpf has read the ring and the stacks anew */
	p->lost_mode = 1;
	*limit_of(p) = 0;
	p->thread = 0;
	p->turn = 0;
	h->lost_mode = 1;
	return 0;
}

PART void put(struct il_private *p, uint64_t time, uint64_t what)
{
	struct il_rec *r = (void *)(uintptr_t)(p->ring + (p->head & p->mask));

	r->time = time;
	r->what = what;
	p->head += sizeof(*r);
}

#endif
