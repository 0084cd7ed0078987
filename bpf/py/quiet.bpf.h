/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Filters: which frames are quiet. They are on the tracked stack like others and are told apart where a
 * record would be written. Without a filter the kernel's verifier takes all of this out.
 */
#ifndef PYEBPF_PY_QUIET_BPF_H
#define PYEBPF_PY_QUIET_BPF_H

#include "py/code.bpf.h"

/* The slot of a frame of this code object; @id: 0 is not known. */
static __always_inline u64 slot_of(u64 frame, u32 id)
{
	u64 slot = frame | (id & PYE_CODE_GENERATOR ? SLOT_GENERATOR : 0);

	if (cfg_filter & PYE_FILTER_CODE && id & PYE_CODE_QUIET)
		slot |= SLOT_QUIET;
	return slot;
}

static __always_inline u32 depth_of(struct thread *t)
{
	return t->valid + t->below;
}

/* Is a frame of this slot, in this depth, quiet? */
static __always_inline bool is_quiet(struct thread *t, u64 slot, u32 depth)
{
	if (cfg_filter & PYE_FILTER_CODE && slot & SLOT_QUIET)
		return true;
	if (cfg_filter & PYE_FILTER_ROOT && (!t->root_at || depth < t->root_at))
		return true;
	return cfg_filter & PYE_FILTER_DEPTH && depth > cfg_max_depth;
}

/* The frame on top has been pushed. */
static __always_inline void root_pushed(struct thread *t, u32 id)
{
	if (cfg_filter & PYE_FILTER_ROOT && id & PYE_CODE_CHOSEN && !t->root_at)
		t->root_at = depth_of(t);
}

/* The frame on top will be popped. */
static __always_inline void root_pops(struct thread *t)
{
	if (cfg_filter & PYE_FILTER_ROOT && depth_of(t) <= t->root_at)
		t->root_at = 0;
}

/* Is the frame on top, with this slot? */
static __always_inline bool top_is_quiet(struct thread *t, u64 slot)
{
	return is_quiet(t, slot, depth_of(t));
}

/* Would a frame be, if it were pushed now? */
static __always_inline bool entry_is_quiet(struct thread *t, u32 id)
{
	if (cfg_filter & PYE_FILTER_ROOT && !t->root_at && id & PYE_CODE_CHOSEN)
		return false;
	return is_quiet(t, slot_of(0, id), depth_of(t) + 1);
}

/* A walk's records have the time of the hit: it may be shown without an event. */
static __always_inline void hit_at(struct thread *t, u64 ts)
{
	if (cfg_filter)
		t->now_ns = ts;
}

#endif
