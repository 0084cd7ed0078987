/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What select.bpf.c lends to core.bpf.c. */
#ifndef PYEBPF_LIB_SELECT_BPF_H
#define PYEBPF_LIB_SELECT_BPF_H

#include "lib/core.bpf.h"

#include "abi/select.h"

extern const volatile bool cfg_select;

/* select_take - the current process if it is one to be taken in: in the table from then on. NULL: not,
 * or not yet. @cookie, @ip: of the probe that it hit. */
struct pye_proc *select_take(struct task_struct *task, u64 cookie, u64 ip);

#endif
