/* SPDX-License-Identifier: Apache-2.0 */
/* Who may be in the slow path at a time, and who that is. It runs in the target: see slow.c. */
#ifndef PYEBPF_INLINE_SLOW_TURNS_H
#define PYEBPF_INLINE_SLOW_TURNS_H

#include "inline/slow_parts.h"

PART const struct il_interpreters *interpreters_of(const struct il_private *p)
{
	return (const struct il_interpreters *)(uintptr_t)p->interpreters;
}

/* Can others run, of an interpreter with a lock of its own? It got its number long before its first frame: what others did
 * meanwhile without our lock has come to its end. */
PART int is_apart(const struct il_private *p)
{
	return p->interpreters && interpreters_of(p)->next != p->with_main;
}

/* The state of the thread that runs; 0: not known, for it has another lock than that of the first interpreter, @main. */
PART uint64_t running_tstate(const struct il_private *p, uint64_t main)
{
	const uint64_t self = own_self();
	uint64_t tstate;

	if (p->tstate_tls)
		return AT(uint64_t, self + (uint64_t)p->tstate_tls);
	if (is_apart(p))
		return 0;
	tstate = AT(uint64_t, AT(uint64_t, main + p->is_gil) + p->gil_holder);
	return tstate && AT(uint64_t, tstate + p->ts_thread_id) == self ? tstate : 0;
}

/* Have all of them the main one's lock? One that begins has none yet, or is not even there. From the first one on that has its own
 * nobody looks any more, for that may end at any moment. */
PART void look_at_interpreters(struct il_private *p)
{
	const struct il_interpreters *all = interpreters_of(p);
	uint64_t next = all->next, is, gil;

	p->turn = 0;
	if (p->with_main == IL_APART ||
	    (p->begins && __atomic_load_n((uint8_t *)(uintptr_t)p->begins, __ATOMIC_ACQUIRE) & 1))
		return;
	is = all->newest;
	gil = AT(uint64_t, all->main + p->is_gil);
	for (uint64_t i = p->with_main; is && i < next; i++) {
		uint64_t other = AT(uint64_t, is + p->is_gil);

		if (other != gil) {
			if (other)
				p->with_main = IL_APART;
			return;
		}
		is = AT(uint64_t, is + p->is_next);
	}
	p->with_main = next;
	p->turn = p->thread;
}

/* Without a GIL, or with several. Whoever has it may have been taken off its CPU. */
PART void lock(struct il_private *p)
{
	int apart = is_apart(p);

	for (unsigned int i = 1;
	     (p->locked || apart) && __atomic_exchange_n(&p->lock, 1, __ATOMIC_ACQUIRE); i++) {
		if (i % SPINS)
			__asm__ volatile("pause");
		else
			call0(NR_yield);
	}
	if (apart)
		look_at_interpreters(p);
}

PART void unlock(struct il_private *p)
{
	__atomic_store_n(&p->lock, 0, __ATOMIC_RELEASE);
}

#endif
