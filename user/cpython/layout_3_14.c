// SPDX-License-Identifier: Apache-2.0
/* CPython 3.14. Source: offsetof() over the headers of 3.14.10; free-threaded: with Py_GIL_DISABLED. */
#include "cpython/layouts.h"

/* clang-format off */
static const struct layout_debug_field debug_offsets[] = {
	{  40, LAYOUT_FIELD(rt_interpreters) },
	{  64, LAYOUT_FIELD(is_next) },
	{  72, LAYOUT_FIELD(is_threads) },
	{ 192, LAYOUT_FIELD(ts_next) },
	{ 200, LAYOUT_FIELD(ts_interp) },
	{ 208, LAYOUT_FIELD(ts_frame) },
	{ 216, LAYOUT_FIELD(ts_thread_id) },
	{ 224, LAYOUT_FIELD(ts_native_id) },
	{ 256, LAYOUT_FIELD(f_previous) },
	{ 264, LAYOUT_FIELD(f_code) },
	{ 272, LAYOUT_FIELD(f_instr) },
	{ 288, LAYOUT_FIELD(f_owner) },
	{ 320, LAYOUT_FIELD(co_filename) },
	{ 328, LAYOUT_FIELD(co_name) },
	{ 336, LAYOUT_FIELD(co_qualname) },
	{ 344, LAYOUT_FIELD(co_linetable) },
	{ 352, LAYOUT_FIELD(co_firstlineno) },
	{ 384, LAYOUT_FIELD(co_code_adaptive) },
	{ 624, LAYOUT_FIELD(str_state) },
	{ 632, LAYOUT_FIELD(str_length) },
	{ 640, LAYOUT_FIELD(str_ascii_data) },
	{ 0 },
};

const struct layout layout_3_14 = {
	.py = {
		.minor             = 14,
		.flags             = PYE_LAYOUT_C_ROOT,

		.f_code            = 0,
		.f_previous        = 8,
		.f_instr           = 56,
		.f_owner           = 74,
		.f_state           = PYE_NO_FIELD,
		.f_gen             = PYE_NO_FIELD,
		.f_stack           = PYE_NO_FIELD,

		.co_filename       = 112,
		.co_name           = 120,
		.co_qualname       = 128,
		.co_firstlineno    = 68,
		.co_flags          = 48,
		.co_argcount       = 52,
		.co_code_adaptive  = 208,
		.co_hidden         = 0x2000000,

		.str_length        = 16,
		.str_state         = 32,
		.str_ascii_data    = 40,
		.str_data          = 56,
		.str_kind_mask     = 0x1c,
		.str_compact_mask  = 0x20,
		.str_ascii_mask    = 0x40,

		.ts_next           = 8,
		.ts_interp         = 16,
		.ts_frame          = 72,
		.cframe_frame      = PYE_NO_FIELD,
		.ts_thread_id      = 152,
		.ts_native_id      = 160,
		.ts_exception      = 112,

		.is_next           = 7272,
		.is_threads        = 7344,
		.rt_interpreters   = 808,
		.rt_tstate_current = PYE_NO_FIELD,

		.type_dealloc      = 48,

		.resume_mask       = 3,
		.resume_depth1     = 4,
		.resume_skip       = 0xff,
		.resume_ahead      = 0,
		.yield_ops         = { 120, 247 },
		.resume_ops        = { 128, 196, 245, 255 },

		.ts_status         = 32,
		.co_linetable      = 136,
		.bytes_size        = 16,
		.bytes_data        = 32,
		.is_gil            = 16,
		.rt_gil            = PYE_NO_FIELD,

		.f_locals          = 80,
		.f_stackpointer    = 64,
		.obj_head          = 16,
		.obj_attrs         = PYE_ATTRS_INLINE,
		.obj_dict          = -24,
		.type_keys         = 880,
	},
	.monitoring = { .co_version = 168, .is_version = 0, .ts_tracing = 60, .gil_holder = 8 },
	.jit = { { 225864, 223184 }, { 225880, 223200 } },
	.debug = debug_offsets,
};

const struct layout layout_3_14t = {
	.py = {
		.minor             = 14,
		.flags             = PYE_LAYOUT_FREE_THREADED | PYE_LAYOUT_C_ROOT,

		.f_code            = 0,
		.f_previous        = 8,
		.f_instr           = 56,
		.f_owner           = 78,
		.f_state           = PYE_NO_FIELD,
		.f_gen             = PYE_NO_FIELD,
		.f_stack           = PYE_NO_FIELD,

		.co_filename       = 128,
		.co_name           = 136,
		.co_qualname       = 144,
		.co_firstlineno    = 84,
		.co_flags          = 64,
		.co_argcount       = 68,
		.co_code_adaptive  = 232,
		.co_hidden         = 0x2000000,

		.str_length        = 32,
		.str_state         = 48,
		.str_ascii_data    = 56,
		.str_data          = 72,
		.str_kind_mask     = 0x700,
		.str_compact_mask  = 0x800,
		.str_ascii_mask    = 0x1000,

		.ts_next           = 8,
		.ts_interp         = 16,
		.ts_frame          = 72,
		.cframe_frame      = PYE_NO_FIELD,
		.ts_thread_id      = 152,
		.ts_native_id      = 160,
		.ts_exception      = 112,

		.is_next           = 7272,
		.is_threads        = 7344,
		.rt_interpreters   = 808,
		.rt_tstate_current = PYE_NO_FIELD,

		.type_dealloc      = 64,

		.resume_mask       = 3,
		.resume_depth1     = 4,
		.resume_skip       = 0xff,
		.resume_ahead      = 0,
		.yield_ops         = { 120, 247 },
		.resume_ops        = { 128, 196, 245, 255 },

		.ts_status         = 32,
		.co_linetable      = 152,
		.bytes_size        = 32,
		.bytes_data        = 48,
		.is_gil            = 16,
		.rt_gil            = PYE_NO_FIELD,

		.f_locals          = 80,
		.f_stackpointer    = 64,
		.obj_head          = 32,
		.obj_attrs         = PYE_ATTRS_INLINE,
		.obj_dict          = -8,
		.type_keys         = 896,
	},
	.jit = { { 249976, 228976 }, { 250040, 229000 } },
	.debug = debug_offsets,
};
/* clang-format on */
