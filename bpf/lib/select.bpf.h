/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What select.bpf.c lends to core.bpf.c. */
#ifndef PYEBPF_LIB_SELECT_BPF_H
#define PYEBPF_LIB_SELECT_BPF_H

#include "lib/core.bpf.h"

#include "abi/select.h"

extern const volatile bool cfg_select;

extern const volatile bool cfg_locate; /* without a selection: select_runs() can be used */

extern __u32 select_on;

/* Key: number of a file, from its probes' cookies. Written by user space. */
struct files_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYE_FILES_MAX);
	__type(key, u32);
	__type(value, struct pye_file);
};
extern struct files_map files SEC(".maps");

/* Key: pid; when it executed its program. One that was pushed out counts from its start. */
struct execs_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PYE_EXECS_MAX);
	__type(key, u32);
	__type(value, u64);
};
extern struct execs_map execs SEC(".maps");

/* select_take - the current process if it is one to be taken in: in the table from then on. NULL: not,
 * or not yet. @cookie, @ip: of the probe that it hit. */
struct pye_proc *select_take(struct task_struct *task, u64 cookie, u64 ip);

/* select_runs - a process that is recorded has executed something: from the file of the probe that it hits now it has
 * its layout and places, and user space is told. False: not yet (counted). @cookie, @ip: of the probe. */
bool select_runs(struct task_struct *task, struct pye_proc *proc, u64 cookie, u64 ip);

/* mapped_meet - before a sample: take the current process in if it is not in the table, has executed
 * something a moment ago and runs the code of a file that is known just now. */
void mapped_meet(void);

/* select_wants - is a process one to be taken in now? @known: what the table says of it, or NULL */
bool select_wants(struct task_struct *task, struct pye_proc *known);

/* select_put - take it in, with the layout, the places and flags of @proc, and tell user space.
 * @number: of its file. The table's entry; NULL: not now (counted). */
struct pye_proc *select_put(struct task_struct *task, u32 pid, u32 number, struct pye_proc *known,
			    struct pye_proc *proc);

#endif
