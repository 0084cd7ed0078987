/* SPDX-License-Identifier: Apache-2.0 */
/* What a user asks for of all that comes: calls that are watched (watch.c), code and frames that are not kept
 * (filter.c), calls that are too short (fold.c). Within this folder. */
#ifndef PYEBPF_ASSEMBLE_CHOSEN_H
#define PYEBPF_ASSEMBLE_CHOSEN_H

#include "assemble/assemble_priv.h"

struct func_spec;

/* asm_func_meant, asm_code_meant - whether a user means this function, or with a pattern this code. */
bool asm_func_meant(const struct assembler *a, const struct func_spec *spec,
		    const struct trace_func *func);
bool asm_code_meant(const struct assembler *a, const char *glob, const struct trace_func *func);

/* asm_wants - a user asks by this; before the first process is told. */
void asm_wants(struct assembler *a, const char *text);

/* asm_watch_func - a code object has a name. asm_watch_enter - after, asm_watch_leave - before the
 * thread's depth changes, asm_watch_gap - before it is forgotten: call where watch or watch_top says. */
struct asm_watch;
void asm_watch_func(struct assembler *a, const struct trace_func *func);
void asm_watch_enter(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind,
		     uint32_t code);
void asm_watch_leave(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind);
void asm_watch_gap(struct assembler *a, struct asm_thread *t, enum trace_gap_reason reason);
void asm_watch_free(struct asm_watch *w);

/*
 * asm_filter_func   - a code object has names: is it hidden? Or -ENOMEM. @address: 0 = the source has none
 * asm_filter_retire - it is gone
 * asm_filter_hides  - is a frame of a code object not kept, above so many that are?
 * asm_filter_enter  - a frame is entered or found: is it not kept?
 * asm_filter_is_shown - is a frame on the stack of those that are kept?
 * asm_filter_leave  - a frame is left that is not the top: was it not kept?
 *
 * Call where there is a filter. Everywhere:
 * asm_filter_has_depth - are only the outermost frames kept?
 * asm_filter_idle      - is a thread of these names kept? As the programs decide it of others
 */
int asm_filter_func(struct assembler *a, const struct trace_func *func, uint64_t address);
void asm_filter_retire(struct assembler *a, uint32_t code);
bool asm_filter_hides(const struct assembler *a, uint32_t code, uint32_t depth);
bool asm_filter_enter(struct assembler *a, struct asm_thread *t, uint64_t frame,
		      enum trace_kind kind, uint32_t code);
bool asm_filter_has_depth(const struct assembler *a);
bool asm_filter_idle(const struct assembler *a, const struct assembler_idle *idle);
bool asm_filter_is_shown(const struct asm_thread *t, uint64_t frame);
bool asm_filter_leave(struct assembler *a, struct asm_thread *t, uint64_t frame);
void asm_filter_free(struct asm_filter *f);

/*
 * asm_fold_enter  - instead of asm_write_enter(), where there is fold_ns
 * asm_fold_leave  - the top is left: was it folded?
 * asm_fold_settle - at that time: what is old enough is written
 * asm_fold_flush  - all of it is
 */
int asm_fold_enter(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind,
		   uint32_t code);
bool asm_fold_leave(struct assembler *a, struct asm_thread *t, uint64_t ts, int *err);
int asm_fold_settle(struct assembler *a, struct asm_thread *t, uint64_t ts);
int asm_fold_flush(struct assembler *a, struct asm_thread *t);

#endif
