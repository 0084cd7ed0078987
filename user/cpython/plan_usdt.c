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

/* The macros of <sys/sdt.h> leave a nop at the place, and the semaphore in a section of its own. The kernel
 * counts up in the target's memory where the semaphore is said to be. */
static int check_note(struct planner *p, const struct elf_usdt *note)
{
	const struct elf_section *s = elf_file__section_by_name(p->elf, ".probes");
	struct insn insn;

	if (!note->semaphore || !s || note->semaphore % 2 || note->semaphore < s->vaddr ||
	    s->size < 2 || note->semaphore - s->vaddr > s->size - 2)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the probe python:%.32s at 0x%lx has no semaphore in the file",
			       p->plan->minor, note->name, note->vaddr);
	if (code__is_start(&p->code, note->vaddr) && !code__insn(&p->code, note->vaddr, &insn) &&
	    strncmp(insn.text, "nop", 3) != 0)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: the probe python:%.32s at 0x%lx is no nop, which each is",
			       p->plan->minor, note->name, note->vaddr);
	return 0;
}

static int add_usdt(struct planner *p, const struct elf_usdt *note, enum probe_kind kind)
{
	struct probe_site site = { .vaddr = note->vaddr,
				   .kind = kind,
				   .source = PROBE_THREAD_STATE,
				   .reg = PREG_NONE,
				   .value_reg = PREG_NONE };

	int err = check_note(p, note);

	if (err)
		return err;
	if (elf_file__offset(p->elf, note->semaphore, &site.semaphore))
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
