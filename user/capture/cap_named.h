/* SPDX-License-Identifier: Apache-2.0 */
/* A filter by names of threads: what user space knows of those that ran before their probes. */
#ifndef PYEBPF_CAPTURE_CAP_NAMED_H
#define PYEBPF_CAPTURE_CAP_NAMED_H

#include <stdint.h>
#include <sys/types.h>

struct cap_bpf;

/* cap_bpf__named - a filter by names: a thread that may run already has this threading.Thread. Then, once after
 * some of them, cap_bpf__names_changed(): all threads are judged again. */
void cap_bpf__named(struct cap_bpf *c, pid_t tid, uint32_t pix, uint64_t object);
void cap_bpf__names_changed(struct cap_bpf *c);

#endif
