/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a run is kept: bounds at which it ends, several files instead of one, or the flight
 * recorder. The options, and what the session does about them between two batches of records.
 */
#ifndef PYEBPF_CMD_LIMITS_H
#define PYEBPF_CMD_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/options.h"

struct capw;
struct capw_opts;
struct assembler;
struct trace_totals;

#define TRIGGERS_MAX 16

/* A call that takes longer has the flight recorder written. */
struct limit_trigger {
	const char *text; /* as given */
	char function[240];
	uint64_t over_ns;
};

struct limit_triggers {
	struct limit_trigger v[TRIGGERS_MAX];
	unsigned int cnt;
};

struct limit_split {
	uint64_t events, bytes; /* of a part; one of them is 0 */
	/* or a part ends when the wall clock shows a multiple of this and @offset_ns, the first one after
	 * @first_ns at the latest */
	uint64_t every_ns, offset_ns, first_ns;
};

/* A group of options of commands that capture; all 0: no limit. */
struct limit_opts {
	uint64_t max_events; /* the run ends then */
	uint64_t max_bytes; /* of a capture; of the memory of a flight recorder */
	struct limit_split split;
	uint64_t keep_ns; /* flight recorder */
	struct limit_triggers triggers;
	uint64_t overhead_pct; /* of a process's CPU time in probes; 0: no budget */
};

extern const struct opt_row limit_rows[];

/* limits_check - what does not go together. 0 or -PYE_EUSAGE with a sentence. */
int limits_check(const struct limit_opts *o, bool to_stdout, struct err *e);

/* limits_any - is any of them set? */
bool limits_any(const struct limit_opts *o);

/* limits_writer - the options of the writer that these options want. */
void limits_writer(const struct limit_opts *o, struct capw_opts *out);

/* Files of a run besides the one that it begins with. */
struct limit_files {
	void *ctx;
	bool (*busy)(void *ctx); /* is the one before still being made? */
	int (*dump)(
		void *ctx,
		struct capw
			*w); /* of a flight recorder. 0, or a negative number that was explained */
	int (*next_part)(
		void *ctx); /* open it: its descriptor, or a negative number that was explained */
	void (*part_done)(void *ctx); /* the one before is complete */
	void (*child)(void *ctx); /* a child process has ended */
};

/* What came of the triggers. */
struct limit_fired {
	uint64_t seen[TRIGGERS_MAX]; /* slow calls looked at */
	uint64_t waits_ns[TRIGGERS_MAX]; /* since when one waits for the file before; 0: none does */
	uint64_t last_ns; /* when a file was written last; 0: never */
	unsigned int files; /* written */
};

/* A run that is kept in bounds; what is pointed to is borrowed. */
struct limits_run {
	const struct limit_opts *opts;
	const struct limit_files *files;
	bool quiet;
	struct capw *capw; /* these two: NULL until there is a capture */
	struct assembler *as;
	void *ctx;
	void (*totals)(void *ctx, uint64_t now, struct trace_totals *out);
	uint64_t (*waiting)(void *ctx); /* bytes of records that were not read yet, about */
	/* of limits.c, but for what is asked for */
	struct limit_fired fired;
	unsigned int dumps_asked; /* USR1 seen */
	uint64_t part_first; /* events written before this file */
	uint64_t part_ns; /* when this part began, if it is not the first */
	int64_t part_end_ns; /* on the wall clock, where parts have a time */
	bool full; /* there is no next file */
};

/* limits_full - the run has reached a bound and ends. */
bool limits_full(struct limits_run *r);

/* limits_begin - a capture begins now. 0 or -ENOMEM. */
int limits_begin(struct limits_run *r, struct capw *capw, struct assembler *as);

/* limits_part - go on in the next file if it is time; the run ends when there is none. */
void limits_part(struct limits_run *r);

/* limits_dump - write the flight recorder if that was asked for, or a trigger has fired. */
void limits_dump(struct limits_run *r, uint64_t now);

/* limits_report - what came of the triggers, at the end. */
void limits_report(const struct limits_run *r);

/* limits_flush_ns - how often chunks are written. */
uint64_t limits_flush_ns(const struct limits_run *r);

#endif
