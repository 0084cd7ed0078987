/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The records of a sampled thread, by abi/event.h. Both kinds are numbered like events. A sample of a
 * thread that loses the CPU is half of one: how long it stays away comes with a WAIT record.
 */
#ifndef PYEBPF_ABI_SAMPLE_H
#define PYEBPF_ABI_SAMPLE_H

#include "abi/event.h"

/* sub of a sample: how its walk ended */
enum pye_sample_status {
	PYE_SAMPLE_OK = 0, /* at the root of the stack */
	PYE_SAMPLE_NO_STATE = 1, /* the thread has no thread state: it runs no Python code */
	PYE_SAMPLE_FAULT = 2, /* at a page that is not in memory */
	PYE_SAMPLE_DEEP = 3, /* at PYE_SAMPLE_WALK frames */
	PYE_SAMPLE_NO_FRAMES = 4, /* there is a thread state, and nothing runs in it */
	PYE_SAMPLE_STATUS_CNT = 5
};

enum pye_sample_state {
	PYE_SAMPLE_ON = 0, /* the thread has the CPU */
	PYE_SAMPLE_OFF = 1, /* it loses it now; for how long comes later, in a WAIT record */
};

/* Why a thread was off the CPU. Written to files, as enum trace_reason: append only. */
enum pye_off_reason {
	PYE_OFF_NONE = 0, /* it was not */
	PYE_OFF_OTHER = 1,
	PYE_OFF_PREEMPTED = 2,
	PYE_OFF_LOCK = 3, /* futex */
	PYE_OFF_SLEEP = 4,
	PYE_OFF_IO = 5,
	PYE_OFF_FAULT = 6, /* page fault */
	PYE_OFF_GIL = 7
};

/* What a thread waits for with PYE_OFF_LOCK; user space finds out. As enum trace_lock: append only. */
enum pye_lock_type {
	PYE_LOCK_UNKNOWN = 0,
	PYE_LOCK_LOCK = 1,
	PYE_LOCK_RLOCK = 2,
	PYE_LOCK_CONDITION = 3,
	PYE_LOCK_SEMAPHORE = 4,
	PYE_LOCK_EVENT = 5,
	PYE_LOCK_BARRIER = 6,
	PYE_LOCK_THREAD = 7,
	PYE_LOCK_QUEUE = 8,
	PYE_LOCK_SIMPLE_QUEUE = 9,
	PYE_LOCK_FUTURE = 10,
	PYE_LOCK_SEMLOCK = 11,
	PYE_LOCK_IMPORT = 12
};

#define PYE_FRAME_ENTRY 1ULL /* in a frame's code: C called it, by a call of the interpreter loop */

struct pye_sample_frame {
	__u64 code; /* address of the code object, and PYE_FRAME_ENTRY; to 3.10 each frame is an entry */
	__u64 instr; /* what the frame holds: a pointer to an instruction; f_lasti to 3.10 */
};

/* To find the lock's object by, for user space to prove. */
struct pye_sample_lock {
	__u64 frame; /* address of the innermost frame */
	__u64 parked; /* the word before the futex: in newer versions the address of the lock itself */
};

struct pye_sample_rec {
	struct pye_head head; /* sub: enum pye_sample_status */
	__u64 weight_ns;
	__u32 cnt; /* of the walk; frames holds at most PYE_SAMPLE_FRAMES */
	__u8 state; /* enum pye_sample_state */
	__u8 reason; /* enum pye_off_reason */
	__u16 pad;
	__u32 rss_pages; /* memory of the process now */
	__u32 pad2;
	__u64 futex; /* the word that it waits for, of a lock; else 0 */
	union {
		struct pye_sample_frame holder; /* GIL: what its holder runs now; code 0: not known */
		struct pye_sample_lock lock; /* LOCK; all 0: not known */
	};
	/* from the top down; past half of them number n lies in slot half + n % half */
	struct pye_sample_frame frames[PYE_SAMPLE_FRAMES];
};

#define PYE_SAMPLE_HEAD (sizeof(struct pye_head) + 48) /* bytes before the frames */

/* What is taken besides the Python frames. */
#define PYE_TAKE_KERNEL 1u
#define PYE_TAKE_USER	2u

/* sub of a NATIVE record: how the walk of the native stack ended */
enum pye_native_end {
	PYE_NATIVE_NONE = 0, /* it was not asked for */
	PYE_NATIVE_ROOT = 1, /* at the outermost frame */
	PYE_NATIVE_BROKEN = 2, /* the frame pointer points out of the stack: code without one */
	PYE_NATIVE_FAULT = 3, /* at a page that is not in memory */
	PYE_NATIVE_DEEP = 4, /* at PYE_NATIVE_FRAMES */
	PYE_NATIVE_END_CNT = 5
};

/* Comes right before the SAMPLE record of the same thread and number. */
struct pye_native_rec {
	struct pye_head head; /* sub: enum pye_native_end */
	__u16 kernel_cnt, user_cnt;
	__u32 pad;
	/* the kernel's, then the user's, each from the innermost on: where it is, then return addresses */
	__u64 addrs[PYE_NATIVE_ADDRS];
};

#define PYE_NATIVE_HEAD (sizeof(struct pye_head) + 8) /* bytes before the addresses */

/* A thread that was off the CPU has it again. sub: 1: the sample before shows where it was */
struct pye_wait_rec {
	struct pye_head head;
	__u64 weight_ns;
	__u32 reason; /* enum pye_off_reason; the sample knows better */
	__u32 pad;
};

/* What list_waiting (an iterator, not a ring) says of each thread of a sampled process. */
struct pye_waiter {
	__u32 pid, tid; /* in the pid namespace of pyebpf */
	__u32 pix, tix; /* tix 0: it had no sample yet */
	__u64 fsbase; /* pthread_self() */
	__u32 reason; /* enum pye_off_reason; PYE_OFF_NONE: it runs */
	__u32 pad;
	__u64 futex; /* LOCK: the word that it waits for */
	char comm[PYE_COMM];
};

_Static_assert(sizeof(struct pye_sample_frame) == 16, "ABI");
_Static_assert(sizeof(struct pye_sample_lock) == 16, "ABI");
_Static_assert(sizeof(struct pye_sample_rec) == PYE_SAMPLE_HEAD + 16UL * PYE_SAMPLE_FRAMES, "ABI");
_Static_assert(sizeof(struct pye_native_rec) == PYE_NATIVE_HEAD + 8UL * PYE_NATIVE_ADDRS, "ABI");
_Static_assert(sizeof(struct pye_wait_rec) == 40, "ABI");
_Static_assert(sizeof(struct pye_waiter) == 56, "ABI");

#endif
