/* SPDX-License-Identifier: Apache-2.0 */
/* From a probe plan to links in the kernel. */
#ifndef PYEBPF_CAPTURE_ATTACH_H
#define PYEBPF_CAPTURE_ATTACH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "capture/bpf_load.h"
#include "capture/closing.h"
#include "cpython/interp.h"

/* The links of one file and, perhaps, one process. */
struct attached {
	dev_t dev;
	ino_t ino;
	uint32_t pid; /* 0 = every process */
	uint32_t file; /* its number for the programs; 0 = none */
	uint64_t placed_ns; /* when the last one was in place */
	size_t fd_cnt;
	int fds[PLAN_SITES_MAX];
	size_t stay_cnt; /* the first of them: rare probes that stay while the others are switched off */
	struct closing *closing; /* the others are being switched off; NULL: not now */
};

/**
 * attach_plan - place every probe of a plan, or none
 * @pid:  0 = every process
 * @file: number of the file (abi/select.h); 0 = none
 *
 * Return: 0, or a negative errno with the site and the kernel's answer in @e.
 */
int attach_plan(const struct bpf_loaded *bpf, const struct interp *in, uint32_t pid, uint32_t file,
		struct attached *out, struct err *e);

/* attach_close - take them out, all at the same time, and wait; attach_close_all - those of several. */
void attach_close(struct attached *a);
void attach_close_all(struct attached *all, size_t cnt);

/* attach_closing - the same without waiting: to be ended, or left, by the caller (closing.h). */
struct closing *attach_closing(struct attached *a);

/* attach_pause - begin to take out all probes but those that tell which code objects are gone: they are out
 * when closing_done(). attach_resume - put them in again; only with uprobe_multi. 0 or a negative errno. */
void attach_pause(struct attached *a);
int attach_resume(const struct bpf_loaded *bpf, const struct interp *in, struct attached *a);

/* attach_needs - the capabilities that placing probes takes (CAPS() of base/caps.h): without uprobe_multi
 * it goes through perf, which newer kernels leave to the administrator. */
uint64_t attach_needs(const struct bpf_loaded *bpf);

#endif
