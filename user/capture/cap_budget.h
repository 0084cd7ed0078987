/* SPDX-License-Identifier: Apache-2.0 */
/* What a budget (--max-overhead) asks of the BPF source: what hits cost a process, its probes out and in. */
#ifndef PYEBPF_CAPTURE_CAP_BUDGET_H
#define PYEBPF_CAPTURE_CAP_BUDGET_H

#include "capture/cap_bpf.h"

/**
 * cap_bpf__pause - take the probes out of a process for a while
 *
 * Those for code objects that die stay: names would be wrong afterwards. Nothing is recorded of it from here
 * on. The kernel needs some 50 ms, for which nobody waits: cap_bpf__paused() tells when they are out. The
 * next event of each of its threads comes with a walk.
 *
 * Return: 0; -ENOTSUP where probes reach every process; a negative errno.
 */
int cap_bpf__pause(struct cap_bpf *c, pid_t pid);

/* cap_bpf__paused - to be asked until it does not return 0 any more: 1, they are out; or a negative errno. */
int cap_bpf__paused(struct cap_bpf *c, pid_t pid);

/* cap_bpf__resume - put them in again. @since_ns: from when on its events count. 0 or a negative errno. */
int cap_bpf__resume(struct cap_bpf *c, const struct interp *in, pid_t pid, uint64_t *since_ns);

/* cap_bpf__count_hits - with a budget: count how often a process runs into probes, until it has ended.
 * cap_bpf__hits - how often so far, whatever was recorded of it; some of each thread are still to be added. */
int cap_bpf__count_hits(struct cap_bpf *c, uint32_t pix);
uint64_t cap_bpf__hits(const struct cap_bpf *c, uint32_t pix);

/* cap_bpf__hit_ns - what one costs the process, beside others of the same file that have their own probes
 * just now: each hit looks through those. 0 if it could not be measured. */
uint32_t cap_bpf__hit_ns(const struct cap_bpf *c, const struct interp *in, pid_t pid);

#endif
