/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share that print a table, or JSON, on stdout: their options and the way there. */
#ifndef PYEBPF_CMD_TABLE_H
#define PYEBPF_CMD_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/outbuf.h"
#include "cmd/options.h"

/* The options -n, --raw, --full-filenames and --json. */
struct table_opts {
	uint64_t top_cnt; /* 0: all */
	bool json, raw, full_files;
};

extern const struct opt_row table_rows[];

/* table_parse_by - of a row for --by: @field is an enum ranking_by. */
int table_parse_by(void *field, const char *arg, struct err *e);

/* table_row_cnt - rows to show at most. */
uint32_t table_row_cnt(const struct table_opts *opts);

/* table_begin - an outbuf onto stdout, for outbuf__done(). Return: 0 or -ENOMEM. */
int table_begin(struct outbuf *b);

/* table_end - everything to stdout, what stdio holds too. Return: 0, or -PYE_EOUTPUT with a sentence. */
int table_end(struct outbuf *b, struct err *e);

#endif
