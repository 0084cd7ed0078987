/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences that say what a process is when it is no Python that can be used. */
#ifndef PYEBPF_CPYTHON_INTERP_NAMES_H
#define PYEBPF_CPYTHON_INTERP_NAMES_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct interp_cache;

/* interp_show_path - a target's path for a message: escaped, the middle left out when it is long. */
void interp_show_path(const char *path, char *out, size_t size);

/* All of these leave sentence and hint in @e and return the error number. */
int interp_refuse_gone(pid_t pid, struct err *e); /* -PYE_ETARGET */
int interp_refuse_other(pid_t pid, struct err *e); /* -PYE_ENOTPYTHON, -PYE_ETARGET */
int interp_refuse_unopened(pid_t pid, int open_err, struct err *e); /* -PYE_EPRIV, -PYE_EPLAN */
int interp_refuse_access(pid_t pid, int err, struct err *e); /* by @err */

/* interp_hint_children - say in the hint of @e which descendants of @pid are Python, if any. */
void interp_hint_children(pid_t pid, const char *engine, struct interp_cache *cache, struct err *e);

#endif
