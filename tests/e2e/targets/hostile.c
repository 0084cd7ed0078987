// SPDX-License-Identifier: Apache-2.0
/*
 * A process that looks like an interpreter and is none: it maps the segments of a file where the loader
 * would, writes what it is told into them, says so and waits.
 *
 *	hostile FILE [page ADDR BYTES | poke ADDR VALUE|self]...
 *
 * self: what pthread_self() says.
 *
 * A file whose headers make no sense is mapped as code from its first byte on.
 */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BIAS	      0x10000000000ull
#define WHOLE_MAX     (1ull << 30)
#define PAGE_START(x) ((x) & ~4095ull)

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void map_at(uint64_t addr, uint64_t bytes, int prot, int flags, int fd, uint64_t offset)
{
	if (mmap((void *)addr, bytes, prot, flags | MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd,
		 (off_t)offset) == MAP_FAILED)
		fail("mmap");
}

static int prot_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

static void map_segment(int fd, const Elf64_Phdr *ph, uint64_t bias)
{
	uint64_t start = PAGE_START(ph->p_vaddr), end = ph->p_vaddr + ph->p_memsz;
	uint64_t file_end = PAGE_START(ph->p_vaddr + ph->p_filesz + 4095);

	map_at(bias + start, file_end - start, prot_of(ph->p_flags), 0, fd,
	       PAGE_START(ph->p_offset));
	if (end > file_end)
		map_at(bias + file_end, end - file_end, prot_of(ph->p_flags), MAP_ANONYMOUS, -1, 0);
}

static void map_file(const char *path)
{
	int fd = open(path, O_RDONLY);
	Elf64_Phdr ph[32];
	Elf64_Ehdr head;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		fail(path);
	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phnum > 32 ||
	    pread(fd, ph, head.e_phnum * sizeof(*ph), (off_t)head.e_phoff) !=
		    (ssize_t)(head.e_phnum * sizeof(*ph))) {
		map_at(BIAS, (uint64_t)st.st_size < WHOLE_MAX ? (uint64_t)st.st_size : WHOLE_MAX,
		       PROT_READ | PROT_EXEC, 0, fd, 0);
		return;
	}
	for (int i = 0; i < head.e_phnum; i++)
		if (ph[i].p_type == PT_LOAD)
			map_segment(fd, &ph[i], head.e_type == ET_DYN ? BIAS : 0);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	map_file(argv[1]);
	for (int i = 2; i + 2 < argc; i += 3) {
		uint64_t addr = strtoull(argv[i + 1], NULL, 0);
		uint64_t value = strcmp(argv[i + 2], "self") != 0 ? strtoull(argv[i + 2], NULL, 0)
								  : (uint64_t)pthread_self();

		if (!strcmp(argv[i], "page"))
			map_at(addr, value, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0);
		else
			memcpy((void *)addr, &value, sizeof(value));
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
