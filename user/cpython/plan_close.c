// SPDX-License-Identifier: Apache-2.0
/*
 * Generators that are closed without being run. From 3.14 on gen_close() drops a suspended frame in
 * which no handler would see GeneratorExit, unless a monitoring tool watches for unwinding: tools see a
 * throw and an unwind there, so a trace must show them too: what the frame holds ends between them. The frame goes through
 * _PyFrame_ClearExceptCode(frame), which is hidden in stripped files: it is the function that both
 * _PyEval_FrameClearAndPop and gen_close() (or a helper that this calls) call. gen_close() itself is
 * the method "close" of PyGen_Type.
 *
 * A compiler may leave a stub of it that jumps to the rest, and may put copies of it into what calls it, as the
 * method "close" of a coroutine's wrapper. So every branch in the file to what clears frames is looked at: in which
 * function it is, and whether that is gen_close() or belongs to it.
 */
#include "cpython/planner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/elf_file.h"

#define METHOD_SIZE  32 /* PyMethodDef: name, function, flags, doc */
#define METHODS_MAX  64
#define BRANCHES_MAX 96
#define FUNCTION_MAX 4096
#define HELPER_CALLS 4
#define CLEARERS_MAX 8
#define BODIES_MAX   16
#define END_MAX	     24 /* bytes of instructions that follow each other */

/* The direct calls of a function, and the jumps that leave it. */
struct branches {
	bool whole; /* there are no others, and no jumps to anywhere */
	size_t cnt;
	struct {
		uint64_t at, target;
		bool call;
	} items[BRANCHES_MAX];
};

/* What gen_close() was made into: itself, parts of it, and its copies in other functions. */
struct closing {
	uint64_t clearers[CLEARERS_MAX]; /* what clears frames; more where they share another function */
	size_t clearer_cnt;
	uint64_t asks[2]; /* the function that only gen_close() calls: whether a tool watches; as calls of it have it; 0: none */
	struct disasm_branch *found; /* owned; all that lead to one of these */
	size_t found_cnt;
	uint64_t bodies[BODIES_MAX]; /* starts of functions */
	size_t body_cnt;
};

/* 0: there is none. */
static uint64_t function_of(const struct planner *p, uint64_t addr)
{
	uint64_t start, end;

	return code__function(&p->code, addr, &start, &end) ? 0 : start;
}

static bool leads_anywhere(const struct insn *insn)
{
	return insn->flow == FLOW_JUMP && !insn->target && !insn->pointer;
}

static void find_branches(const struct planner *p, uint64_t function, struct branches *out)
{
	uint64_t start, end;
	struct insn insn;

	out->cnt = 0;
	out->whole = false;
	if (code__function(&p->code, function, &start, &end))
		return;
	for (uint64_t at = function; at < end; at += insn.size) {
		if (at - function > FUNCTION_MAX || code__insn(&p->code, at, &insn) ||
		    leads_anywhere(&insn))
			return;
		if (!insn.target ||
		    (insn.flow != FLOW_CALL && insn.target >= start && insn.target < end))
			continue;
		if (out->cnt == BRANCHES_MAX)
			return;
		out->items[out->cnt].at = at;
		out->items[out->cnt].call = insn.flow == FLOW_CALL;
		out->items[out->cnt++].target = insn.target;
	}
	out->whole = true;
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
static bool is_clearer(const struct planner *p, const struct branches *pop, uint64_t target)
{
	struct elf_symbol dealloc;

	if (!elf_file__symbol(p->elf, "_Py_Dealloc", &dealloc) && dealloc.vaddr == target)
		return false;
	for (size_t i = 0; i < pop->cnt; i++)
		if (pop->items[i].call && code__resolve(&p->code, pop->items[i].target) == target)
			return true;
	return false;
}

/* It may be called by way of the PLT. */
static void add_asks(const struct planner *p, const struct branches *in, struct closing *c)
{
	for (size_t i = 0; c->asks[0] && i < in->cnt; i++)
		if (code__resolve(&p->code, in->items[i].target) == c->asks[0])
			c->asks[1] = in->items[i].target;
}

static void add_clearers(const struct planner *p, const struct branches *pop,
			 const struct branches *in, struct closing *c)
{
	for (size_t i = 0; i < in->cnt; i++) {
		uint64_t target = code__resolve(&p->code, in->items[i].target);
		bool known = !is_clearer(p, pop, target);

		for (size_t k = 0; k < c->clearer_cnt; k++)
			known |= c->clearers[k] == target;
		if (!known && c->clearer_cnt < CLEARERS_MAX)
			c->clearers[c->clearer_cnt++] = target;
	}
}

/* By gen_close() itself, a small function that it calls, or a part of it that it jumps to. */
static void find_clearers(const struct planner *p, const struct branches *pop,
			  const struct branches *close, struct closing *c)
{
	struct elf_symbol asks;
	struct branches other;

	if (!elf_file__symbol(p->elf, "_PyEval_NoToolsForUnwind", &asks))
		c->asks[0] = c->asks[1] = asks.vaddr;
	add_clearers(p, pop, close, c);
	add_asks(p, close, c);
	for (size_t i = 0; i < close->cnt; i++) {
		find_branches(p, code__resolve(&p->code, close->items[i].target), &other);
		if (!close->items[i].call || (other.whole && other.cnt <= HELPER_CALLS))
			add_clearers(p, pop, &other, c);
		if (!close->items[i].call)
			add_asks(p, &other, c);
	}
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

/* All branches to what clears frames, and to what only gen_close() calls. */
static int find_all(const struct planner *p, struct closing *c)
{
	struct disasm_range ranges[CLEARERS_MAX + 2];
	size_t cnt = 0;

	for (size_t i = 0; i < c->clearer_cnt; i++, cnt++)
		ranges[cnt] = (struct disasm_range){ c->clearers[i], c->clearers[i] + 1 };
	for (size_t i = 0; c->asks[0] && i < 2; i++, cnt++)
		ranges[cnt] = (struct disasm_range){ c->asks[i], c->asks[i] + 1 };
	return code__branches(&p->code, ranges, cnt, &c->found, &c->found_cnt);
}

static bool is_ask(const struct closing *c, const struct disasm_branch *b)
{
	return c->asks[0] && (b->target == c->asks[0] || b->target == c->asks[1]);
}

static bool is_body(const struct closing *c, uint64_t function)
{
	for (size_t i = 0; i < c->body_cnt; i++)
		if (c->bodies[i] == function)
			return true;
	return false;
}

static int add_body(const struct planner *p, struct closing *c, uint64_t function)
{
	if (!function || is_body(c, function))
		return 0;
	if (c->body_cnt == BODIES_MAX)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: gen_close() has more copies than a plan can hold",
			       p->plan->minor);
	c->bodies[c->body_cnt++] = function;
	return 0;
}

static bool is_found_in(const struct planner *p, const struct closing *c, uint64_t function)
{
	for (size_t i = 0; function && i < c->found_cnt; i++)
		if (function_of(p, c->found[i].addr) == function)
			return true;
	return false;
}

/* A part that a body jumps to may do no more than jump on. */
static bool leads_to_found(const struct planner *p, const struct closing *c, uint64_t part)
{
	struct branches in;

	find_branches(p, part, &in);
	for (size_t i = 0; i < in.cnt; i++)
		if (!in.items[i].call && is_found_in(p, c, function_of(p, in.items[i].target)))
			return true;
	return false;
}

/* What a body jumps to, or calls, and what clears frames there, belongs to it. */
static int follow_body(const struct planner *p, struct closing *c, uint64_t function)
{
	struct branches in;
	int err = 0;

	find_branches(p, function, &in);
	if (!in.whole)
		return err_set(
			p->e, -PYE_EPLAN,
			"3.%u: gen_close(), or a copy or part of it (0x%lx), cannot be followed "
			"to its end: generators that are closed without being run would be "
			"missed",
			p->plan->minor, function);
	for (size_t i = 0; !err && i < in.cnt; i++) {
		uint64_t to = function_of(p, in.items[i].target);

		if (is_found_in(p, c, to) || (!in.items[i].call && leads_to_found(p, c, to)))
			err = add_body(p, c, to);
	}
	return err;
}

static int find_bodies(const struct planner *p, uint64_t gen_close, struct closing *c)
{
	int err = add_body(p, c, gen_close);

	for (size_t i = 0; !err && i < c->found_cnt; i++)
		if (is_ask(c, &c->found[i]))
			err = add_body(p, c, function_of(p, c->found[i].addr));
	for (size_t i = 0; !err && i < c->body_cnt; i++)
		err = follow_body(p, c, c->bodies[i]);
	return err;
}

static int add_site(struct planner *p, const struct disasm_branch *clear)
{
	struct probe_site site = { .kind = PROBE_GEN_CLOSE,
				   .source = PROBE_IN_REG,
				   .reg = PREG_RDI,
				   .value_reg = PREG_NONE,
				   .vaddr = clear->addr };

	if (!clear->call)
		return err_set(p->e, -PYE_EPLAN,
			       "3.%u: gen_close() clears a frame by a jump (0x%lx): when that is "
			       "done could not be seen",
			       p->plan->minor, clear->addr);
	snprintf(site.name, sizeof(site.name), "gen_close");
	return planner__add(p, &site) ?: add_end(p, clear->addr);
}

static int add_sites(struct planner *p, const struct closing *c, unsigned int *added)
{
	int err = 0;

	for (size_t i = 0; !err && i < c->found_cnt; i++) {
		if (is_ask(c, &c->found[i]) || !is_body(c, function_of(p, c->found[i].addr)))
			continue;
		err = add_site(p, &c->found[i]);
		++*added;
	}
	return err;
}

int plan_gen_close(struct planner *p)
{
	struct closing closing = { 0 };
	struct branches pop, close;
	struct elf_symbol symbol;
	unsigned int added = 0;
	uint64_t function;
	int err = 0;

	if (elf_file__symbol(p->elf, p->table.version->clear_symbol, &symbol) ||
	    !find_gen_close(p, &function))
		return err_set(
			p->e, -PYE_EPLAN,
			"3.%u: gen_close() was not found: generators that are closed without "
			"being run would be missed",
			p->plan->minor);
	find_branches(p, symbol.vaddr, &pop);
	find_branches(p, function, &close);
	find_clearers(p, &pop, &close, &closing);
	if (closing.clearer_cnt)
		err = find_all(p, &closing) ?: find_bodies(p, function, &closing);
	if (!err)
		err = add_sites(p, &closing, &added);
	free(closing.found);
	if (err || added)
		return err;
	return err_set(
		p->e, -PYE_EPLAN,
		"3.%u: gen_close() (0x%lx) is not seen to clear a frame: generators that are "
		"closed without being run would be missed",
		p->plan->minor, function);
}
