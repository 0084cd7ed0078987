/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions of the target's file, reduced to what probe plans need: where control goes, whether the
 * kernel emulates a uprobe on it, and which register or memory word it moves where. All knowledge of
 * the machine (x86-64 so far) is in disasm.c, which alone sees the disassembler, and in disasm_scan.c, which searches bytes;
 * what is above works on the reduced form and on the constants of this header.
 */
#ifndef PYEBPF_CPYTHON_DISASM_H
#define PYEBPF_CPYTHON_DISASM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cpython/plan.h"

struct elf_file;
struct disasm;

#define MACHINE_REG_CNT	 16
#define MACHINE_INSN_MAX 15

enum insn_flow {
	FLOW_NEXT, /* goes on to the next instruction */
	FLOW_CALL, /* a call; comes back */
	FLOW_COND, /* conditional jump to .target */
	FLOW_JUMP, /* jump, direct (.target) or not (.target 0) */
	FLOW_RETURN,
	FLOW_STOP, /* trap: never goes on */
};

/* What it does to values, when it is one of these; else INSN_OTHER and .writes says what is lost. */
enum insn_op {
	INSN_OTHER,
	INSN_COPY, /* dst = src + disp */
	INSN_ZERO, /* dst = 0 */
	INSN_LOAD, /* dst = word at [src + disp] */
	INSN_STORE, /* word at [dst + disp] = src (PREG_NONE: something else, mem_size bytes) */
	INSN_PUSH, /* src (may be PREG_NONE) */
	INSN_POP, /* dst */
	INSN_TEST_BYTE, /* reads the byte at [src + disp]: a comparison or a widening load */
};

struct insn {
	uint64_t addr;
	uint64_t target; /* of a direct jump or call, else 0 */
	uint64_t pointer; /* pc-relative memory operand: its address, else 0 */
	int64_t disp;
	uint32_t writes; /* registers written, bit per enum probe_reg */
	uint8_t bytes[MACHINE_INSN_MAX];
	uint8_t size;
	uint8_t flow; /* enum insn_flow */
	uint8_t op; /* enum insn_op */
	uint8_t dst, src; /* enum probe_reg */
	uint8_t mem_size; /* bytes stored */
	uint8_t cond; /* FLOW_COND: enum probe_cond */
	bool emulated; /* a uprobe on it is not single-stepped */
	bool refused; /* the kernel takes no uprobe on it */
	bool nop; /* padding, of any length */
	bool zero; /* INSN_STORE: of the constant 0 */
	bool compares; /* it sets the flags, whatever they were, and does nothing else */
	char text[64];
};

struct disasm_range {
	uint64_t start, end; /* [start, end) */
};

struct disasm_branch {
	uint64_t addr, target;
	bool call, cond;
};

/* The argument registers of the C calling convention, in order. */
extern const uint8_t machine_args[6];
/* Where a function's result is. */
#define MACHINE_RESULT PREG_RAX

/**
 * disasm__new - for one file
 * @elf: borrowed while the disassembler lives
 *
 * Return: 0; -PYE_EVERSION for another machine than x86-64; -ENOMEM.
 */
int disasm__new(const struct elf_file *elf, struct disasm **out, struct err *e);
void disasm__free(struct disasm *d);
const struct elf_file *disasm__elf(const struct disasm *d);

/* disasm__at - the instruction at an address; -EFAULT outside the code, -EILSEQ if it is none. */
int disasm__at(struct disasm *d, uint64_t addr, struct insn *out);

/**
 * disasm__byte_tests - what may be an instruction that compares the byte at [register + @disp] with 0
 * @out: addresses, rising, behind the instruction's prefix if it has one; some are no instructions
 *
 * Return: 0; -EFAULT if the code cannot be read; -E2BIG: there are more than @max; -ENOMEM.
 */
int disasm__byte_tests(const struct disasm *d, uint8_t disp, uint64_t *out, size_t max,
		       size_t *cnt);

/**
 * disasm__address_uses - where the code may have one of some addresses, as a constant (of a file that has its place) or as a lea's
 * operand
 *
 * Otherwise as disasm__byte_tests(). What is found lies in an instruction, for insn__has_address().
 */
int disasm__address_uses(const struct disasm *d, const uint64_t *wanted, size_t wanted_cnt,
			 uint64_t *out, size_t max, size_t *cnt);

/* insn__has_address - is what was found at @at the address, and not the distance of a jump or so that looks like it? */
bool insn__has_address(const struct insn *insn, uint64_t at);

/* insn__compares_word - does it compare a word of a table, indexed, with a constant? */
bool insn__compares_word(const struct insn *insn, uint64_t table, uint64_t *with);

/* insn__adds - does it add one register to another? */
bool insn__adds(const struct insn *insn, uint8_t *to, uint8_t *from);

/* insn__names_address - the register that it gives the address .pointer, or PREG_NONE */
uint8_t insn__names_address(const struct insn *insn);

/* insn__jumps_through - the register that has where it jumps to, or PREG_NONE */
uint8_t insn__jumps_through(const struct insn *insn);

/**
 * disasm__branches - every direct jump and call into some address ranges
 * @ranges: at most 64
 * @out:    owned by the caller (free), rising addresses
 *
 * Looks at every byte of the executable ranges, not at a disassembly, so that none is missed; a few
 * of the results may be bytes in the middle of other instructions.
 *
 * Return: 0; -EFAULT if the code cannot be read; -E2BIG; -ENOMEM.
 */
int disasm__branches(const struct disasm *d, const struct disasm_range *ranges, size_t cnt,
		     struct disasm_branch **out, size_t *out_cnt);

#endif
