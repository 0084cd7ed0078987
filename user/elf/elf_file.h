/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an ELF file of a target. The file is hostile: it is read with pread() (never mapped: it
 * could be cut meanwhile), sizes are capped, every offset is checked. The tables are copied when it is
 * opened, the rest is read when it is asked for. Not shared between threads while it is opened or
 * freed; reading is safe from any thread.
 */
#ifndef PYEBPF_ELF_ELF_FILE_H
#define PYEBPF_ELF_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct elf_file;

struct elf_symbol {
	const char *name; /* borrowed from the file */
	uint64_t vaddr, size;
	uint8_t type; /* STT_* */
};

struct elf_section {
	const char *name; /* borrowed */
	uint32_t type;
	uint64_t flags, vaddr, offset, size;
};

/* A SystemTap (USDT) note. Strings borrowed. */
struct elf_usdt {
	const char *provider, *name, *args;
	uint64_t vaddr, semaphore; /* adjusted for prelink; semaphore 0 = none */
};

/**
 * elf_file__open - read the tables of a 64-bit little-endian ELF file
 * @path: for open(); a regular file up to 1 GiB, else refused
 *
 * Return: 0; -PYE_EFORMAT with the reason in @e; a negative errno of open().
 */
int elf_file__open(const char *path, struct elf_file **out, struct err *e);

/**
 * elf_file__from_fd - elf_file__open() of a file that is open already
 * @fd:   taken over on success, else the caller's
 * @name: for messages
 */
int elf_file__from_fd(int fd, const char *name, struct elf_file **out, struct err *e);
void elf_file__free(struct elf_file *elf);

uint16_t elf_file__machine(const struct elf_file *elf); /* EM_* */
bool elf_file__is_fixed(const struct elf_file *elf); /* ET_EXEC */

/* elf_file__read - @size bytes at a virtual address; 0 or -EFAULT when not all are in the file. */
int elf_file__read(const struct elf_file *elf, uint64_t vaddr, void *buf, size_t size);

/* elf_file__pointer - the word at an address as the loader would leave it at bias 0: the relocation's
 * value where there is one (RELATIVE, RELR, or of a symbol that this file defines), else the word in
 * the file. 0 or -EFAULT. */
int elf_file__pointer(const struct elf_file *elf, uint64_t vaddr, uint64_t *value);

/* elf_file__pointers - elf_file__pointer for @cnt words at @vaddr, @vaddr + 8, ... in one read. */
int elf_file__pointers(const struct elf_file *elf, uint64_t vaddr, uint64_t *values, size_t cnt);

/* elf_file__import - the symbol of another file whose address the loader puts into the word at an address, as at an entry of the GOT;
 * "" if there is none. */
const char *elf_file__import(const struct elf_file *elf, uint64_t vaddr);

/* elf_file__offset - file offset of a virtual address; -EFAULT if no segment holds it. */
int elf_file__offset(const struct elf_file *elf, uint64_t vaddr, uint64_t *offset);

/* elf_file__code_at_offset - the executable virtual address that a file offset is mapped at; -EFAULT
 * if there is none, -EEXIST if there are several. */
int elf_file__code_at_offset(const struct elf_file *elf, uint64_t offset, uint64_t *vaddr);

/* elf_file__is_code - inside an executable segment's bytes in the file (and, where there is a section
 * table, inside an executable section). elf_file__code - these ranges in rising order; false past the
 * end. */
bool elf_file__is_code(const struct elf_file *elf, uint64_t vaddr);
bool elf_file__code(const struct elf_file *elf, size_t index, uint64_t *start, uint64_t *end);

/* elf_file__symbol - a defined symbol of .dynsym, then of .symtab; 0 or -ENOENT. */
int elf_file__symbol(const struct elf_file *elf, const char *name, struct elf_symbol *out);

/* elf_file__symbol_at - symbols one after the other, those of .dynsym first, defined ones or not (type
 * STT_NOTYPE, name "" then); false past the end. */
bool elf_file__symbol_at(const struct elf_file *elf, size_t index, struct elf_symbol *out);

/* elf_file__code_segment - where the file's executable segments go; false past the end. */
bool elf_file__code_segment(const struct elf_file *elf, size_t index, uint64_t *offset,
			    uint64_t *vaddr, uint64_t *size);

/* elf_file__data - the writable segment that holds a virtual address once it is loaded, with what the file has no bytes
 * of; false if there is none. */
bool elf_file__data(const struct elf_file *elf, uint64_t vaddr, uint64_t *start, uint64_t *end);

/* elf_file__section_by_name, elf_file__section - NULL when there is none. */
const struct elf_section *elf_file__section_by_name(const struct elf_file *elf, const char *name);
const struct elf_section *elf_file__section(const struct elf_file *elf, size_t index);

/* elf_file__usdt - the notes of .note.stapsdt one after the other; NULL past the end. */
const struct elf_usdt *elf_file__usdt(const struct elf_file *elf, size_t index);

/**
 * elf_file__functions - first addresses of all functions and moved-away parts of functions
 * @out: owned by the caller (free), rising
 *
 * Return: 0; -ENOENT if the file has no table of them that we can read; -ENOMEM.
 */
int elf_file__functions(const struct elf_file *elf, uint64_t **out, size_t *cnt);

/* elf_file__build_id - bytes of the GNU build-id; returns the length, 0 if there is none. */
size_t elf_file__build_id(const struct elf_file *elf, uint8_t out[64]);

/* elf_file__load_vaddr - lowest virtual address of a loadable segment, rounded down to a page;
 * elf_file__entry - e_entry; elf_file__has_interp - PT_INTERP is there (a dynamic executable). */
uint64_t elf_file__load_vaddr(const struct elf_file *elf);
uint64_t elf_file__entry(const struct elf_file *elf);
bool elf_file__has_interp(const struct elf_file *elf);

#endif
