/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of durations, for people and for programs. */
#ifndef PYEBPF_EXPORT_LATENCY_TABLE_H
#define PYEBPF_EXPORT_LATENCY_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/outbuf.h"
#include "profile/histogram.h"

/**
 * latency_print - least, mean, percentiles, most, and a bar for each power of two; nothing of an empty one
 * @own_ns: what the profiler cost in the durations of each bucket, which is out of them; NULL: nothing
 *
 * Durations in ns; a "~" before one that is less than what it is not known by.
 *
 * Return: was there one?
 */
bool latency_print(FILE *f, const struct histogram *h, const uint64_t *own_ns);

/* latency_json - the members "latency" and "histogram" of an object, with a comma in front. */
void latency_json(struct outbuf *b, const struct histogram *h);

#endif
