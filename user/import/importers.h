/* SPDX-License-Identifier: Apache-2.0 */
/* The vtable of an importer. A new format: a file in this folder, its line here and in importers.c. */
#ifndef PYEBPF_IMPORT_IMPORTERS_H
#define PYEBPF_IMPORT_IMPORTERS_H

#include "import/sink.h"
#include "import/source.h"

/**
 * struct importer - one format
 * @is:   whether an input that begins with these bytes has it; of those in JSON it is the key that
 *        tells, and @is is NULL
 * @run:  read @s from its beginning; everything up to sink__end(). When it returns 0, s->e may hold
 *        what the user has to know
 */
struct importer {
	const char *name;
	bool (*is)(const uint8_t *head, size_t len);
	int (*run)(struct source *s, struct sink *k);
};

extern const struct importer import_pstats, import_pprof, import_perf, import_collapsed;
extern const struct importer import_firefox, import_speedscope;

/* import_label - a function from a label as flame graph tools write it, "name (file:line)".
 * @is_first: the line is the function's first one; else it is where the sample was, for @frame->line. */
int import_label(struct sink *k, uint32_t process, const char *label, size_t len, bool is_first,
		 struct trace_frame *frame);

/* import_note_counts - say that counts were taken for times, at the end. Return: 0. */
int import_note_counts(struct sink *k);

#endif
