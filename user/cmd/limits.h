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
struct session;

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

/* limits_writer - the options of the writer that these options want. */
void limits_writer(const struct limit_opts *o, struct capw_opts *out);

/* Files of a run besides the one that it begins with. */
struct limit_files {
	void *ctx;
	int (*dump)(void *ctx, struct capw *w); /* of a flight recorder. 0, -EBUSY or an error */
	int (*next_part)(
		void *ctx); /* open it: its descriptor, or a negative number that was explained */
	void (*part_done)(void *ctx); /* the one before is complete */
	void (*child)(void *ctx); /* a child process has ended */
};

/* limits_full - the run has reached a bound and ends. */
bool limits_full(struct session *s);

/* limits_begin - a capture begins now. */
void limits_begin(struct session *s);

/* limits_part - go on in the next file if it is time; the run ends when there is none. */
void limits_part(struct session *s);

/* What came of the triggers. */
struct limit_fired {
	uint64_t seen[TRIGGERS_MAX]; /* slow calls looked at */
	uint64_t last_ns; /* when a file was written last; 0: never */
	unsigned int files; /* written */
};

/* limits_watch - tell the assembler what to look at. 0 or -ENOMEM. */
int limits_watch(struct session *s);

/* limits_dump - write the flight recorder if that was asked for, or a trigger has fired. */
void limits_dump(struct session *s, uint64_t now);

/* limits_report - what came of the triggers, at the end. */
void limits_report(const struct session *s);

/* limits_flush_ns - how often chunks are written. */
uint64_t limits_flush_ns(const struct session *s);

#endif
