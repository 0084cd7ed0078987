/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYEBPF_CMD_LIST_PROBES_H
#define PYEBPF_CMD_LIST_PROBES_H

#include <stdio.h>

struct probe_plan;

/**
 * list_probes - print a probe plan as a table, one line per site
 * @title: printed first, already safe for a terminal (a file's name, say)
 *
 * Return: 0; -PYE_EOUTPUT if @out failed.
 */
int list_probes(const struct probe_plan *plan, const char *title, FILE *out);

#endif
