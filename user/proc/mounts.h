/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/mountinfo. Who may mount chooses the names in it. */
#ifndef PYEBPF_PROC_MOUNTS_H
#define PYEBPF_PROC_MOUNTS_H

#include <stdbool.h>
#include <sys/types.h>

/* "36 35 0:31 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw": each is borrowed from the text. */
struct mount {
	dev_t dev;
	char *root; /* what of the file system is mounted */
	char *at; /* where */
	char *type;
	char *options; /* of the file system */
};

/**
 * mount__next - the next line of a mountinfo file
 * @text: NUL-terminated; cut up, and moved on
 *
 * Lines that are none are left out. Return: false at its end.
 */
bool mount__next(char **text, struct mount *out);

/* mounts_read - the file's text of a process, 0: of ours; owned (free). NULL with errno. */
char *mounts_read(pid_t pid);

#endif
