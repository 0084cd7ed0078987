/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYEBPF_CPYTHON_OPTABLE_H
#define PYEBPF_CPYTHON_OPTABLE_H

#include <stdint.h>

#include "base/err.h"
#include "cpython/opcodes.h"

struct elf_file;

#define OPTABLE_CNT 256u

struct optable {
	const struct python_version *version;
	uint64_t vaddr;
	uint64_t unknown; /* where the numbers without a handler go */
	uint64_t targets[OPTABLE_CNT];
};

/**
 * optable__find - the dispatch table of the interpreter loop, and by it the version
 * @out: written only on success
 *
 * Return: 0; -ENOENT if there is none; -PYE_EPLAN if there are several; -ENOMEM.
 */
int optable__find(const struct elf_file *elf, struct optable *out, struct err *e);

#endif
