/* SPDX-License-Identifier: Apache-2.0 */
/* What programs call their threads, for a capture that goes on. */
#ifndef PYEBPF_CMD_NAMING_H
#define PYEBPF_CMD_NAMING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct assembler;
struct interp;
struct session;
struct target;

/* A process. */
struct naming_of {
	uint32_t pix;
	pid_t pid; /* as /proc shows it */
	const struct interp *in; /* borrowed */
};

/**
 * naming_look - ask for the names of its threads that are new; often
 * @next_ns: when there will be another look; 0 to begin with
 * @last:    at the end, however short ago the last look was
 *
 * Where nothing can be read threads keep the operating system's names.
 */
void naming_look(struct assembler *as, const struct naming_of *of, uint64_t *next_ns, bool last);

/**
 * naming_tell - --thread: which threading.Thread is whose, of the threads that a process has before its probes
 *
 * Those that begin under the probes say it themselves. What cannot be read has the system's name only.
 */
void naming_tell(struct session *s, struct target *t);

/* naming_look_all - of all targets. */
void naming_look_all(struct session *s, bool last);

#endif
