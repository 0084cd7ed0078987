// SPDX-License-Identifier: Apache-2.0
/*
 * Generators that are closed without being run. From 3.14 on gen_close() drops a suspended frame in
 * which no handler would see GeneratorExit, unless a monitoring tool watches for unwinding: tools see a
 * throw and an unwind there, so a trace must show them too: what the frame holds ends between them. The frame goes through
 * _PyFrame_ClearExceptCode(frame), which is hidden in stripped files: it is the function that both
 * _PyEval_FrameClearAndPop and gen_close() (or a helper that this calls) call. gen_close() itself is
 * the method "close" of PyGen_Type.
 */
#include "cpython/planner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elf/elf_file.h"

#define METHOD_SIZE  32 /* PyMethodDef: name, function, flags, doc */
#define METHODS_MAX  64
#define CALLS_MAX    64
#define FUNCTION_MAX 4096
#define END_MAX	     24 /* bytes of instructions that follow each other */

/* The direct calls of a function. */
struct calls {
	size_t cnt;
	struct {
		uint64_t at, target;
	} items[CALLS_MAX];
};

static void find_calls(const struct planner *p, uint64_t function, struct calls *out)
{
	uint64_t start, end;
	struct insn insn;

	out->cnt = 0;
	if (code__function(&p->code, function, &start, &end))
		return;
	if (end - function > FUNCTION_MAX)
		end = function + FUNCTION_MAX;
	for (uint64_t at = function; at < end && out->cnt < CALLS_MAX; at += insn.size) {
		if (code__insn(&p->code, at, &insn))
			return;
		if (insn.flow != FLOW_CALL || !insn.target)
			continue;
		out->items[out->cnt].at = at;
		out->items[out->cnt++].target = code__resolve(&p->code, insn.target);
	}
}

static bool method(const struct planner *p, uint64_t methods, const char *wanted,
		   uint64_t *function)
{
	size_t len = strlen(wanted) + 1;
	char name[32];

	for (unsigned int i = 0; i < METHODS_MAX; i++, methods += METHOD_SIZE) {
		uint64_t at;

		if (elf_file__pointer(p->elf, methods, &at) || !at)
			return false;
		if (elf_file__read(p->elf, at, name, len) || memcmp(name, wanted, len) != 0)
			continue;
		return !elf_file__pointer(p->elf, methods + 8, function) &&
		       elf_file__is_code(p->elf, *function);
	}
	return false;
}

static bool find_gen_close(const struct planner *p, uint64_t *function)
{
	const struct python_version *v = p->table.version;
	struct elf_symbol type;
	uint64_t methods;

	return !elf_file__symbol(p->elf, "PyGen_Type", &type) &&
	       !elf_file__pointer(p->elf,
				  type.vaddr + (p->plan->free_threaded ? v->type_methods_nogil
								       : v->type_methods),
				  &methods) &&
	       methods && method(p, methods, "close", function);
}

/* Functions that both call, but for what everybody calls (_Py_Dealloc, an exported one). */
static bool is_clearer(const struct planner *p, const struct calls *pop, uint64_t target)
{
	struct elf_symbol dealloc;

	if (!elf_file__symbol(p->elf, "_Py_Dealloc", &dealloc) && dealloc.vaddr == target)
		return false;
	for (size_t i = 0; i < pop->cnt; i++)
		if (pop->items[i].target == target)
			return true;
	return false;
}

/* Where such a call comes back to; or, if that is cheaper for the kernel, a place soon after it. */
static int add_end(struct planner *p, uint64_t at)
{
	struct probe_site site = { .kind = PROBE_GEN_CLOSED,
				   .source = PROBE_TOP,
				   .reg = PREG_NONE,
				   .value_reg = PREG_NONE };
	struct insn insn;

	if (code__insn(&p->code, at, &insn))
		return -EFAULT;
	site.vaddr = at + insn.size;
	for (uint64_t next = site.vaddr; next < site.vaddr + END_MAX; next += insn.size) {
		if (code__insn(&p->code, next, &insn) || insn.refused)
			break;
		if (insn.emulated) {
			site.vaddr = next;
			break;
		}
		if (insn.flow != FLOW_NEXT)
			break;
	}
	snprintf(site.name, sizeof(site.name), "gen_close");
	return planner__add(p, &site);
}

static int add_sites(struct planner *p, const struct calls *pop, const struct calls *calls,
		     unsigned int *found)
{
	for (size_t i = 0; i < calls->cnt; i++) {
		struct probe_site site = { .kind = PROBE_GEN_CLOSE,
					   .source = PROBE_IN_REG,
					   .reg = PREG_RDI,
					   .value_reg = PREG_NONE,
					   .vaddr = calls->items[i].at };
		int err;

		if (!is_clearer(p, pop, calls->items[i].target))
			continue;
		snprintf(site.name, sizeof(site.name), "gen_close");
		err = planner__add(p, &site) ?: add_end(p, site.vaddr);
		if (err)
			return err;
		++*found;
	}
	return 0;
}

int plan_gen_close(struct planner *p)
{
	struct calls pop, close, helper;
	struct elf_symbol symbol;
	unsigned int found = 0;
	uint64_t function;
	int err;

	if (elf_file__symbol(p->elf, p->table.version->clear_symbol, &symbol) ||
	    !find_gen_close(p, &function))
		return err_set(
			p->e, -PYE_EPLAN,
			"3.%u: gen_close() was not found: generators that are closed without "
			"being run would be missed",
			p->plan->minor);
	find_calls(p, symbol.vaddr, &pop);
	find_calls(p, function, &close);
	err = add_sites(p, &pop, &close, &found);
	for (size_t i = 0; !err && i < close.cnt; i++) {
		find_calls(p, close.items[i].target, &helper);
		if (helper.cnt && helper.cnt <= 4)
			err = add_sites(p, &pop, &helper, &found);
	}
	if (err || found)
		return err;
	return err_set(
		p->e, -PYE_EPLAN,
		"3.%u: gen_close() (0x%lx) is not seen to clear a frame: generators that are "
		"closed without being run would be missed",
		p->plan->minor, function);
}
