/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of durations, for people and for programs. */
#ifndef PYEBPF_EXPORT_LATENCY_TABLE_H
#define PYEBPF_EXPORT_LATENCY_TABLE_H

#include <stdio.h>

#include "base/outbuf.h"
#include "profile/histogram.h"

/* latency_print - least, mean, percentiles, most, and a bar for each power of two; nothing of an empty one.
 * Durations in ns. */
void latency_print(FILE *f, const struct histogram *h);

/* latency_json - the members "latency" and "histogram" of an object, with a comma in front. */
void latency_json(struct outbuf *b, const struct histogram *h);

#endif
