/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of one process, taken out and put back while the others of the trace go on. */
#ifndef PYEBPF_CAPTURE_PAUSE_H
#define PYEBPF_CAPTURE_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/attach.h"

struct cap_bpf;

/* pause_begin - take them out: the programs ignore the process from here on. 0 or a negative errno. */
int pause_begin(struct cap_bpf *c, struct attached *a);

/* pause_done - are they out? What is known of the stacks is forgotten then. 1, 0 not yet, or a negative
 * errno. */
int pause_done(struct cap_bpf *c, struct attached *a);

/* pause_drop - the process has ended. */
void pause_drop(struct cap_bpf *c, struct attached *a);

/* pause_end - put them back. @since_ns: hits count from then on. 0 or a negative errno. */
int pause_end(struct cap_bpf *c, const struct interp *in, struct attached *a, uint64_t *since_ns);

#endif
