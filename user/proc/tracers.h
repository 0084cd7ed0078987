/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs that trace or profile: whoever holds BPF links to probes, or perf events. */
#ifndef PYEBPF_PROC_TRACERS_H
#define PYEBPF_PROC_TRACERS_H

#include <stddef.h>
#include <sys/types.h>

struct tracer {
	pid_t pid; /* as /proc shows it */
	char comm[64]; /* any bytes but NUL */
	unsigned int uprobes; /* BPF links to uprobes */
	unsigned int links; /* to other probes and trace points */
	unsigned int events; /* perf events */
};

/* tracer__count - count the link whose fdinfo file has this text, if it is one. */
void tracer__count(struct tracer *t, const char *text);

/**
 * tracers__find - look through the descriptors of all processes but this one
 * @out:  at most @cap of them
 * @hidden: processes whose descriptors may not be read
 *
 * Return: how many there are, which can be more than @cap; a negative errno when /proc cannot be read.
 */
int tracers__find(struct tracer *out, size_t cap, unsigned int *hidden);

#endif
