/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of one file: its instructions, and the addresses that are known to be instruction starts
 * (functions by the unwind table, handlers by the dispatch table, symbols), from which everything else
 * is decoded. That an address is an instruction start is proven by decoding up to it from the nearest
 * known start below.
 */
#ifndef PYEBPF_CPYTHON_CODE_H
#define PYEBPF_CPYTHON_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cpython/disasm.h"

struct code {
	const struct elf_file *elf; /* borrowed */
	struct disasm *disasm;
	uint64_t *starts; /* rising, no doubles */
	size_t start_cnt;
	uint64_t *functions; /* the part of them that begins functions, by the unwind table */
	size_t function_cnt;
};

/* code__init - 0; -PYE_EVERSION for another machine; -ENOMEM. @c can be given to code__done() then. */
int code__init(struct code *c, const struct elf_file *elf, struct err *e);
void code__done(struct code *c);

/* code__add_starts - more addresses known to be instruction starts. 0 or -ENOMEM. */
int code__add_starts(struct code *c, const uint64_t *addrs, size_t cnt);

/* code__insn - as disasm__at. */
int code__insn(const struct code *c, uint64_t addr, struct insn *out);

/**
 * code__function - the function (or moved-away part of one) around an address, by the unwind table
 * @end: where the next one begins, or the code ends
 *
 * Return: 0; -ENOENT if there is no table or none.
 */
int code__function(const struct code *c, uint64_t addr, uint64_t *start, uint64_t *end);

/* code__resolve - where a direct call really goes: through an entry of the PLT to a function of this
 * file, else @target itself. */
uint64_t code__resolve(const struct code *c, uint64_t target);

/* code__imported - of a call: the function of another file that it goes to, through an entry of the PLT or not; "": it does not. */
const char *code__imported(const struct code *c, const struct insn *call);

/* code__start_below - nearest known start at or below an address, 0 if there is none. */
uint64_t code__start_below(const struct code *c, uint64_t addr);

/**
 * code__before - the instruction that ends where another one begins
 * @addr: a known or proven start
 * @out:  the last instruction before it that is no padding; size 0 if @addr is the first one
 *
 * Return: 0; -ENOENT if the code below cannot be decoded up to @addr.
 */
int code__before(const struct code *c, uint64_t addr, struct insn *out);

/* code__around - the instruction that an address lies in. 0; -ENOENT if the code below cannot be decoded up to there. */
int code__around(const struct code *c, uint64_t addr, struct insn *out);

/* code__is_start - proves that an address is an instruction start. */
bool code__is_start(const struct code *c, uint64_t addr);

/**
 * code__branches - direct jumps and calls into some address ranges, each proven an instruction
 * @ranges: at most 64
 * @out:    owned by the caller (free), rising addresses
 *
 * What lies in code that cannot be decoded is kept, with .cond as its bytes say.
 *
 * Return: as disasm__branches.
 */
int code__branches(const struct code *c, const struct disasm_range *ranges, size_t cnt,
		   struct disasm_branch **out, size_t *out_cnt);

#endif
