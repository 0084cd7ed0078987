/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space tells the BPF programs about a process, and what a probe's cookie says. */
#ifndef PYEBPF_ABI_PROC_H
#define PYEBPF_ABI_PROC_H

#include "abi/types.h"

#define PYE_PROC_TRACED	  1 /* its probes record */
#define PYE_PROC_LAUNCHED 2 /* our own child: held at exec and at mappings of code */
#define PYE_PROC_FOLLOW	  4 /* its children are traced too */
#define PYE_PROC_SHARED	  16 /* the probes are in its file for everybody: a child has them too */
#define PYE_PROC_SAMPLED \
	128 /* by a clock, not by probes: after exec its interpreter is looked up anew */
#define PYE_PROC_WATCH_MAP 8 /* stop it when it maps code: its interpreter is not found yet */
#define PYE_PROC_SELECTED \
	32 /* of a trace by selection: after an exec its first call takes it in anew */
#define PYE_PROC_STAYS 64 /* whatever it executes: the user named it, or follows it */
#define PYE_PROC_EXECUTED \
	256 /* something: which file's probes it hits first says what its layout and places are now */
#define PYE_PROC_UNWANTED 512 /* nobody wants its samples, until it executes something */
#define PYE_PROC_LET_GO \
	1024 /* was launched; pyebpf has been killed, and nothing is held any more */

/* Value of the table of processes; key: its pid in pyebpf's pid namespace. */
struct pye_proc {
	__u32 pix; /* number of this process and program in the trace, never reused */
	__u32 flags; /* PYE_PROC_*; changed by atomic operations */
	__u64 tstate_current; /* run-time address of the pointer to the thread state; 0 = none */
	__u64 interpreters; /* of the pointer to the first PyInterpreterState; 0 = not known */
	__u16 layout; /* index into the table of layouts */
	__u16 pad;
	__u32 pad2;
};

/*
 * How user space changes the entry of a process that lives, which may be executing or forking just now: a
 * program of the kernel side does it in place. An entry that is read, changed and written back would undo
 * what an exec did to it meanwhile.
 */
struct pye_proc_change {
	__u32 pid;
	__u32 pix; /* only if it has this number; 0: whatever it has */
	__u32 set, clear; /* of the flags */
	__u64 tstate_current, interpreters; /* with `moved` */
	__u32 moved, pad;
};

/* The cookie of a probe: bits 0-4 reg, 8-12 value register, 16-20 condition, 24-27 source,
 * 28-31 exit or entry kind that is fixed, 32-63 signed displacement. The number of the file
 * (abi/select.h; 0 = none) is in the three bits that each of the first three leaves free. */
#define PYE_COOKIE_REG(c)    ((__u32)(c)&0x1f)
#define PYE_COOKIE_VALUE(c)  ((__u32)((c) >> 8) & 0x1f)
#define PYE_COOKIE_COND(c)   ((__u32)((c) >> 16) & 0x1f)
#define PYE_COOKIE_SOURCE(c) ((__u32)((c) >> 24) & 0xf)
#define PYE_COOKIE_SUB(c)    ((__u32)((c) >> 28) & 0xf)
#define PYE_COOKIE_DISP(c)   ((__s32)((c) >> 32))

#define PYE_COOKIE_FILE(c) \
	(((__u32)(c) >> 5 & 7) | ((__u32)(c) >> 13 & 7) << 3 | ((__u32)(c) >> 21 & 7) << 6)
#define PYE_COOKIE_OF_FILE(file) \
	((__u64)((file)&7) << 5 | (__u64)((file) >> 3 & 7) << 13 | (__u64)((file) >> 6 & 7) << 21)

#define PYE_COOKIE(reg, value, cond, source, sub, disp)                                     \
	((__u64)(reg) | (__u64)(value) << 8 | (__u64)(cond) << 16 | (__u64)(source) << 24 | \
	 (__u64)(sub) << 28 | (__u64)(__u32)(disp) << 32)

_Static_assert(sizeof(struct pye_proc) == 32, "ABI");
_Static_assert(sizeof(struct pye_proc_change) == 40, "ABI");

#endif
