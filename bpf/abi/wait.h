/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a system call says about the wait of a thread that sleeps in it, x86-64: one table for the
 * scheduler's program and for those who read /proc.
 */
#ifndef PYEBPF_ABI_WAIT_H
#define PYEBPF_ABI_WAIT_H

#include "abi/sample.h"

#define PYE_GIL_BYTES 240 /* of the interpreter's lock, with its conditions */

/*
 * What a thread is in that waits for a condition of musl: it lies on its stack, and `barrier` is the word that it sleeps on. Who began to
 * wait later comes first; the condition points to the first one. Source: musl 1.2.3, src/thread/pthread_cond_timedwait.c
 */
struct pye_musl_waiter {
	__u64 newer, older; /* addresses; 0: none */
	__u32 state, barrier;
};
_Static_assert(sizeof(struct pye_musl_waiter) == 24, "musl's");

#define PYE_MUSL_WAITERS \
	64 /* so many are looked at: with more before it a thread seems to wait for another lock */

enum pye_wait_call {
	PYE_CALL_POLL = 7,
	PYE_CALL_SELECT = 23,
	PYE_CALL_PAUSE = 34,
	PYE_CALL_NANOSLEEP = 35,
	PYE_CALL_WAIT4 = 61,
	PYE_CALL_SIGTIMEDWAIT = 128,
	PYE_CALL_SIGSUSPEND = 130,
	PYE_CALL_FUTEX = 202,
	PYE_CALL_CLOCK_SLEEP = 230,
	PYE_CALL_WAITID = 247,
	PYE_CALL_PSELECT6 = 270,
	PYE_CALL_PPOLL = 271,
	PYE_CALL_FUTEX_WAITV = 449,
	PYE_CALL_FUTEX_WAIT = 455
};

/* pye_wait_reason - of call @nr with these arguments; calls without a line wait for files and sockets */
static inline enum pye_off_reason pye_wait_reason(__s64 nr, __u64 arg0, __u64 arg1)
{
	if (nr < 0) /* no system call: an exception */
		return PYE_OFF_FAULT;
	switch (nr) {
	case PYE_CALL_FUTEX:
	case PYE_CALL_FUTEX_WAITV:
	case PYE_CALL_FUTEX_WAIT:
		return PYE_OFF_LOCK;
	case PYE_CALL_NANOSLEEP:
	case PYE_CALL_CLOCK_SLEEP:
		return PYE_OFF_SLEEP;
	case PYE_CALL_SELECT:
	case PYE_CALL_PSELECT6:
		return arg0 ? PYE_OFF_IO : PYE_OFF_SLEEP;
	case PYE_CALL_POLL:
	case PYE_CALL_PPOLL:
		return arg1 ? PYE_OFF_IO : PYE_OFF_SLEEP;
	case PYE_CALL_PAUSE: /* a signal */
	case PYE_CALL_SIGTIMEDWAIT:
	case PYE_CALL_SIGSUSPEND:
	case PYE_CALL_WAIT4: /* a process */
	case PYE_CALL_WAITID:
		return PYE_OFF_OTHER;
	default:
		return PYE_OFF_IO;
	}
}

#endif
