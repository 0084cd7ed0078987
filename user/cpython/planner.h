/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the makers of a probe plan share: one file's code, its dispatch table, and the plan as far as it
 * is made. A maker adds sites through planner__add(), which proves each.
 */
#ifndef PYEBPF_CPYTHON_PLANNER_H
#define PYEBPF_CPYTHON_PLANNER_H

#include <stdint.h>

#include "base/err.h"
#include "cpython/code.h"
#include "cpython/flow.h"
#include "cpython/optable.h"
#include "cpython/plan.h"

/* Of what is looked at from the start of a handler or function, in bytes. */
#define PLANNER_BLOCK_MAX     512

#define PLANNER_RETURN_COPIES 16

/* From 3.12 on, a copy of the function that clears frames, where a frame ends: the comparison with which it asks whose the frame is. */
struct frame_end {
	uint64_t at;
	uint64_t load; /* where its caller is read: from there on nothing else may come in */
	uint8_t frame_reg; /* the frame, there */
	uint8_t tstate_reg; /* what the caller was written to, there: from 3.13 on the thread state; PREG_NONE: not known */
	bool unwinding;
};

/* How frames end, from 3.12 on. */
struct endings {
	uint64_t function; /* the one that clears them; 0: there are only copies */
	uint64_t called; /* as calls of it say: may be an entry of the PLT */
	struct frame_end *ends; /* owned; none where the function is called wherever a frame ends */
	size_t end_cnt;
};

struct planner {
	const struct elf_file *elf;
	struct code code;
	struct optable table;
	struct flow_place home; /* where every handler finds the frame, set by plan_handlers() */
	/* set by plan_handlers(): a jump to an entry or yield handler, whatever the table holds; 0: there is none */
	uint64_t past_table;
	/* where copies of return handlers begin, set by plan_handlers() */
	uint64_t return_copies[PLANNER_RETURN_COPIES];
	size_t return_copy_cnt;
	struct endings endings; /* set by plan_clear(); plan_endings_done() */
	struct probe_plan *plan;
	struct err *e;
};

/**
 * planner__add - prove a site and add it to the plan
 * @draft: vaddr, kind, source, reg, disp, cond, value_reg and name are taken; the rest is filled in
 *
 * Proven: in executable code, an instruction start, one that takes a uprobe, its file offset maps back
 * to the same address and to no other, no other kind of site is there. The same site twice is one.
 *
 * Return: 0; -PYE_EPLAN.
 */
int planner__add(struct planner *p, const struct probe_site *draft);

/* planner__note - one more sentence for the user, once. */
void planner__note(struct planner *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/**
 * planner__function_site - a site at the start of a function
 * @arg:  which argument is the object
 * @same: mask of arguments that must still be in their registers
 *
 * The first instruction that is emulated while the object can be found; else the very first one,
 * single-stepped.
 *
 * Return: 0; -PYE_EPLAN.
 */
int planner__function_site(struct planner *p, uint64_t addr, unsigned int arg, unsigned int same,
			   struct probe_site *draft);

/* A direct call (or jump) of the function that clears frames, from 3.12 on. */
struct clear_call {
	uint64_t at;
	uint64_t target; /* as the instruction has it: may be an entry of the PLT */
	bool unwinding; /* for a frame that ends by an exception */
};

/**
 * plan_frame_ends - all of them, each as one of the unwinding
 * @out: owned by the caller (free)
 *
 * Return: 0; -PYE_EPLAN: more than can be; -EFAULT; -ENOMEM.
 */
int plan_frame_ends(const struct planner *p, struct frame_end **out, size_t *cnt);

/* plan_endings - each return handler does one or the other, else -PYE_EPLAN. @out: plan_endings_done() in any case */
int plan_endings(struct planner *p, struct endings *out);
void plan_endings_done(struct endings *e);

/* plan_clear_calls - all calls of the function; @out is owned by the caller (free). 0 or as code__branches(). */
int plan_clear_calls(struct planner *p, const struct endings *e, struct clear_call **out,
		     size_t *cnt);

#define PLAN_WALK_INSNS 600
#define PLAN_WALK_TURNS 640 /* with those of blocks that go on */

/* Instructions that direct jumps lead to. */
struct plan_walk {
	struct disasm_range turns[PLAN_WALK_TURNS]; /* walked; from @next on their starts only */
	size_t cnt, next;
	uint64_t at; /* in the block whose turn it is; 0: at its end */
	unsigned int turn_left, left; /* instructions */
	const struct endings *
		to_ends; /* each way ends at its first call, or copy of the end of a frame; NULL: it goes on */
};

struct plan_walk plan_walk_from(uint64_t addr);

/* plan_walk - the next one, breadth first, each once; false when there are no more, or too many. */
bool plan_walk(const struct planner *p, struct plan_walk *w, struct insn *insn);

/* plan_find_call - where the first direct call of a function is on such a walk; 0: there is none. */
uint64_t plan_find_call(const struct planner *p, uint64_t start, uint64_t wanted);

/* Where 3.11 ends frames by exceptions: the comparison, and the register that is the frame there. */
struct unwind_place {
	uint64_t compare;
	uint8_t frame_reg;
};

/* plan_unwind_place - 0 or -PYE_EPLAN */
int plan_unwind_place(struct planner *p, struct unwind_place *out);

/* plan_instr_store - from a handler's start to where its first basic block stores the instruction pointer: @f right before that */
bool plan_instr_store(const struct planner *p, uint64_t start, struct flow *f, struct insn *store);

/* The makers. 0 or -PYE_EPLAN, -ENOMEM. */
int plan_handlers(struct planner *p); /* >= 3.11: RESUME, YIELD, and the returns of 3.11 */
int plan_unwind(struct planner *p); /* 3.11: the exit by exception */
int plan_clear(struct planner *p); /* >= 3.12: the exits */
int plan_eval(struct planner *p); /* <= 3.10 */
int plan_usdt(struct planner *p); /* -ENOENT where the probes are not complete */
int plan_gen_close(struct planner *p); /* >= 3.14: generators dropped without running */
int plan_code_dealloc(struct planner *p); /* the death of code objects */

#endif
