// SPDX-License-Identifier: Apache-2.0
/* Symbols by name: .dynsym, then .symtab. Both are searched as they lie: a handful of look-ups per
 * file do not pay for an index. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/elf_private.h"

/* A table that lies outside the file or is beyond the cap is left out. */
static int load_symtab(struct elf_file *elf, uint32_t type, struct elf_symtab *out)
{
	for (size_t i = 0; i < elf->section_cnt; i++) {
		const struct elf_section *s = &elf->sections[i], *strings;
		char *symbols = NULL;
		int err;

		if (s->type != type || elf->links[i] >= elf->section_cnt)
			continue;
		strings = &elf->sections[elf->links[i]];
		if (strings->type != SHT_STRTAB)
			continue;
		err = elf_load_bytes(elf, s->offset, s->size, &symbols);
		if (!err)
			err = elf_load_bytes(elf, strings->offset, strings->size, &out->strings);
		if (err) {
			free(symbols);
			return err == -ENOMEM ? err : 0;
		}
		out->symbols = (Elf64_Sym *)symbols;
		out->cnt = (size_t)s->size / sizeof(Elf64_Sym);
		out->string_size = (size_t)strings->size;
		return 0;
	}
	return 0;
}

int elf_symbols__load(struct elf_file *elf)
{
	int err = load_symtab(elf, SHT_DYNSYM, &elf->dynsym);

	return err ? err : load_symtab(elf, SHT_SYMTAB, &elf->symtab);
}

void elf_symbols__done(struct elf_file *elf)
{
	free(elf->dynsym.symbols);
	free(elf->dynsym.strings);
	free(elf->symtab.symbols);
	free(elf->symtab.strings);
}

static const Elf64_Sym *defined(const struct elf_symtab *table, size_t index)
{
	const Elf64_Sym *s = &table->symbols[index];

	return s->st_shndx == SHN_UNDEF || s->st_name >= table->string_size ? NULL : s;
}

static struct elf_symbol describe(const struct elf_symtab *table, const Elf64_Sym *s)
{
	return (struct elf_symbol){ table->strings + s->st_name, s->st_value, s->st_size,
				    ELF64_ST_TYPE(s->st_info) };
}

bool elf_file__symbol_at(const struct elf_file *elf, size_t index, struct elf_symbol *out)
{
	const struct elf_symtab *table = &elf->dynsym;
	const Elf64_Sym *s;

	if (index >= table->cnt) {
		index -= table->cnt;
		table = &elf->symtab;
	}
	if (index >= table->cnt)
		return false;
	s = defined(table, index);
	*out = s ? describe(table, s) : (struct elf_symbol){ .name = "" };
	return true;
}

static int find_symbol(const struct elf_symtab *table, const char *name, struct elf_symbol *out)
{
	for (size_t i = 0; i < table->cnt; i++) {
		const Elf64_Sym *s = defined(table, i);

		if (!s)
			continue;
		if (table->strings[s->st_name] != name[0] ||
		    strcmp(table->strings + s->st_name, name) != 0)
			continue;
		*out = describe(table, s);
		return 0;
	}
	return -ENOENT;
}

int elf_file__symbol(const struct elf_file *elf, const char *name, struct elf_symbol *out)
{
	int err = find_symbol(&elf->dynsym, name, out);

	return err ? find_symbol(&elf->symtab, name, out) : 0;
}
