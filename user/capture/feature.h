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

/* feature_try_multi - the same, with the reason: 0 or the kernel's negative errno. */
int feature_try_multi(bool *per_process);

/* A uprobe of the old way: one perf event and one link for each. */
struct uprobe_classic {
	int type; /* feature_uprobe_type() */
	const char *path;
	uint64_t offset, semaphore, cookie; /* semaphore: 0 = none */
};

/* feature_uprobe_type - number of the kernel's event source for uprobes, or a negative errno. */
int feature_uprobe_type(void);

/* feature_classic_link - place one, for every process; the link's descriptor or a negative errno. */
int feature_classic_link(int prog_fd, const struct uprobe_classic *probe);

/*
 * What else is used of the kernel, each tried on its own with nothing left behind: 0, or the negative
 * errno of the step that failed.
 */
int feature_try_classic(void); /* a uprobe of the old way fires */
int feature_try_map(void); /* bpf() makes a map */
int feature_map(void); /* such a map: its descriptor, or a negative errno */
int feature_read_map(int fd); /* it can be read; -EPERM: not without CAP_BPF (before 5.19) */
int feature_try_ring(void); /* ring buffers */
int feature_try_btf(void); /* the kernel's BTF can be read; -ENOENT: it has none */
int feature_try_task_storage(void); /* data of a program that belongs to a task */
int feature_try_trace_point(void); /* a program at a trace point, by BTF (fork, exec, exit) */
int feature_try_sleepable(void); /* uprobes that may fault pages in */
int feature_try_perf(void); /* a sampling event for every process of a CPU */

#endif
