/* SPDX-License-Identifier: Apache-2.0 */
/* Where the frames of a flame graph lie: boxes in rows, each under its caller's, widths in ns. */
#ifndef PYEBPF_EXPORT_SVG_LAYOUT_H
#define PYEBPF_EXPORT_SVG_LAYOUT_H

#include <stdint.h>

#include "profile/aggregate.h"

enum svg_kind {
	SVG_ALL, /* everything: the first box */
	SVG_PROCESS, /* index: of the process */
	SVG_THREAD, /* index: of the thread */
	SVG_FRAME, /* index: of the stack */
	SVG_GAP, /* index: of the thread whose stack is not known */
	SVG_CUT, /* index: of a stack; stands for all frames from there on, too deep to draw */
};

struct svg_box {
	uint64_t start_ns, ns;
	uint32_t parent; /* index of a box before it; of the first one: itself */
	uint32_t index;
	uint32_t row;
	enum svg_kind kind;
};

struct svg_layout {
	struct svg_box *boxes; /* owned; parents before children */
	uint32_t cnt;
	uint32_t row_cnt;
	uint64_t min_ns; /* frames with less are left out */
	uint64_t left_out_cnt;
};

enum {
	SVG_BOXES_MAX = 12000,
	SVG_ROWS_MAX = 300
};

/**
 * svg_layout__init - lay out an aggregate
 *
 * The children of a box follow each other from its start on, the widest first. They are not wider than
 * it together: the rest is its self time and what is left out to keep to SVG_BOXES_MAX frames.
 *
 * Return: 0 or -ENOMEM; then svg_layout__done() is not needed.
 */
int svg_layout__init(struct svg_layout *l, const struct agg_result *r);

void svg_layout__done(struct svg_layout *l);

#endif
