/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls are recorded: the options, and what the kernel side and the assembler are told of them. */
#ifndef PYEBPF_CMD_FILTERS_H
#define PYEBPF_CMD_FILTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "assemble/filter.h"
#include "cmd/options.h"

struct bpf_filter;
struct session;

struct glob_list {
	const char *v[ASSEMBLER_GLOBS_MAX]; /* borrowed from argv */
	size_t cnt;
};

/* A group of options of commands that trace; all zero: everything is recorded. */
struct filter_opts {
	struct glob_list include, exclude;
	const char *thread;
	const char *root, *latency;
	bool json; /* with latency */
	uint64_t max_depth;
	uint64_t min_ns;
};

extern const struct opt_row filter_rows[];

/* filters_any - is anything left out? */
bool filters_any(const struct filter_opts *o);

/* filters_by_code - is some code left out as such? */
bool filters_by_code(const struct filter_opts *o);

/* filters_check - what cannot be. 0 or -PYE_EUSAGE with a sentence. */
int filters_check(const struct filter_opts *o, struct err *e);

/* filters_kernel - what the programs can hold back of it. */
struct bpf_filter filters_kernel(const struct filter_opts *o);

/* filters_assembler - what the assembler does; the source of the records is to be added. */
void filters_assembler(const struct filter_opts *o, struct assembler_filter *out);

/* filters_begin - tell the assembler of a session. 0 or -ENOMEM. */
int filters_begin(struct session *s);

/* filters_say - how many calls of code --include and --exclude have left out, and whether they leave @any */
void filters_say(const struct filter_opts *o, uint64_t left_out, bool any);

/* filters_report - how many calls were left out. @held_back: by the source of the records. */
void filters_report(const struct filter_opts *o, const struct assembler *as, uint64_t held_back);

#endif
