// SPDX-License-Identifier: Apache-2.0
/*
 * A text segment rarely ends with its page; what lies behind it there is mapped and not used. One in twenty does so
 * too closely. It has to be the last page of a private mapping of a file: there remote__await_calls() looks for it.
 */
#include "inline/scratch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inline/remote.h"
#include "inline/remote_call.h"
#include "proc/maps.h"

#define PAGE_BYTES 4096ull
#define HEADERS	   64 /* program headers that are looked at */
#define ALIGNED	   15ull

uint64_t inline_auxiliary(pid_t pid, uint64_t type)
{
	char path[40];
	auto_close int fd = -1;
	uint64_t pair[2];

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, pair, sizeof(pair)) == sizeof(pair))
		if (pair[0] == type)
			return pair[1];
	return 0;
}

/* Is there room at an address, which is the file's at this offset as well? */
static bool is_room(const struct maps *maps, uint64_t start, uint64_t at, uint64_t offset)
{
	const struct mapping *file = maps__find(maps, start), *m = maps__find(maps, at);

	return at % PAGE_BYTES && file && m && m->ino && mapping_same_file(file, m) &&
	       at - m->start == offset - m->offset && m->flags & MAPPING_EXEC &&
	       !(m->flags & MAPPING_SHARED) && m->end - at < PAGE_BYTES &&
	       m->end - at >= REMOTE_SCRATCH_BYTES;
}

uint64_t inline_room(const struct remote *r, const struct maps *maps, uint64_t start)
{
	uint64_t bias = 0;
	bool placed = false;
	Elf64_Ehdr e;
	Elf64_Phdr p;

	if (remote__read(r, start, &e, sizeof(e)) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0)
		return 0;
	for (unsigned int i = 0; i < e.e_phnum && i < HEADERS; i++) {
		uint64_t end, skip;

		if (remote__read(r, start + e.e_phoff + i * sizeof(p), &p, sizeof(p)))
			return 0;
		if (p.p_type != PT_LOAD)
			continue;
		if (!placed && p.p_offset < PAGE_BYTES)
			bias = start + p.p_offset - p.p_vaddr;
		placed |= p.p_offset < PAGE_BYTES;
		end = bias + p.p_vaddr + p.p_memsz;
		skip = -end & ALIGNED;
		if (placed && p.p_flags & PF_X &&
		    is_room(maps, start, end + skip, p.p_offset + p.p_memsz + skip))
			return end + skip;
	}
	return 0;
}

/* The beginning of the file that has something mapped; 0: it is not in that mapping. */
static uint64_t file_of(const struct maps *maps, uint64_t at)
{
	const struct mapping *m = at ? maps__find(maps, at) : NULL;

	return m && m->ino && !m->offset ? m->start : 0;
}

int inline_find_scratch(struct remote *r, uint64_t interpreter)
{
	auto_fn(maps__done) struct maps maps = { 0 };
	int err = maps__read(r->pid, &maps);
	const uint64_t in[] = { interpreter, inline_auxiliary(r->pid, AT_PHDR),
				inline_auxiliary(r->pid, AT_BASE) };

	if (err)
		return err;
	r->scratch = 0;
	for (size_t i = 0; !r->scratch && i < sizeof(in) / sizeof(*in); i++) {
		uint64_t start = file_of(&maps, in[i]);

		if (start)
			r->scratch = inline_room(r, &maps, start);
	}
	return r->scratch ? 0 : -ENOENT;
}
