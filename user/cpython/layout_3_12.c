// SPDX-License-Identifier: Apache-2.0
/* CPython 3.12. Source: offsetof() over the headers of 3.12.1. */
#include "cpython/layouts.h"

/* clang-format off */
const struct layout layout_3_12 = {
	.py = {
		.minor             = 12,
		.flags             = PYE_LAYOUT_CFRAME | PYE_LAYOUT_C_ROOT,

		.f_code            = 0,
		.f_previous        = 8,
		.f_instr           = 56,
		.f_owner           = 70,
		.f_state           = (uint16_t)-5,
		.f_gen             = PYE_NO_FIELD,
		.f_stack           = PYE_NO_FIELD,

		.co_filename       = 112,
		.co_name           = 120,
		.co_qualname       = 128,
		.co_firstlineno    = 68,
		.co_flags          = 48,
		.co_argcount       = 52,
		.co_code_adaptive  = 192,
		.co_hidden         = 0,

		.str_length        = 16,
		.str_state         = 32,
		.str_ascii_data    = 40,
		.str_data          = 56,
		.str_kind_mask     = 0x1c,
		.str_compact_mask  = 0x20,
		.str_ascii_mask    = 0x40,

		.ts_next           = 8,
		.ts_interp         = 16,
		.ts_frame          = 56,
		.cframe_frame      = 0,
		.ts_thread_id      = 136,
		.ts_native_id      = 144,
		.ts_exception      = 96,

		.is_next           = 0,
		.is_threads        = 72,
		.rt_interpreters   = 40,
		.rt_tstate_current = PYE_NO_FIELD,

		.type_dealloc      = 48,

		.resume_mask       = 3,
		.resume_skip       = 0xff,
		.resume_ahead      = 2,
		.yield_ops         = { 150, 243 },
		.resume_ops        = { 151, 240, 255, 255 },

		.ts_status         = 24,
		.co_linetable      = 136,
		.bytes_size        = 16,
		.bytes_data        = 32,
		.is_gil            = 384,
		.rt_gil            = PYE_NO_FIELD,

		.f_locals          = 72,
		.obj_head          = 16,
		.obj_attrs         = PYE_ATTRS_TAGGED,
		.obj_dict          = -24,
		.type_keys         = 880,
	},
	.monitoring = { .co_version = 160, .is_version = 48, .ts_tracing = 0, .gil_holder = 8 },
};
/* clang-format on */
