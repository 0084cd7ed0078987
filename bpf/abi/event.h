/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The records that travel from the probes to user space. Every record starts with struct pye_head;
 * its length follows from its kind (and, for strings and walks, from its own count). Kinds are
 * append-only. Sizes are asserted on both sides: this header is the contract.
 *
 * A thread writes all its records into one ring, so they arrive in order. Its events (entry, exit)
 * are numbered by `seq` without a hole; one that could not be written leaves a hole. Definitions (DEF,
 * STR) go through a ring of their own, which is read before the events that may use them.
 */
#ifndef PYEBPF_ABI_EVENT_H
#define PYEBPF_ABI_EVENT_H

#include "abi/limits.h"
#include "abi/types.h"

enum pye_rec_kind {
	PYE_REC_ENTRY = 1, /* a frame is entered */
	PYE_REC_EXIT = 2, /* a frame is left */
	PYE_REC_DEF = 3, /* a code object: numbers; its strings follow in STR records */
	PYE_REC_STR = 4, /* a string (or piece) of the code object defined before */
	PYE_REC_WALK = 5, /* frames under the event that comes next in this thread */
	PYE_REC_THREAD = 6, /* first record of a thread */
	PYE_REC_THREAD_END = 7,
	PYE_REC_EXEC = 8, /* the process executed a program: its threads and code ids are new */
	PYE_REC_FORK = 9, /* a traced process has a child */
	PYE_REC_PROC_END = 10,
	PYE_REC_RETIRE = 11, /* a code object was freed: its id will not come again */
	PYE_REC_HELD = 12, /* a launched process was stopped for us */
	PYE_REC_TAKEN = 13, /* a process was taken in by its first call */
	PYE_REC_EXECUTED = 14, /* a chosen process executed: perhaps a new interpreter */
	/* abi/sample.h */
	PYE_REC_SAMPLE = 15, /* the stack of a thread at some moment */
	PYE_REC_WAIT = 16, /* a sampled thread was off the CPU */
	PYE_REC_RENAME = 17, /* a filter by names: a thread has another one */
	PYE_REC_NATIVE = 18, /* native frames of the sample that comes next in this thread */
	PYE_REC_RUNS = 19, /* what was executed runs the file of number old_pix */
};

/* sub of an entry: enum trace_kind's TRACE_CALL, _RESUME, _THROW; of an exit: these */
enum pye_exit {
	PYE_EXIT_RETURN = 0,
	PYE_EXIT_YIELD = 1,
	PYE_EXIT_UNWIND = 2,
	PYE_EXIT_REFUSED = 3, /* the frame never ran: its entry is taken back */
};

enum pye_entry {
	PYE_ENTRY_CALL = 0,
	PYE_ENTRY_RESUME = 1,
	PYE_ENTRY_THROW = 2,
};

struct pye_head {
	__u64 ts_ns; /* CLOCK_MONOTONIC */
	__u64 frame : 48; /* address of the frame; kinds without one: 0 or as they say */
	__u64 kind : 8; /* enum pye_rec_kind */
	__u64 sub : 8;
	__u32 tix; /* the thread: a number of this trace, never reused */
	__u32 seq; /* of the event; of records before it: that of the event to come */
};

struct pye_entry_rec {
	struct pye_head head;
	__u32 code; /* id of the code object, PYE_CODE_* bits on top */
	__u32 caller; /* low 32 bits of the caller's frame address >> 3; 0 = none */
};

struct pye_exit_rec {
	struct pye_head head;
};

/* Bits of a code id in the tables and records of the BPF programs. */
#define PYE_CODE_GENERATOR 0x80000000u /* its frames can be suspended */
#define PYE_CODE_QUIET	   0x40000000u /* a filter: its frames are not recorded */
#define PYE_CODE_CHOSEN	   0x20000000u /* a filter: it can be the function that is asked for */
#define PYE_CODE_NAMES	   0x10000000u /* a filter: it begins a thread, or gives one its name */
#define PYE_CODE_ID	   0x0fffffffu

/* A str object as it lies in the target, read raw. */
struct pye_str {
	__u64 addr;
	__u64 length; /* code points */
	__u32 state;
	__u32 bytes; /* of its data; 0 if not read (status) */
};

enum pye_str_status {
	PYE_STR_OK = 0,
	PYE_STR_FAULT = 1,
	PYE_STR_CUT = 2
};
enum pye_str_which {
	PYE_STR_FILE = 0,
	PYE_STR_NAME = 1,
	PYE_STR_QUALNAME = 2,
	PYE_STR_CNT = 3
};

/* sub: number of STR records that follow it, perhaps among other threads' */
struct pye_def_rec {
	struct pye_head head; /* frame: address of the code object */
	__u32 code; /* id */
	__u32 pix; /* process */
	__u32 line; /* co_firstlineno */
	__u32 flags; /* co_flags */
	__u64 str_addr[PYE_STR_CNT]; /* addresses of the str objects; 0 = none */
};

/* sub: enum pye_str_which */
struct pye_str_rec {
	struct pye_head head;
	__u32 code;
	__u32 status; /* enum pye_str_status */
	struct pye_str str;
	__u32 data_len; /* bytes in data; CUT: the head and the tail, half each */
	__u32 room; /* size of data in this record: 64, 512 or PYE_STR_BYTES */
	__u8 data[];
};

/* bits of pye_walk_frame.owner */
#define PYE_OWNER_MASK	    0x0f
#define PYE_OWNER_GENERATOR 1
#define PYE_OWNER_ENTRY	    3 /* this and above: an entry from C, no Python frame */
#define PYE_OWNER_QUIET	    0x10 /* its exit will not come: PYE_CODE_QUIET */

struct pye_walk_frame {
	__u64 frame : 48;
	__u64 owner : 16;
	__u32 code; /* id; 0 = could not be read */
	__u32 pad;
};

/* flags of a walk record */
#define PYE_WALK_FIRST	  1 /* a new walk begins */
#define PYE_WALK_ROOT	  2 /* it ends at the root of the stack */
#define PYE_WALK_ANCHORED 4 /* it ends above a frame that was known as the top: `anchor` */
#define PYE_WALK_CUT	  8 /* it ends because something could not be read or is too deep */

struct pye_walk_rec {
	struct pye_head head; /* sub: flags; frame: the anchor */
	__u32 cnt;
	__u32 reason; /* enum pye_walk_reason */
	struct pye_walk_frame frames[PYE_WALK_FRAMES]; /* from the top down */
};

enum pye_walk_reason {
	PYE_WALK_UNKNOWN = 0, /* first event of the thread, or after a loss */
	PYE_WALK_THROWN = 1, /* frames between the known top and this event: thrown into */
	PYE_WALK_SWITCH = 2, /* the thread is on another stack */
};

struct pye_thread_rec {
	struct pye_head head;
	__u32 pix;
	__u32 pid, tid; /* in the pid namespace of pyebpf */
	__u32 pad;
	__u64 start_boottime_ns;
	__u64 fsbase; /* pthread_self() */
	char comm[PYE_COMM];
};

/* THREAD_END; RENAME, with sub 1: it is recorded from here on, 0: it is not */
struct pye_thread_end_rec {
	struct pye_head head; /* seq: the number that its next event would have had */
	__u32 pix;
	__u32 pad;
	char comm[PYE_COMM];
};

/* EXEC: pix is the new one; FORK: the child's; PROC_END; HELD: pix is 0 for an unknown process;
 * TAKEN: old_pix is the number of its file; EXECUTED: no pix */
struct pye_proc_rec {
	struct pye_head head; /* sub: HELD: enum pye_held; FORK, TAKEN: flags, below */
	__u32 pix, old_pix;
	__u32 pid, parent;
	__s32 exit_code;
	__u32 pad;
	char comm[PYE_COMM];
};

/* sub of FORK: the child has its probes; of TAKEN: it may have run Python code before. */
#define PYE_FORK_SHARED 1
#define PYE_TAKEN_LATE	1

/* These kinds come through the control ring, not through a thread's: their head has neither
 * thread nor sequence number. */
enum pye_held {
	PYE_HELD_EXEC = 0,
	PYE_HELD_MAP = 1
};

/* What list_tasks (an iterator, not a ring) says of each thread of a traced process. */
struct pye_task_rec {
	__u32 pid, tid; /* in the pid namespace of pyebpf */
	__u32 pix, pad;
	__u64 fsbase; /* pthread_self() */
	char comm[PYE_COMM];
};

struct pye_retire_rec {
	struct pye_head head; /* frame: address of the code object */
	__u32 code;
	__u32 pix;
};

_Static_assert(sizeof(struct pye_head) == 24, "ABI");
_Static_assert(sizeof(struct pye_entry_rec) == 32, "ABI");
_Static_assert(sizeof(struct pye_exit_rec) == 24, "ABI");
_Static_assert(sizeof(struct pye_def_rec) == 64, "ABI");
_Static_assert(sizeof(struct pye_str_rec) == 64, "ABI");
_Static_assert(sizeof(struct pye_walk_rec) == 32 + 16 * PYE_WALK_FRAMES, "ABI");
_Static_assert(sizeof(struct pye_thread_rec) == 72, "ABI");
_Static_assert(sizeof(struct pye_thread_end_rec) == 48, "ABI");
_Static_assert(sizeof(struct pye_proc_rec) == 64, "ABI");
_Static_assert(sizeof(struct pye_task_rec) == 40, "ABI");
_Static_assert(sizeof(struct pye_retire_rec) == 32, "ABI");

#endif
