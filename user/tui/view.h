/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody looks at in a live table, and what his keys change of it. */
#ifndef PYEBPF_TUI_VIEW_H
#define PYEBPF_TUI_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/ranking.h"
#include "profile/window.h"

#define VIEW_FILTER_BYTES 64

/* Keys that are no characters; others are code points. */
enum view_key {
	VIEW_KEY_ESCAPE = 27,
	VIEW_KEY_DELETE = 127, /* the character before */
	VIEW_KEY_UP = 0x110000,
	VIEW_KEY_DOWN,
	VIEW_KEY_PAGE_UP,
	VIEW_KEY_PAGE_DOWN,
	VIEW_KEY_HOME,
	VIEW_KEY_END,
	VIEW_KEY_RESIZE,
};

struct view {
	enum ranking_by by;
	enum ranking_sort sort;
	enum window_of of;
	bool waits; /* time off the CPU is known, too */
	bool grouped; /* by process */
	bool frozen;
	bool help;
	bool typing; /* the filter */
	bool quit;
	char filter[VIEW_FILTER_BYTES]; /* rows that have it in their name or place */
	uint32_t first; /* row at the top */
	uint32_t page; /* rows that the screen has room for */
};

/* How much is to be done anew: each includes those before. */
enum view_change {
	VIEW_SAME,
	VIEW_DRAW,
	VIEW_RANK, /* other rows or another order */
	VIEW_READ, /* other samples */
};

/* view__key - a key was pressed. */
enum view_change view__key(struct view *v, uint32_t key);

/* Names of enum ranking_sort where samples are counted; NULL at the end. */
extern const char *const view_sort_names[];

/* view_of_name - for the eye, static. */
const char *view_of_name(enum window_of of);

/* view_help - lines of what the keys do, the last one NULL. */
extern const char *const view_help[];

#endif
