/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the inline engine changes in an interpreter that runs: words of its dispatch table, direct calls of
 * the function that clears frames, some instructions, the deallocator of code objects. Made from the ELF file alone, like the
 * probe plan (cpython/plan.h), whose checks all have to hold as well.
 */
#ifndef PYEBPF_CPYTHON_INLINE_PLAN_H
#define PYEBPF_CPYTHON_INLINE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct elf_file;
struct flow_place;
struct planner;

enum inline_kind {
	INLINE_ENTRY, /* a RESUME handler */
	INLINE_YIELD, /* a yield handler */
	INLINE_RETURN, /* a frame ends: a return handler (3.11), a call that clears it */
	INLINE_UNWIND, /* the same, by an exception */
	INLINE_CAUGHT, /* an exception handler begins */
	INLINE_CLOSE, /* >= 3.14: a suspended generator's frame is cleared without running it */
	INLINE_DEALLOC, /* a code object is freed */
	INLINE_EVAL_ENTRY, /* <= 3.10: the thread state gets a frame that begins */
	INLINE_EVAL_EXIT, /* <= 3.10: it gets the caller of the frame that ends */
	INLINE_THROW, /* >= 3.11: the interpreter loop is entered, with an exception if the third argument says so */
	INLINE_CLOSED, /* >= 3.14: the call of INLINE_CLOSE has come back */
	INLINE_OPCODE, /* >= 3.11: a handler of an opcode that is asked for */
	INLINE_OPCODE_END, /* of another one */
};

/* A word of a table (of opcodes, or of PyCode_Type) that holds the address of code. */
struct inline_word {
	uint64_t at; /* vaddr */
	uint64_t target; /* vaddr it holds */
	uint8_t kind;
};

/* A direct call: five bytes, of which the last four are replaced. */
struct inline_call {
	uint64_t at;
	uint64_t target;
	uint8_t kind;
};

/* Longest stretch of whole instructions of which the first five bytes become a jump. */
#define INLINE_DETOUR_BYTES 32

/* Instructions that give way to a jump to a stub, which runs them when it has done its work. */
struct inline_detour {
	uint64_t at; /* of the first one */
	uint64_t quiet; /* no thread may stand between the two while it is put in; nothing is called there */
	uint8_t code[INLINE_DETOUR_BYTES];
	uint8_t size; /* of all of them */
	uint8_t jump; /* the last ones of these bytes are a conditional jump, else 0 */
	uint8_t cond; /* enum probe_cond */
	uint8_t kind;
	uint8_t sets_flags; /* 1: the first one does, all of them, whatever they were */
	uint8_t frame_reg; /* the frame: register + disp */
	int32_t frame_disp;
	uint64_t target; /* of the jump */
};

#define INLINE_WORDS_MAX   20
#define INLINE_CALLS_MAX   24
#define INLINE_DETOURS_MAX 32

struct inline_plan {
	uint8_t minor;
	bool free_threaded;
	/* where every handler finds the frame: a register, or the word at register + disp */
	bool frame_in_slot;
	uint8_t frame_reg; /* enum probe_reg */
	int32_t frame_disp;
	/* where a RESUME handler finds its own instruction: register + disp, or the word at register + slot, + disp */
	bool instr_in_slot;
	uint8_t instr_reg;
	int32_t instr_slot, instr_disp;
	struct inline_word words[INLINE_WORDS_MAX];
	uint32_t word_cnt;
	struct inline_call calls[INLINE_CALLS_MAX];
	uint32_t call_cnt;
	struct inline_detour detours[INLINE_DETOURS_MAX];
	uint32_t detour_cnt;
	/* where a thread keeps the address of its state, counted from its fs register, >= 3.12; 0: not known (a shared library) */
	int32_t tstate_tls;
	/* where a PyInterpreterState has what runs its frames (PEP 523), 3.9 on; 0: not known */
	uint32_t eval_frame;
	uint64_t loop,
		loop_bytes; /* the function that runs frames, without what the compiler has put elsewhere */
	/* the whole dispatch table, >= 3.11 */
	uint64_t table; /* vaddr; 0: instructions are dispatched past it, too */
	uint64_t handlers[256]; /* vaddr; 0: no handler */
};

/**
 * plan_make_inline - the plan of an interpreter file
 * @elf: borrowed
 * @out: written only on success
 *
 * Return: as plan_make() (cpython/plan.h); -PYE_EPLAN too for versions whose calls this engine cannot see.
 */
int plan_make_inline(const struct elf_file *elf, struct inline_plan *out, struct err *e);

/**
 * inline_plan_load - the same for a file, in a sandboxed process, whose answer is vetted
 * @path: to open it by; also for messages
 */
int inline_plan_load(const char *path, struct inline_plan *out, struct err *e);

struct interp_cache;

/* inline_plan_load_cached - the same, once for each file; @cache: of cpython/interp.h; NULL: none */
int inline_plan_load_cached(struct interp_cache *cache, const char *path, struct inline_plan *out,
			    struct err *e);

/**
 * plan_detour - add one to a plan
 * @at:    start of an instruction
 * @quiet: as in struct inline_detour, or 0: as far as it reaches
 * @frame: a register
 *
 * Proven: it is made of whole instructions that can run elsewhere, nothing jumps into their middle, it is
 * written in one piece.
 *
 * Return: 0; -PYE_EPLAN.
 */
int plan_detour(struct planner *p, struct inline_plan *out, uint64_t at, uint64_t quiet,
		enum inline_kind kind, const struct flow_place *frame);

/* plan_detour_draft - the same, but for what jumps into its middle: plan_detours_check() has to follow. */
int plan_detour_draft(struct planner *p, struct inline_plan *out, uint64_t at, uint64_t quiet,
		      enum inline_kind kind, const struct flow_place *frame);

/* plan_detours_check - nothing jumps into those from number @first on: one look at all of the code, which is dear. 0; -PYE_EPLAN;
 * or as code__branches(). */
int plan_detours_check(struct planner *p, const struct inline_plan *out, uint32_t first);

/* plan_inline_eval - the detours of the interpreter loop's function up to 3.10. 0 or -PYE_EPLAN, -ENOMEM. */
int plan_inline_eval(struct planner *p, struct inline_plan *out);

/* plan_inline - its second half, when @p has made the probe plan. 0 or -PYE_EPLAN, -ENOMEM. */
int plan_inline(struct planner *p, struct inline_plan *out);

#endif
