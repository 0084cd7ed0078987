/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for addresses of code: of the files that a process maps, and of the kernel. What a file or the
 * kernel says is read once and kept; a process's mappings are read again when an address is in none.
 */
#ifndef PYEBPF_SYMBOL_SYMBOLS_H
#define PYEBPF_SYMBOL_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct symbols;
struct symbol_space; /* the code of one process */

int symbols__new(struct symbols **out);
void symbols__free(struct symbols *s);

/* symbols__read_kernel - while the privilege for it is there. 0; -EPERM: its addresses are hidden; a
 * negative errno. symbols__kernel() works in any case. */
int symbols__read_kernel(struct symbols *s);

/* symbol_space__new - nothing is read yet; NULL: no memory. @pid: as /proc shows it */
struct symbol_space *symbol_space__new(pid_t pid);
void symbol_space__free(struct symbol_space *space);

struct symbol {
	const char *
		name; /* of the function; without one "[libz.so.1]", "[vdso]", "[code without a file]" */
	const char *file; /* "/lib/libz.so.1", "[vdso]", "" ; of the kernel "[kernel]", "[ext4]" */
	uint64_t key; /* the same for all addresses that have these two; not 0 */
	uint64_t piece; /* the same for all of the function, also where functions have no names; not 0 */
};

/**
 * symbols__user - what a process has at an address
 * @sure: there is code: what is mapped may have changed
 * @out:  borrowed from both until they are freed
 *
 * Return: 0; -ENOENT: no code is mapped there; the error of reading the mappings.
 */
int symbols__user(struct symbols *s, struct symbol_space *space, uint64_t addr, bool sure,
		  struct symbol *out);

/* symbols__piece - symbol.piece of an offset in a file that an address was in; 0: not known. */
uint64_t symbols__piece(const struct symbols *s, dev_t dev, ino_t ino, uint64_t offset);

void symbols__kernel(const struct symbols *s, uint64_t addr, struct symbol *out);

#endif
