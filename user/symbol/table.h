/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of one ELF file by address, from .dynsym, .symtab and the unwinding tables. The file is hostile: a sandboxed
 * process reads it (base/sandbox.h), and what it answers is vetted.
 */
#ifndef PYEBPF_SYMBOL_TABLE_H
#define PYEBPF_SYMBOL_TABLE_H

#include <stdint.h>

struct symbol_table;

/**
 * symbol_table__read - read a file's functions
 * @fd:   stays the caller's
 * @name: for the log
 *
 * Return: 0; -PYE_EFORMAT: no ELF file; -PYE_EPLAN: the reader did not get through; -ENOMEM and the like.
 */
int symbol_table__read(struct symbol_table **out, int fd, const char *name);
void symbol_table__free(struct symbol_table *t);

#define SYMBOL_NONE UINT32_MAX

/* symbol_table__find - number of the function, or piece of one, that holds the code at an offset in the
 * file; SYMBOL_NONE: of none that is known. symbol_table__name - borrowed; "": it has none. */
uint32_t symbol_table__find(const struct symbol_table *t, uint64_t offset);
const char *symbol_table__name(const struct symbol_table *t, uint32_t symbol);

#endif
