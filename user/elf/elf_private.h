/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share. Every table here is a private copy, so nothing changes under
 * us when the file does; strings tables end with a NUL of our own.
 */
#ifndef PYEBPF_ELF_ELF_PRIVATE_H
#define PYEBPF_ELF_ELF_PRIVATE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf_file.h"

#define ELF_FILE_MAX	((uint64_t)1 << 30)
#define ELF_TABLE_MAX	((uint64_t)64 << 20) /* bytes of one table (symbols, strings, relocations) */
#define ELF_SECTION_MAX 65536
#define ELF_SEGMENT_MAX 256

struct elf_range {
	uint64_t start, end;
};

/* A PT_LOAD segment, cut to what the file holds. */
struct elf_load {
	uint64_t vaddr, offset, size;
	uint64_t memory; /* bytes of it once it is loaded, at least size */
	uint32_t flags;
};

struct elf_symtab {
	Elf64_Sym *symbols;
	size_t cnt;
	char *strings; /* NUL-terminated as a whole */
	size_t string_size;
};

struct elf_reloc {
	uint64_t vaddr, value;
};

/* A word that the loader fills in with the address of something in another file. */
struct elf_import {
	uint64_t vaddr;
	uint32_t symbol; /* of .dynsym */
};

struct elf_file {
	int fd;
	uint64_t size;
	Elf64_Ehdr header;
	struct elf_load loads[ELF_SEGMENT_MAX];
	size_t load_cnt;
	struct elf_range code[ELF_SEGMENT_MAX];
	size_t code_cnt;
	bool has_interp;
	uint64_t load_vaddr;

	struct elf_section *sections;
	uint32_t *links; /* sh_link of each */
	size_t section_cnt;
	char *section_names;

	struct elf_symtab dynsym, symtab;
	struct elf_reloc *relocs; /* rising vaddr */
	size_t reloc_cnt;
	struct elf_import *imports; /* rising vaddr */
	size_t import_cnt;
	char *usdt_data;
	struct elf_usdt *usdt;
	size_t usdt_cnt;
	uint8_t build_id[64];
	size_t build_id_size;
};

/* elf_read_at - exactly @size bytes at a file offset; 0 or -EFAULT, or the errno of pread(). */
int elf_read_at(const struct elf_file *elf, uint64_t offset, void *buf, size_t size);

/* elf_load_bytes - a table as a heap copy with a NUL behind it (owned by the caller). 0; -EFAULT
 * outside the file; -E2BIG past ELF_TABLE_MAX; -ENOMEM. */
int elf_load_bytes(const struct elf_file *elf, uint64_t offset, uint64_t size, char **out);

/* The loaders of the other files. 0, or -ENOMEM; a table that makes no sense is left out. */
int elf_symbols__load(struct elf_file *elf);
void elf_symbols__done(struct elf_file *elf);
int elf_relocs__load(struct elf_file *elf);
int elf_notes__load(struct elf_file *elf, const Elf64_Phdr *segments, size_t cnt);

#endif
