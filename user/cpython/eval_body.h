/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All instructions of the interpreter loop's function, including the parts that the compiler moved to
 * other places, for the search of its exits.
 */
#ifndef PYEBPF_CPYTHON_EVAL_BODY_H
#define PYEBPF_CPYTHON_EVAL_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/planner.h"

#define EVAL_PART_MAX 8

struct body_insn {
	uint64_t addr, target;
	/* as in struct insn, but for a call that does not return: FLOW_STOP */
	uint8_t size, flow, cond;
	bool emulated, nop;
	uint8_t op, dst, src, mem_size;
	uint16_t writes;
	int32_t disp;
};

/* A direct jump inside the body, by what it jumps to. */
struct body_edge {
	uint64_t target;
	size_t from; /* index of the jump */
};

struct body {
	uint64_t entry;
	struct disasm_range parts[EVAL_PART_MAX];
	size_t part_cnt;
	struct body_insn *insns; /* rising addresses */
	size_t insn_cnt;
	uint32_t insn_cap;
	struct body_edge *edges; /* rising targets */
	size_t edge_cnt;
	const struct code *code; /* borrowed */
	uint64_t fatal[8]; /* functions that do not return */
	size_t fatal_cnt;
};

/* body__init - decode the function at @entry. 0; -PYE_EPLAN; -ENOMEM. */
int body__init(struct body *b, struct planner *p, uint64_t entry);
void body__done(struct body *b);

bool body__contains(const struct body *b, uint64_t addr);

/* body__index - of the instruction that starts at an address; -ENOENT. */
int body__index(const struct body *b, uint64_t addr, size_t *out);

/* body__next - of the one behind another; -ENOENT. */
int body__next(const struct body *b, size_t index, size_t *out);

/* body__edges - first of the jumps to an address, and their number. */
const struct body_edge *body__edges(const struct body *b, uint64_t target, size_t *cnt);

/* body__falls_into - does control come from the instruction before? Its index is one less then. Padding
 * behind a jump, into which nothing jumps, does not count. */
bool body__falls_into(const struct body *b, size_t index);

#endif
