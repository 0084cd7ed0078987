/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs from version to version of CPython and is needed to plan probes, as data. To add one:
 * a row in opcodes.c; its numbers are in Include/opcode_ids.h, the unused ones those that are missing
 * there, the rest in the structures named beside the fields.
 */
#ifndef PYEBPF_CPYTHON_OPCODES_H
#define PYEBPF_CPYTHON_OPCODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/plan.h"

/* How a frame's end is seen. */
enum exit_style {
	EXIT_EVAL, /* an edge to the epilogue of the eval function, which also is the entry */
	EXIT_HANDLERS, /* the return handlers and the place that unwinds */
	EXIT_CLEAR, /* the function that clears every frame that ends */
};

struct opcode_handler {
	const char *name;
	uint8_t number;
	uint8_t kind; /* enum probe_kind: PROBE_RESUME, PROBE_RETURN, PROBE_YIELD; 0: another one
		       * that leaves a frame, of interest only to tell it apart */
};

struct python_version {
	uint8_t minor;
	uint8_t exit; /* enum exit_style */
	const char *unused; /* opcode numbers without a handler: "0,6-8,159-255" */
	bool cache_unreachable; /* CACHE (0) is __builtin_unreachable(): a compiler may have it go where unused numbers go */
	struct opcode_handler handlers[12]; /* ends with a NULL name */
	uint16_t instr_ptr; /* _PyInterpreterFrame.prev_instr, instr_ptr */
	uint16_t previous; /* _PyInterpreterFrame.previous */
	uint16_t is_entry; /* _PyInterpreterFrame.is_entry; 0 = none */
	uint16_t recursion; /* PyThreadState.recursion_remaining, with is_entry */
	uint16_t tstate_current; /* _PyRuntime.gilstate.tstate_current; 0 = none */
	uint16_t debug_offsets; /* bytes of _Py_DebugOffsets at _PyRuntime; 0 = none */
	uint16_t tstate_frame; /* EXIT_EVAL: PyThreadState.frame */
	uint8_t eval_frame_arg; /* EXIT_EVAL: which argument of the eval function is the frame; the next
				  * one is throwflag, and the same one the result of
				  * _Py_CheckFunctionResult */
	uint8_t dealloc; /* PyTypeObject.tp_dealloc */
	uint8_t dealloc_nogil; /* the same in free-threaded builds; 0 = there are none */
	bool close_skips; /* gen_close() may drop a suspended frame without running it, in which the
			   * interpreter's own monitoring sees a throw and an unwind */
	uint16_t type_methods, type_methods_nogil; /* PyTypeObject.tp_methods, with close_skips */
	bool usdt; /* function__entry and function__return see every frame */
	uint8_t caught
		[2]; /* opcodes that begin exception handlers: PUSH_EXC_INFO, CLEANUP_THROW; 0 = none */
	const char *clear_symbol; /* EXIT_CLEAR: its name, if not stripped */
	const char *tstate_symbol; /* variable with the thread state that holds the GIL, or NULL */
};

extern const struct python_version python_versions[];
extern const size_t python_version_cnt;

/* python_version_names - "3.6 to 3.15", for messages. Static. */
const char *python_version_names(void);

#endif
