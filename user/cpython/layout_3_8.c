// SPDX-License-Identifier: Apache-2.0
/* CPython 3.8. Source: offsetof() over the headers of 3.8.18. */
#include "cpython/layouts.h"

/* clang-format off */
const struct layout layout_3_8 = {
	.py = {
		.minor             = 8,
		.flags             = PYE_LAYOUT_FRAME_OBJECT,

		.f_code            = 32,
		.f_previous        = 24,
		.f_instr           = 104,
		.f_owner           = PYE_NO_FIELD,
		.f_state           = 72,
		.f_gen             = 96,
		.f_stack           = 72,

		.co_filename       = 104,
		.co_name           = 112,
		.co_qualname       = PYE_NO_FIELD,
		.co_firstlineno    = 40,
		.co_flags          = 36,
		.co_argcount       = 16,
		.co_code_adaptive  = PYE_NO_FIELD,
		.co_hidden         = 0,

		.str_length        = 16,
		.str_state         = 32,
		.str_ascii_data    = 48,
		.str_data          = 72,
		.str_kind_mask     = 0x1c,
		.str_compact_mask  = 0x20,
		.str_ascii_mask    = 0x40,

		.ts_next           = 8,
		.ts_interp         = 16,
		.ts_frame          = 24,
		.cframe_frame      = PYE_NO_FIELD,
		.ts_thread_id      = 176,
		.ts_native_id      = PYE_NO_FIELD,
		.ts_exception      = 88,

		.is_next           = 0,
		.is_threads        = 8,
		.rt_interpreters   = 32,
		.rt_tstate_current = 1368,

		.type_dealloc      = 48,

		.resume_mask       = 0,
		.resume_skip       = 0xff,

		.ts_status         = PYE_NO_FIELD,
		.co_linetable      = 120,
		.bytes_size        = 16,
		.bytes_data        = 32,
		.is_gil            = PYE_NO_FIELD,
		.rt_gil            = 1152,

		.f_locals          = 360,
		.obj_head          = 16,
		.obj_attrs         = PYE_ATTRS_DICT,
	},
};
/* clang-format on */
