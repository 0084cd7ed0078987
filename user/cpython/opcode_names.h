/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What opcodes are called, and which one a specialised or instrumented form stands for. A version is one
 * file of data, opcode_names_3_NN.c, and a row in opcode_names.c.
 */
#ifndef PYEBPF_CPYTHON_OPCODE_NAMES_H
#define PYEBPF_CPYTHON_OPCODE_NAMES_H

#include <stdint.h>

#include "base/err.h"

#define OPCODE_CNT 256u

struct opcode_name {
	const char *name; /* NULL: there is none of this number */
	uint8_t base; /* itself, where it is no form of another one */
};

extern const struct opcode_name opcode_names_3_11[OPCODE_CNT], opcode_names_3_12[OPCODE_CNT],
	opcode_names_3_13[OPCODE_CNT], opcode_names_3_14[OPCODE_CNT], opcode_names_3_15[OPCODE_CNT];

/* opcode_names - OPCODE_CNT of them; NULL: of this version none are known (before 3.11). */
const struct opcode_name *opcode_names(unsigned int minor);

/**
 * opcode_choose - which opcodes a list names
 * @list:   "all", or names with commas between them; one that has specialised forms stands for these too
 * @chosen: OPCODE_CNT, 1 for each
 *
 * Return: 0; -PYE_EUSAGE with the name that this version does not have.
 */
int opcode_choose(const struct opcode_name *names, unsigned int minor, const char *list,
		  uint8_t *chosen, struct err *e);

#endif
