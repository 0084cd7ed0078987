// SPDX-License-Identifier: Apache-2.0
/* CPython 3.13. Source: offsetof() over the headers of 3.13.0; free-threaded: with Py_GIL_DISABLED. */
#include "cpython/layouts.h"

/* clang-format off */
static const struct layout_debug_field debug_offsets[] = {
	{  40, LAYOUT_FIELD(rt_interpreters) },
	{  64, LAYOUT_FIELD(is_next) },
	{  72, LAYOUT_FIELD(is_threads) },
	{ 168, LAYOUT_FIELD(ts_next) },
	{ 176, LAYOUT_FIELD(ts_interp) },
	{ 184, LAYOUT_FIELD(ts_frame) },
	{ 192, LAYOUT_FIELD(ts_thread_id) },
	{ 200, LAYOUT_FIELD(ts_native_id) },
	{ 232, LAYOUT_FIELD(f_previous) },
	{ 240, LAYOUT_FIELD(f_code) },
	{ 248, LAYOUT_FIELD(f_instr) },
	{ 264, LAYOUT_FIELD(f_owner) },
	{ 280, LAYOUT_FIELD(co_filename) },
	{ 288, LAYOUT_FIELD(co_name) },
	{ 296, LAYOUT_FIELD(co_qualname) },
	{ 304, LAYOUT_FIELD(co_linetable) },
	{ 312, LAYOUT_FIELD(co_firstlineno) },
	{ 344, LAYOUT_FIELD(co_code_adaptive) },
	{ 544, LAYOUT_FIELD(str_state) },
	{ 552, LAYOUT_FIELD(str_length) },
	{ 560, LAYOUT_FIELD(str_ascii_data) },
	{ 0 },
};

const struct layout layout_3_13 = {
	.py = {
		.minor             = 13,
		.flags             = PYE_LAYOUT_C_ROOT,

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
		.co_code_adaptive  = 200,
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

		.is_next           = 7264,
		.is_threads        = 7344,
		.rt_interpreters   = 632,
		.rt_tstate_current = PYE_NO_FIELD,

		.type_dealloc      = 48,

		.resume_mask       = 3,
		.resume_skip       = 0xff,
		.resume_ahead      = 0,
		.resume_ops        = { 149, 207, 236, 255 },

		.ts_status         = 32,
		.co_linetable      = 136,
		.bytes_size        = 16,
		.bytes_data        = 32,
		.is_gil            = 16,
		.rt_gil            = PYE_NO_FIELD,

		.f_locals          = 72,
		.obj_head          = 16,
		.obj_attrs         = PYE_ATTRS_INLINE,
		.obj_dict          = -24,
		.type_keys         = 880,
	},
	.monitoring = { .co_version = 168, .is_version = 0, .ts_tracing = 60, .gil_holder = 8 },
	.jit_is_object = true,
	/* 3.13.0, its debug build, 3.13.5, its debug build */
	.jit = { { 194968, 193104 }, { 194984, 193120 }, { 194976, 193104 }, { 194992, 193120 } },
	.debug = debug_offsets,
};

const struct layout layout_3_13t = {
	.py = {
		.minor             = 13,
		.flags             = PYE_LAYOUT_FREE_THREADED | PYE_LAYOUT_C_ROOT,

		.f_code            = 0,
		.f_previous        = 8,
		.f_instr           = 56,
		.f_owner           = 70,
		.f_state           = (uint16_t)-5,
		.f_gen             = PYE_NO_FIELD,
		.f_stack           = PYE_NO_FIELD,

		.co_filename       = 128,
		.co_name           = 136,
		.co_qualname       = 144,
		.co_firstlineno    = 84,
		.co_flags          = 64,
		.co_argcount       = 68,
		.co_code_adaptive  = 216,
		.co_hidden         = 0x2000000,

		.str_length        = 32,
		.str_state         = 48,
		.str_ascii_data    = 56,
		.str_data          = 72,
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

		.is_next           = 7264,
		.is_threads        = 7344,
		.rt_interpreters   = 632,
		.rt_tstate_current = PYE_NO_FIELD,

		.type_dealloc      = 64,

		.resume_mask       = 3,
		.resume_skip       = 0xff,
		.resume_ahead      = 0,
		.resume_ops        = { 149, 207, 236, 255 },

		.ts_status         = 32,
		.co_linetable      = 152,
		.bytes_size        = 32,
		.bytes_data        = 48,
		.is_gil            = 16,
		.rt_gil            = PYE_NO_FIELD,

		.f_locals          = 72,
		.obj_head          = 32,
		.obj_attrs         = PYE_ATTRS_INLINE,
		.obj_dict          = -8,
		.type_keys         = 896,
	},
	.monitoring = { .co_version = 184, .is_version = 0, .ts_tracing = 60, .gil_holder = 8 },
	.jit_is_object = true,
	.jit = { { 215616, 196192 }, { 218112, 196272 } },
	.debug = debug_offsets,
};
/* clang-format on */
