/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory track of each sampled process: a counter of the Firefox Profiler. A process has at most
 * FF_MEMORY_POINTS in a file, more than a screen has pixels: when they are used up every second one goes.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_MEMORY_H
#define PYEBPF_EXPORT_FIREFOX_MEMORY_H

#include <stdint.h>

struct firefox;
struct trace_memory;

#define FF_MEMORY_POINTS 4096u

struct ff_memory_point {
	uint64_t ns; /* of the profile */
	uint64_t bytes;
};

/* A zeroed one is empty. */
struct ff_memory {
	struct ff_memory_point *points;
	uint32_t cnt, cap;
	uint64_t every_ns; /* no two of them are closer, but for the last one */
};

/* ff_memory - member of struct trace_consumer. */
int ff_memory(void *self, const struct trace_memory *memory);

/* ff_memory_write - the array "counters". @shown: indexes of the threads written, @cnt of them. */
void ff_memory_write(struct firefox *ff, const uint32_t *shown, uint32_t cnt);

/* ff_memory_next_file - each process begins with what it had at the cut. */
void ff_memory_next_file(struct firefox *ff, uint64_t cut_ns);

#endif
