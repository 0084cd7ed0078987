/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the threads of a process wait, and which one holds the interpreter's lock, asked from outside
 * while they run on. A look is taken before the stacks are read and another one after it: a thread that
 * waits at the same place both times has waited there meanwhile, and any other one ran.
 */
#ifndef PYEBPF_CPYTHON_WAIT_OUTSIDE_H
#define PYEBPF_CPYTHON_WAIT_OUTSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/sample.h"

struct interp;
struct outside_stacks;
struct proc_mem;
struct waits_task;

/* One thread of a struct outside_stacks, by the same index. */
struct outside_wait {
	pid_t tid, own_tid; /* as /proc shows it, as the thread sees it; 0 = not known */
	char comm[64]; /* any bytes but NUL; "" = not known */
	bool known; /* the kernel told; else reason says nothing */
	enum pye_off_reason reason; /* PYE_OFF_NONE: it runs, or would if it had a CPU */
	uint64_t futex; /* PYE_OFF_LOCK: the word that it waits for */
	bool holds_gil;
};

struct outside_waits {
	struct outside_wait *threads; /* as many as there are stacks; NULL before waits__after() */
	bool settled; /* nobody got the interpreter's lock during the look */
	struct waits_task *tasks; /* what the kernel lists, sorted by own_tid */
	size_t task_cnt;
};

/**
 * waits__before - the look before the stacks are read
 * @pid: as /proc shows it
 * @w:   release with waits__done(), also after an error
 *
 * Return: 0; -ESRCH when the process is gone; -ENOMEM; another negative errno.
 */
int waits__before(struct outside_waits *w, pid_t pid);

/**
 * waits__after - the look after it
 * @stacks: what was read between; borrowed for the call
 *
 * Return: 0 or -ENOMEM.
 */
int waits__after(struct outside_waits *w, pid_t pid, const struct proc_mem *mem,
		 const struct interp *in, const struct outside_stacks *stacks);

/* waits__done - release the memory. A zeroed one is fine. */
void waits__done(struct outside_waits *w);

#endif
