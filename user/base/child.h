/* SPDX-License-Identifier: Apache-2.0 */
/* A process that works beside the agent: it talks to servers, so it has nothing that it could lose. Unlike a sandbox it opens files and
 * connections. */
#ifndef PYEBPF_BASE_CHILD_H
#define PYEBPF_BASE_CHILD_H

#include <sys/types.h>

/**
 * child_confine - to be called first in a child
 * @name:   of the process
 * @parent: it dies with this one
 * @keep:   the one file that it keeps, but for the first three
 *
 * No capabilities, no core file, no signal ends it but SIGKILL.
 *
 * Return: 0 or a negative errno; does not return when the parent has gone.
 */
int child_confine(const char *name, pid_t parent, int keep);

#endif
