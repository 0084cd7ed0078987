/* SPDX-License-Identifier: Apache-2.0 */
/* What `pyebpf stats --function` prints: one function, its latencies, its callers and callees. */
#ifndef PYEBPF_EXPORT_STATS_QUERY_H
#define PYEBPF_EXPORT_STATS_QUERY_H

#include <stdio.h>

#include "base/outbuf.h"
#include "profile/query.h"

/**
 * stats_query_print - for a terminal; names are escaped
 * @top_cnt: callers and callees to show at most, each
 */
void stats_query_print(FILE *f, const struct query_result *q, uint32_t top_cnt);

/* stats_query_json - the same as one JSON object and a newline, as docs/formats.md describes it. */
void stats_query_json(struct outbuf *b, const struct query_result *q, uint32_t top_cnt);

/**
 * stats_query_candidates - the functions that a name can mean, a line each that --function takes
 * @near: no function is called so: those whose names have it in them
 * @name: what was asked for
 *
 * At most 20, and how many more there are.
 *
 * Return: how many there are in all.
 */
uint32_t stats_query_candidates(FILE *f, const struct query_result *q, bool near, const char *name);

#endif
