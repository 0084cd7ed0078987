/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of one process, taken out and put back while the others of the trace go on. */
#ifndef PYEBPF_CAPTURE_PAUSE_H
#define PYEBPF_CAPTURE_PAUSE_H

#include "capture/attach.h"

/* pause_probes - take them out; what is known of the stacks is forgotten. 0 or a negative errno. */
int pause_probes(const struct bpf_loaded *bpf, struct attached *a);

/* pause_end - put them back. @since_ns: hits count from then on. 0 or a negative errno. */
int pause_end(const struct bpf_loaded *bpf, const struct interp *in, struct attached *a,
	      uint64_t *since_ns);

#endif
