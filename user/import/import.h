/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Importers: profiles of other tools, and our own exports, as a trace that is pushed into a consumer.
 * One file per format; the table is in importers.c. The format is known by the content, in gzip or
 * not. What is read is hostile: sizes are capped, numbers checked, and what does not fit is an error
 * with a sentence, never a crash.
 *
 * A format that has sums in place of events gives a sample per stack, one after the other on one
 * clock; one that has every call in its place in time gives events.
 */
#ifndef PYEBPF_IMPORT_IMPORT_H
#define PYEBPF_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "profile/trace.h"

#define IMPORT_COUNT_NS \
	10000000 /* a count without a unit: 100 samples a second, as most take them */

struct import_opts {
	uint64_t count_ns; /* what a count without a unit stands for; 0: IMPORT_COUNT_NS */
};

/**
 * import_file - read a profile
 * @fd:       at its beginning, seekable; stays the caller's
 * @opts:     may be NULL
 * @consumer: its members are called with @self
 * @e:        why it failed; when the result is 0, what the user has to know, or ""
 *
 * Memory: names, distinct stacks and, of the formats in JSON, 32 bytes per sample or event.
 *
 * Return: 0; -PYE_EFORMAT; -ENOMEM; what read() or the consumer returned.
 */
int import_file(int fd, const struct import_opts *opts, const struct trace_consumer *consumer,
		void *self, struct err *e);

#endif
