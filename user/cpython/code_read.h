/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a code object, read from outside. */
#ifndef PYEBPF_CPYTHON_CODE_READ_H
#define PYEBPF_CPYTHON_CODE_READ_H

#include <stdint.h>

#include "abi/pylayout.h"
#include "cpython/pystr.h"

struct proc_mem;

/* Texts as pystr_decode() makes them: NUL-terminated, long ones cut with a hash. */
struct code_names {
	char name[PYSTR_SIZE];
	char qualname[PYSTR_SIZE]; /* = name before 3.11 */
	char filename[PYSTR_SIZE];
	int32_t firstlineno;
	uint32_t flags; /* co_flags */
};

/**
 * code_read - read name, file and line of a code object
 * @code: its address; may be wrong by now: then this fails or gives what is there instead
 * @out:  undefined on failure
 *
 * Return: 0; -EFAULT when something of it cannot be read or is no str; -ESRCH when the process is gone;
 * -ENOMEM.
 */
int code_read(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t code,
	      struct code_names *out);

/* str_read - the text of the str at an address; @size >= PYSTR_SIZE_MIN; as code_read(). */
int str_read(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t str, char *out,
	     size_t size);

#endif
