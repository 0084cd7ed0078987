/* SPDX-License-Identifier: Apache-2.0 */
/* For whom the inline engine needs no privilege. */
#ifndef PYEBPF_INLINE_PERMIT_H
#define PYEBPF_INLINE_PERMIT_H

#include <sys/types.h>

#include "base/err.h"

/**
 * inline__owner_barred - may the user that a process belongs to trace it with this engine, without a privilege?
 * @pid: as /proc shows it
 *
 * Nothing of its interpreter is looked at, nor is it stopped.
 *
 * Return: NULL: yes; else why not, a sentence about the process. Static.
 */
const char *inline__owner_barred(pid_t pid);

/* inline_bar - say why it may not be @what, a participle, as ptrace has just refused it. -PYE_EPRIV */
int inline_bar(struct err *e, pid_t pid, const char *what);

#endif
