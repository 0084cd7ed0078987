/* SPDX-License-Identifier: Apache-2.0 */
/* Files as a process sees them: below its own root, which its links do not lead out of. */
#ifndef PYEBPF_PROC_ROOT_H
#define PYEBPF_PROC_ROOT_H

#include <sys/types.h>

/**
 * proc_root__open - a descriptor (O_PATH) of the file that an absolute path of a process names
 *
 * Return: the descriptor, owned (close); -ENOENT; -EACCES; -ESRCH when the process is gone.
 */
int proc_root__open(pid_t pid, const char *path);

#endif
