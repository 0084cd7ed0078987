/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed between two runs, and what of it is more than noise. Functions are the same by module
 * and qualified name, wherever their files lie and whatever line they begin on.
 *
 * Noise is told in two ways. Within a run: the self time of a function per slice of time, given how
 * often it ran there, scatters; from that follows by how much its sum would if the run were made
 * again. Between the runs: the time per call of most functions shifts by some percent with the machine
 * (its clock, its caches, its other load); the median shift and the spread around it are that. A change
 * is one if it is more than three times the first and the second together. This is asked of the sums,
 * and of what they would be if every run took the median: on a busy machine the first see little. The
 * profiler's own cost, which is taken out of the times, is known to 15 % from run to run; that is added.
 */
#ifndef PYEBPF_PROFILE_DIFF_H
#define PYEBPF_PROFILE_DIFF_H

#include "profile/slices.h"

enum diff_verdict {
	DIFF_CHANGED,
	DIFF_NEW, /* not called before */
	DIFF_GONE, /* not called any more */
	DIFF_UNKNOWN, /* seen in too few slices to tell its noise */
	DIFF_NOISE,
};

struct diff_side {
	uint32_t func; /* one of the functions; AGG_NONE: there is none on this side */
	uint64_t calls, self_ns, total_ns;
};

struct diff_row {
	struct diff_side side[2];
	enum diff_verdict verdict;
	double change_ns; /* of the self time */
	double noise_ns; /* what it may change by without meaning anything; < 0: not known */
};

struct diff {
	const struct agg_result *side[2]; /* borrowed */
	struct diff_row
		*rows; /* owned; changes first, then what is not known, then noise; each by size */
	uint32_t cnt;
	double shift; /* median change of the time per call: 0.1 is 10 % more */
	double floor; /* what a share of its time a function may change by, for the machine's sake */
	uint32_t shift_cnt; /* functions that these two come from; too few: then they are guesses */
};

/**
 * diff__init - compare two runs
 * @before, @after: complete; borrowed for the life of @d
 *
 * Return: 0 or -ENOMEM; then diff__done() is not needed.
 */
int diff__init(struct diff *d, const struct slices *before, const struct slices *after);

void diff__done(struct diff *d);

/* diff_name - what makes a function the same in two runs, as a string of @names: its module and qualified name.
 * Return: 0, -ENOMEM or -EOVERFLOW. */
int diff_name(struct strpool *names, const struct agg_result *r, uint32_t func, uint32_t *id);

#endif
