/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: puts together small ELF files, in a memfd that is opened as /proc/self/fd/N. */
#ifndef PYEBPF_TESTS_ELF_MAKE_H
#define PYEBPF_TESTS_ELF_MAKE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/elf_file.h"

#define MAKE_SIZE  0xf000
#define MAKE_BASE  0x400000 /* virtual address of the file's first byte */
#define MAKE_TEXT  0x1000 /* file offsets of the two segments' sections */
#define MAKE_DATA  0xb000
#define MAKE_NOTES 0xd000
#define MAKE_NAMES 0xe000

struct elf_make {
	uint8_t bytes[MAKE_SIZE];
	Elf64_Shdr sections[12];
	size_t section_cnt;
	char names[512], strings[512]; /* of sections, of symbols */
	size_t names_size, strings_size;
	Elf64_Sym symbols[16];
	size_t symbol_cnt;
	Elf64_Rela relocs[8];
	size_t reloc_cnt;
	int fd;
};

static inline uint64_t make_vaddr(uint64_t offset)
{
	return MAKE_BASE + offset;
}

static inline Elf64_Ehdr *make_header(struct elf_make *m)
{
	return (Elf64_Ehdr *)m->bytes;
}

static inline Elf64_Phdr *make_segments(struct elf_make *m)
{
	return (Elf64_Phdr *)(m->bytes + sizeof(Elf64_Ehdr));
}

static inline uint32_t make_name(char *table, size_t *size, const char *name)
{
	uint32_t at = (uint32_t)*size;

	strcpy(table + *size, name);
	*size += strlen(name) + 1;
	return at;
}

static inline Elf64_Shdr *make_section(struct elf_make *m, const char *name, uint32_t type,
				       uint64_t flags, uint64_t offset, uint64_t size)
{
	Elf64_Shdr *s = &m->sections[m->section_cnt++];

	*s = (Elf64_Shdr){ .sh_name = make_name(m->names, &m->names_size, name),
			   .sh_type = type,
			   .sh_flags = flags,
			   .sh_offset = offset,
			   .sh_size = size,
			   .sh_addr = flags & SHF_ALLOC ? make_vaddr(offset) : 0 };
	return s;
}

static inline void make_symbol(struct elf_make *m, const char *name, uint64_t vaddr, uint8_t type)
{
	m->symbols[m->symbol_cnt++] =
		(Elf64_Sym){ .st_name = make_name(m->strings, &m->strings_size, name),
			     .st_info = ELF64_ST_INFO(STB_GLOBAL, type),
			     .st_shndx = 1,
			     .st_value = vaddr,
			     .st_size = 16 };
}

static inline void make_init(struct elf_make *m, uint16_t type)
{
	Elf64_Phdr *ph = make_segments(m);

	memset(m, 0, sizeof(*m));
	m->fd = -1;
	m->names_size = m->strings_size = 1;
	m->symbol_cnt = 1;
	*make_header(m) = (Elf64_Ehdr){ .e_type = type,
					.e_machine = EM_X86_64,
					.e_version = 1,
					.e_entry = make_vaddr(MAKE_TEXT),
					.e_phoff = sizeof(Elf64_Ehdr),
					.e_phentsize = sizeof(*ph),
					.e_phnum = 3,
					.e_ehsize = sizeof(Elf64_Ehdr),
					.e_shentsize = sizeof(Elf64_Shdr) };
	memcpy(m->bytes, ELFMAG, SELFMAG);
	m->bytes[EI_CLASS] = ELFCLASS64;
	m->bytes[EI_DATA] = ELFDATA2LSB;
	m->bytes[EI_VERSION] = 1;
	ph[0] = (Elf64_Phdr){ PT_LOAD,	 PF_R | PF_X, 0,	 MAKE_BASE,
			      MAKE_BASE, MAKE_DATA,   MAKE_DATA, 0x1000 };
	ph[1] = (Elf64_Phdr){ PT_LOAD,
			      PF_R | PF_W,
			      MAKE_DATA,
			      make_vaddr(MAKE_DATA),
			      make_vaddr(MAKE_DATA),
			      MAKE_NOTES - MAKE_DATA,
			      MAKE_NOTES - MAKE_DATA,
			      0x1000 };
	m->section_cnt = 1;
	make_section(m, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, MAKE_TEXT,
		     MAKE_DATA - MAKE_TEXT);
	make_section(m, ".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, MAKE_DATA,
		     MAKE_NOTES - MAKE_DATA);
}

/* An unwind table that says where functions begin: rising, at most 384. */
static inline void make_functions(struct elf_make *m, const uint64_t *addrs, uint32_t cnt)
{
	static const uint8_t head[4] = { 1, 0x1b, 3, 0x3b }; /* how the rest is encoded */
	uint8_t *at = m->bytes + MAKE_NOTES;

	memcpy(at, head, sizeof(head));
	memcpy(at + 8, &cnt, 4);
	for (uint32_t i = 0; i < cnt; i++) {
		int32_t distance = (int32_t)(addrs[i] - make_vaddr(MAKE_NOTES));

		memcpy(at + 12 + 8UL * i, &distance, 4);
	}
	make_section(m, ".eh_frame_hdr", SHT_PROGBITS, SHF_ALLOC, MAKE_NOTES, 12 + 8UL * cnt);
}

/* The tables behind the contents; @size of the file. Can be done again. */
static inline size_t make_finish(struct elf_make *m)
{
	uint64_t at = MAKE_NAMES, symbols = at, size = m->symbol_cnt * sizeof(Elf64_Sym);
	size_t section_cnt = m->section_cnt, names_size = m->names_size;
	Elf64_Shdr *dynsym;

	memcpy(m->bytes + at, m->symbols, size);
	dynsym = make_section(m, ".dynsym", SHT_DYNSYM, 0, symbols, size);
	dynsym->sh_link = (uint32_t)m->section_cnt;
	at += size;
	memcpy(m->bytes + at, m->strings, m->strings_size);
	make_section(m, ".dynstr", SHT_STRTAB, 0, at, m->strings_size);
	at += (m->strings_size + 7) & ~7ull;
	size = m->reloc_cnt * sizeof(Elf64_Rela);
	memcpy(m->bytes + at, m->relocs, size);
	make_section(m, ".rela.dyn", SHT_RELA, SHF_ALLOC, at, size);
	at += size;
	make_header(m)->e_shstrndx = (uint16_t)m->section_cnt;
	make_section(m, ".shstrtab", SHT_STRTAB, 0, at, 0);
	m->sections[m->section_cnt - 1].sh_size = m->names_size;
	memcpy(m->bytes + at, m->names, m->names_size);
	at += (m->names_size + 7) & ~7ull;
	make_header(m)->e_shoff = at;
	make_header(m)->e_shnum = (uint16_t)m->section_cnt;
	memcpy(m->bytes + at, m->sections, m->section_cnt * sizeof(Elf64_Shdr));
	at += m->section_cnt * sizeof(Elf64_Shdr);
	m->section_cnt = section_cnt;
	m->names_size = names_size;
	return at;
}

/* Opens the first @size bytes as a file; the result as elf_file__open. */
static inline int make_open_bytes(const uint8_t *bytes, size_t size, struct elf_file **out,
				  struct err *e)
{
	int fd = memfd_create("elf", MFD_CLOEXEC), err;
	char path[32];

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = elf_file__open(path, out, e);
	close(fd);
	return err;
}

#endif
