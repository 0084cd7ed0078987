/* SPDX-License-Identifier: Apache-2.0 */
/* A table whose columns are as wide as what stands in them. */
#ifndef PYEBPF_CMD_COLUMNS_H
#define PYEBPF_CMD_COLUMNS_H

#include <stdio.h>

/**
 * columns_print - write lines as a table
 * @text: lines; those with tabs are rows, COLUMNS_MAX cells at most, the first flush right; others stay as they are. What came
 *        from a target has been escaped before: a tab in it would begin another cell, no more.
 */
void columns_print(const char *text, FILE *out);

#define COLUMNS_MAX 16

#endif
