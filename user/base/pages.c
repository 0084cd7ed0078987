// SPDX-License-Identifier: Apache-2.0
#include "base/pages.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OWN_BYTES \
	((size_t)8 << 10) /* from here on: two pages, so that less than a half is wasted */

static bool is_own(size_t bytes)
{
	return bytes >= OWN_BYTES;
}

static void *map(size_t bytes)
{
	void *array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return array == MAP_FAILED ? NULL : array;
}

void *pages_resize(void *old, size_t from, size_t to)
{
	void *array;

	if (!is_own(from) && !is_own(to))
		return realloc(old, to);
	if (is_own(from) && is_own(to)) {
		array = mremap(old, from, to, MREMAP_MAYMOVE);
		return array == MAP_FAILED ? NULL : array;
	}
	array = is_own(to) ? map(to) : malloc(to);
	if (array && old)
		memcpy(array, old, from < to ? from : to);
	if (array)
		pages_free(old, from);
	return array;
}

static int forget_module(struct dl_phdr_info *module, size_t size, void *ctx)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)ctx;
	for (unsigned int i = 0; i < module->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &module->dlpi_phdr[i];
		uintptr_t from = (module->dlpi_addr + p->p_vaddr) & ~(page - 1);
		uintptr_t end = module->dlpi_addr + p->p_vaddr + p->p_filesz;

		if (p->p_type == PT_LOAD && !(p->p_flags & (PF_W | PF_X)))
			madvise((void *)from, end - from, MADV_DONTNEED);
	}
	return 0;
}

void pages_forget_linking(void)
{
	dl_iterate_phdr(forget_module, NULL);
}

void pages_free(void *array, size_t bytes)
{
	if (!array)
		return;
	if (is_own(bytes))
		munmap(array, bytes);
	else
		free(array);
}
