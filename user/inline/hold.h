/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own child, held where its interpreter is mapped and relocated and nothing of it has run: at the entry
 * point of the program. It is traced until then and killed with pyebpf; afterwards it is let go.
 */
#ifndef PYEBPF_INLINE_HOLD_H
#define PYEBPF_INLINE_HOLD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct held {
	pid_t pid; /* it spins at `entry`, seized by us */
	uint64_t entry;
	uint8_t code[2]; /* what belongs there */
};

/* hold__seize - a child that has not executed its program yet. 0 or a negative errno. */
int hold__seize(pid_t pid);

/**
 * hold__find - let it run up to the first program that is wanted
 * @wanted: called at each program's entry point; -PYE_ENOTPYTHON: go on to the next one it executes
 * @status: of waitpid(), when it has ended
 *
 * Return: 0, it spins; -ECHILD, it has ended; what @wanted said (it stands still then); another errno.
 */
int hold__find(pid_t pid, int (*wanted)(void *ctx), void *ctx, struct held *out, int *status);

#endif
