/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What of a thread's events is not recorded. The programs track every frame all the same, so that stacks
 * stay right; a frame that is quiet has no number and no record. User space knows better than the
 * programs do: what they let pass it looks at once more.
 */
#ifndef PYEBPF_ABI_FILTER_H
#define PYEBPF_ABI_FILTER_H

#include "abi/types.h"

/* Bits of cfg_filter. */
#define PYE_FILTER_CODE	 1u /* frames of code objects that are PYE_CODE_QUIET */
#define PYE_FILTER_DEPTH 2u /* frames deeper than cfg_max_depth */
#define PYE_FILTER_THREAD \
	4u /* threads whose name is not like thread_glob: nothing of them is recorded */

#define PYE_FILTER_ROOT 8u /* frames that are not above one of the function in cfg_function */
#define PYE_FILTER_ONLY 16u /* with CODE: frames of other functions than that one */

#define PYE_FILTER_TAIL 64 /* bytes of a function's name that the programs compare: its last ones */
#define PYE_FILTER_NAME 64 /* bytes of thread_glob, with its end */

/* A thread that ran before the probes were there: which threading.Thread is its own. */
struct pye_named {
	__u64 object; /* its address */
	__u32 pix; /* process */
	__u32 pad;
};

/* What the program decide_code is given: a code object has these bits from now on. */
struct pye_verdict {
	__u64 code; /* its address */
	__u32 pix; /* process */
	__u32 id; /* nothing happens if the address is another one's by now */
	__u32 set, clear; /* PYE_CODE_QUIET, PYE_CODE_CHOSEN */
};

_Static_assert(sizeof(struct pye_verdict) == 24, "ABI");
_Static_assert(sizeof(struct pye_named) == 16, "ABI");

#endif
