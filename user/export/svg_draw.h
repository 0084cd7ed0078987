/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the boxes of svg_layout.h as an SVG file; who draws says what their colours and figures mean. */
#ifndef PYEBPF_EXPORT_SVG_DRAW_H
#define PYEBPF_EXPORT_SVG_DRAW_H

#include "base/outbuf.h"
#include "export/svg_layout.h"

/* A colour and what it stands for; a list ends with a NULL. */
struct svg_legend {
	const char *class, *text;
};

/**
 * struct svg_paint - what is special about a picture
 * @class_of:    of a box: one of those in the style sheet of svg_draw.c
 * @put_figures: the rest of a box's tooltip, from a newline on; @all_ns is the time of all
 * @put_title:   the two lines on top, with svg_put_line() at y 24 and 44
 */
struct svg_paint {
	void *ctx;
	const char *(*class_of)(void *ctx, const struct svg_box *box);
	void (*put_figures)(struct outbuf *b, void *ctx, const struct svg_box *box,
			    uint64_t all_ns);
	void (*put_title)(struct outbuf *b, void *ctx);
	const struct svg_legend *legend;
};

/* svg_draw - all of the file; errors stay in @b. */
void svg_draw(struct outbuf *b, const struct agg_result *r, const struct svg_layout *l,
	      const struct svg_paint *paint);

/* svg_put_line - of the title; @class is "h" for the heading, "l" for the rest. */
void svg_put_line(struct outbuf *b, int y, const char *class, const char *text);

#endif
