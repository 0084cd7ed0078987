/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the inline engine records of single instructions (--opcodes), summed by line and opcode, and one by
 * one to whoever wants it. An instruction lasts until the next one of its thread begins; what the probes take of that
 * was measured (inline_engine.opcode_cost) and is left out. Memory grows with the distinct instructions of code
 * objects that live, and with the distinct lines.
 */
#ifndef PYEBPF_CAPTURE_INLINE_OPCODES_H
#define PYEBPF_CAPTURE_INLINE_OPCODES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strpool.h"
#include "capture/cap_inline.h"
#include "cpython/opcode_names.h"

struct inline_opcode_row {
	uint32_t file, qualname; /* in inline_opcodes_view.strings */
	uint32_t line; /* 0: it has none, or the table of lines was too long */
	uint8_t opcode;
	uint64_t cnt, timed; /* timed: of these, that ended in sight */
	double ns;
};

/* One that has ended, or whose end nobody will see. */
struct inline_opcode_event {
	uint64_t seq; /* over all threads, from 0 on, in the order in which they began */
	uint64_t ts_ns;
	uint32_t tid, pid, depth, line;
	uint64_t offset; /* of the instruction, in bytes */
	const char *file, *qualname;
	uint8_t opcode;
	bool timed;
	double ns;
};

/* Borrowed until something more is taken. */
struct inline_opcodes_view {
	const struct strpool *strings;
	const struct inline_opcode_row *rows;
	uint32_t row_cnt;
	uint64_t cnt, untimed, lost; /* lost: events of all kinds */
	double cost_ns; /* of the probes, left out of each time unless it is kept */
};

/* Called for each, in the order of their ends; NULL: not wanted. 0, or an error that ends the run. */
typedef int (*inline_opcode_fn)(void *ctx, const struct inline_opcode_event *event);

struct inline_opcodes;

/* inline_opcodes__new - @layout: copied; @names: of its version, borrowed. 0 or -ENOMEM */
int inline_opcodes__new(struct inline_opcodes **out, const struct pye_pylayout *layout,
			const struct opcode_name *names, inline_opcode_fn each, void *ctx);
void inline_opcodes__free(struct inline_opcodes *o); /* NULL is fine */

/* inline_opcodes__keep_cost - what the probes take stays in the times */
void inline_opcodes__keep_cost(struct inline_opcodes *o);

/* inline_opcodes__measured - the first one that was attached knows what the probes take; before anything is read. */
void inline_opcodes__measured(struct inline_opcodes *o, const struct inline_engine *e);

/* inline_opcodes__taker - for cap_inline__take(), of all processes of a run, which are of one version; borrowed */
const struct cap_inline_taker *inline_opcodes__taker(struct inline_opcodes *o);

/* inline_opcodes__sums - by now, what has not ended untimed. 0 or an error. */
int inline_opcodes__sums(struct inline_opcodes *o, struct inline_opcodes_view *view);

/* inline_opcodes__finish - nothing more ends: what still runs is told as untimed. 0 or an error. */
int inline_opcodes__finish(struct inline_opcodes *o);

#endif
