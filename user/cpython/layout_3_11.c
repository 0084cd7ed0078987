// SPDX-License-Identifier: Apache-2.0
/* CPython 3.11. Source: offsetof() over the headers of 3.11.7. */
#include "cpython/layouts.h"

/* clang-format off */
const struct layout layout_3_11 = {
	.py = {
		.minor             = 11,
		.flags             = PYE_LAYOUT_CFRAME,

		.f_code            = 32,
		.f_previous        = 48,
		.f_instr           = 56,
		.f_owner           = 69,
		.f_entry           = 68,
		.f_state           = PYE_NO_FIELD,
		.f_gen             = PYE_NO_FIELD,
		.f_stack           = 64,

		.co_filename       = 112,
		.co_name           = 120,
		.co_qualname       = 128,
		.co_firstlineno    = 72,
		.co_flags          = 48,
		.co_argcount       = 56,
		.co_code_adaptive  = 184,
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
		.ts_frame          = 56,
		.cframe_frame      = 8,
		.ts_thread_id      = 152,
		.ts_native_id      = 160,
		.ts_exception      = 96,

		.is_next           = 0,
		.is_threads        = 16,
		.rt_interpreters   = 40,
		.rt_tstate_current = 576,

		.type_dealloc      = 48,

		.resume_mask       = 3,
		.resume_skip       = 0xff,
		.idle_ops          = { 151, 150, 83, 86 }, /* RESUME, RESUME_QUICK, RETURN_VALUE, YIELD_VALUE */
		.begin_ops         = { 75, 135 }, /* RETURN_GENERATOR, MAKE_CELL */

		.ts_status         = PYE_NO_FIELD,
		.co_linetable      = 136,
		.bytes_size        = 16,
		.bytes_data        = 32,
		.is_gil            = PYE_NO_FIELD,
		.rt_gil            = 360,

		.f_locals          = 72,
		.obj_head          = 16,
		.obj_attrs         = PYE_ATTRS_BEFORE,
		.obj_dict          = -24,
		.type_keys         = 872,
	},
};
/* clang-format on */
