/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours of a terminal: only where --color, NO_COLOR, CLICOLOR_FORCE and the terminal itself let them (no-color.org,
 * bixense.com/clicolors). What is shown never depends on them: they repeat what the words say.
 */
#ifndef PYEBPF_BASE_COLOR_H
#define PYEBPF_BASE_COLOR_H

#include <stdio.h>

enum color_when {
	COLOR_AUTO, /* as the environment says, then on a terminal */
	COLOR_ALWAYS,
	COLOR_NEVER
};

enum color {
	COLOR_NONE,
	COLOR_HEAD, /* of a table */
	COLOR_FAINT, /* what is needed least */
	COLOR_BAD,
	COLOR_WARN,
	COLOR_GOOD
};

/* color_choose - of the command line, for the whole program; COLOR_AUTO at start. */
void color_choose(enum color_when when);

/* color_begin - what to print before text of that colour; "" where there are none. Static. */
const char *color_begin(FILE *f, enum color color);

/* color_end - what to print behind it. */
const char *color_end(FILE *f, enum color color);

#endif
