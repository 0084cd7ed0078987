// SPDX-License-Identifier: Apache-2.0
/*
 * The tables of an ELF file: header, segments, sections. A file that contradicts itself in what we
 * need (header, segments) is refused; where only a convenience is broken (a section's name, a symbol
 * table) that part is left out and the rest still serves.
 */
#include "elf/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/elf_private.h"

int elf_read_at(const struct elf_file *elf, uint64_t offset, void *buf, size_t size)
{
	char *at = buf;

	if (offset > elf->size || size > elf->size - offset)
		return -EFAULT;
	while (size) {
		ssize_t n = pread(elf->fd, at, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EFAULT;
		at += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

int elf_load_bytes(const struct elf_file *elf, uint64_t offset, uint64_t size, char **out)
{
	auto_free char *copy = NULL;
	int err;

	if (offset > elf->size || size > elf->size - offset)
		return -EFAULT;
	if (size > ELF_TABLE_MAX)
		return -E2BIG;
	copy = malloc((size_t)size + 1);
	if (!copy)
		return -ENOMEM;
	err = elf_read_at(elf, offset, copy, (size_t)size);
	if (err)
		return err;
	copy[size] = '\0';
	*out = take_ptr(copy);
	return 0;
}

static int read_header(struct elf_file *elf, const char *path, struct err *e)
{
	const Elf64_Ehdr *h = &elf->header;

	if (elf_read_at(elf, 0, &elf->header, sizeof(elf->header)))
		return err_set(e, -PYE_EFORMAT, "%s: too short for an ELF file", path);
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return err_set(e, -PYE_EFORMAT, "%s: not an ELF file", path);
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
		return err_set(e, -PYE_EFORMAT, "%s: not a 64-bit little-endian ELF file", path);
	if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
		return err_set(e, -PYE_EFORMAT, "%s: neither an executable nor a shared library",
			       path);
	if (h->e_phentsize != sizeof(Elf64_Phdr) || !h->e_phnum || h->e_phnum > ELF_SEGMENT_MAX)
		return err_set(e, -PYE_EFORMAT, "%s: %u segments of %u bytes make no sense", path,
			       h->e_phnum, h->e_phentsize);
	return 0;
}

/* Cut to what the file holds, so that a vaddr inside always has its byte there (unless the file is
 * cut later, which pread() notices). */
static void add_load(struct elf_file *elf, const Elf64_Phdr *ph)
{
	struct elf_load *load = &elf->loads[elf->load_cnt];
	uint64_t size = ph->p_filesz;

	if (ph->p_vaddr < elf->load_vaddr)
		elf->load_vaddr = ph->p_vaddr;
	if (ph->p_offset >= elf->size)
		return;
	if (size > elf->size - ph->p_offset)
		size = elf->size - ph->p_offset;
	if (!size || ph->p_vaddr + size < ph->p_vaddr)
		return;
	*load = (struct elf_load){ ph->p_vaddr, ph->p_offset, size, size, ph->p_flags };
	if (ph->p_memsz > size && ph->p_vaddr + ph->p_memsz > ph->p_vaddr)
		load->memory = ph->p_memsz;
	elf->load_cnt++;
}

static int read_segments(struct elf_file *elf, const char *path, Elf64_Phdr *ph, struct err *e)
{
	if (elf_read_at(elf, elf->header.e_phoff, ph, elf->header.e_phnum * sizeof(*ph)))
		return err_set(e, -PYE_EFORMAT, "%s: the program headers lie outside the file",
			       path);
	elf->load_vaddr = UINT64_MAX;
	for (size_t i = 0; i < elf->header.e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD)
			add_load(elf, &ph[i]);
		else if (ph[i].p_type == PT_INTERP)
			elf->has_interp = true;
	}
	if (!elf->load_cnt)
		return err_set(e, -PYE_EFORMAT, "%s: nothing in it is loadable", path);
	elf->load_vaddr &= ~(uint64_t)4095;
	return 0;
}

static size_t section_count(const struct elf_file *elf)
{
	Elf64_Shdr first;

	if (!elf->header.e_shoff || elf->header.e_shentsize != sizeof(Elf64_Shdr))
		return 0;
	if (elf->header.e_shnum)
		return elf->header.e_shnum;
	if (elf_read_at(elf, elf->header.e_shoff, &first, sizeof(first)) ||
	    first.sh_size > ELF_SECTION_MAX)
		return 0;
	return (size_t)first.sh_size;
}

static void name_sections(struct elf_file *elf, const Elf64_Shdr *sh, size_t cnt)
{
	uint32_t table = elf->header.e_shstrndx;
	uint64_t size = 0;

	if (table == SHN_XINDEX)
		table = sh[0].sh_link;
	if (table < cnt &&
	    !elf_load_bytes(elf, sh[table].sh_offset, sh[table].sh_size, &elf->section_names))
		size = sh[table].sh_size;
	for (size_t i = 0; i < cnt; i++)
		if (sh[i].sh_name < size)
			elf->sections[i].name = elf->section_names + sh[i].sh_name;
}

/* No table, or a broken one: the file has no sections for us. */
static int read_sections(struct elf_file *elf)
{
	size_t cnt = section_count(elf);
	auto_free char *raw = NULL;
	const Elf64_Shdr *sh;

	if (!cnt)
		return 0;
	if (elf_load_bytes(elf, elf->header.e_shoff, cnt * sizeof(Elf64_Shdr), &raw))
		return 0;
	elf->sections = calloc(cnt, sizeof(*elf->sections));
	elf->links = calloc(cnt, sizeof(*elf->links));
	if (!elf->sections || !elf->links)
		return -ENOMEM;
	sh = (const Elf64_Shdr *)raw;
	elf->section_cnt = cnt;
	for (size_t i = 0; i < cnt; i++) {
		elf->sections[i] = (struct elf_section){
			"",	      sh[i].sh_type, sh[i].sh_flags, sh[i].sh_addr, sh[i].sh_offset,
			sh[i].sh_size
		};
		elf->links[i] = sh[i].sh_link;
	}
	name_sections(elf, sh, cnt);
	return 0;
}

static void add_code(struct elf_file *elf, uint64_t start, uint64_t end)
{
	size_t i = elf->code_cnt;

	if (start >= end || i == ELF_SEGMENT_MAX)
		return;
	for (; i > 0 && elf->code[i - 1].start > start; i--)
		elf->code[i] = elf->code[i - 1];
	elf->code[i] = (struct elf_range){ start, end };
	elf->code_cnt++;
}

static void find_code(struct elf_file *elf)
{
	for (size_t i = 0; i < elf->load_cnt; i++) {
		const struct elf_load *load = &elf->loads[i];
		uint64_t load_end = load->vaddr + load->size;
		bool sections = false;

		if (!(load->flags & PF_X))
			continue;
		for (size_t k = 0; k < elf->section_cnt; k++) {
			const struct elf_section *s = &elf->sections[k];
			uint64_t end = s->vaddr + s->size;

			if (!(s->flags & SHF_EXECINSTR) || end < s->vaddr)
				continue;
			sections = true;
			add_code(elf, s->vaddr > load->vaddr ? s->vaddr : load->vaddr,
				 end < load_end ? end : load_end);
		}
		if (!sections)
			add_code(elf, load->vaddr, load_end);
	}
}

static int read_tables(struct elf_file *elf, const char *path, struct err *e)
{
	Elf64_Phdr ph[ELF_SEGMENT_MAX];
	int err;

	err = read_header(elf, path, e);
	if (!err)
		err = read_segments(elf, path, ph, e);
	if (!err)
		err = read_sections(elf);
	if (err)
		return err;
	find_code(elf);
	err = elf_symbols__load(elf);
	if (!err)
		err = elf_relocs__load(elf);
	if (!err)
		err = elf_notes__load(elf, ph, elf->header.e_phnum);
	return err;
}

static void elf_file__freep(struct elf_file **elf)
{
	elf_file__free(*elf);
}

static int check_regular(struct elf_file *elf, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(elf->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return err_set(e, -PYE_EFORMAT, "%s: not a regular file", path);
	if (st.st_size < 0 || (uint64_t)st.st_size > ELF_FILE_MAX)
		return err_set(e, -PYE_EFORMAT, "%s: larger than 1 GiB", path);
	elf->size = (uint64_t)st.st_size;
	return 0;
}

int elf_file__from_fd(int fd, const char *name, struct elf_file **out, struct err *e)
{
	auto_fn(elf_file__freep) struct elf_file *elf = calloc(1, sizeof(*elf));
	int err;

	if (!elf)
		return -ENOMEM;
	elf->fd = fd;
	err = check_regular(elf, name, e);
	if (!err)
		err = read_tables(elf, name, e);
	if (err) {
		elf->fd = -1;
		return err;
	}
	*out = take_ptr(elf);
	return 0;
}

/* O_NONBLOCK: a FIFO in the place of a library must not hang us. */
int elf_file__open(const char *path, struct elf_file **out, struct err *e)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int err;

	if (fd < 0) {
		err = -errno;
		return err_set(e, err, "%s: %s", path, err_str(err));
	}
	err = elf_file__from_fd(fd, path, out, e);
	if (!err)
		fd = -1; /* NOLINT(clang-analyzer-deadcode.DeadStores): auto_close reads it */
	return err;
}

void elf_file__free(struct elf_file *elf)
{
	if (!elf)
		return;
	if (elf->fd >= 0)
		close(elf->fd);
	free(elf->sections);
	free(elf->links);
	free(elf->section_names);
	elf_symbols__done(elf);
	free(elf->relocs);
	free(elf->imports);
	free(elf->usdt);
	free(elf->usdt_data);
	free(elf);
}

uint16_t elf_file__machine(const struct elf_file *elf)
{
	return elf->header.e_machine;
}

bool elf_file__is_fixed(const struct elf_file *elf)
{
	return elf->header.e_type == ET_EXEC;
}

bool elf_file__data(const struct elf_file *elf, uint64_t vaddr, uint64_t *start, uint64_t *end)
{
	for (size_t i = 0; i < elf->load_cnt; i++) {
		const struct elf_load *load = &elf->loads[i];

		if (!(load->flags & PF_W) || vaddr < load->vaddr ||
		    vaddr - load->vaddr >= load->memory)
			continue;
		*start = load->vaddr;
		*end = load->vaddr + load->memory;
		return true;
	}
	return false;
}

uint64_t elf_file__load_vaddr(const struct elf_file *elf)
{
	return elf->load_vaddr;
}

uint64_t elf_file__entry(const struct elf_file *elf)
{
	return elf->header.e_entry;
}

bool elf_file__has_interp(const struct elf_file *elf)
{
	return elf->has_interp;
}

/* The segment that holds @size bytes at @vaddr. */
static const struct elf_load *find_load(const struct elf_file *elf, uint64_t vaddr, size_t size)
{
	for (size_t i = 0; i < elf->load_cnt; i++) {
		const struct elf_load *load = &elf->loads[i];

		if (vaddr >= load->vaddr && vaddr - load->vaddr < load->size)
			return size <= load->size - (vaddr - load->vaddr) ? load : NULL;
	}
	return NULL;
}

int elf_file__read(const struct elf_file *elf, uint64_t vaddr, void *buf, size_t size)
{
	const struct elf_load *load = find_load(elf, vaddr, size);

	if (!load || elf_read_at(elf, load->offset + (vaddr - load->vaddr), buf, size))
		return -EFAULT;
	return 0;
}

int elf_file__offset(const struct elf_file *elf, uint64_t vaddr, uint64_t *offset)
{
	const struct elf_load *load = find_load(elf, vaddr, 1);

	if (!load)
		return -EFAULT;
	*offset = load->offset + (vaddr - load->vaddr);
	return 0;
}

int elf_file__code_at_offset(const struct elf_file *elf, uint64_t offset, uint64_t *vaddr)
{
	const struct elf_load *found = NULL;

	for (size_t i = 0; i < elf->load_cnt; i++) {
		const struct elf_load *load = &elf->loads[i];

		if (!(load->flags & PF_X) || offset < load->offset ||
		    offset - load->offset >= load->size)
			continue;
		if (found)
			return -EEXIST;
		found = load;
	}
	if (!found)
		return -EFAULT;
	*vaddr = found->vaddr + (offset - found->offset);
	return 0;
}

bool elf_file__code_segment(const struct elf_file *elf, size_t index, uint64_t *offset,
			    uint64_t *vaddr, uint64_t *size)
{
	for (size_t i = 0; i < elf->load_cnt; i++) {
		const struct elf_load *load = &elf->loads[i];

		if (!(load->flags & PF_X) || index--)
			continue;
		*offset = load->offset;
		*vaddr = load->vaddr;
		*size = load->size;
		return true;
	}
	return false;
}

bool elf_file__code(const struct elf_file *elf, size_t index, uint64_t *start, uint64_t *end)
{
	if (index >= elf->code_cnt)
		return false;
	*start = elf->code[index].start;
	*end = elf->code[index].end;
	return true;
}

bool elf_file__is_code(const struct elf_file *elf, uint64_t vaddr)
{
	for (size_t i = 0; i < elf->code_cnt; i++)
		if (vaddr >= elf->code[i].start && vaddr < elf->code[i].end)
			return true;
	return false;
}

const struct elf_section *elf_file__section(const struct elf_file *elf, size_t index)
{
	return index < elf->section_cnt ? &elf->sections[index] : NULL;
}

const struct elf_section *elf_file__section_by_name(const struct elf_file *elf, const char *name)
{
	for (size_t i = 0; i < elf->section_cnt; i++)
		if (!strcmp(elf->sections[i].name, name))
			return &elf->sections[i];
	return NULL;
}
