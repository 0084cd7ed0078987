// SPDX-License-Identifier: Apache-2.0
/*
 * Which parts belong to the function: those that a handler lies in, and those that are jumped to from a
 * known part and jump back into the middle of one. A function called in tail position does not jump back.
 */
#include "cpython/eval_body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "elf/elf_file.h"

#define INSN_MAX (1u << 18)

bool body__contains(const struct body *b, uint64_t addr)
{
	for (size_t i = 0; i < b->part_cnt; i++)
		if (addr >= b->parts[i].start && addr < b->parts[i].end)
			return true;
	return false;
}

static void find_fatal(struct body *b, const struct planner *p)
{
	static const char *const names[] = { "_Py_FatalErrorFunc", "_Py_FatalErrorFormat",
					     "_Py_FatalError_TstateNULL", "Py_FatalError" };
	struct elf_symbol symbol;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!elf_file__symbol(p->elf, names[i], &symbol))
			b->fatal[b->fatal_cnt++] = symbol.vaddr;
}

/* Behind a call that does not return lies what belongs to something else. */
static bool is_fatal(const struct body *b, const struct insn *call)
{
	static const char *const names[] = { "__stack_chk_fail", "__chk_fail", "abort" };
	uint64_t target = call->target ? code__resolve(b->code, call->target) : 0;
	const char *imported;

	for (size_t i = 0; target && i < b->fatal_cnt; i++)
		if (b->fatal[i] == target)
			return true;
	imported = code__imported(b->code, call);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(imported, names[i]))
			return true;
	return false;
}

static int push_insn(struct body *b, const struct insn *insn)
{
	bool stops = insn->flow == FLOW_CALL && is_fatal(b, insn);

	if (b->insn_cnt == INSN_MAX)
		return -E2BIG;
	if (GROW(b->insns, b->insn_cap, (uint32_t)b->insn_cnt))
		return -ENOMEM;
	b->insns[b->insn_cnt++] = (struct body_insn){
		.addr = insn->addr,
		.target = insn->flow == FLOW_NEXT || stops ? 0 : insn->target,
		.size = insn->size,
		.flow = stops ? FLOW_STOP : insn->flow,
		.cond = insn->cond,
		.emulated = insn->emulated,
		.nop = insn->nop,
		.op = insn->op,
		.dst = insn->dst,
		.src = insn->src,
		.mem_size = insn->mem_size,
		.writes = (uint16_t)insn->writes,
		.disp = (int32_t)insn->disp,
	};
	return 0;
}

static int decode_part(struct body *b, struct planner *p, const struct disasm_range *part)
{
	struct insn insn;

	for (uint64_t at = part->start; at < part->end; at += insn.size) {
		int err = code__insn(&p->code, at, &insn);

		if (!err)
			err = push_insn(b, &insn);
		if (err == -ENOMEM)
			return err;
		if (err)
			return err_set(
				p->e, -PYE_EPLAN,
				"3.%u: the interpreter loop (0x%lx) cannot be decoded at 0x%lx",
				p->plan->minor, b->entry, at);
	}
	return 0;
}

/* Whether it was not there yet, and there was room. */
static bool add_part(struct body *b, const struct disasm_range *part)
{
	if (b->part_cnt == EVAL_PART_MAX || body__contains(b, part->start))
		return false;
	b->parts[b->part_cnt++] = *part;
	return true;
}

static int function_around(const struct planner *p, uint64_t addr, struct disasm_range *out)
{
	return code__function(&p->code, addr, &out->start, &out->end);
}

/* Does some jump in there lead into the middle of a known part? */
static bool jumps_back(struct planner *p, const struct body *b, const struct disasm_range *part)
{
	struct insn insn;

	for (uint64_t at = part->start; at < part->end; at += insn.size) {
		if (code__insn(&p->code, at, &insn))
			return false;
		if ((insn.flow == FLOW_JUMP || insn.flow == FLOW_COND) && insn.target &&
		    insn.target != b->entry && body__contains(b, insn.target))
			return true;
	}
	return false;
}

/* Adds the parts reached from the instructions at and after @from. */
static void add_reached(struct planner *p, struct body *b, size_t from)
{
	for (size_t i = from; i < b->insn_cnt; i++) {
		const struct body_insn *insn = &b->insns[i];
		struct disasm_range part;

		if ((insn->flow != FLOW_JUMP && insn->flow != FLOW_COND) || !insn->target ||
		    body__contains(b, insn->target) || function_around(p, insn->target, &part))
			continue;
		if (jumps_back(p, b, &part))
			add_part(b, &part);
	}
}

static void first_parts(struct planner *p, struct body *b)
{
	struct disasm_range part;
	struct elf_symbol symbol;

	if (!function_around(p, b->entry, &part)) {
		add_part(b, &part);
		for (size_t i = 0; i < OPTABLE_CNT; i++)
			if (!function_around(p, p->table.targets[i], &part))
				add_part(b, &part);
	} else if (!elf_file__symbol(p->elf, "_PyEval_EvalFrameDefault", &symbol)) {
		part = (struct disasm_range){ symbol.vaddr, symbol.vaddr + symbol.size };
		add_part(b, &part);
	}
}

static int compare_insns(const void *a, const void *b)
{
	uint64_t x = ((const struct body_insn *)a)->addr, y = ((const struct body_insn *)b)->addr;

	return x < y ? -1 : x > y;
}

static int compare_edges(const void *a, const void *b)
{
	const struct body_edge *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static int collect_edges(struct body *b)
{
	b->edges = calloc(b->insn_cnt + 1, sizeof(*b->edges));
	if (!b->edges)
		return -ENOMEM;
	for (size_t i = 0; i < b->insn_cnt; i++)
		if (b->insns[i].target && b->insns[i].flow != FLOW_CALL)
			b->edges[b->edge_cnt++] = (struct body_edge){ b->insns[i].target, i };
	qsort(b->edges, b->edge_cnt, sizeof(*b->edges), compare_edges);
	return 0;
}

int body__init(struct body *b, struct planner *p, uint64_t entry)
{
	size_t decoded = 0;

	memset(b, 0, sizeof(*b));
	b->entry = entry;
	b->code = &p->code;
	find_fatal(b, p);
	first_parts(p, b);
	if (!body__contains(b, entry))
		return err_set(p->e, -PYE_EPLAN, "3.%u: the interpreter loop (0x%lx) has no extent",
			       p->plan->minor, entry);
	while (decoded < b->part_cnt) {
		size_t from = b->insn_cnt;
		int err = decode_part(b, p, &b->parts[decoded++]);

		if (err)
			return err;
		add_reached(p, b, from);
	}
	qsort(b->insns, b->insn_cnt, sizeof(*b->insns), compare_insns);
	return collect_edges(b);
}

void body__done(struct body *b)
{
	free(b->insns);
	free(b->edges);
}

int body__index(const struct body *b, uint64_t addr, size_t *out)
{
	size_t lo = 0, hi = b->insn_cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (b->insns[mid].addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == b->insn_cnt || b->insns[lo].addr != addr)
		return -ENOENT;
	*out = lo;
	return 0;
}

int body__next(const struct body *b, size_t index, size_t *out)
{
	const struct body_insn *insn = &b->insns[index];

	*out = index + 1;
	return *out < b->insn_cnt && insn[1].addr == insn->addr + insn->size ? 0 : -ENOENT;
}

const struct body_edge *body__edges(const struct body *b, uint64_t target, size_t *cnt)
{
	size_t lo = 0, hi = b->edge_cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (b->edges[mid].target < target)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (*cnt = 0; lo + *cnt < b->edge_cnt && b->edges[lo + *cnt].target == target;)
		(*cnt)++;
	return &b->edges[lo];
}

bool body__falls_into(const struct body *b, size_t index)
{
	const struct body_insn *before;
	size_t cnt;

	for (;; index--) {
		if (!index)
			return false;
		before = &b->insns[index - 1];
		if (before->addr + before->size != b->insns[index].addr ||
		    (before->flow != FLOW_NEXT && before->flow != FLOW_CALL &&
		     before->flow != FLOW_COND))
			return false;
		if (!before->nop)
			return true;
		body__edges(b, before->addr, &cnt);
		if (cnt)
			return true;
	}
}
