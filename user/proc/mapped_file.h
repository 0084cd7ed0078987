/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting at the file behind a mapping. The process chooses its path, its mount namespace and what it
 * puts there later, so a path is never opened as it stands: that could reach a file of the host. Tried
 * are, in this order:
 *  1. /proc/PID/map_files/START-END: the mapped inode itself, also when it was deleted or replaced;
 *     needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN outside of any user namespace
 *  2. /proc/PID/exe, when it is the mapped inode
 *  3. the path, resolved inside of /proc/PID/root without following magic links (openat2), when it
 *     is the mapped inode
 * The inode is found first (O_PATH, which opens no device) and must be a regular file.
 */
#ifndef PYEBPF_PROC_MAPPED_FILE_H
#define PYEBPF_PROC_MAPPED_FILE_H

#include <sys/types.h>

#include "proc/maps.h"

#define MAPPED_PATH_SIZE 64

struct mapped_file {
	char path[MAPPED_PATH_SIZE]; /* opens the file as long as @fd is open, whatever the process does meanwhile; under a
				       * /proc of another pid namespace as long as the process maps it so */
	int fd; /* O_PATH */
};

/**
 * mapped_file__open - find a way to the file of a mapping
 * @pid: as /proc shows it
 * @out: release with mapped_file__close(); written only on success
 *
 * Return: 0; -ENOENT when no way leads to this inode; -EACCES when none may be gone; -ESRCH when the
 * process is gone; -EINVAL for a mapping without a regular file.
 */
int mapped_file__open(pid_t pid, const struct mapping *m, struct mapped_file *out);
void mapped_file__close(struct mapped_file *f);

/* mapped_file_by_path - way 3 alone, for tests: a descriptor (O_PATH), or as mapped_file__open(). */
int mapped_file_by_path(pid_t pid, const struct mapping *m);

#endif
