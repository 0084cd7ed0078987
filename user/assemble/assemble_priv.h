/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder: threads and processes as the assembler keeps them. */
#ifndef PYEBPF_ASSEMBLE_ASSEMBLE_PRIV_H
#define PYEBPF_ASSEMBLE_ASSEMBLE_PRIV_H

#include <uthash.h>

#include "abi/event.h"
#include "assemble/assemble.h"
#include "assemble/filter.h"
#include "assemble/names.h"
#include "assemble/sample.h"
#include "proc/mem.h"

struct asm_filter;
struct asm_native_stack;
struct asm_natives;
struct asm_watch;

struct asm_process {
	uint32_t pix;
	uint32_t pid;
	pid_t proc_pid;
	bool known; /* false: seen in a record before anybody defined it */
	bool late; /* ran untraced at first */
	bool deaths_told;
	uint32_t forked_from; /* pix of who made it, with what that one had; 0: none, or not known */
	uint64_t forked_ns,
		forked_suspected; /* when, and assembler__suspect() was called so often */
	bool frames_refused; /* an entry can be taken back by the next record (to 3.10) */
	struct pye_pylayout layout;
	struct proc_mem mem;
	bool mem_open;
	enum {
		ASM_RUNS,
		ASM_ENDED,
		ASM_ENDING
	} state; /* ENDING: the round below is known */
	uint32_t ended_round;
	bool end_told; /* to the writer */
	uint32_t thread_cnt;
	uint32_t unnamed; /* of them: what the program calls them is to be asked for */
	uint64_t off_ns; /* not recorded since then; 0: it is */
	uint32_t *codes; /* its code objects, some of those that are gone included */
	uint32_t *gone; /* those of them */
	uint32_t code_cnt, gone_cnt, code_size;
	struct asm_codes codes_sampled;
	uint64_t rss_bytes, rss_ns; /* as they were last put into the file */
	struct assembler_loop loop;
	struct asm_natives *natives; /* NULL: no native frame was seen */
	char *program; /* a script as it was given, or a module; NULL: not known, or not wanted */
	bool runs_module;
	struct trace_process trace; /* strings owned */
	UT_hash_handle hh;
};

struct asm_walk {
	bool pending;
	uint32_t seq; /* of the event that it comes before */
	uint32_t flags, reason;
	uint64_t anchor;
	uint32_t cnt, size;
	struct pye_walk_frame *frames; /* from the top down */
};

/* A frame that is not kept, and whose exit will come. */
struct asm_hidden_frame {
	uint64_t frame;
	uint32_t depth, pad; /* of the thread, where it lies above */
};

struct asm_hidden {
	struct asm_hidden_frame *v;
	uint32_t cnt, size;
};

/* A frame that is not written yet, because it may be left too soon. */
struct asm_waiting {
	uint64_t ts, inner_ns; /* inner_ns: of those above it that were folded */
	uint32_t code;
	uint8_t kind, pad[3];
};

/* Those of a thread: the top of its stack. */
struct asm_fold {
	struct asm_waiting *v;
	uint32_t first, cnt, size;
};

struct asm_thread {
	uint32_t tix; /* number in the records */
	uint32_t id; /* number in the capture: the same, but for a thread that was idle at first */
	uint64_t next_seq; /* of the event expected; records hold its lower half */
	struct asm_process *process;
	bool fresh; /* no event yet */
	bool idle; /* shown from outside, no record yet */
	bool shown_off; /* its last gap is one of its process: the walk after it needs none */
	bool held; /* entry below waits whether it is taken back */
	struct pye_entry_rec entry;
	uint64_t last_ns;
	struct asm_walk walk;
	struct asm_native_stack *native; /* of the sample that comes next; NULL: none */
	struct asm_off *off; /* its stack when it lost the CPU; NULL: it has it, or none was taken */
	uint64_t *stack; /* addresses of the open frames */
	uint32_t depth, size;
	struct asm_hidden hidden;
	struct asm_fold fold;
	uint32_t watch_top; /* depth of the innermost frame that is watched; 0: none */
	struct trace_thread trace;
	char name[PYE_COMM + 1]; /* of the operating system */
	char *given; /* by the program; NULL: not known */
	uint8_t asked; /* so often for it */
	UT_hash_handle hh;
};

/* A function with a number that the kernel never gives. It stands for code objects whose definition did
 * not arrive or found no room, and for frames below a place that could not be read. */
#define ASM_UNREADABLE	0

#define ASM_RETIRED_MAX 65536

struct asm_retired {
	uint32_t code, pix;
	uint32_t round; /* in which it was retired */
};

struct assembler {
	bool wants_main; /* somebody is asked for by __main__ */
	struct capw *w;
	struct asm_process *processes;
	struct asm_thread *threads;
	uint64_t threads_seen; /* in all */
	uint32_t idle_cnt; /* of them with `idle` */
	struct asm_thread *last; /* of the record before */
	struct asm_names names;
	struct asm_watch *watch; /* NULL: nothing is watched */
	struct asm_filter *filter; /* NULL: everything is kept */
	uint64_t fold_ns; /* of the filter: calls that take less are folded into their callers */
	struct assembler_folded folded;
	bool sampling;
	uint64_t suspected; /* so often: see assembler__suspect() */
	bool (*deaths)(void *ctx, struct capture_batch *batch); /* may be NULL */
	void *deaths_ctx;
	struct symbols *symbols; /* NULL: native frames are not expected */
	struct assembler_natives natives;
	uint32_t dead_cnt; /* code objects that samples on their way may show */
	uint64_t batches; /* taken so far */
	uint64_t codes_read; /* of samples */
	uint32_t next_func; /* last number given to a function of a sample: there are no others then */
	uint64_t holes; /* events missing by their numbers */
	uint64_t numbered; /* events that had a number, of threads that are forgotten */
	uint64_t inferred; /* throws: events without a number, told from a walk */
	uint64_t refused; /* entries taken back, with their exits */
	uint64_t unusable; /* events that came but could not be kept */
	struct asm_retired retired[ASM_RETIRED_MAX]; /* a queue */
	uint32_t retired_at, retired_cnt;
	uint32_t round; /* of the last batch */
	uint32_t ended_cnt; /* processes that ended and are not forgotten */
	bool ended_new; /* some since the last batch */
	struct assembler_oddities odd;
};

/* asm_process_get - a process by its number, made if it is new; NULL: no memory.
 * @pid: 0 = not known yet */
struct asm_process *asm_process_get(struct assembler *a, uint32_t pix, uint32_t pid);
/* asm_process_find - the same, of those that are known; NULL: none */
struct asm_process *asm_process_find(const struct assembler *a, uint32_t pix);
void asm_processes_free(struct assembler *a);

/* asm_enter - a frame is entered or found: into the capture, and onto the thread's stack
 * asm_leave - the top frame is left
 * asm_gap   - the open frames are forgotten; @until: when the stack is known again
 *
 * What the capture does not take is counted, and ends what is known of the stack: then the depth is 0.
 * The result is 0, -ENOMEM or the error of the capture file; all is accounted for in any case.
 */
int asm_enter(struct assembler *a, struct asm_thread *t, uint64_t ts, uint64_t frame,
	      enum trace_kind kind, uint32_t code);
int asm_leave(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind);
int asm_gap(struct assembler *a, struct asm_thread *t, uint64_t until, enum trace_gap_reason reason,
	    uint64_t lost);

/* asm_walk_trim - the room of a walk of a deep stack, which takes twice what that takes, is given back. */
void asm_walk_trim(struct asm_thread *t);

/* asm_write_enter - the frame that lies outermost of those that are not in the capture gets into it. */
int asm_write_enter(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind,
		    uint32_t code);

/* asm_off_end - the gap of a thread whose process was not recorded for a while. */
int asm_off_end(struct assembler *a, struct asm_thread *t, uint64_t until);

/* asm_thread_free - forget a thread; asm_idle_end - a thread that never ran is gone with its process. */
void asm_thread_free(struct assembler *a, struct asm_thread *t);
void asm_idle_end(struct assembler *a, const struct asm_process *p);

/* asm_first - keep the first of two errors. */
static inline int asm_first(int first, int err)
{
	return first ? first : err;
}

/* asm_processes_forget - at the beginning of a batch: those that have ended go, once no ring can hold a
 * record of them. */
int asm_processes_forget(struct assembler *a);

/* asm_name_again - a thread has another name: what the program calls it is to be asked for. */
void asm_name_again(struct asm_thread *t);

/* asm_processes_end - at the end: the writer hears of all that have ended. 0 or -ENOMEM. */
int asm_processes_end(struct assembler *a);

/* asm_process_code - note a code object of a process, to retire it with that; asm_process_gone - it was
 * retired before. 0 or -ENOMEM. */
int asm_process_code(struct asm_process *p, uint32_t code);
void asm_process_gone(struct assembler *a, uint32_t pix, uint32_t code);

/* asm_settled - no ring holds a record any more that was there in that round. */
static inline bool asm_settled(const struct assembler *a, uint32_t round)
{
	return a->round - round >= 2;
}

/* asm_func_new - a code object has its names. @address: of it, 0 = read from outside. 0, -ENOMEM or the
 * error of the capture file. */
int asm_func_new(struct assembler *a, const struct trace_func *func, uint64_t address);
void asm_func_gone(struct assembler *a, uint32_t code);

/* asm_retire - a code object is gone; its name is kept until no ring can hold an event that uses it.
 * asm_retire_all - now, for want of memory. */
void asm_retire(struct assembler *a, uint32_t pix, uint32_t code);
void asm_retire_all(struct assembler *a);

#endif
