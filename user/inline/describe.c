// SPDX-License-Identifier: Apache-2.0
/* What the stubs find in the private page: where all else lies, and what objects of this interpreter look like. */
#include "inline/engine.h"

#include <string.h>

#include "cpython/layouts.h"
#include "inline/engine_priv.h"
#include "inline/region_count.h"

void inline_describe(const struct pye_pylayout *l, uint64_t base, size_t ring_bytes, bool wait,
		     struct il_private *p)
{
	*p = (struct il_private){
		.limit = ring_bytes - IL_SLACK,
		.room = ring_bytes - IL_SLACK,
		.slack = IL_SLACK,
		.mask = ring_bytes - 1,
		.ring = base + IL_RING,
		.active = 1,
		.size = ring_bytes,
		.wait = wait,
		.shared = base + IL_SHARED,
		.threads = base + IL_THREADS,
		.thread_mask = IL_THREAD_CNT - 1,
		.cache = base + IL_CACHE,
		.f_code = l->f_code,
		.f_previous = l->f_previous,
		.f_owner = l->f_owner,
		.f_instr = l->f_instr,
		.co_filename = l->co_filename,
		.co_name = l->co_name,
		.co_qualname = l->co_qualname,
		.co_firstlineno = l->co_firstlineno,
		.co_flags = l->co_flags,
		.co_hidden = l->co_hidden,
		.str_length = l->str_length,
		.str_state = l->str_state,
		.str_ascii_data = l->str_ascii_data,
		.str_data = l->str_data,
		.str_kind_mask = l->str_kind_mask,
		.str_kind_shift = (uint32_t)__builtin_ctz(l->str_kind_mask),
		.str_compact_mask = l->str_compact_mask,
		.str_ascii_mask = l->str_ascii_mask,
		.resume_mask = l->resume_mask,
		.resume_depth1 = l->resume_depth1,
		.ts_exception = l->ts_exception,
		.f_state = l->f_state,
		.ts_frame = l->ts_frame,
		.cframe_frame = l->cframe_frame,
		.f_locals = l->f_locals,
		.f_stackpointer = l->f_stackpointer,
		.state_is_byte = l->flags & PYE_LAYOUT_FRAME_STATE,
	};
}

void inline_describe_opcodes(const struct pye_pylayout *l, struct il_private *p)
{
	p->slack = IL_SLACK + IL_LINES_MAX;
	p->limit = p->room = p->size - p->slack;
	p->co_linetable = l->co_linetable;
	p->bytes_size = l->bytes_size;
	p->bytes_data = l->bytes_data;
}

void inline_describe_lanes(uint64_t base, size_t ring_bytes, size_t lane_ring, struct il_private *p)
{
	p->lanes = base + IL_RING + 2 * ring_bytes;
	p->lane_ring = lane_ring;
}

void inline_describe_roots(const struct pye_pylayout *l, uint64_t base, struct il_private *p)
{
	p->roots = base + IL_ROOTS;
	memcpy(p->idle_ops, l->idle_ops, sizeof(p->idle_ops));
	memcpy(p->begin_ops, l->begin_ops, sizeof(p->begin_ops));
	p->f_stack = l->f_stack;
	p->f_entry = l->f_entry;
}

void inline_describe_quiet(uint64_t base, struct il_private *p)
{
	p->quiet = base + IL_QUIET;
	p->retired = base + IL_RETIRED;
}

void inline_describe_tables(uint64_t base, bool timed, struct il_private *p)
{
	p->funcs = base + IL_FUNCS;
	p->nodes = timed ? base + IL_NODES : 0;
	p->active_frames = timed ? base + IL_ACTIVE : 0;
	p->spans = timed ? base + IL_SPANS : 0;
}

void inline_describe_turns(const struct pye_pylayout *l, uint64_t interpreters,
			   struct il_private *p)
{
	p->interpreters = interpreters;
	p->begins = l->minor >= 13 ? interpreters + IL_INTERPRETERS_MUTEX : 0;
	p->is_gil = l->is_gil;
	p->is_next = l->is_next;
}

void inline_describe_running(const struct pye_pylayout *l, uint64_t interpreters,
			     int32_t tstate_tls, struct il_private *p)
{
	const struct layout_monitoring *m = layout_monitoring(l);

	if (!m->co_version)
		return;
	p->monitored = interpreters;
	p->tstate_tls = tstate_tls;
	p->gil_holder = m->gil_holder;
	p->ts_thread_id = l->ts_thread_id;
}

void inline_describe_monitoring(const struct pye_pylayout *l, uint64_t interpreters,
				int32_t tstate_tls, uint64_t base, struct il_private *p)
{
	const struct layout_monitoring *m = layout_monitoring(l);

	if (!m->co_version)
		return;
	inline_describe_running(l, interpreters, tstate_tls, p);
	p->version_at = base + IL_PRIVATE + offsetof(struct il_private, no_version);
	p->unlike_any = UINT64_MAX;
	p->co_version = m->co_version;
	p->is_version = m->is_version;
	p->ts_interp = l->ts_interp;
	p->ts_tracing = m->ts_tracing;
}

int inline_fill_private(struct inline_engine *e, const struct inline_opts *opts)
{
	const struct pye_pylayout *l = &e->in->layout;
	struct il_private private;

	inline_describe(l, e->base, e->ring_bytes, opts->wait, &private);
	if (opts->opcodes)
		inline_describe_opcodes(l, &private);
	e->slack = private.slack;
	private.clock = e->clock;
	private.locked = e->locked;
	/* all take the way where the lock is */
	private.limit = e->locked ? 0 : private.limit;
	if (e->lane_ring)
		inline_describe_lanes(e->base, e->ring_bytes, e->lane_ring, &private);
	if (e->switches)
		inline_describe_roots(l, e->base, &private);
	if (e->quiet)
		inline_describe_quiet(e->base, &private);
	if (e->counted)
		inline_describe_tables(e->base, e->timed, &private);
	if (e->turns)
		inline_describe_turns(l, e->in->interpreters, &private);
	if (e->versions)
		inline_describe_monitoring(l, e->in->interpreters, e->tstate_tls, e->base,
					   &private);
	/* what closes a generator is asked for: no event shows it */
	if (e->switches && l->minor >= 14 && e->in->interpreters && (e->turns || e->tstate_tls))
		inline_describe_running(l, e->in->interpreters, e->tstate_tls, &private);
	private.tstate_current = e->in->plan.tstate_current + e->in->bias;
	inline__alive(e);
	return remote__write(&e->remote, e->base + IL_PRIVATE, &private, sizeof(private));
}
