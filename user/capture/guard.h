/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that outlives ours by a moment: when we are killed, it lets those go on that the BPF programs
 * have stopped for us. The command itself needs none (PR_SET_PDEATHSIG), what that starts has no such thing.
 */
#ifndef PYEBPF_CAPTURE_GUARD_H
#define PYEBPF_CAPTURE_GUARD_H

#include <sys/types.h>

#include "base/err.h"

struct guard {
	pid_t pid; /* 0: none */
	int fd; /* its end of life: closed when ours comes */
};

/**
 * guard__start - start it; to be called while there is no other thread
 * @procs_fd: the map of processes, from their pid to struct pye_proc
 *
 * Return: 0 or a negative errno with its sentence.
 */
int guard__start(struct guard *g, int procs_fd, struct err *e);

/* guard__stop - end it and wait for that; it looks once more. Nothing for one that was not started. */
void guard__stop(struct guard *g);

#endif
