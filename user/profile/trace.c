// SPDX-License-Identifier: Apache-2.0
#include "profile/trace.h"

#include <string.h>

const char *trace_loss_name(unsigned int loss)
{
	static const char *const names[] = {
#define X(id, number, name, text) [number] = (name),
		TRACE_LOSSES(X)
#undef X
	};

	return loss < LOSS_CNT ? names[loss] : "unknown";
}

const char *trace_gap_name(unsigned int reason)
{
	static const char *const names[] = {
#define X(id, number, name, text) [number] = (name),
		TRACE_GAPS(X)
#undef X
	};

	return reason < GAP_CNT ? names[reason] : "unknown";
}

void trace_cost_by_kind(const struct trace_cost *cost, uint32_t *before_ns, uint32_t *after_ns)
{
	for (unsigned int kind = 0; kind < TRACE_KIND_CNT; kind++) {
		bool leave = trace_is_leave(kind);

		before_ns[kind] = leave ? cost->exit_before_ns : cost->entry_before_ns;
		after_ns[kind] = leave ? cost->exit_after_ns : cost->entry_after_ns;
	}
	before_ns[TRACE_OPEN] = after_ns[TRACE_OPEN] = 0; /* a frame that was found is no event */
}

const char *trace_reason_name(unsigned int reason)
{
	static const char *const names[] = {
#define X(id, number, name, text) [number] = (name),
		TRACE_REASONS(X)
#undef X
	};

	return reason < REASON_CNT ? names[reason] : "unknown";
}

const char *trace_lock_name(unsigned int lock)
{
	static const char *const names[] = {
#define X(id, number, name, text) [number] = (name),
		TRACE_LOCKS(X)
#undef X
	};

	return lock < LOCK_CNT ? names[lock] : "unknown";
}

const char *trace_kind_name(unsigned int kind)
{
	static const char *const names[] = { "python", "native", "kernel" };

	return kind < FUNC_KIND_CNT ? names[kind] : "unknown";
}

const char *trace_native_file(const char *file)
{
	const char *slash = file ? strrchr(file, '/') : NULL;

	return slash ? slash + 1 : file ? file : "";
}
