/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a thread that come in a row: from the capture's ring to its file they go many at a time. */
#ifndef PYEBPF_PROFILE_STEP_H
#define PYEBPF_PROFILE_STEP_H

#include <stdint.h>

#include "profile/trace.h"

struct trace_step {
	uint64_t ts_ns;
	uint64_t frame; /* its address, which tells it from the others of the stack */
	uint32_t func; /* id, of an event that is no leave */
	uint8_t kind; /* enum trace_kind, not TRACE_OPEN */
};

#endif
