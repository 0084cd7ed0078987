/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of the target that give way to a jump (struct inline_detour). */
#ifndef PYEBPF_INLINE_DETOUR_H
#define PYEBPF_INLINE_DETOUR_H

#include <stdint.h>

#include "cpython/inline_plan.h"
#include "inline/remote.h"

/* detour_stop - keep all threads from Python code, none of them in the middle of such instructions, or on the way back to there.
 * As remote__stop(); -EAGAIN when some always are. */
int detour_stop(struct remote *r, const struct inline_plan *plan, uint64_t bias);

#endif
