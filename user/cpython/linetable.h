/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an instruction to its line: co_lnotab (to 3.9), the co_linetable of 3.10, the location table
 * (3.11 on). The table is the target's and may hold anything.
 */
#ifndef PYEBPF_CPYTHON_LINETABLE_H
#define PYEBPF_CPYTHON_LINETABLE_H

#include <stddef.h>
#include <stdint.h>

#include "abi/pylayout.h"

struct proc_mem;

/* Bytes of a table that are read; lines past them are not known. */
#define LINETABLE_MAX (1u << 20)

struct linetable {
	uint8_t *data;
	uint32_t len;
	uint32_t first; /* co_firstlineno */
};

/**
 * linetable__read - the table of a code object
 * @out: release with linetable__done(), also after a failure: then it is empty
 *
 * Return: 0; -EFAULT; -ENOMEM.
 */
int linetable__read(struct linetable *out, const struct proc_mem *mem, const struct pye_pylayout *l,
		    uint64_t code);
void linetable__done(struct linetable *t);

/**
 * linetable__line - the line of a frame
 * @code:  address of the code object
 * @instr: what the frame says: the address of an instruction, f_lasti to 3.10
 *
 * Return: 0 when the instruction has no line or lies outside the code object.
 */
uint32_t linetable__line(const struct linetable *t, const struct pye_pylayout *l, uint64_t code,
			 uint64_t instr);

/* The three forms. @offset: in bytes (to 3.9, as f_lasti); @unit: two bytes each. */
uint32_t linetable_lnotab(const struct linetable *t, int64_t offset);
uint32_t linetable_310(const struct linetable *t, int64_t unit);
uint32_t linetable_311(const struct linetable *t, int64_t unit);

/* Where the last one was found, zeroed at first: who asks for a whole table in its order reads it once. */
struct linetable_place {
	uint32_t at; /* bytes of the table */
	int64_t start, line; /* in units; from co_firstlineno on */
};
uint32_t linetable_311_from(const struct linetable *t, struct linetable_place *place, int64_t unit);

#endif
