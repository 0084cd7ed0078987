/* SPDX-License-Identifier: Apache-2.0 */
/* The profile of a window with its samples summed up by stack: threads and processes are not told apart. */
#ifndef PYEBPF_SINK_PPROF_WINDOW_H
#define PYEBPF_SINK_PPROF_WINDOW_H

#include "import/pprof_read.h"

struct window_frame {
	uint32_t function; /* index in names.functions */
	uint32_t line;
};

struct window_stack {
	uint64_t hash; /* of its frames' texts and lines: the same in every profile */
	uint32_t first_frame, frame_cnt; /* outermost first */
};

struct pprof_window {
	struct pprof_reader r;
	struct source source;
	struct window_stack *stacks;
	struct window_frame *frames;
	int64_t *values; /* names.type_cnt for each stack */
	uint32_t stack_cnt, stack_cap, frame_cnt, frame_cap, value_cap;
	struct idmap by_locations;
};

/**
 * pprof_window__read - read a window
 * @p: initialised by this; release with pprof_window__done() in any case
 *
 * Return: 0; -PYE_EFORMAT with a sentence; -ENOMEM.
 */
int pprof_window__read(struct pprof_window *p, int fd, struct err *e);
void pprof_window__done(struct pprof_window *p);

/* pprof_window__value - of a stack, of a type of names.types. */
static inline int64_t pprof_window__value(const struct pprof_window *p, uint32_t stack,
					  uint32_t type)
{
	return p->values[(size_t)stack * p->r.names.type_cnt + type];
}

/* pprof_window__name, pprof_window__file - of a frame; "" where there is none. Borrowed. */
const char *pprof_window__name(const struct pprof_window *p, const struct window_frame *f);
const char *pprof_window__file(const struct pprof_window *p, const struct window_frame *f);

#endif
