// SPDX-License-Identifier: Apache-2.0
#include "cpython/planner.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/elf_file.h"

void planner__note(struct planner *p, const char *fmt, ...)
{
	char *notes = p->plan->notes, text[256];
	size_t used = strlen(notes);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (strstr(notes, text))
		return;
	snprintf(notes + used, sizeof(p->plan->notes) - used, "%s%s", used ? " " : "", text);
}

static int refuse(struct planner *p, const struct probe_site *site, const char *why)
{
	return err_set(p->e, -PYE_EPLAN, "3.%u: no probe at 0x%lx (%s): %s", p->plan->minor,
		       site->vaddr, site->name, why);
}

/* -EEXIST: the same site is there already. */
static int check_others(struct planner *p, const struct probe_site *site)
{
	for (uint32_t i = 0; i < p->plan->site_cnt; i++) {
		const struct probe_site *other = &p->plan->sites[i];

		if (other->vaddr != site->vaddr)
			continue;
		if (other->kind == site->kind && other->source == site->source &&
		    other->reg == site->reg && other->disp == site->disp)
			return -EEXIST;
		return refuse(p, site, "a site of another meaning is there already");
	}
	return 0;
}

int planner__add(struct planner *p, const struct probe_site *draft)
{
	struct probe_site site = *draft;
	struct insn insn;
	uint64_t back;
	int err;

	if (p->plan->site_cnt == PLAN_SITES_MAX)
		return refuse(p, &site, "more sites than a plan can hold");
	if (!elf_file__is_code(p->elf, site.vaddr))
		return refuse(p, &site, "the address is not in executable code");
	if (!code__is_start(&p->code, site.vaddr) || code__insn(&p->code, site.vaddr, &insn))
		return refuse(p, &site, "the address is not proven to be an instruction start");
	if (insn.refused)
		return refuse(p, &site,
			      "the kernel takes no probe on an instruction with a "
			      "segment or lock prefix");
	if (elf_file__offset(p->elf, site.vaddr, &site.offset) ||
	    elf_file__code_at_offset(p->elf, site.offset, &back) || back != site.vaddr)
		return refuse(p, &site, "its file offset does not map back to this address alone");
	err = check_others(p, &site);
	if (err)
		return err == -EEXIST ? 0 : err;
	site.single_step = !insn.emulated;
	snprintf(site.insn, sizeof(site.insn), "%s", insn.text);
	p->plan->sites[p->plan->site_cnt++] = site;
	return 0;
}

/* A jump into (start, point] from anywhere: the values followed from the start do not hold there. */
static int is_entered(struct planner *p, uint64_t start, uint64_t point, bool *entered)
{
	struct disasm_range range = { start + 1, point + 1 };
	struct disasm_branch *branches;
	size_t cnt;
	int err;

	*entered = false;
	if (point == start)
		return 0;
	err = code__branches(&p->code, &range, 1, &branches, &cnt);
	if (err)
		return err;
	*entered = cnt > 0;
	free(branches);
	return 0;
}

static bool args_intact(const struct flow *f, unsigned int args)
{
	for (unsigned int i = 0; i < 6; i++)
		if (args >> i & 1 && (f->regs[machine_args[i]].root != machine_args[i] ||
				      f->regs[machine_args[i]].disp))
			return false;
	return true;
}

/* The first emulated instruction of the straight-line code at @addr at which all is in its place. */
static bool find_point(struct planner *p, uint64_t addr, unsigned int arg, unsigned int same,
		       struct probe_site *site)
{
	struct flow_value object = { machine_args[arg], 0 };
	struct flow_place place;
	struct flow f;
	struct insn insn;

	flow__init(&f);
	for (uint64_t at = addr; at - addr < PLANNER_BLOCK_MAX; at += insn.size) {
		if (code__insn(&p->code, at, &insn))
			return false;
		if (insn.emulated && args_intact(&f, same) &&
		    flow__find(&f, object, machine_args[arg], &place)) {
			site->vaddr = at;
			site->source = place.source;
			site->reg = place.reg;
			site->disp = place.disp;
			return true;
		}
		if (insn.flow != FLOW_NEXT && insn.flow != FLOW_CALL)
			return false;
		flow__step(&f, &insn);
	}
	return false;
}

int planner__function_site(struct planner *p, uint64_t addr, unsigned int arg, unsigned int same,
			   struct probe_site *draft)
{
	bool entered;
	int err;

	if (!code__is_start(&p->code, addr))
		return err_set(
			p->e, -PYE_EPLAN,
			"%s is said to be at 0x%lx, which is not an instruction start of the "
			"function around it",
			draft->name, addr);
	if (find_point(p, addr, arg, same, draft)) {
		err = is_entered(p, addr, draft->vaddr, &entered);
		if (err)
			return err;
		if (!entered)
			return planner__add(p, draft);
	}
	draft->vaddr = addr;
	draft->source = PROBE_IN_REG;
	draft->reg = machine_args[arg];
	draft->disp = 0;
	return planner__add(p, draft);
}
