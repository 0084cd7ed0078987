/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Which processes are taken in by their first call, and what is known of the file that they run. */
#ifndef PYEBPF_ABI_SELECT_H
#define PYEBPF_ABI_SELECT_H

#include "abi/types.h"

/* How far the taking in has got. */
enum pye_select_on {
	PYE_SELECT_OFF = 0,
	PYE_SELECT_EXECS = 1, /* programs that are executed are reported */
	PYE_SELECT_CALLS = 2, /* and a chosen process is taken in by its first call */
};

/* What chooses: any of it. The names and the cgroups are in tables of their own. */
#define PYE_SELECT_ALL	   1
#define PYE_SELECT_COMM	   2
#define PYE_SELECT_CGROUP2 4
#define PYE_SELECT_CGROUP1 8 /* of a hierarchy of version 1 */

/* A cgroup. Of version 1 each hierarchy has a number, and id 0 stands for: some cgroup of it is chosen. */
struct pye_cgroup {
	__u64 id;
	__u32 hierarchy; /* 0: version 2 */
	__u32 pad;
};

/* An interpreter's file with probes for everybody; its number is in their cookies. */
struct pye_file {
	__u64 ready_ns; /* when all of its probes were in place; 0: not yet */
	__u64 segment; /* vaddr - offset in the file of the code with the probes */
	__u64 tstate_current; /* vaddr; 0 = none */
	__u64 interpreters; /* vaddr; 0 = not known */
	__u64 code; /* offset in the file of some of the interpreter's code */
	__u32 layout; /* index into the table of layouts */
	__u32 pad;
};

/* A file as the kernel numbers it. */
struct pye_inode {
	__u64 ino;
	__u32 dev, pad;
};

_Static_assert(sizeof(struct pye_file) == 48, "ABI");
_Static_assert(sizeof(struct pye_inode) == 16, "ABI");
_Static_assert(sizeof(struct pye_cgroup) == 16, "ABI");

#endif
