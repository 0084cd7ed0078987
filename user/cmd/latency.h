/* SPDX-License-Identifier: Apache-2.0 */
/* `trace --latency`: how long the calls of one function take. Nothing is recorded, it is shown. */
#ifndef PYEBPF_CMD_LATENCY_H
#define PYEBPF_CMD_LATENCY_H

#include <stdint.h>

#include "base/err.h"

struct session;
struct session_opts;
struct session_result;

/* latency_begin - tell the assembler. 0 or -ENOMEM. */
int latency_begin(struct session *s);

/* latency_live - on a terminal, now and then: what is known by now, in the place of what was shown. */
void latency_live(struct session *s, uint64_t now);

/* latency_run - a whole run, up to the table on stdout. 0 or a negative number with the sentence in @e. */
int latency_run(const struct session_opts *opts, struct session_result *result, struct err *e);

#endif
