/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that are only wanted when they are long: cap_bpf.h's off_cpu with a wait_min_ns. */
#ifndef PYEBPF_CAPTURE_CAP_WAITS_H
#define PYEBPF_CAPTURE_CAP_WAITS_H

#include "capture/cap_bpf.h"

/* cap_bpf__wait_min - another wait_min_ns from now on. */
void cap_bpf__wait_min(struct cap_bpf *c, uint64_t ns);

/* cap_bpf__send_waits - after cap_bpf__detach(): the stacks of waits that last go into the rings. */
void cap_bpf__send_waits(struct cap_bpf *c);

#endif
