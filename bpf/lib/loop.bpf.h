/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Long loops of the programs. From 5.17 on the kernel has bpf_loop(), whose rounds are plain calls. Before,
 * a loop over the elements of an array stands in for it: each round is a call through a pointer, which costs
 * as much again as the work that is done in it.
 */
#ifndef PYEBPF_LIB_LOOP_BPF_H
#define PYEBPF_LIB_LOOP_BPF_H

extern const volatile bool cfg_loop; /* the kernel has bpf_loop() */

/* LOOP_ROUND - define what loop() calls: STEP(ctx), which ends the loop by returning 1. */
#define LOOP_ROUND(step)                                                           \
	static long step##_of_loop(__u32 n, void *ctx)                             \
	{                                                                          \
		return step(ctx);                                                  \
	}                                                                          \
	static long step##_of_array(void *map, __u32 *key, __u8 *value, void *ctx) \
	{                                                                          \
		return step(ctx);                                                  \
	}

/* LOOP - at most @n rounds; @array has so many elements. */
#define LOOP(step, n, array, ctx)                                              \
	do {                                                                   \
		if (cfg_loop)                                                  \
			bpf_loop(n, step##_of_loop, ctx, 0);                   \
		else                                                           \
			bpf_for_each_map_elem(array, step##_of_array, ctx, 0); \
	} while (0)

#endif
