/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock that the stubs read: the time stamp counter where all processors have the same steady one, else
 * CLOCK_MONOTONIC by way of the code that the kernel maps into each process (the vdso).
 */
#ifndef PYEBPF_INLINE_STUB_CLOCK_H
#define PYEBPF_INLINE_STUB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct maps;

struct clock_pair {
	uint64_t tsc, ns;
};

uint64_t tsc_now(void);
uint64_t tsc_per_second(void); /* takes 2 ms; a guess where it is not steady */

/* tsc_cost_ns - what it takes to read the counter, one time after the other; of some tries the best. Takes 0.1 ms */
double tsc_cost_ns(void);

/* clock_pair_read - the counter and CLOCK_MONOTONIC at one moment, within some 10 ns */
struct clock_pair clock_pair_read(void);

/* tsc_is_steady - does the processor say so, and has the kernel not found otherwise? The first answer stays. */
bool tsc_is_steady(void);

/**
 * stub_clock_find - the vdso's clock_gettime()
 * @maps: of the process
 * @at:   its address there
 *
 * Return: 0; -ENOENT, -EFAULT or another negative errno when there is none that can be read, or it is not as ours is.
 */
int stub_clock_find(pid_t pid, const struct maps *maps, uint64_t *at);

/* stub_clock_is_shifted - does a process see another CLOCK_MONOTONIC, that of its own time namespace? */
bool stub_clock_is_shifted(pid_t pid);

#endif
