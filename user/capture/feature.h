/* SPDX-License-Identifier: Apache-2.0 */
/* What this kernel's uprobes can do, found out by using them on ourselves. */
#ifndef PYEBPF_CAPTURE_FEATURE_H
#define PYEBPF_CAPTURE_FEATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEATURE_UPROBE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI, missing in older headers */

struct uprobe_multi_opts {
	const char *path;
	const uint64_t *offsets, *semaphores, *cookies; /* semaphores may be NULL */
	uint32_t cnt;
	uint32_t pid; /* 0 = every process */
};

/* uprobe_multi_link - BPF_LINK_CREATE for many uprobes (libbpf before 1.3 has no call for it); the
 * link's descriptor or a negative errno. */
int uprobe_multi_link(int prog_fd, const struct uprobe_multi_opts *opts);

/* feature_self_offset - file offset of an address in our own executable, 0 if it is not in it. */
uint64_t feature_self_offset(const void *address);

/**
 * feature_uprobe_multi - does the kernel have uprobe_multi links?
 * @per_process: does their filter let every thread of the process through? (Some kernels compare the
 *		 thread; the test fires from a second one.)
 */
bool feature_uprobe_multi(bool *per_process);

#endif
