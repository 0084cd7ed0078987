// SPDX-License-Identifier: Apache-2.0
/*
 * The rows of opcodes.h, from the headers of each version. The unused numbers are a version's
 * fingerprint in the dispatch table (optable.c).
 */
#include "cpython/opcodes.h"

#include <stdio.h>

/* clang-format off */
#define ENTRY(name, number) { #name, number, PROBE_RESUME }
#define LEAVE(name, number) { #name, number, PROBE_RETURN }
#define YIELD(name, number) { #name, number, PROBE_YIELD }
#define OTHER(name, number) { #name, number, 0 }

const struct python_version python_versions[] = {
	{
		.minor = 6, .exit = EXIT_EVAL, .tstate_frame = 24, .eval_frame_arg = 0, .dealloc = 48,
		.tstate_symbol = "_PyThreadState_Current",
		.unused = "0,6-8,13-14,18,21,30-49,53-54,58,74,99,117-118,123,128-129,134,139-140,159-255",
	}, {
		.minor = 7, .exit = EXIT_EVAL, .tstate_frame = 24, .eval_frame_arg = 0, .dealloc = 48,
		.tstate_current = 1480,
		.unused = "0,6-8,13-14,18,21,30-49,53-54,58,74,99,117-118,123,127-129,134,139-140,159,162-255",
	}, {
		.minor = 8, .exit = EXIT_EVAL, .tstate_frame = 24, .eval_frame_arg = 0, .dealloc = 48,
		.tstate_current = 1368, .usdt = true,
		.unused = "0,7-8,13-14,18,21,30-49,58,74,80,99,117-121,123,127-129,134,139-140,159,164-255",
	}, {
		.minor = 9, .exit = EXIT_EVAL, .tstate_frame = 24, .eval_frame_arg = 1, .dealloc = 48,
		.tstate_current = 568, .usdt = true,
		.unused = "0,7-8,13-14,18,21,30-47,53,58,80-81,88,99,119-120,123,127-129,134,139-140,149-153,"
			  "158-159,166-255",
	}, {
		.minor = 10, .exit = EXIT_EVAL, .tstate_frame = 24, .eval_frame_arg = 1, .dealloc = 48,
		.tstate_current = 568, .usdt = true,
		.unused = "0,7-8,13-14,18,21,35-48,53,58,80-81,88,120,123,127-128,134,139-140,149-151,153,"
			  "158-159,166-255",
	}, {
		.minor = 11, .caught = { 35 }, .exit = EXIT_HANDLERS, .instr_ptr = 56, .previous = 48, .is_entry = 68, .recursion = 32,
		.tstate_current = 576, .dealloc = 48,
		.unused = "181-254", .cache_unreachable = true,
		.handlers = {
			ENTRY(RESUME, 151), ENTRY(RESUME_QUICK, 150),
			LEAVE(RETURN_VALUE, 83),
			YIELD(YIELD_VALUE, 86), OTHER(RETURN_GENERATOR, 75),
		},
	}, {
		.minor = 12, .caught = { 35, 55 }, .exit = EXIT_CLEAR, .instr_ptr = 56, .previous = 8, .dealloc = 48,
		.clear_symbol = "_PyEvalFrameClearAndPop",
		.unused = "169-170,177-236,255",
		.handlers = {
			ENTRY(RESUME, 151), ENTRY(INSTRUMENTED_RESUME, 240),
			LEAVE(RETURN_VALUE, 83), LEAVE(RETURN_CONST, 121),
			LEAVE(INSTRUMENTED_RETURN_VALUE, 242), LEAVE(INSTRUMENTED_RETURN_CONST, 247),
			YIELD(YIELD_VALUE, 150), YIELD(INSTRUMENTED_YIELD_VALUE, 243),
		},
	}, {
		.minor = 13, .caught = { 33, 8 }, .exit = EXIT_CLEAR, .instr_ptr = 56, .previous = 8, .dealloc = 48, .dealloc_nogil = 64,
		.debug_offsets = 584, .clear_symbol = "_PyEval_FrameClearAndPop",
		.unused = "119-148,223-235,255",
		.handlers = {
			ENTRY(RESUME, 149), ENTRY(RESUME_CHECK, 207), ENTRY(INSTRUMENTED_RESUME, 236),
			LEAVE(RETURN_VALUE, 36), LEAVE(RETURN_CONST, 103),
			LEAVE(INSTRUMENTED_RETURN_VALUE, 239), LEAVE(INSTRUMENTED_RETURN_CONST, 240),
			YIELD(YIELD_VALUE, 118), YIELD(INSTRUMENTED_YIELD_VALUE, 241),
		},
	}, {
		.minor = 14, .caught = { 32, 7 }, .exit = EXIT_CLEAR, .instr_ptr = 56, .previous = 8, .dealloc = 48, .dealloc_nogil = 64,
		.debug_offsets = 760, .clear_symbol = "_PyEval_FrameClearAndPop",
		.close_skips = true, .type_methods = 232, .type_methods_nogil = 248,
		.unused = "121-127,212-233",
		.handlers = {
			ENTRY(RESUME, 128), ENTRY(RESUME_CHECK, 196), ENTRY(INSTRUMENTED_RESUME, 245),
			LEAVE(RETURN_VALUE, 35), LEAVE(INSTRUMENTED_RETURN_VALUE, 246),
			YIELD(YIELD_VALUE, 120), YIELD(INSTRUMENTED_YIELD_VALUE, 247),
		},
	}, {
		.minor = 15, .caught = { 30, 7 }, .exit = EXIT_CLEAR, .instr_ptr = 56, .previous = 8, .dealloc = 48, .dealloc_nogil = 64,
		.debug_offsets = 888, .clear_symbol = "_PyEval_FrameClearAndPop",
		.close_skips = true, .type_methods = 232, .type_methods_nogil = 248,
		.unused = "120-127,219-232",
		.handlers = {
			ENTRY(RESUME, 128), ENTRY(RESUME_CHECK, 200), ENTRY(RESUME_CHECK_JIT, 201),
			ENTRY(INSTRUMENTED_RESUME, 244),
			LEAVE(RETURN_VALUE, 33), LEAVE(INSTRUMENTED_RETURN_VALUE, 245),
			YIELD(YIELD_VALUE, 119), YIELD(INSTRUMENTED_YIELD_VALUE, 246),
		},
	},
};
/* clang-format on */

const size_t python_version_cnt = sizeof(python_versions) / sizeof(python_versions[0]);

const char *python_version_names(void)
{
	static char names[24];

	snprintf(names, sizeof(names), "3.%u to 3.%u", python_versions[0].minor,
		 python_versions[python_version_cnt - 1].minor);
	return names;
}
