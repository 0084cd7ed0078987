/* SPDX-License-Identifier: Apache-2.0 */
/* The slow path (slow.c) as code to be copied. */
#ifndef PYEBPF_INLINE_SLOW_H
#define PYEBPF_INLINE_SLOW_H

#include "cpython/inline_plan.h"
#include "inline/region.h"

#define INLINE_FIRST (1u << 16)

/* pye_inline_slow - what a stub does when there is more to do than one record
 * @object: frame or code object
 * @arg:    INLINE_ENTRY: argument of the RESUME; INLINE_OPCODE: address of the instruction
 * @kind:   enum inline_kind; INLINE_OPCODE: | opcode << 8, and | INLINE_FIRST where a frame can begin with it
 *
 * Never called in pyebpf but by its tests.
 */
void pye_inline_slow(struct il_private *p, uint64_t object, uint64_t arg, uint32_t kind);

/* pye_inline_eval - the same of INLINE_EVAL_ENTRY and INLINE_EVAL_EXIT: most of them need less. */
void pye_inline_eval(struct il_private *p, uint64_t frame, uint64_t arg, uint32_t kind);

/* pye_inline_count - the same with --count, where nothing but definitions is written to the ring. */
void pye_inline_count(struct il_private *p, uint64_t object, uint64_t arg, uint32_t kind);

/* Its bytes, made by the linker, which has these names; position-independent. */
/* NOLINTNEXTLINE(bugprone-reserved-identifier) */
extern const uint8_t __start_pye_inline[], __stop_pye_inline[];

#endif
