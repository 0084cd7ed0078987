/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greenlet's library, also where gevent and others use it: it exchanges a thread's stack under the interpreter, so the stubs have to
 * compare the innermost frame with what they know.
 */
#ifndef PYEBPF_INLINE_GREENLETS_H
#define PYEBPF_INLINE_GREENLETS_H

#include <stdbool.h>
#include <sys/types.h>

#include "abi/pylayout.h"

struct mapping;
struct remote;

/* greenlets__are_here - is this mapping its? */
bool greenlets__are_here(const struct mapping *m);

/* greenlets__may_come - is it installed where a program looks for it: beside the interpreter or the program that was
 * executed (a virtual environment), in Debian's folders, the user's, and $PYTHONPATH? What a program adds to its path by itself is not seen. */
bool greenlets__may_come(const struct remote *r, const struct pye_pylayout *layout);

#endif
