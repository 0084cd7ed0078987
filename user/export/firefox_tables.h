/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the threads of one file share: strings, sources, resources, functions, frames and stacks.
 * Frames are known for the whole trace (many code objects can be one frame: same name, file and
 * line); each part of a split file numbers those that it uses anew, together with everything that
 * hangs on them, so that no part has a row that nothing refers to.
 *
 * A trace knows no other line of a function than its first: it has one frame, and the two tables have the
 * same rows. Samples have a frame for each line that they were at.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_TABLES_H
#define PYEBPF_EXPORT_FIREFOX_TABLES_H

#include "base/outbuf.h"
#include "base/strpool.h"
#include "export/firefox_map.h"
#include "export/firefox_place.h"
#include "export/firefox_strings.h"
#include "profile/trace.h"

struct ff_frame {
	uint32_t name, file, package; /* strings; file and package FF_NONE if empty */
	uint32_t line; /* first of the function, 0 unknown */
	uint32_t func; /* the frame that stands for the function */
	uint32_t at_line; /* the same as line, or that of samples */
	uint32_t row; /* in this file, FF_NONE: not used yet */
	uint8_t category;
};

struct ff_tables {
	/* whole trace */
	struct strpool strings;
	struct ff_frame *frames;
	uint32_t frame_cap;
	struct ff_map name_file, with_line;
	struct ff_map with_place; /* its indexes are those of frames */
	/* this file */
	struct ff_map used_strings; /* of the whole trace -> index in stringArray */
	struct ff_map sources, resources; /* likewise, by string of the whole trace */
	struct ff_map used_frames, used_funcs; /* of the whole trace -> row */
	struct ff_map stacks; /* {parent + 1, frame row} -> row */
};

/* ff_tables__init - empty. Return: 0 or -ENOMEM (ff_tables__done() is then allowed). */
int ff_tables__init(struct ff_tables *t);

/**
 * ff_tables__frame - the frame of a function, for the whole trace
 *
 * Return: index in frames, FF_NONE: out of memory.
 */
uint32_t ff_tables__frame(struct ff_tables *t, const struct trace_func *func,
			  const struct ff_place *place);

/* ff_tables__frame_at - the same frame at a line; 0: not known. FF_NONE: out of memory. */
uint32_t ff_tables__frame_at(struct ff_tables *t, uint32_t frame, uint32_t line);

/* ff_tables__use_string - index in stringArray of a string of the whole trace. */
uint32_t ff_tables__use_string(struct ff_tables *t, uint32_t string);

/* ff_tables__text - the same for a literal. */
uint32_t ff_tables__text(struct ff_tables *t, const char *s);

/* ff_tables__use_frame - gives a frame a row in this file; not for callers. */
uint32_t ff_tables__use_frame(struct ff_tables *t, uint32_t index);

/* ff_tables__stack - row of the stack that @frame makes on @parent (FF_NONE: the root). */
static inline uint32_t ff_tables__stack(struct ff_tables *t, uint32_t parent, uint32_t frame)
{
	uint32_t row = t->frames[frame].row;

	if (row == FF_NONE) {
		row = ff_tables__use_frame(t, frame);
		if (row == FF_NONE)
			return FF_NONE;
	}
	return ff_map__add(&t->stacks, ff_pair(parent + 1, row));
}

/* ff_tables__write - "shared" as JSON; last, since everything before may add strings. */
void ff_tables__write(struct ff_tables *t, struct outbuf *b);

/* ff_tables__next_file - forget the rows of this file. */
void ff_tables__next_file(struct ff_tables *t);

void ff_tables__done(struct ff_tables *t);

#endif
