/* SPDX-License-Identifier: Apache-2.0 */
/* Files told apart by inode and state: one that was written to since is another one. */
#ifndef PYEBPF_PROC_FILE_ID_H
#define PYEBPF_PROC_FILE_ID_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct file_id {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

/* file_id__of, file_id__read - of an open file (O_PATH will do), or at a path: follows links, those of /proc, too; false: it is not there. */
bool file_id__of(int fd, struct file_id *out);
bool file_id__read(const char *path, struct file_id *out);
bool file_id__same(const struct file_id *a, const struct file_id *b);

#endif
