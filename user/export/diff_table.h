/* SPDX-License-Identifier: Apache-2.0 */
/* What `pyebpf diff` prints. */
#ifndef PYEBPF_EXPORT_DIFF_TABLE_H
#define PYEBPF_EXPORT_DIFF_TABLE_H

#include <stdio.h>

#include "base/outbuf.h"
#include "profile/diff.h"

/**
 * diff_print - for a terminal; names are escaped
 * @top_cnt: rows to show at most of what changed, and of what is not known or noise together
 */
void diff_print(FILE *f, const struct diff *d, uint32_t top_cnt);

/* diff_json - all rows, as one JSON object and a newline, as docs/formats.md describes it. */
void diff_json(struct outbuf *b, const struct diff *d, uint32_t top_cnt);

#endif
