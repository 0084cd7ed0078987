/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming a process so that it cannot be mixed up with another one. A pid is a number of one pid
 * namespace and is given away again: what a user types is meant in the namespace of pyebpf, what
 * lies below /proc in that of the mount. A pidfd ties the two together and to one process.
 */
#ifndef PYEBPF_PROC_PID_H
#define PYEBPF_PROC_PID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct proc_pid {
	pid_t given; /* in the pid namespace of pyebpf */
	pid_t pid; /* as /proc shows it */
	int fd; /* pidfd: poll() says POLLIN when the process ends; -1 = not open */
	uint64_t start_ticks; /* field 22 of its stat, clock ticks since boot */
};

/**
 * proc_pid__open - hold a process
 * @given: as the user typed it
 * @out:   release with proc_pid__close(); written only on success
 *
 * A thread's id is refused (with the id of its process).
 *
 * Return: 0; -PYE_ETARGET when there is no such process; -PYE_EKERNEL when /proc is not mounted or
 * belongs to a pid namespace in which the process has no number; -PYE_EPRIV; another negative errno.
 */
int proc_pid__open(pid_t given, struct proc_pid *out, struct err *e);
void proc_pid__close(struct proc_pid *p);

/* proc_pid__alive - neither ended (a zombie has ended) nor replaced by another one. */
bool proc_pid__alive(const struct proc_pid *p);

/**
 * proc_pid_shown - number of a process as /proc shows it
 * @fd: a pidfd
 *
 * Return: the pid; -ESRCH when it has ended; -EXDEV when /proc belongs to a namespace that does not
 * see it; -ENOENT when /proc is not mounted.
 */
int proc_pid_shown(int fd, pid_t given);

/* proc_pid_take_fd - a descriptor of another process, for close(): what it is open on. -1: it has none of that number, it is not permitted, or the
 * kernel cannot (before 5.6) */
int proc_pid_take_fd(pid_t pid, int fd);

/* proc_pid_is_ours - /proc counts pids as this process does. */
bool proc_pid_is_ours(void);

/* proc_start_ticks - field 22 of /proc/PID/stat. 0; -ESRCH; -EINVAL. */
int proc_start_ticks(pid_t pid, uint64_t *ticks);

/* proc_stat_number - a field of that file's text, behind the name (2), as proc(5) counts them. 0; -EINVAL. */
int proc_stat_number(const char *text, int field, uint64_t *out);

#endif
