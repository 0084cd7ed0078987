/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking into hostile files in a process of its own: a forked child that has one open file, a pipe for
 * its answer, and nothing else. Before it looks it gives up its user (root that may becomes nobody) and all
 * capabilities, and a seccomp filter ends it at any system call but reading, writing, memory and exit.
 * Whatever it does there, the worst is a wrong answer, which the caller has to vet.
 */
#ifndef PYEBPF_BASE_SANDBOX_H
#define PYEBPF_BASE_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What one look may take. */
#define SANDBOX_MEMORY_BYTES (256u << 20)
#define SANDBOX_CPU_S	     4u
#define SANDBOX_WALL_MS \
	60000u /* a machine that has no time for it: it computes, and cannot sleep */

/**
 * sandbox_fn - the work, in the child
 * @fd:  the file, to be read with pread()
 * @out: zeroed; what is in it at the end is the answer
 */
typedef void (*sandbox_fn)(int fd, const void *arg, void *out);

struct sandbox_limits {
	uint64_t memory_bytes; /* beyond what the child begins with; not with AddressSanitizer */
	unsigned int cpu_s, wall_ms;
};

extern const struct sandbox_limits sandbox_usual;

/**
 * sandbox_run - let @fn look into a file
 * @fd:  stays the caller's
 * @arg: what @fn is to know; read from the memory that the child inherits
 * @out: the answer, @size bytes; undefined after a failure
 *
 * The child cannot outlive the thread that calls. Does not wait longer than the limits.
 *
 * Return: 0 when an answer of this very size is there; -PYE_EPLAN with the sentence in @e when the child
 * crashed, did what it must not, took too long or answered another size; -ENOMEM, -EAGAIN, -EMFILE
 * when none could be started.
 */
int sandbox_run(sandbox_fn fn, int fd, const void *arg, void *out, size_t size,
		const struct sandbox_limits *limits, struct err *e);

#endif
