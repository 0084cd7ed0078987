// SPDX-License-Identifier: Apache-2.0
#include "profile/trace.h"

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
