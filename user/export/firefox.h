/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Firefox Profiler exporter: processed profile format, version 70. How a trace becomes a
 * profile:
 *
 *   every change of a thread's stack  -> a sample with the stack from then on and, as weight, the
 *                                        time until the next one; the last one has no stack
 *   function                          -> a function and a frame, coloured by where its file lies
 *   gap                               -> a sample without a stack, and a marker
 *   start, end, exec                  -> markers
 *   wait of a sampled thread          -> a leaf frame, and a marker (firefox_waits.h)
 *   memory of a sampled process       -> a counter (firefox_memory.h)
 *   losses, engine, versions, cost    -> meta.extra
 *
 * Samples are compressed while they come (firefox_samples.h); the rest is written at the end of a
 * file. There is no scheduler data in a trace: without the column threadCPUDelta the activity
 * graph shows every thread as running where it has a stack.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_H
#define PYEBPF_EXPORT_FIREFOX_H

#include "export/export.h"
#include "export/firefox_memory.h"
#include "export/firefox_samples.h"
#include "export/firefox_tables.h"
#include "export/firefox_waits.h"

struct ff_process {
	uint32_t pid;
	uint32_t comm, exe, python; /* strings */
	uint32_t pid_text; /* string, unique: "1234", "1234 (2)" */
	uint32_t prefix; /* string */
	const char **roots; /* NULL-terminated, of the string table; may be NULL */
	uint64_t start_ns, end_ns;
	struct ff_memory memory; /* in this file */
};

/* An open frame. */
struct ff_open {
	uint32_t frame; /* of the whole trace */
	uint32_t stack; /* in this file */
};

struct ff_thread {
	uint32_t process; /* index */
	uint32_t tid;
	uint32_t name; /* string */
	bool is_main;
	uint64_t start_ns, end_ns;
	struct ff_open *open;
	uint32_t depth, open_cap;
	/* this file */
	struct ff_samples samples;
	uint64_t sampled_ns; /* end of the last sample, since the start of the capture */
	uint64_t events;
	struct trace_gap *gaps;
	uint32_t gap_cnt, gap_cap;
	struct ff_wait *waits;
	uint32_t wait_cnt, wait_cap;
};

struct firefox {
	struct export_opts opts;
	const struct export_out *out;
	struct ff_gzip *gzip;
	struct outbuf json; /* in front of gzip */
	/* strings, never NULL */
	char *engine, *version, *kernel, *cpu, *arguments;
	struct trace_info info; /* its strings are those above */
	struct ff_tables tables;
	struct ff_map process_ids, thread_ids, func_ids, pids;
	struct ff_process *processes;
	struct ff_thread *threads;
	uint32_t *func_frames; /* by index of func_ids */
	uint32_t *pid_uses; /* by index of pids */
	uint32_t process_cap, thread_cap, func_cap, pid_cap;
	uint64_t last_ns; /* newest event */
	uint64_t events; /* of the whole trace, without TRACE_OPEN */
	/* this file */
	uint32_t part; /* from 1 */
	uint64_t part_start_ns, part_end_ns;
	uint64_t part_events, part_lost;
	uint32_t wait_cnt; /* of all threads */
	uint64_t wait_min_ns; /* shorter ones are not kept */
	uint64_t waits_left_out;
};

/* ff_since - a moment as time of the profile: since the start of the capture, never negative. */
static inline uint64_t ff_since(const struct firefox *ff, uint64_t ts_ns)
{
	return ts_ns > ff->info.start_ns ? ts_ns - ff->info.start_ns : 0;
}

/* ff_in_part - whether a moment lies in the file being written. */
static inline bool ff_in_part(const struct firefox *ff, uint64_t ts_ns)
{
	return ts_ns <= ff->part_end_ns && (ts_ns >= ff->part_start_ns || ff->part == 1);
}

/**
 * ff_write_file - write the file of this part
 * @totals: of the whole trace; NULL: another part follows
 *
 * Each thread's newest sample has no stack; part_end_ns is set.
 *
 * Return: 0, -ENOMEM or the error of the sink.
 */
int ff_write_file(struct firefox *ff, const struct trace_totals *totals);

/* ff_write_meta - the object "meta". @shown: indexes of the threads written, @cnt of them. */
void ff_write_meta(struct firefox *ff, const struct trace_totals *totals, const uint32_t *shown,
		   uint32_t cnt);

/* ff_write_markers - the member "markers" of a thread. Return: 0 or -ENOMEM. */
int ff_write_markers(struct firefox *ff, const struct ff_thread *thread);

/* ff_write_marker_schema - the array "markerSchema". */
void ff_write_marker_schema(struct outbuf *b);

#endif
