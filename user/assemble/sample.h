/* SPDX-License-Identifier: Apache-2.0 */
/* Samples on their way from the records to the capture file. */
#ifndef PYEBPF_ASSEMBLE_SAMPLE_H
#define PYEBPF_ASSEMBLE_SAMPLE_H

#include <stdint.h>

#include "abi/sample.h"

struct assembler;
struct trace_func;
struct asm_thread;
struct asm_code;
struct asm_process;

/* Numbers of functions that stand for what is not there; those below are enum pye_sample_status. */
enum asm_mark {
	MARK_UNREADABLE = PYE_SAMPLE_STATUS_CNT,
	MARK_CUT,
	MARK_NOT_TAKEN,
	MARK_TORN,
	MARK_NATIVE_BROKEN,
	MARK_NATIVE_FAULT,
	MARK_NATIVE_DEEP,
	MARK_CNT
};

/* The code objects of a process that were in samples, the functions that stand for what is not there, by
 * number, and the locks that were waited for. */
struct asm_codes {
	struct asm_code *by_address;
	struct asm_code *dead; /* freed, the latest of each address; for samples from before */
	uint32_t marks[MARK_CNT];
	struct lock_memo *locks; /* NULL: nothing is known of any yet */
};

/* asm_dispatch - take one record of a batch; 0, -ENOMEM or the error of the file. */
int asm_dispatch(struct assembler *a, const void *rec, uint32_t len);

/* asm_sample - take a sample of a thread; its length is checked. 0, -ENOMEM or the error of the file. */
int asm_sample(struct assembler *a, struct asm_thread *t, const struct pye_sample_rec *rec);

/* asm_sample_keep - a thread loses the CPU: its stack counts when it is known for how long. The same
 * results. */
int asm_sample_keep(struct assembler *a, struct asm_thread *t, const struct pye_sample_rec *rec);

/* asm_wait - it has it again. */
int asm_wait(struct assembler *a, struct asm_thread *t, const struct pye_wait_rec *rec);

/* asm_still_waiting - a thread that is off the CPU has been so until now; its stack is forgotten. */
int asm_still_waiting(struct assembler *a, struct asm_thread *t, uint64_t now_ns);

/* asm_waiting_so_far - a part of what asm_wait() or asm_still_waiting() will put: a thread is off the CPU. */
int asm_waiting_so_far(struct assembler *a, struct asm_thread *t, uint64_t now_ns);

/* asm_waiting_since - a thread is off the CPU since its start_ns, without a record. 0 or -ENOMEM. */
int asm_waiting_since(struct assembler *a, struct asm_thread *t, const struct pye_sample_rec *rec);

/* asm_define - a function of a sample: gets its id in @func. 0 or the error of the capture file. */
int asm_define(struct assembler *a, struct asm_process *p, struct trace_func *func);

/* asm_mark - id of the function that says what is not there. @which: enum asm_mark */
uint32_t asm_mark(struct assembler *a, struct asm_process *p, uint32_t which, const char *name);

/* asm_code_died - a code object is freed; @text: its strings by enum pye_str_which, NULL where one could
 * not be read; taken over and set to NULL where they are kept. */
void asm_code_died(struct assembler *a, struct asm_process *p, const struct pye_def_rec *rec,
		   char *text[PYE_STR_CNT]);

/* asm_forget_dead - at the beginning of a round: those that no sample shows any more. */
void asm_forget_dead(struct assembler *a);

/* asm_codes_free - forget what was read. */
void asm_codes_free(struct assembler *a, struct asm_codes *codes);

#endif
