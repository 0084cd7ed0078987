/* SPDX-License-Identifier: Apache-2.0 */
/* What `pyebpf stats` prints: the head of the summary and a table, as text or as JSON. */
#ifndef PYEBPF_EXPORT_STATS_H
#define PYEBPF_EXPORT_STATS_H

#include <stdio.h>

#include "base/outbuf.h"
#include "profile/ranking.h"

/**
 * stats_print - the table for a terminal; names are escaped
 * @top_cnt: rows to show at most; what is left out is counted below them
 */
void stats_print(FILE *f, const struct agg_result *r, const struct ranking *k, uint32_t top_cnt);

/**
 * stats_json - the same as one JSON object and a newline, as docs/formats.md describes it
 * @b: errors stick to it
 */
void stats_json(struct outbuf *b, const struct agg_result *r, const struct ranking *k,
		uint32_t top_cnt);

/* stats_json_head - the members that tell of the whole capture, without braces: for the objects of
 * other queries. */
void stats_json_head(struct outbuf *b, const struct agg_result *r);

/* stats_json_func - the members that tell which function this is, without braces. */
void stats_json_func(struct outbuf *b, const struct agg_result *r, const struct agg_func *f);

/* stats_print_func - "qualname (file:line)", escaped for a terminal. */
void stats_print_func(FILE *f, const struct agg_result *r, const struct agg_func *func);

#endif
