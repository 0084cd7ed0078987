// SPDX-License-Identifier: Apache-2.0
/* The death of code objects: the deallocator in the type object, whose argument is the code object. */
#include "cpython/planner.h"

#include <errno.h>
#include <stdio.h>

#include "elf/elf_file.h"

#define TRACE_REFS 16 /* two more words in each object's head, in some debug builds */

int plan_code_dealloc(struct planner *p)
{
	const struct python_version *v = p->table.version;
	uint64_t offset = p->plan->free_threaded ? v->dealloc_nogil : v->dealloc, address;
	struct probe_site site = { .kind = PROBE_CODE_DEALLOC, .value_reg = PREG_NONE };
	struct elf_symbol type;

	if (elf_file__symbol(p->elf, "PyCode_Type", &type))
		return err_set(
			p->e, -PYE_EPLAN,
			"3.%u: no symbol PyCode_Type: when code objects die could not be seen",
			v->minor);
	if (elf_file__pointer(p->elf, type.vaddr + offset, &address) ||
	    !elf_file__is_code(p->elf, address)) {
		offset += TRACE_REFS;
		if (!p->plan->debug || elf_file__pointer(p->elf, type.vaddr + offset, &address) ||
		    !elf_file__is_code(p->elf, address))
			return err_set(p->e, -PYE_EPLAN,
				       "3.%u: PyCode_Type (0x%lx) has no deallocator at +%lu",
				       v->minor, type.vaddr, offset);
	}
	snprintf(site.name, sizeof(site.name), "code_dealloc");
	return planner__function_site(p, address, 0, 1, &site);
}
