/* SPDX-License-Identifier: Apache-2.0 */
/* One line on a terminal that says how far long work is, written over at most ten times a second; nothing elsewhere. */
#ifndef PYEBPF_CMD_PROGRESS_H
#define PYEBPF_CMD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool on, drawn;
	uint64_t next_ns; /* not before */
};

/* progress__init - @wanted: false with --quiet. */
void progress__init(struct progress *p, bool wanted);

/* progress__say - show a line of at most 79 columns; harmless text. */
void progress__say(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* progress__done - the line goes; before anything else is said. */
void progress__done(struct progress *p);

#endif
