/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a capture file (docs/capture-format.md). The writer keeps per-thread event streams in
 * memory, and when they reach the size of a chunk writes them, compressed, in one write: a file is
 * readable up to its last whole chunk whatever happens. A flight recorder keeps the chunks in memory. Each chunk decodes alone: it begins with the
 * open frames of its threads and holds the definitions it uses and the counters so far.
 *
 * One thread uses a writer at a time. Definitions must come before the first event that uses them.
 */
#ifndef PYEBPF_CAPFILE_WRITER_H
#define PYEBPF_CAPFILE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/step.h"
#include "profile/trace.h"

struct capw;

struct capw_opts {
	size_t chunk_bytes; /* of uncompressed events per chunk; 0: the default, 2 MiB */
	int level; /* of zstd; 0: the default, 1 */
	/* a flight recorder: chunks stay in memory, the older ones go; capw__dump() makes the file */
	uint64_t keep_ns; /* how long they stay, from one flush to another; 0: no flight recorder */
	size_t keep_bytes; /* and how many bytes of them at most; 0: 256 MiB */
	bool in_parts; /* capw__next_part() will be used */
};

/**
 * capw__new - start a capture file
 * @fd:   open for writing, at its beginning; borrowed, must outlive the writer; need not seek; not used
 *        by a flight recorder
 * @opts: may be NULL
 * @info: copied
 *
 * Return: 0, -ENOMEM, or the error of write().
 */
int capw__new(struct capw **out, int fd, const struct capw_opts *opts,
	      const struct trace_info *info);

/**
 * capw__process, capw__thread, capw__func - define or change something
 *
 * Strings are copied, up to 65,535 bytes each. An id that comes again replaces what was known; a
 * reader sees that at the beginning of the chunk being filled. A process comes before its threads
 * and functions, and is forgotten when it has ended (end_ns) and all of them are retired.
 *
 * Return: 0; -EINVAL for an unknown process; -ENOMEM, also when all definitions that live would take
 * more than 24 MiB.
 */
int capw__process(struct capw *w, const struct trace_process *def);
int capw__thread(struct capw *w, const struct trace_thread *def);
int capw__func(struct capw *w, const struct trace_func *def);

/**
 * capw__retire_func - the code object is gone: the id will not be entered again
 *
 * Its definition is forgotten once no open frame and no unwritten event uses it.
 */
void capw__retire_func(struct capw *w, uint32_t func);

/* capw__retire_thread - the thread is gone and has no more events; forgotten likewise. */
void capw__retire_thread(struct capw *w, uint32_t thread);

/**
 * capw__enter - a frame is entered or found: TRACE_CALL, TRACE_RESUME, TRACE_THROW, TRACE_OPEN
 * capw__leave - the top frame is left: TRACE_RETURN, TRACE_YIELD, TRACE_UNWIND
 * capw__gap   - the thread's open frames are forgotten
 * @ts_ns: not before the last one of this thread (a smaller one is raised to it)
 *
 * The hot path: no allocation and no system call but when a chunk is full. Matching of frames is the
 * caller's work; a leave without an open frame is -EINVAL, and so is a time stamp past 2^60.
 *
 * A thread deeper than 2^20 frames, or one that grows when the open frames of all threads take 16 MiB
 * (2 million frames), is shown as a gap until half of its frames are left; its events meanwhile are
 * counted in capw__lost() and with the gap, and capw__depth() goes on counting.
 *
 * Return: 0, -ENOMEM, -EINVAL for an unknown id, or the error of write(); after a write error the
 * writer stays usable: the chunk is dropped and its events are counted in capw__lost(), but the event
 * of this call is kept, with the open frames. A reader shows a gap in the threads that lost something.
 */
int capw__enter(struct capw *w, uint32_t thread, uint64_t ts_ns, enum trace_kind kind,
		uint32_t func);
int capw__leave(struct capw *w, uint32_t thread, uint64_t ts_ns, enum trace_kind kind);
int capw__gap(struct capw *w, const struct trace_gap *gap);

/* capw__steps - the same as capw__enter() and capw__leave() of each, as far as that does nothing but add it to the block at hand. How many
 * of the first ones it took: perhaps none. */
uint32_t capw__steps(struct capw *w, uint32_t thread, const struct trace_step *steps, uint32_t cnt);

/**
 * capw__sample - a stack, as struct trace_sample says
 *
 * Numbered and counted like an event; it neither uses nor changes the thread's open frames.
 *
 * Return: as capw__enter(); -EINVAL also for more than TRACE_SAMPLE_FRAMES frames.
 */
int capw__sample(struct capw *w, const struct trace_sample *sample);

/* capw__memory - the memory of a thread's process, as struct trace_memory says; no event. Return: as
 * capw__enter(). */
int capw__memory(struct capw *w, const struct trace_memory *memory);

/* capw__depth - number of open frames of a thread, 0 if unknown. */
uint32_t capw__depth(const struct capw *w, uint32_t thread);

/* capw__written - events (without TRACE_OPEN) accepted and not dropped; capw__lost - dropped because
 * they could not be written; capw__bytes - size of the file (this part) so far; capw__pending - bytes
 * that are not in it yet, before they are compressed. */
uint64_t capw__written(const struct capw *w);
uint64_t capw__lost(const struct capw *w);
uint64_t capw__bytes(const struct capw *w);
uint64_t capw__pending(const struct capw *w);

/**
 * capw__flush - write what is there as a chunk of its own
 * @totals: the counters so far, kept for this chunk and those that follow; NULL: as they were.
 *          lost[LOSS_USER] includes capw__lost(); what the writer drops later it adds itself, and it
 *          always stores its own number as `written`
 *
 * Return: 0, -ENOMEM, or the error of write().
 */
int capw__flush(struct capw *w, const struct trace_totals *totals);

/**
 * capw__finish - write the rest, the totals and the mark that says the file is complete
 * @totals: as for capw__flush()
 *
 * A flight recorder only flushes; capw__dump() can follow.
 *
 * Return: 0 or the first error of write().
 */
int capw__finish(struct capw *w, const struct trace_totals *totals);

/**
 * capw__set_clock - what the wall clock shows
 *
 * Parts that follow have their times by it, where it was set since (or the machine slept): it differs by more than half a second from what
 * it was, plus the time that has gone by. Otherwise each part goes on from the one before, to the nanosecond.
 */
void capw__set_clock(struct capw *w, uint64_t now_ns, int64_t unix_ns);

/**
 * capw__next_part - end this file as capw__finish() does, and go on in another
 * @fd:     of the next part, as for capw__new()
 * @totals: as for capw__flush()
 *
 * The next part decodes alone: all open frames are in it. Counters in the files go on; a reader takes
 * off what came before, so that those of all parts add up.
 *
 * Return: 0 or the first error of write(); the writer is in the next part in any case.
 */
int capw__next_part(struct capw *w, int fd, const struct trace_totals *totals);

/**
 * capw__dump - write what a flight recorder holds as a whole capture; nothing is forgotten by it
 *
 * What was not flushed is not in it.
 *
 * Return: 0 or the error of write().
 */
int capw__dump(struct capw *w, int fd);

/* What a flight recorder holds. */
struct capw_kept {
	uint64_t start_ns; /* everything after it */
	uint64_t bytes; /* in memory */
	uint64_t dropped_chunks;
	bool full; /* bytes, not time, decided last what goes */
};

/* capw__kept - of a flight recorder. */
void capw__kept(const struct capw *w, struct capw_kept *out);

/* capw__free - NULL is fine; what was not flushed is dropped. */
void capw__free(struct capw *w);

#endif
