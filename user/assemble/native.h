/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native frames of samples. Their addresses come in a record of their own before the sample; here they
 * get names and are woven into the Python frames: where the interpreter loop runs natively, the Python
 * frames of that call of it go.
 */
#ifndef PYEBPF_ASSEMBLE_NATIVE_H
#define PYEBPF_ASSEMBLE_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/sample.h"
#include "profile/trace.h"

struct assembler;
struct asm_process;
struct asm_thread;

/* asm_native - a record; @t: NULL: not known. 0 or -ENOMEM. */
int asm_native(struct assembler *a, struct asm_thread *t, const struct pye_native_rec *rec,
	       uint32_t len);

/**
 * asm_native_weave - put the native frames of a sample among its Python frames
 * @frames:  outermost first, room for TRACE_SAMPLE_FRAMES; changed
 * @entries: of each: C called it
 * @cnt:     Python frames
 *
 * Nothing happens if none came for this sample.
 *
 * Return: how many frames there are then.
 */
uint32_t asm_native_weave(struct assembler *a, struct asm_thread *t,
			  const struct pye_sample_rec *rec, struct trace_frame *frames,
			  const bool *entries, uint32_t cnt);

/* asm_natives_free - forget what is known of a process's code. */
void asm_natives_free(struct asm_process *p);

#endif
