/* SPDX-License-Identifier: Apache-2.0 */
/* bpf/py for the host: included by one source of a test, over host.h. */
#ifndef PYEBPF_HOST_WALKERS_H
#define PYEBPF_HOST_WALKERS_H

#include <stdlib.h>

#define on_exit on_frame_exit /* stdlib.h has another one */
#include "py/event.bpf.h"

/* What bpf/core.bpf.c defines in the kernel. */
struct layouts_map layouts;
struct threads_map threads;
struct counters_map counters;
struct rings_map rings;
struct defs_map defs;
struct control_map control;
__u32 next_pix = 1;
const volatile bool cfg_sleepable = true;
/* Tests change it. */
volatile bool host_loop __asm__("cfg_loop");
const volatile __u32 cfg_filter, cfg_max_depth;
char thread_glob[PYE_FILTER_NAME];
const volatile char cfg_tail[PYE_FILTER_TAIL];
const volatile __u32 cfg_tail_of;
const volatile bool cfg_tail_any;
const volatile __u64 cfg_ring_free_min = 4096;
/* Tests change it. */
volatile __u32 host_walk_records __asm__("cfg_walk_records") = 4096;

static inline void walkers_maps(void)
{
	host_map(&layouts, HOST_ARRAY, 4, sizeof(struct pye_pylayout), PYE_LAYOUTS_MAX);
	host_map(&counters, HOST_ARRAY, 4, 8, CNT_MAX);
	host_map(&rounds, HOST_ARRAY, 4, 1, PYE_WALK_MAX);
	host_map(&code_slots, HOST_ARRAY, 4, sizeof(struct code_slot), PYE_CODE_SLOTS);
	host_map(&codes, HOST_HASH, 8, 4, 4096);
	host_map(&rings, HOST_RINGS, 4, 4, PYE_RINGS_MAX);
	host_map(&defs, HOST_RING, 0, 0, PYE_DEFS_BYTES);
}

static inline u64 walkers_counter(u32 counter)
{
	return *(u64 *)host_map_lookup(&counters, &counter);
}

/* walkers_thread - the thread after host_reset(), with a layout. */
static inline struct thread *walkers_thread(const struct pye_pylayout *layout)
{
	struct thread *t = host_thread_storage(sizeof(*t));
	u32 zero = 0;

	host_map_update(&layouts, &zero, layout);
	t->tix = 1;
	t->pix = 1;
	return t;
}

#endif
