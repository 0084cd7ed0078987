/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder: threads and processes as the assembler keeps them. */
#ifndef PYEBPF_ASSEMBLE_ASSEMBLE_PRIV_H
#define PYEBPF_ASSEMBLE_ASSEMBLE_PRIV_H

#include <uthash.h>

#include "abi/event.h"
#include "assemble/assemble.h"
#include "assemble/names.h"
#include "proc/mem.h"

struct asm_process {
	uint32_t pix;
	uint32_t pid;
	pid_t proc_pid;
	bool known; /* false: seen in a record before anybody defined it */
	bool late; /* ran untraced at first */
	bool frames_refused; /* an entry can be taken back by the next record (to 3.10) */
	struct pye_pylayout layout;
	struct proc_mem mem;
	bool mem_open;
	uint32_t *codes; /* its code objects, those that were retired included */
	uint32_t code_cnt, code_size;
	struct trace_process trace; /* strings owned */
	UT_hash_handle hh;
};

struct asm_walk {
	bool pending;
	uint32_t flags, reason;
	uint64_t anchor;
	uint32_t cnt, size;
	struct pye_walk_frame *frames; /* from the top down */
};

struct asm_thread {
	uint32_t tix; /* number in the records */
	uint32_t id; /* number in the capture: the same, but for a thread that was idle at first */
	uint32_t next_seq; /* of the event expected */
	uint32_t numbered; /* part of it that is in the assembler's sum already */
	struct asm_process *process;
	bool fresh; /* no event yet */
	bool idle; /* shown from outside, no record yet */
	bool held; /* entry below waits whether it is taken back */
	struct pye_entry_rec entry;
	uint64_t last_ns;
	struct asm_walk walk;
	uint64_t *stack; /* addresses of the open frames */
	uint32_t depth, size;
	struct trace_thread trace;
	char name[PYE_COMM + 1];
	UT_hash_handle hh;
};

#define ASM_RETIRED_MAX 65536

struct asm_retired {
	uint32_t code;
	uint32_t batch; /* number of the batch in which it was retired */
};

struct assembler {
	struct capw *w;
	struct asm_process *processes;
	struct asm_thread *threads;
	uint32_t idle_cnt; /* of them with `idle` */
	struct asm_thread *last; /* of the record before */
	struct asm_names names;
	uint64_t holes; /* events missing by their numbers */
	uint64_t numbered; /* events that had a number, of threads whose final one is known */
	uint64_t inferred; /* throws: events without a number, told from a walk */
	uint64_t refused; /* entries taken back, with their exits */
	uint64_t unusable; /* events that came but could not be kept */
	struct asm_retired retired[ASM_RETIRED_MAX]; /* a queue */
	uint32_t retired_at, retired_cnt, batches;
	struct assembler_oddities odd;
};

/* asm_process_get - a process by its number, made if it is new; NULL: no memory.
 * @pid: 0 = not known yet */
struct asm_process *asm_process_get(struct assembler *a, uint32_t pix, uint32_t pid);
void asm_processes_free(struct assembler *a);

/* asm_process_code - note a code object of a process, to retire it with that. 0 or -ENOMEM. */
int asm_process_code(struct asm_process *p, uint32_t code);

/* asm_retire - a code object is gone; its name is kept until no ring can hold an event that uses it. */
void asm_retire(struct assembler *a, uint32_t code);

#endif
