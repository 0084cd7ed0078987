// SPDX-License-Identifier: Apache-2.0
#include "profile/forward.h"

#include <stddef.h>

#define FORWARD(member, type)                                            \
	int forward_##member(void *self, const struct type *what)        \
	{                                                                \
		const struct forward *f = self;                          \
                                                                         \
		return f->to->member ? f->to->member(f->self, what) : 0; \
	}

FORWARD(begin, trace_info)
FORWARD(process, trace_process)
FORWARD(thread, trace_thread)
FORWARD(func, trace_func)
FORWARD(event, trace_event)
FORWARD(sample, trace_sample)
FORWARD(memory, trace_memory)
FORWARD(gap, trace_gap)
FORWARD(end, trace_totals)
