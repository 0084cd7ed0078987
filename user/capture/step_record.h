/* SPDX-License-Identifier: Apache-2.0 */
/* An event of a row as the record that it would have been. */
#ifndef PYEBPF_CAPTURE_STEP_RECORD_H
#define PYEBPF_CAPTURE_STEP_RECORD_H

#include "abi/event.h"
#include "profile/step.h"

_Static_assert(TRACE_CALL + PYE_ENTRY_RESUME == TRACE_RESUME &&
		       TRACE_CALL + PYE_ENTRY_THROW == TRACE_THROW &&
		       TRACE_RETURN + PYE_EXIT_YIELD == TRACE_YIELD &&
		       TRACE_RETURN + PYE_EXIT_UNWIND == TRACE_UNWIND,
	       "the kinds of events are in the same order");

/* step_record - bytes of @out: a struct pye_entry_rec, of which an exit is the beginning. @caller: hash of its frame, if it is known */
static inline uint32_t step_record(const struct trace_step *s, uint32_t tix, uint32_t seq,
				   uint32_t caller, struct pye_entry_rec *out)
{
	bool leaves = trace_is_leave(s->kind);

	*out = (struct pye_entry_rec){
		.head = { .ts_ns = s->ts_ns,
			  .frame = s->frame,
			  .kind = leaves ? PYE_REC_EXIT : PYE_REC_ENTRY,
			  .sub = (uint8_t)(s->kind - (leaves ? TRACE_RETURN : TRACE_CALL)),
			  .tix = tix,
			  .seq = seq },
		.code = s->func,
		.caller = caller
	};
	return leaves ? sizeof(struct pye_exit_rec) : sizeof(*out);
}

#endif
