/* SPDX-License-Identifier: Apache-2.0 */
/* The table at the end of a run: events, losses, the profiler's share, the top functions. */
#ifndef PYEBPF_EXPORT_SUMMARY_H
#define PYEBPF_EXPORT_SUMMARY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "profile/aggregate.h"

/**
 * summary_print - print the table
 * @f:       stderr
 * @agg:     after its end()
 * @top_cnt: functions to show, those of several processes as one, as in stats
 *
 * Names are escaped for a terminal. Losses are shown by reason, also when they are 0.
 */
void summary_print(FILE *f, const struct aggregate *agg, uint32_t top_cnt);

/* summary_print_head - the lines above the table: events, losses, gaps, the profiler's share. */
void summary_print_head(FILE *f, const struct agg_result *r);

/* summary_own - what became of the profiler's own part of the times, for the end of a sentence about it. Static. */
const char *summary_own(const struct agg_result *r);

/* summary_gap_ns - time in which a thread's stack was not known, of all threads. */
uint64_t summary_gap_ns(const struct agg_result *r);

/**
 * summary_duration - "1.234 s", "12.3 ms", "4.56 us", "789 ns"
 * @out: room for 16 bytes
 *
 * Return: @out.
 */
char *summary_duration(char *out, size_t size, uint64_t ns);

/* summary_time - the same of a time that is not known better than to @doubt_ns: one that is less has a "~" before it. */
char *summary_time(char *out, size_t size, uint64_t ns, uint64_t doubt_ns);

/* summary_print_doubt - what the "~" of a table means. */
void summary_print_doubt(FILE *f);

#endif
