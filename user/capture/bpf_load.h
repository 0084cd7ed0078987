/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the BPF programs: what the kernel can do is found out by trying, from the best way down.
 * Only this folder sees the skeleton.
 */
#ifndef PYEBPF_CAPTURE_BPF_LOAD_H
#define PYEBPF_CAPTURE_BPF_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bpf_program;
struct trace_bpf; /* the generated skeleton */

/* Programs that only some versions of Python need. Each keeps the verifier busy for 30 to 60 ms. */
#define BPF_EVAL  1u /* to 3.10 */
#define BPF_USDT  2u
#define BPF_LEAVE 4u /* from 3.11 on */
#define BPF_CLOSE 8u /* from 3.14 on */
#define BPF_ALL	  15u

/* What is not recorded; all zero: everything is. */
struct bpf_filter {
	uint32_t by; /* PYE_FILTER_* of abi/filter.h */
	uint32_t max_depth; /* PYE_FILTER_DEPTH */
	const char *thread; /* PYE_FILTER_THREAD: less than PYE_FILTER_NAME bytes */
	const char *function; /* PYE_FILTER_ROOT, PYE_FILTER_ONLY: as func_spec_parse() takes it */
	size_t function_len; /* of it, without a line */
};

struct bpf_load_opts {
	size_t ring_bytes; /* all rings together */
	bool launch; /* load the programs that hold our own children */
	bool select; /* load what takes processes in by their first call */
	bool locate; /* and what finds out which known file a process has executed */
	uint32_t families; /* BPF_* of the probes that are loaded at once */
	uint64_t sample_ns; /* load the programs that sample, not the probes; 0 = the probes */
	bool budget; /* samples: cap_bpf__budget() will be used */
	bool hits; /* probes: count how often each process runs into them */
	bool gil_only; /* samples: of threads that hold the interpreter's lock */
	uint32_t native; /* samples: PYE_TAKE_* of abi/sample.h */
	bool off_cpu; /* with sample_ns: those of the scheduler, too */
	struct bpf_filter filter;
	bool force_classic; /* tests: as on 5.15, neither uprobe_multi nor probes that may sleep */
	uint32_t table_max; /* tests: entries of the tables that can be full; 0 = as many as they have */
};

struct bpf_loaded {
	struct trace_bpf *skel;
	uint32_t families; /* BPF_* of what is loaded */
	int more[7]; /* descriptors of the programs of bpf_load_more(), which use the same maps; or 0 */
	bool multi; /* uprobe_multi links */
	bool per_process; /* and their filter by process works for every thread of it */
	bool sleepable; /* the probes may fault pages in */
	bool loop; /* there is bpf_loop() */
	uint32_t ring_cnt;
	size_t ring_size; /* of each */
	size_t defs_size, control_size; /* of those of definitions and of processes */
	int ring_fds[16];
};

/**
 * bpf_load - open, configure and load
 *
 * Return: 0; -PYE_EPRIV when the kernel refuses for lack of a capability, -PYE_EKERNEL with what is
 * missing, -ENOMEM.
 */
int bpf_load(struct bpf_loaded *out, const struct bpf_load_opts *opts, struct err *e);

/**
 * bpf_load_more - load those of these families that are not there yet
 * @families: BPF_*
 *
 * Takes up to 0.3 s. Return: as bpf_load().
 */
int bpf_load_more(struct bpf_loaded *b, uint32_t families, struct err *e);

/* bpf_probe_fd - of a program of the skeleton, whenever it was loaded; negative: it is not. */
int bpf_probe_fd(const struct bpf_loaded *b, const struct bpf_program *prog);

/* bpf_be_quiet - what libbpf says is for the log at debug level; bpf_load() does so too. */
void bpf_be_quiet(void);

void bpf_unload(struct bpf_loaded *b);

/**
 * bpf_refused - why the kernel did not do what was asked of it
 * @err:   negative errno
 * @needs: the capabilities that it takes (base/caps.h)
 * @what:  the beginning of the sentence: "the kernel refused the BPF programs"
 *
 * EPERM and EACCES have several causes; which one it is can be told by what this process may do.
 *
 * Return: -PYE_EPRIV, -PYE_EKERNEL or -ENOMEM, with the sentence in @e.
 */
int bpf_refused(struct err *e, int err, uint64_t needs, const char *what);

#endif
