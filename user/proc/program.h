/* SPDX-License-Identifier: Apache-2.0 */
/* Which program a Python process runs, by its arguments: what python3 itself would make of them. */
#ifndef PYEBPF_PROC_PROGRAM_H
#define PYEBPF_PROC_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

enum program_kind {
	PROGRAM_NONE, /* no Python by its name, an interactive one, or not known */
	PROGRAM_SCRIPT, /* a file, a folder or a zip file, as it was given */
	PROGRAM_MODULE, /* -m */
	PROGRAM_CODE, /* -c; no name */
	PROGRAM_TITLE, /* the process gave itself a title: the first word of that */
};

struct program {
	enum program_kind kind;
	const char *name; /* into the arguments; not NUL-terminated */
	size_t len;
};

/**
 * program_of - look at a process's arguments
 * @cmdline: each NUL-terminated, @len bytes in all, as /proc/PID/cmdline has them; any bytes
 * @exe:     of the process; "" when it is not known
 */
struct program program_of(const char *cmdline, size_t len, const char *exe);

#endif
