// SPDX-License-Identifier: Apache-2.0
/*
 * The interpreter's own probes. They are complete only where every Python call recurses in C and both
 * function__entry and function__return are there; on other versions they miss or double events. The frame
 * is taken from the thread state, since the probes' arguments are strings.
 */
#include "cpython/planner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elf/elf_file.h"

static int add_usdt(struct planner *p, const struct elf_usdt *note, enum probe_kind kind)
{
	struct probe_site site = { .vaddr = note->vaddr,
				   .kind = kind,
				   .source = PROBE_THREAD_STATE,
				   .reg = PREG_NONE,
				   .value_reg = PREG_NONE };

	if (!note->semaphore || elf_file__offset(p->elf, note->semaphore, &site.semaphore))
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the probe python:%.32s at 0x%lx has no semaphore in the file",
			       p->plan->minor, note->name, note->vaddr);
	snprintf(site.name, sizeof(site.name), "%s", note->name);
	return planner__add(p, &site);
}

int plan_usdt(struct planner *p)
{
	unsigned int entries = 0, returns = 0;
	const struct elf_usdt *note;

	if (!p->table.version->usdt)
		return err_set(p->e, -ENOENT, "the USDT probes of CPython 3.%u are not complete",
			       p->plan->minor);
	for (size_t i = 0; (note = elf_file__usdt(p->elf, i)); i++) {
		bool entry = !strcmp(note->name, "function__entry");
		int err;

		if (strcmp(note->provider, "python") != 0 ||
		    (!entry && strcmp(note->name, "function__return") != 0))
			continue;
		entries += entry;
		returns += !entry;
		err = add_usdt(p, note, entry ? PROBE_USDT_ENTRY : PROBE_USDT_RETURN);
		if (err)
			return err;
	}
	if (entries && returns)
		return 0;
	return err_set(
		p->e, -ENOENT,
		"the file has %u probes python:function__entry and %u function__return: CPython "
		"was built without them",
		entries, returns);
}
