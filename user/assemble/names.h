/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects on their way from the records to the capture file. A definition comes as one record
 * with numbers and up to three with strings; between them the ring can hold records of other threads.
 */
#ifndef PYEBPF_ASSEMBLE_NAMES_H
#define PYEBPF_ASSEMBLE_NAMES_H

#include <stdint.h>

#include "abi/event.h"

struct assembler;
struct asm_process;
struct asm_def;

struct asm_names {
	struct asm_def *pending; /* by id */
};

/* names_define, names_string - take a DEF or STR record; the length is checked by the caller.
 * 0, -ENOMEM or the error of the capture file. */
int names_define(struct assembler *a, const struct pye_def_rec *rec);
int names_string(struct assembler *a, const struct pye_str_rec *rec);
void names_free(struct asm_names *n);

#endif
