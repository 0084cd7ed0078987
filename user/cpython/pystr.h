/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a Python str, from the raw bytes of the object. Pure: reads no process, so the BPF
 * records and the readers from outside share it.
 */
#ifndef PYEBPF_CPYTHON_PYSTR_H
#define PYEBPF_CPYTHON_PYSTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/pylayout.h"

/* What names are cut to, the NUL included. */
#define PYSTR_SIZE 4096

/* Least @size of pystr_decode(): the mark of a cut name and a character before it. */
#define PYSTR_SIZE_MIN 32

/* pystr_kind - bytes per character: 1, 2 or 4; 0 for a state that is no readable str. */
unsigned int pystr_kind(const struct pye_pylayout *l, uint32_t state);

/* How the characters of a str are found. */
enum pystr_place {
	PYSTR_ASCII, /* at str_ascii_data in the object */
	PYSTR_COMPACT, /* at str_data in the object */
	PYSTR_POINTER, /* where the pointer at str_data points */
};

enum pystr_place pystr_place(const struct pye_pylayout *l, uint32_t state);

/**
 * pystr_decode - characters of a str as UTF-8
 * @state:  the 32-bit word at l->str_state
 * @length: in characters, as the object says
 * @data:   its characters, borrowed; may be fewer than @length says
 * @len:    bytes of @data
 * @out:    always NUL-terminated; @size >= PYSTR_SIZE_MIN
 *
 * Form as in base/text.h: surrogates as three bytes each, NUL as C0 80. A text that does not fit, or
 * whose @data are not complete, ends with "...#" and 16 hex digits of a hash over @length and all of
 * @data: so long names stay distinct. All input may be hostile.
 *
 * Return: bytes written, without the NUL; 0 for a state that is no readable str.
 */
size_t pystr_decode(const struct pye_pylayout *l, uint32_t state, uint64_t length, const void *data,
		    size_t len, char *out, size_t size);

#endif
