/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From raw records to per-thread streams of events with names, while capturing. The kernel's records
 * of a thread come in order and are numbered, so a hole tells thread, place and number of a loss. The
 * stack after a hole, an attach or a switch comes as a walk before the next event. Frames are matched
 * here once more: what does not fit becomes a gap, never a wrong stack.
 */
#ifndef PYEBPF_ASSEMBLE_ASSEMBLE_H
#define PYEBPF_ASSEMBLE_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/pylayout.h"
#include "capfile/writer.h"
#include "capture/capture.h"
#include "profile/histogram.h"
#include "profile/trace.h"

struct assembler;
struct symbols;

/* Where an interpreter's loop lies: places in the file that is mapped for it. */
struct assembler_loop {
	dev_t dev;
	ino_t ino;
	uint64_t offsets[16]; /* one at least in each piece that the compiler made of it; 0: none */
};

struct assembler_process {
	struct trace_process trace; /* id = pix of the records */
	const struct pye_pylayout *layout; /* copied */
	pid_t proc_pid; /* as /proc shows it: to read names that the kernel could not */
	bool late; /* it ran on untraced until its probes were in place: shown as a gap */
	bool deaths_told; /* of samples: its code objects say when they die */
	bool entries_stay; /* none is taken back by the record behind it, as one of a probe up to 3.10 can be */
	struct assembler_loop loop; /* for native frames; zeroed: not known */
};

/* What cannot go wrong unless a record or the target's memory lies. */
struct assembler_oddities {
	uint64_t malformed; /* records of a wrong size or kind, or of an unknown thread */
	uint64_t mismatched; /* exits of frames that were not on top, walks above unknown frames */
	uint64_t unnamed; /* code objects whose name could not be read */
};

/* Samples with native frames of the process. */
struct assembler_natives {
	uint64_t samples;
	uint64_t broken; /* of them: Python frames lay where the chain of native ones had broken off */
	uint64_t unreadable; /* the same, for a page that was not in memory */
	uint64_t deep; /* the same, for more frames than are taken */
};

/* assembler__new - @w is borrowed and must outlive it. 0 or -ENOMEM. */
int assembler__new(struct assembler **out, struct capw *w);
/* assembler__sampling - definitions of code objects tell of their ends: samples hold addresses. @deaths: the next of them,
 * asked for when a name has been read: it may be of a later one at this address; NULL: there is nobody to ask. */
void assembler__sampling(struct assembler *a,
			 bool (*deaths)(void *ctx, struct capture_batch *batch), void *ctx);
/* assembler__suspect - of code objects that died some may not have said so: what is known of addresses is compared anew. */
void assembler__suspect(struct assembler *a);
/* assembler__native - samples have native frames. @symbols: borrowed, must outlive @a */
void assembler__native(struct assembler *a, struct symbols *symbols);
void assembler__free(struct assembler *a);

/* assembler__process - a process, new or changed. 0 or -ENOMEM. */
int assembler__process(struct assembler *a, const struct assembler_process *from);

/* A process that is like another one but for its numbers: a child, or what exec made of it. */
struct assembler_child {
	uint32_t from, pix;
	pid_t pid;
	uint64_t ts_ns;
	bool late; /* as above */
};

/* assembler__fork - 0; -ENOENT if the other one is unknown; -ENOMEM. */
int assembler__fork(struct assembler *a, const struct assembler_child *child);

/* assembler__process_end - no more of its records will come but those in the rings. */
void assembler__process_end(struct assembler *a, uint32_t pix, uint64_t ts_ns);

/**
 * assembler__off, assembler__on - nothing of a process is recorded between these times
 *
 * What was recorded before must have been fed when assembler__on() is called, and nothing of what comes
 * after. Each of its threads gets a gap.
 */
void assembler__off(struct assembler *a, uint32_t pix, uint64_t ts_ns);
int assembler__on(struct assembler *a, uint32_t pix, uint64_t ts_ns);

/**
 * assembler__feed - take a batch
 *
 * Return: 0, -ENOMEM, or the error of the capture file; the batch is consumed all the same.
 */
int assembler__feed(struct assembler *a, const struct capture_batch *batch);

/* assembler__record - take one record, of the round of the last batch. As above; @a is a struct assembler: for struct capture_taker */
int assembler__record(void *a, const void *rec, uint32_t len);

/* assembler__steps - take events of one thread, numbered from @seq on. Likewise. */
int assembler__steps(void *ctx, uint32_t tix, uint32_t seq, const struct trace_step *steps,
		     uint32_t cnt);

/* assembler__final - final sequence number of a thread, when all its records were fed. @until_ns: when the recording ended: what is missing
 * was lost until then; 0: not known */
void assembler__final(struct assembler *a, uint32_t tix, uint32_t seq, uint64_t until_ns);

/* An open frame that was read from outside. */
struct assembler_frame {
	uint64_t frame;
	uint32_t code; /* id given to assembler__func() */
};

/* A thread that has not run Python code since tracing began. */
struct assembler_idle {
	uint32_t id; /* new number */
	uint32_t pix, tid;
	const char *comm;
	const char *given; /* what the program calls it; NULL: not known */
	bool comm_is_own; /* it is not that of the first thread */
	uint64_t ts_ns;
	const struct assembler_frame *frames; /* outermost first */
	uint32_t frame_cnt;
};

/* assembler__func - a code object that was read from outside. 0 or -ENOMEM. */
int assembler__func(struct assembler *a, const struct trace_func *func);

/**
 * assembler__idle - show the stack of a thread that does not run
 *
 * Does nothing if records of the thread came already. When they come later, its stack is compared
 * with the one shown here.
 *
 * Return: 0, -ENOMEM, or the error of the capture file.
 */
int assembler__idle(struct assembler *a, const struct assembler_idle *idle);

/* A thread that has been off the CPU since before its process was sampled. */
struct assembler_waiter {
	uint32_t id; /* new number */
	uint32_t pix, tid;
	const char *comm;
	uint64_t since_ns;
};

struct pye_sample_rec;

/* assembler__waiter - keep its stack, in the form of the records, until it runs or
 * assembler__still_waiting(); once for each. 0, -ENOMEM or the error of the capture file. */
int assembler__waiter(struct assembler *a, const struct assembler_waiter *waiter,
		      const struct pye_sample_rec *rec);

/* assembler__still_waiting - samples: threads that are off the CPU have been so until @now_ns; before
 * assembler__finish(). 0 or the first error. */
int assembler__still_waiting(struct assembler *a, uint64_t now_ns);

/* assembler__waiting_so_far - the same for a reader who does not wait for the end: what such threads have
 * waited up to @now_ns is shown now, the rest later. 0 or the first error. */
int assembler__waiting_so_far(struct assembler *a, uint64_t now_ns);

/* assembler__finish - events held back go out; after the last feed and final. */
int assembler__finish(struct assembler *a);

/**
 * assembler__totals - counters so far
 * @kernel: losses by reason as the kernel side counted them; NULL: none
 *
 * Holes in the numbering are what was lost per thread; @kernel says why, and adds what had no thread
 * to be counted in.
 */
void assembler__totals(const struct assembler *a, const uint64_t kernel[LOSS_CNT],
		       struct trace_totals *out);

/* Calls of functions that are watched. */
struct assembler_slow {
	uint64_t functions; /* code objects of that name */
	uint64_t calls; /* that ended */
	uint64_t slow; /* those that took longer */
	uint64_t last_ns, longest_ns; /* of the slow ones */
};

/**
 * assembler__watch - count calls of a function that take longer than so much
 * @function: as func_spec_parse() takes it; borrowed until the assembler is freed
 *
 * A call lasts from its first entry to its return, all waiting between included. To be said before the
 * first record.
 *
 * Return: a number for assembler__slow(); -E2BIG past 16; -ENOMEM.
 */
int assembler__watch(struct assembler *a, const char *function, uint64_t over_ns);
const struct assembler_slow *assembler__slow(const struct assembler *a, int watch);

/* Calls of one function; times in ns. */
struct assembler_latency {
	struct histogram
		calls; /* of those that began and ended: from first entry to end, all waiting between */
	struct histogram
		runs; /* from each entry to the exit that follows: of what yields there are several to a call */
	uint64_t functions; /* code objects of that name */
	uint64_t unknown; /* calls that ended and were open already when they were first seen */
	uint64_t open; /* calls that have not ended */
	uint64_t recursive; /* calls that began above another one of the function */
	uint64_t yields; /* runs that ended so */
	uint64_t unwound; /* calls that ended by an exception */
};

/**
 * assembler__latency - measure a function's calls, whatever else is watched; before the first record
 *
 * Return: 0, -E2BIG or -ENOMEM.
 */
int assembler__latency(struct assembler *a, const char *function);

/* assembler__latency_so_far - what came of it; borrowed until the next call on @a. */
const struct assembler_latency *assembler__latency_so_far(const struct assembler *a);

/* assembler__unnamed - how many threads of a process there are whose name the program was not asked for. */
uint32_t assembler__unnamed(struct assembler *a, uint32_t pix);

/**
 * assembler__name_threads - ask what the program calls them: another name than the operating system's
 * @name_of: of a thread by its tid as /proc shows it; borrowed until the next call; NULL: not known (yet)
 *
 * A thread without an answer is asked for a few times. The first thread of a process keeps the process's name.
 *
 * Return: 0 or -ENOMEM.
 */
int assembler__name_threads(struct assembler *a, uint32_t pix,
			    const char *(*name_of)(void *ctx, uint32_t tid), void *ctx);

/* assembler__codes_read - samples: code objects that were read, or were heard to die, so far. */
uint64_t assembler__codes_read(const struct assembler *a);

/* assembler__threads - threads alive; assembler__oddities - for the log and the tests. */
uint32_t assembler__threads(const struct assembler *a);
const struct assembler_oddities *assembler__oddities(const struct assembler *a);
const struct assembler_natives *assembler__natives(const struct assembler *a);

#endif
