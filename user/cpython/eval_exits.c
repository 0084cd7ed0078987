// SPDX-License-Identifier: Apache-2.0
/*
 * The exits of the interpreter loop's function up to 3.10, without a probe on its `ret`, which would be
 * single-stepped. Going back from the `ret` in address order, up to the nearest instruction that the
 * kernel emulates and that control falls from into the epilogue (the call of _Py_CheckFunctionResult, a
 * branch not taken), every direct jump into the stretch is an edge into it. These jumps and that
 * instruction together are passed exactly once by each exit; conditional ones count in one direction.
 *
 * Where a value is returned in: the register at the edge that becomes the result register on the way to
 * the `ret`; at the call of _Py_CheckFunctionResult, which hands its argument through, that argument.
 *
 * An edge on which the frame never ran: it is reached from the function's start without passing the
 * store of the frame into the thread state, and from nowhere else. If it is also reached from elsewhere,
 * the edges into the stretch before it are taken in its place.
 */
#include "cpython/eval_exits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cpython/eval_early.h"
#include "elf/elf_file.h"

#define DEPTH_MAX 6
#define FATAL_MAX 8 /* instructions of the way to a call that does not return */
#define RANGE_MAX 64

/* Straight-line code from one address up to an instruction that jumps on, or to the exit. */
struct segment {
	uint64_t start, end;
};

struct search {
	struct planner *p;
	const struct body *body;
	struct eval_exits *out;
	uint64_t check_result; /* _Py_CheckFunctionResult, 0 if not exported */
	struct eval_early early;
	struct segment path[DEPTH_MAX + 1]; /* [depth] is walked first */
	struct disasm_range ranges[RANGE_MAX]; /* stretches whose edges were collected */
	size_t range_cnt;
};

__attribute__((format(printf, 2, 3))) static int give_up(struct search *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s->out->why, sizeof(s->out->why), fmt, ap);
	va_end(ap);
	return -PYE_EPLAN;
}

/* The instructions that run before the frame is stored into the thread state. */
static int find_early(struct search *s)
{
	int err = eval_early__find(s->p, s->body, &s->early);

	if (err == -ENOMEM)
		return err;
	if (err)
		return give_up(s, "where it stores the frame into the thread state cannot be told");
	return s->early.store_cnt ? 0
				  : give_up(s, "it does not store the frame into the thread state");
}

static bool is_handler(const struct search *s, uint64_t addr)
{
	for (size_t i = 0; i < OPTABLE_CNT; i++)
		if (s->p->table.targets[i] == addr)
			return true;
	return false;
}

enum reached {
	REACHED_LATE,
	REACHED_EARLY,
	REACHED_BOTH
};

/* Adds what leads to an early instruction; false if something that is not early does. */
static bool add_sources(const struct search *s, size_t index, size_t *list, size_t *cnt)
{
	uint64_t addr = s->body->insns[index].addr;
	const struct body_edge *edge;
	size_t edges;

	if (addr == s->body->entry)
		return true;
	edge = body__edges(s->body, addr, &edges);
	for (size_t i = 0; i <= edges; i++) {
		size_t from = i < edges ? edge[i].from : index - 1, k = 0;

		if (i == edges && !body__falls_into(s->body, index))
			break;
		if (!eval_early__has(&s->early, from))
			return false;
		while (k < *cnt && list[k] != from)
			k++;
		if (k == *cnt)
			list[(*cnt)++] = from;
	}
	return !is_handler(s, addr);
}

static enum reached classify(const struct search *s, size_t index)
{
	size_t list[EARLY_MAX + 1], cnt = 1;

	if (!eval_early__has(&s->early, index))
		return REACHED_LATE;
	list[0] = index;
	for (size_t i = 0; i < cnt; i++)
		if (!add_sources(s, list[i], list, &cnt))
			return REACHED_BOTH;
	return REACHED_EARLY;
}

/* Follows the values from the edge at @insn over the path to the exit. */
static int follow(struct search *s, size_t depth, const struct insn *insn, struct flow *f,
		  struct flow_value *called)
{
	struct insn step;

	flow__init(f);
	flow__step(f, insn);
	*called = f->regs[MACHINE_RESULT];
	for (size_t d = depth + 1; d-- > 0;)
		for (uint64_t at = s->path[d].start; at < s->path[d].end; at += step.size) {
			if (code__insn(&s->p->code, at, &step))
				return -EILSEQ;
			flow__step(f, &step);
		}
	return 0;
}

static int find_value(struct search *s, size_t depth, const struct insn *insn, uint8_t *reg)
{
	struct flow_value value, called;
	struct flow f;

	if (follow(s, depth, insn, &f, &called))
		return give_up(s, "the way from 0x%lx to its end cannot be decoded", insn->addr);
	value = f.regs[MACHINE_RESULT];
	*reg = PREG_NONE;
	if (value.root == FLOW_ZERO && !value.disp)
		return 0;
	if (value.root < MACHINE_REG_CNT && !value.disp) {
		*reg = (uint8_t)value.root;
		return 0;
	}
	if (insn->flow == FLOW_CALL && flow__is_same(value, called) && s->check_result &&
	    code__resolve(&s->p->code, insn->target) == s->check_result) {
		*reg = machine_args[s->p->table.version->eval_frame_arg + 1];
		return 0;
	}
	return give_up(s, "the value that it returns by way of 0x%lx (%s) is in no register",
		       insn->addr, insn->text);
}

static int cover(struct search *s, size_t index, size_t depth);

/* Does what follows from here on end at a call that does not return, as that of a guarded stack? */
static bool is_fatal_way(const struct search *s, uint64_t addr)
{
	size_t i;

	for (int n = 0; n < FATAL_MAX && !body__index(s->body, addr, &i); n++) {
		const struct body_insn *at = &s->body->insns[i];

		if (at->flow == FLOW_STOP)
			return true;
		if (at->flow != FLOW_NEXT && at->flow != FLOW_JUMP)
			return false;
		addr = at->flow == FLOW_JUMP ? at->target : at->addr + at->size;
	}
	return false;
}

/* One edge; @taken: along the jump, else falling on from the instruction. */
static int add_edge(struct search *s, size_t index, bool taken, size_t depth, uint64_t end)
{
	const struct body_insn *at = &s->body->insns[index];
	enum reached reached = classify(s, index);
	struct probe_site *site;
	struct insn insn;

	s->path[depth] = (struct segment){ taken ? at->target : at->addr + at->size, end };
	if (reached == REACHED_BOTH) {
		/* Reaching a conditional jump does not mean to go its way, unless the other one ends all. */
		uint64_t other = taken ? at->addr + at->size : at->target;

		if (depth == DEPTH_MAX || (at->flow == FLOW_COND && !is_fatal_way(s, other)))
			return give_up(s, "the edge at 0x%lx is too entangled", at->addr);
		return cover(s, index, depth + 1);
	}
	if (!at->emulated)
		return give_up(s, "the edge at 0x%lx is not emulated", at->addr);
	if (s->out->cnt == PLAN_SITES_MAX - 4)
		return give_up(s, "it has too many edges");
	if (code__insn(&s->p->code, at->addr, &insn))
		return give_up(s, "0x%lx cannot be decoded", at->addr);
	site = &s->out->sites[s->out->cnt++];
	*site = (struct probe_site){
		.vaddr = at->addr, .source = PROBE_TOP, .reg = PREG_NONE, .value_reg = PREG_NONE
	};
	site->kind = reached == REACHED_EARLY ? PROBE_EVAL_REFUSED : PROBE_EVAL_EXIT;
	if (at->flow == FLOW_COND)
		site->cond = taken ? at->cond : at->cond ^ 1;
	snprintf(site->name, sizeof(site->name), "%s",
		 reached == REACHED_EARLY ? "eval_refused" : "eval_exit");
	return reached == REACHED_EARLY ? 0 : find_value(s, depth, &insn, &site->value_reg);
}

/* All edges into the stretch that ends at instruction @index. */
static int cover(struct search *s, size_t index, size_t depth)
{
	uint64_t end = s->body->insns[index].addr;

	for (size_t i = index;; i--) {
		uint64_t addr = s->body->insns[i].addr;
		size_t cnt;
		const struct body_edge *edge = body__edges(s->body, addr, &cnt);
		bool last = !body__falls_into(s->body, i) || s->body->insns[i - 1].emulated;
		int err = 0;

		if (is_handler(s, addr) || addr == s->body->entry)
			return give_up(s, "its end is reached straight from 0x%lx", addr);
		for (size_t k = 0; k < cnt && !err; k++)
			err = add_edge(s, edge[k].from, true, depth, end);
		if (!err && last && body__falls_into(s->body, i))
			err = add_edge(s, i - 1, false, depth, end);
		if (err)
			return err;
		if (!last)
			continue;
		if (s->range_cnt == RANGE_MAX)
			return give_up(s, "it has too many stretches");
		s->ranges[s->range_cnt++] = (struct disasm_range){ addr, end + 1 };
		return 0;
	}
}

/* A jump out of the body in tail position. */
static int add_tail_call(struct search *s, const struct body_insn *at)
{
	struct probe_site *site = &s->out->sites[s->out->cnt];

	if (!s->check_result || code__resolve(&s->p->code, at->target) != s->check_result ||
	    !at->emulated)
		return give_up(s, "it goes on to 0x%lx from 0x%lx", at->target, at->addr);
	if (s->out->cnt++ == PLAN_SITES_MAX - 4)
		return give_up(s, "it has too many edges");
	*site = (struct probe_site){ .vaddr = at->addr,
				     .source = PROBE_TOP,
				     .reg = PREG_NONE,
				     .kind = PROBE_EVAL_EXIT,
				     .name = "eval_exit" };
	site->cond = at->flow == FLOW_COND ? at->cond : COND_ALWAYS;
	site->value_reg = machine_args[s->p->table.version->eval_frame_arg + 1];
	return 0;
}

/* Jumps from code that is not taken for a part of the function would be missed. */
static int check_outside(struct search *s)
{
	struct disasm_branch *branches;
	size_t cnt;
	int err = code__branches(&s->p->code, s->ranges, s->range_cnt, &branches, &cnt);

	if (err)
		return err;
	for (size_t i = 0; i < cnt && !err; i++)
		if (!branches[i].call && !body__contains(s->body, branches[i].addr))
			err = give_up(s, "its end is jumped to from 0x%lx, outside of it",
				      branches[i].addr);
	free(branches);
	return err;
}

static int find_all(struct search *s)
{
	int err = find_early(s);

	for (size_t i = 0; !err && i < s->body->insn_cnt; i++) {
		const struct body_insn *at = &s->body->insns[i];

		if (at->flow == FLOW_RETURN)
			err = cover(s, i, 0);
		else if ((at->flow == FLOW_JUMP || at->flow == FLOW_COND) && at->target &&
			 !body__contains(s->body, at->target))
			err = add_tail_call(s, at);
	}
	if (!err && !s->out->cnt)
		err = give_up(s, "it has no end");
	return err ? err : check_outside(s);
}

int eval_exits__find(struct planner *p, const struct body *b, struct eval_exits *out)
{
	auto_free struct search *s = calloc(1, sizeof(*s));
	struct elf_symbol symbol;
	int err;

	if (!s)
		return -ENOMEM;
	memset(out, 0, sizeof(*out));
	s->p = p;
	s->body = b;
	s->out = out;
	if (!elf_file__symbol(p->elf, "_Py_CheckFunctionResult", &symbol))
		s->check_result = symbol.vaddr;
	err = find_all(s);
	if (err == -ENOMEM)
		return err;
	if (err && !out->why[0])
		snprintf(out->why, sizeof(out->why), "%s", err_str(err));
	return 0;
}
