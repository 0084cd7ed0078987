// SPDX-License-Identifier: Apache-2.0
/* CPython 3.15. Source: offsetof() over the headers of 3.15.2; free-threaded: with Py_GIL_DISABLED. */
#include "cpython/layouts.h"

/* clang-format off */
static const struct layout_debug_field debug_offsets[] = {
	{  40, LAYOUT_FIELD(rt_interpreters) },
	{  64, LAYOUT_FIELD(is_next) },
	{  72, LAYOUT_FIELD(is_threads) },
	{ 192, LAYOUT_FIELD(ts_next) },
	{ 200, LAYOUT_FIELD(ts_interp) },
	{ 208, LAYOUT_FIELD(ts_frame) },
	{ 240, LAYOUT_FIELD(ts_thread_id) },
	{ 248, LAYOUT_FIELD(ts_native_id) },
	{ 320, LAYOUT_FIELD(f_previous) },
	{ 328, LAYOUT_FIELD(f_code) },
	{ 336, LAYOUT_FIELD(f_instr) },
	{ 352, LAYOUT_FIELD(f_owner) },
	{ 384, LAYOUT_FIELD(co_filename) },
	{ 392, LAYOUT_FIELD(co_name) },
	{ 400, LAYOUT_FIELD(co_qualname) },
	{ 408, LAYOUT_FIELD(co_linetable) },
	{ 416, LAYOUT_FIELD(co_firstlineno) },
	{ 448, LAYOUT_FIELD(co_code_adaptive) },
	{ 720, LAYOUT_FIELD(str_state) },
	{ 728, LAYOUT_FIELD(str_length) },
	{ 736, LAYOUT_FIELD(str_ascii_data) },
	{ 0 },
};

const struct layout layout_3_15 = {
	.py = {
		.minor             = 15,
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
		.ts_thread_id      = 176,
		.ts_native_id      = 184,
		.ts_exception      = 136,

		.is_next           = 7264,
		.is_threads        = 7336,
		.rt_interpreters   = 936,
		.rt_tstate_current = PYE_NO_FIELD,

		.type_dealloc      = 48,

		.resume_mask       = 7,
		.resume_depth1     = 8,
		.resume_skip       = 4,
		.resume_ahead      = 0,
		.yield_ops         = { 119, 246 },
		.resume_ops        = { 128, 200, 201, 244 },

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
		.type_keys         = 888,
	},
	.monitoring = { .co_version = 168, .is_version = 0, .ts_tracing = 64, .gil_holder = 8 },
	.jit = { { 226240, 223408 }, { 226256, 223424 } },
	.debug = debug_offsets,
};

const struct layout layout_3_15t = {
	.py = {
		.minor             = 15,
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
		.ts_thread_id      = 176,
		.ts_native_id      = 184,
		.ts_exception      = 136,

		.is_next           = 7264,
		.is_threads        = 7336,
		.rt_interpreters   = 936,
		.rt_tstate_current = PYE_NO_FIELD,

		.type_dealloc      = 64,

		.resume_mask       = 7,
		.resume_depth1     = 8,
		.resume_skip       = 4,
		.resume_ahead      = 0,
		.yield_ops         = { 119, 246 },
		.resume_ops        = { 128, 200, 201, 244 },

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
		.type_keys         = 904,
	},
	.jit = { { 250336, 229144 }, { 250400, 229168 } },
	.debug = debug_offsets,
};
/* clang-format on */
