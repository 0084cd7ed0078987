/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An aggregate by files and their lines: what stands beside the source. Of samples a line is where they were; a
 * trace of calls knows only the first line of each function.
 */
#ifndef PYEBPF_PROFILE_ANNOTATE_H
#define PYEBPF_PROFILE_ANNOTATE_H

#include "profile/callgraph.h"
#include "profile/lines.h"
#include "profile/ranking.h"

/* A function; the same one of several processes is one. */
struct annotate_func {
	uint32_t index; /* of agg_result.funcs */
	uint32_t group; /* of the callgraph */
};

struct annotate_file {
	uint32_t file; /* string of the result; 0: what has no file */
	uint32_t line_at, line_cnt; /* of lines, by number; 0 is a line that is not known */
	uint32_t func_at, func_cnt; /* of funcs, by first line */
	uint64_t self_ns;
};

struct annotate {
	const struct agg_result *r; /* borrowed */
	struct annotate_file *files; /* most self time first */
	struct ranking lines;
	struct annotate_func *funcs;
	struct callgraph graph;
	uint32_t *func_of_group; /* index into funcs */
	uint32_t file_cnt, func_cnt;
};

/**
 * annotate__init - from lines of LINES_OF_FILES
 * @l: complete; borrowed for the life of @a
 *
 * Return: 0, -ENOMEM or -EOVERFLOW; then annotate__done() is not needed.
 */
int annotate__init(struct annotate *a, const struct lines *l);

/* annotate__done - a zeroed @a is fine. */
void annotate__done(struct annotate *a);

/* annotate__find - the file that is called so: its path, or the end of it from a / on. Return: the index, and in @cnt
 * how many there are; AGG_NONE without one. */
uint32_t annotate__find(const struct annotate *a, const char *name, uint32_t *cnt);

#endif
