/* SPDX-License-Identifier: Apache-2.0 */
/* The system call that a thread waits in, asked of the kernel: the thread is neither stopped nor woken. */
#ifndef PYEBPF_PROC_CALL_H
#define PYEBPF_PROC_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_call {
	bool waits; /* false: it runs, or would if it had a CPU; nothing below counts */
	int64_t nr; /* -1: none, an exception */
	uint64_t args[6], sp, pc; /* 0 without a call, but for sp and pc */
};

/**
 * proc_call__read - what a thread does at this moment
 * @pid, @tid: as /proc shows them
 *
 * Return: 0; -ESRCH when the thread is gone; -EACCES, -EPERM or -ENOENT when the kernel does not tell;
 * another negative errno.
 */
int proc_call__read(pid_t pid, pid_t tid, struct proc_call *out);

/* proc_call__parse - of the file's text; 0 or -EINVAL */
int proc_call__parse(const char *text, struct proc_call *out);

#endif
