/* SPDX-License-Identifier: Apache-2.0 */
/* Reading small files below /proc/PID whole. The kernel writes them, the process chooses the content. */
#ifndef PYEBPF_PROC_FILE_H
#define PYEBPF_PROC_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * proc_file__read - read a file below /proc/PID
 * @pid:  as /proc shows it
 * @name: "comm", "task/12/status"
 * @cap:  most bytes wanted; the rest is not read
 * @out:  NUL-terminated, owned (free); may hold NULs of its own
 * @len:  bytes without the last NUL
 *
 * Return: 0; 1 when there was more than @cap; -ESRCH when the process is gone; -EACCES; -ENOMEM;
 * another negative errno.
 */
int proc_file__read(pid_t pid, const char *name, size_t cap, char **out, size_t *len);

/* proc_read - the same of a file that is nobody's: "/proc/kallsyms". */
int proc_read(const char *path, size_t cap, char **out, size_t *len);

/* proc_file__field - number behind "Name:" in the text of a status file; @index counts the words
 * behind it, -1: the last one. 0 or -ENOENT. */
int proc_file__field(const char *text, const char *name, int index, long long *out);

/* proc_gone - -ESRCH for the errors by which /proc says that a process is gone, else @err. */
int proc_gone(int err);

#endif
