/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `trace --engine inline`: as session.h, for one process, without BPF and without privilege. */
#ifndef PYEBPF_CMD_SESSION_INLINE_H
#define PYEBPF_CMD_SESSION_INLINE_H

#include "cmd/session.h"

/**
 * session_inline - trace until the target ends, time or events are up, or a signal comes
 * @fd: where the capture is written; borrowed
 *
 * Return: 0 with @result filled, or a negative number with the sentence in @e.
 */
int session_inline(const struct session_opts *opts, int fd, struct session_result *result,
		   struct err *e);

#endif
