/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe plans: where in an interpreter's file probes have to sit so that every call and return of
 * Python code is seen, and how the BPF program finds the frame there. A plan is made from the ELF
 * file alone, without symbols, and every site in it is proven: it is the start of an instruction, it
 * is reached exactly once per event, the frame can be found there. What cannot be proven is refused
 * with the reason. Sources: the measured recipe of CPython 3.6 to 3.15 (docs/probes.md).
 */
#ifndef PYEBPF_CPYTHON_PLAN_H
#define PYEBPF_CPYTHON_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What a hit of a site means. Shared with the BPF programs through the cookie: append only. */
enum probe_kind {
	PROBE_RESUME = 1, /* >= 3.11: a RESUME handler: call or resume */
	PROBE_CLEAR = 2, /* >= 3.12: _PyEval_FrameClearAndPop: return or unwind */
	PROBE_RETURN = 3, /* 3.11: a return handler; >= 3.12: a copy of that function, in one */
	PROBE_UNWIND = 4, /* 3.11: exit_unwind; >= 3.12: a copy of that function, there */
	PROBE_YIELD = 5, /* >= 3.11: a yield handler */
	PROBE_EVAL_ENTRY = 6, /* <= 3.10: _PyEval_EvalFrameDefault is entered */
	PROBE_EVAL_EXIT = 7, /* <= 3.10: an edge to its epilogue, the frame ran */
	PROBE_EVAL_REFUSED = 8, /* <= 3.10: an edge to its epilogue, the frame never ran (recursion
				 * limit): takes the entry back */
	PROBE_CODE_DEALLOC = 9, /* PyCode_Type.tp_dealloc: a code object dies */
	PROBE_USDT_ENTRY = 10, /* python:function__entry */
	PROBE_USDT_RETURN = 11, /* python:function__return */
	PROBE_UNWINDING = 13, /* >= 3.12: a call of it for a frame that ends by an exception */
	PROBE_GEN_CLOSE =
		12, /* >= 3.14: a suspended generator's frame is cleared without running it */
	PROBE_GEN_CLOSED = 14, /* that has ended; what the frame held has ended meanwhile */
};

/* Where the object (frame; code object at PROBE_CODE_DEALLOC) is when the site is hit. */
enum probe_source {
	PROBE_IN_REG = 0, /* reg + disp */
	PROBE_IN_SLOT = 1, /* the word at reg + disp (reg: rsp or rbp) */
	PROBE_TOP = 2, /* the frame on top of the thread's stack as tracked by the program */
	PROBE_THREAD_STATE = 3, /* current frame of the thread state that holds the GIL */
};

/* Registers by their DWARF-free order in the BPF side's table; x86-64. */
enum probe_reg {
	PREG_RAX,
	PREG_RBX,
	PREG_RCX,
	PREG_RDX,
	PREG_RSI,
	PREG_RDI,
	PREG_RBP,
	PREG_RSP,
	PREG_R8,
	PREG_R9,
	PREG_R10,
	PREG_R11,
	PREG_R12,
	PREG_R13,
	PREG_R14,
	PREG_R15,
	PREG_NONE = 31,
};

/* A conditional jump counts only when it goes the way that leads to the event. */
enum probe_cond {
	COND_ALWAYS = 0,
	COND_X86 = 0x10, /* | the low 4 bits of the jcc opcode (0 = jo ... 15 = jg): holds */
};

struct probe_site {
	uint64_t vaddr; /* in the ELF file's address space */
	uint64_t offset; /* in the file: what a uprobe takes */
	uint64_t semaphore; /* file offset of the USDT semaphore, 0 = none */
	enum probe_kind kind;
	enum probe_source source;
	uint8_t reg; /* enum probe_reg */
	int32_t disp;
	uint8_t cond; /* enum probe_cond */
	uint8_t value_reg; /* PROBE_EVAL_EXIT: register with the value returned (0 = unwind), or
				 * PREG_NONE: NULL is returned. PROBE_EVAL_ENTRY: with throwflag. PROBE_CLEAR, and PROBE_RETURN and PROBE_UNWIND
				 * of copies: with the thread state, where PROBE_GEN_CLOSE needs it */
	bool single_step; /* the kernel cannot emulate the instruction: dear, and said */
	char name[40]; /* "RESUME_CHECK", "_PyEval_FrameClearAndPop" */
	char insn[64]; /* "je 0x1234" */
};

#define PLAN_SITES_MAX 96

struct probe_plan {
	char engine[8]; /* "uprobe", "usdt"; "sample": no probes for calls, `sites` only say where the loop is */
	uint8_t minor; /* CPython 3.<minor> */
	bool free_threaded;
	bool debug; /* Py_DEBUG */
	bool tail_call; /* handlers are functions */
	uint64_t table; /* vaddr of the dispatch table, 0 when none was needed */
	uint64_t runtime; /* vaddr of _PyRuntime, 0 if not found (3.6 has none) */
	uint64_t tstate_current; /* vaddr of the pointer to the thread state that holds the GIL
				  * (<= 3.11), 0 from 3.12 on */
	uint32_t version_hex; /* PY_VERSION_HEX if the file says it, else 0 */
	uint32_t site_cnt;
	struct probe_site sites[PLAN_SITES_MAX];
	char notes[512]; /* what a user should know, sentences; "" if nothing */
};

struct elf_file;

/**
 * plan_make - make the probe plan of an interpreter file
 * @elf:    opened by elf_file__open (elf/elf_file.h), borrowed
 * @engine: "uprobe", "usdt", "auto" (usdt where complete and not dearer, else uprobe), or "sample": as "auto", but a file
 *	    whose calls cannot be traced has a plan, too, with the reason in its notes
 * @out:    written only on success
 * @e:      on failure: what was found and what was tried
 *
 * Return: 0; -PYE_ENOTPYTHON if the file holds no interpreter loop; -PYE_EVERSION for a version
 * that is not known; -PYE_EPLAN if a check failed; -ENOMEM.
 */
int plan_make(const struct elf_file *elf, const char *engine, struct probe_plan *out,
	      struct err *e);

/* plan_is_interpreter - quick look: does the file hold an interpreter loop (by content)? */
bool plan_is_interpreter(const struct elf_file *elf);

#endif
