/* SPDX-License-Identifier: Apache-2.0 */
/* A live table as lines of text: for a screen, for what stays when it is gone, for a pipe. */
#ifndef PYEBPF_TUI_TABLE_H
#define PYEBPF_TUI_TABLE_H

#include "tui/view.h"

#define TABLE_LINE_BYTES 1024
#define TABLE_HEAD_LINES 4

enum table_style {
	TABLE_PLAIN,
	TABLE_TITLE,
	TABLE_HEADING, /* of the columns */
	TABLE_GROUP, /* a process, above its rows */
	TABLE_HINT,
};

struct table_line {
	char text[TABLE_LINE_BYTES]; /* escaped, in the terminal's encoding */
	enum table_style style;
};

/* What is said above the rows. */
struct table_about {
	const char *what; /* the targets, escaped */
	uint64_t elapsed_ns; /* of the run */
	uint64_t window_ns; /* that the rows are of; not 0 */
	uint64_t rate; /* samples of a CPU per second */
	const char *note; /* instead of rows, where there are none */
};

/* A line of the table: a row of the ranking, or a process above its rows. */
struct table_row {
	const struct ranking_row *row;
	bool group;
};

struct table {
	const struct window *window; /* borrowed; NULL: nothing yet */
	struct ranking rows, processes;
	struct table_row *lines; /* owned */
	uint32_t cnt;
};

/**
 * table__init - the rows that a view shows, in its order
 * @w: after its end(); borrowed until table__done(); NULL: no rows
 *
 * Return: 0 or -ENOMEM; then there are none.
 */
int table__init(struct table *t, const struct window *w, const struct view *v);
void table__done(struct table *t);

/* table_head - the lines above the rows, TABLE_HEAD_LINES of them. */
void table_head(const struct table *t, const struct view *v, const struct table_about *about,
		int width, struct table_line *out);

/* table_line - row number @i < cnt. */
void table_line(const struct table *t, const struct view *v, const struct table_about *about,
		uint32_t i, int width, struct table_line *out);

/**
 * table_screen - all lines of a screen: head, rows from v->first on, and what the keys do
 * @v:   first is set to what can be shown, page to the rows that there is room for
 * @out: room for @height lines
 */
void table_screen(const struct table *t, struct view *v, const struct table_about *about, int width,
		  int height, struct table_line *out);

#endif
