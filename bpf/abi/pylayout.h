/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Where things lie in the structures of one CPython build. Filled by user/cpython/layouts.c from
 * the per-version data (and from _Py_DebugOffsets where the interpreter has them), read by the BPF
 * programs and by the walkers on the host. Offsets are bytes; PYE_NO_FIELD: there is no such field.
 */
#ifndef PYEBPF_ABI_PYLAYOUT_H
#define PYEBPF_ABI_PYLAYOUT_H

#include "abi/types.h"

#define PYE_NO_FIELD 0xffff

/* flags of struct pye_pylayout */
#define PYE_LAYOUT_FRAME_OBJECT \
	(1u << 0) /* frames are PyFrameObjects chained by f_back (to 3.10) */
#define PYE_LAYOUT_FREE_THREADED (1u << 1)
#define PYE_LAYOUT_FRAME_STATE	 (1u << 2) /* f_state is the int8 of 3.10, not f_stacktop */
#define PYE_LAYOUT_CFRAME	 (1u << 3) /* tstate -> cframe -> current frame (3.11, 3.12) */
#define PYE_LAYOUT_C_ROOT	 (1u << 4) /* the outermost frame is an entry from C (3.12 on) */

/* The 80 first bytes of an interpreter frame hold every field used of it (from 3.11 on). */
#define PYE_FRAME_READ 80

/* Where the attributes of an instance of a Python class are. */
enum pye_attrs {
	PYE_ATTRS_DICT = 0, /* a dict at tp_dictoffset */
	PYE_ATTRS_BEFORE = 1, /* 3.11: a pointer to values before it, or else one to a dict */
	PYE_ATTRS_TAGGED = 2, /* 3.12: one pointer for both, the lowest bit tells */
	PYE_ATTRS_INLINE = 3, /* 3.13: a dict before the object, or else values behind it */
};

/* Positions in a type object, behind the head that all objects have. */
#define PYE_TYPE_BASICSIZE  16
#define PYE_TYPE_FLAGS	    152
#define PYE_TYPE_DICTOFFSET 272
#define PYE_TYPE_INLINE	    (1u << 2) /* a flag: Py_TPFLAGS_INLINE_VALUES, 3.13 on */

struct pye_pylayout {
	__u16 minor; /* 3.<minor> */
	__u16 flags;

	/* frame: _PyInterpreterFrame, or PyFrameObject to 3.10 */
	__u16 f_code; /* f_code, f_executable: mask the result with ~7 (tags, from 3.14) */
	__u16 f_previous; /* previous, f_back */
	__u16 f_instr; /* prev_instr, instr_ptr (pointer); f_lasti (int) to 3.10 */
	__u16 f_owner; /* byte; >= 3 is an entry from C, no Python frame. None to 3.10 */
	__u16 f_state; /* to 3.10: f_stacktop (pointer) or f_state (int8); 3.12, 3.13: the int8 of a generator, an
			* __s16, since it lies before the frame: negative while suspended; else none */
	__u16 f_gen; /* to 3.10: f_gen; else none */
	__u16 f_stack; /* to 3.10: f_stacktop (pointer), or f_stackdepth (int32) of 3.10: not NULL, not
			* negative while suspended; 3.11: stacktop (int32): negative while it runs and no
			* call of it does; else none */

	/* code object */
	__u16 co_filename, co_name, co_qualname; /* co_qualname: none before 3.11 */
	__u16 co_firstlineno; /* int */
	__u16 co_flags; /* int */
	__u16 co_code_adaptive; /* first instruction, 3.11 on; else none */
	__u16 co_argcount; /* int */
	__u32 co_hidden; /* bits of co_flags that mark the interpreter's own code
			  * (CO_NO_MONITORING_EVENTS, 0x2000000 from 3.12 on); 0 = none */

	/* str */
	__u16 str_length; /* ssize_t, in code points */
	__u16 str_state; /* u32 with the bits below */
	__u16 str_ascii_data; /* data of a compact ASCII string */
	__u16 str_data; /* data of another compact string; else: the pointer to the data */
	__u32 str_kind_mask; /* kind = (state & mask) / lowest bit of mask: 1, 2, 4 bytes each */
	__u32 str_compact_mask, str_ascii_mask;

	/* thread state */
	__u16 ts_next, ts_interp;
	__u16 ts_frame; /* frame, cframe or current_frame */
	__u16 cframe_frame; /* inside the cframe; else none */
	__u16 ts_thread_id; /* pthread_self() */
	__u16 ts_native_id; /* gettid(); none before 3.11 */
	__u16 ts_exception; /* current_exception, curexc_type: non-NULL while unwinding */

	/* interpreter state, _PyRuntime */
	__u16 is_next, is_threads;
	__u16 rt_interpreters; /* head of the list of interpreters */
	__u16 rt_tstate_current; /* gilstate.tstate_current; none from 3.12 on and in 3.6 */

	__u16 type_dealloc; /* tp_dealloc in a type object */

	/* RESUME's argument, 3.11 on: what it says under the mask: 0 call, 1 to 3 resume;
	 * resume_skip: a value that is no event (3.15: prologue of a generator expression) or 0xff */
	__u8 resume_mask, resume_skip;
	/* bit of RESUME's argument: nothing but the outermost handler is active, so close() may
	 * drop the frame without running it (3.14 on, where monitoring tools see a throw then); or 0 */
	__u8 resume_depth1;
	/* What a suspended frame's instruction pointer shows, 3.11 on: RESUME (one of the opcodes, 0xff:
	 * none), so many bytes ahead of it, with an argument of 2 or 3: yield from, await */
	__u8 resume_ahead; /* then there stands one of: */
	__u8 yield_ops[2]; /* from 3.14 on while it yields, else 0 */
	__u8 resume_ops[4];
	/* 3.11: instructions at which a frame with a saved stack pointer (f_stack) does not run: suspended,
	 * not entered yet, or left already; else 0 */
	__u8 idle_ops[4];
	/* 3.11: those before RESUME in which the collector can run; the frame has no saved stack pointer; else 0 */
	__u8 begin_ops[4];
	__u16 f_entry; /* 3.11: offset of a byte that is not 0 in a frame that C called; else 0 */

	/* for samples */
	__u16 ts_status; /* u32, 3.12 on: bit 3 says that the state is the one of its thread */
	__u16 co_linetable; /* co_lnotab to 3.9, co_linetable: a bytes object */
	__u16 bytes_size, bytes_data; /* in a bytes object: ssize_t, first byte */
	/* the interpreter's lock (struct _gil_runtime_state): a pointer to it in the interpreter state, 3.12
	 * on; itself in _PyRuntime, 3.7 to 3.11; else none */
	__u16 is_gil, rt_gil;
	/* 3.6 has it in variables of its own: those of its file lie so many bytes before and behind the pointer
	 * to the state of the thread that has the lock; else 0 */
	__u32 gil_before, gil_behind;

	/* an object and its attributes */
	__u16 obj_head; /* bytes of its head: how many references, the type */
	__u16 obj_attrs; /* enum pye_attrs */
	__s16 obj_dict; /* where the pointer to its dict is, from the object on; 0: as the type says */
	__u16 type_keys; /* in the type: their names, in the order of the values; else 0 */
	__u16 f_locals; /* in a frame, or PyFrameObject: its first local variable */
	__u16 f_stackpointer; /* 3.14 on: while it does not run, where its stack ends, which begins behind the
			       * locals, whose number is the int behind co_firstlineno; else 0 */
};

_Static_assert(sizeof(struct pye_pylayout) == 132, "struct pye_pylayout is part of the ABI");

#endif
