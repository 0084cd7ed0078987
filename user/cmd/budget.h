/* SPDX-License-Identifier: Apache-2.0 */
/* How much of its CPU time a process may spend in probes: they are switched off and on in windows. */
#ifndef PYEBPF_CMD_BUDGET_H
#define PYEBPF_CMD_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct session;

/* Of one process. */
struct budget {
	uint32_t pix; /* 0: not begun; another than the target's: it executed something */
	int64_t tokens_ns; /* what it may spend now */
	uint64_t cpu_ns, hits; /* at the last look */
	uint64_t next_ns, every_ns; /* the next look; how often there is one */
	uint64_t drained; /* how often the rings had been empty when the probes were out */
	uint64_t off_ns; /* switched off since then; 0: on */
	bool leaving; /* the kernel is taking the probes out */
	bool broken; /* the kernel refused: it is left as it is */
};

/* budget_is_on - then each process has probes of its own. */
bool budget_is_on(const struct session *s);

/* budget_check - can the probes be taken out of one process? 0 or -PYE_EUSAGE with a sentence. */
int budget_check(const struct session *s, struct err *e);

/* budget_tick - after each look at the rings. @drained: they were empty. */
void budget_tick(struct session *s, uint64_t now, bool drained);

/* budget_finish - when all has been read: windows that last to the end, and what it came to. */
void budget_finish(struct session *s, uint64_t now);

#endif
