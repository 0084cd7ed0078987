// SPDX-License-Identifier: Apache-2.0
/*
 * Pointers in data as the loader would leave them. RELATIVE entries of RELA tables carry the value
 * apart from the word; those of RELR tables and fixed executables have it in the word itself, so that
 * RELR needs no decoding here. Words that name a symbol (GOT entries) count where this very file
 * defines it.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/order.h"
#include "elf/elf_private.h"

enum reloc_kind {
	RELOC_OTHER,
	RELOC_RELATIVE,
	RELOC_SYMBOL
};

static enum reloc_kind reloc_kind(const struct elf_file *elf, uint32_t type)
{
	if (elf->header.e_machine == EM_X86_64) {
		switch (type) {
		case R_X86_64_RELATIVE:
			return RELOC_RELATIVE;
		case R_X86_64_64:
		case R_X86_64_GLOB_DAT:
		case R_X86_64_JUMP_SLOT:
			return RELOC_SYMBOL;
		}
	} else if (elf->header.e_machine == EM_AARCH64) {
		switch (type) {
		case R_AARCH64_RELATIVE:
			return RELOC_RELATIVE;
		case R_AARCH64_ABS64:
		case R_AARCH64_GLOB_DAT:
		case R_AARCH64_JUMP_SLOT:
			return RELOC_SYMBOL;
		}
	}
	return RELOC_OTHER;
}

static bool reloc_value(const struct elf_file *elf, const Elf64_Rela *rela, uint64_t *value)
{
	uint32_t symbol = ELF64_R_SYM(rela->r_info);

	*value = (uint64_t)rela->r_addend;
	switch (reloc_kind(elf, ELF64_R_TYPE(rela->r_info))) {
	case RELOC_RELATIVE:
		return true;
	case RELOC_SYMBOL:
		if (symbol >= elf->dynsym.cnt || !elf->dynsym.symbols[symbol].st_shndx)
			return false;
		*value += elf->dynsym.symbols[symbol].st_value;
		return true;
	default:
		return false;
	}
}

static bool is_import(const struct elf_file *elf, const Elf64_Rela *rela)
{
	uint32_t symbol = ELF64_R_SYM(rela->r_info);

	return reloc_kind(elf, ELF64_R_TYPE(rela->r_info)) == RELOC_SYMBOL && !rela->r_addend &&
	       symbol && symbol < elf->dynsym.cnt && !elf->dynsym.symbols[symbol].st_shndx;
}

static int add_imports(struct elf_file *elf, const Elf64_Rela *rela, size_t cnt)
{
	struct elf_import *all;
	size_t found = 0;

	for (size_t i = 0; i < cnt; i++)
		found += is_import(elf, &rela[i]);
	if (!found)
		return 0;
	all = reallocarray(elf->imports, elf->import_cnt + found, sizeof(*all));
	if (!all)
		return -ENOMEM;
	elf->imports = all;
	for (size_t i = 0; i < cnt; i++)
		if (is_import(elf, &rela[i]))
			all[elf->import_cnt++] =
				(struct elf_import){ rela[i].r_offset,
						     (uint32_t)ELF64_R_SYM(rela[i].r_info) };
	qsort(all, elf->import_cnt, sizeof(*all), order_u64);
	return 0;
}

static int add_relocs(struct elf_file *elf, const Elf64_Rela *rela, size_t cnt)
{
	struct elf_reloc *all = reallocarray(elf->relocs, elf->reloc_cnt + cnt, sizeof(*all));
	uint64_t value;

	if (!all)
		return -ENOMEM;
	elf->relocs = all;
	for (size_t i = 0; i < cnt; i++)
		if (reloc_value(elf, &rela[i], &value))
			all[elf->reloc_cnt++] = (struct elf_reloc){ rela[i].r_offset, value };
	return add_imports(elf, rela, cnt);
}

/* Together at most ELF_TABLE_MAX bytes of entries are taken: a CPython has 1 to 2 MB of them. */
int elf_relocs__load(struct elf_file *elf)
{
	uint64_t total = 0;
	bool sorted = true;

	for (size_t i = 0; i < elf->section_cnt; i++) {
		const struct elf_section *s = &elf->sections[i];
		char *raw = NULL;
		int err;

		if (s->type != SHT_RELA || !(s->flags & SHF_ALLOC) || s->size < sizeof(Elf64_Rela))
			continue;
		if (s->size > ELF_TABLE_MAX - total)
			break;
		total += s->size;
		err = elf_load_bytes(elf, s->offset, s->size, &raw);
		if (!err)
			err = add_relocs(elf, (const Elf64_Rela *)raw,
					 (size_t)s->size / sizeof(Elf64_Rela));
		free(raw);
		if (err == -ENOMEM)
			return err;
	}
	for (size_t i = 1; i < elf->reloc_cnt && sorted; i++)
		sorted = elf->relocs[i - 1].vaddr <= elf->relocs[i].vaddr;
	if (!sorted)
		qsort(elf->relocs, elf->reloc_cnt, sizeof(*elf->relocs), order_u64);
	return 0;
}

/* Index of the first relocation at or above an address. */
static size_t first_reloc(const struct elf_file *elf, uint64_t vaddr)
{
	size_t lo = 0, hi = elf->reloc_cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (elf->relocs[mid].vaddr < vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int elf_file__pointers(const struct elf_file *elf, uint64_t vaddr, uint64_t *values, size_t cnt)
{
	if (cnt > SIZE_MAX / 8 || elf_file__read(elf, vaddr, values, cnt * 8))
		return -EFAULT;
	for (size_t i = first_reloc(elf, vaddr); i < elf->reloc_cnt; i++) {
		uint64_t distance = elf->relocs[i].vaddr - vaddr;

		if (distance / 8 >= cnt)
			break;
		if (distance % 8 == 0)
			values[distance / 8] = elf->relocs[i].value;
	}
	return 0;
}

int elf_file__pointer(const struct elf_file *elf, uint64_t vaddr, uint64_t *value)
{
	uint64_t word;

	if (elf_file__pointers(elf, vaddr, &word, 1))
		return -EFAULT;
	*value = word;
	return 0;
}

const char *elf_file__import(const struct elf_file *elf, uint64_t vaddr)
{
	const struct elf_import key = { .vaddr = vaddr }, *found = NULL;
	uint32_t name;

	if (elf->import_cnt)
		found = bsearch(&key, elf->imports, elf->import_cnt, sizeof(key), order_u64);
	if (!found)
		return "";
	name = elf->dynsym.symbols[found->symbol].st_name;
	return name < elf->dynsym.string_size ? elf->dynsym.strings + name : "";
}
