/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by cap_bpf.c (probes, rings, counters), cap_select.c (processes that are not named), cap_sample.c
 * (clocks in place of probes) and cap_list.c (what the kernel's list of tasks says). */
#ifndef PYEBPF_CAPTURE_CAP_BPF_PRIV_H
#define PYEBPF_CAPTURE_CAP_BPF_PRIV_H

#include "abi/select.h"
#include "capture/attach.h"
#include "capture/bpf_load.h"
#include "capture/calibrate.h"
#include "capture/cap_bpf.h"
#include "capture/guard.h"
#include "capture/ring.h"
#include "capture/sampler.h"
#include "capture/sweep.h"

enum pye_counter {
#define PYE_COUNTER(name, number, text) CNT_##name = (number),
#include "abi/counters.def"
#undef PYE_COUNTER
};

#define BUDGET_LEAST 0.0001

struct sample_budget {
	uint32_t max_pct; /* of one CPU; 0 = no limit */
	double keep, least; /* part of the stacks */
	bool paused; /* none is taken */
	uint64_t last_ns, last_cost_ns;
	uint64_t beside_ns; /* CPU time of other processes that belong to it */
};

struct known_file {
	dev_t dev;
	ino_t ino;
	struct pye_file file;
};

struct cap_bpf {
	struct sample_budget budget;
	struct bpf_loaded bpf;
	struct ring rings[PYE_RINGS_MAX], control, defs;
	struct capture_batch ready; /* events that wait until the definitions they use are read */
	unsigned long defs_end; /* position up to which these must be read first */
	struct capture_batch control_batch;
	size_t control_at;
	struct sweep sweep;
	uint32_t turn; /* ring that is read next */
	uint32_t round; /* of capture.h */
	unsigned long round_end[PYE_RINGS_MAX]; /* where the rings ended at its beginning */
	unsigned long round_defs_end;
	struct attached *attached;
	size_t attached_cnt;
	struct calibration calibration;
	uint32_t paused_cnt; /* processes in the table `paused` */
	bool hits; /* there is a budget: they are counted by process */
	bool own; /* a selection whose processes have probes of their own */
	struct pye_pylayout layouts[PYE_LAYOUTS_MAX];
	uint32_t layout_cnt;
	bool select, locate;
	struct known_file *files; /* of cap_bpf__file(); that of number 1 is the first */
	uint32_t file_cnt; /* interpreter files with a number, from 1 on */
	struct bpf_link *life[6], *hold[2];
	size_t life_cnt, hold_cnt;
	struct guard guard;
	uint64_t sample_ns;
	bool on_cpu, off_cpu;
	struct sampler sampler;
};

/* cap_layout - the number of a layout in the kernel's table, where it is put if it is new; 0 or -E2BIG. */
int cap_layout(struct cap_bpf *c, const struct pye_pylayout *layout, uint16_t *index);

/* cap_unstop - hits count, but for those of processes whose probes are being switched. */
void cap_unstop(struct cap_bpf *c);

/* cap_set_flags - of a process in the kernel's table; nothing if it is not there. */
void cap_set_flags(struct cap_bpf *c, pid_t pid, uint32_t set, uint32_t clear);

/**
 * cap_place - place the probes of a plan, unless they are there
 * @filter: pid of the only process that they fire for; 0: everybody
 * @file:   number for their cookies; 0: none
 */
int cap_place(struct cap_bpf *c, const struct interp *in, uint32_t filter, uint32_t file,
	      struct err *e);

/* cap_counter_cpus - a counter on each CPU; the caller's. NULL: no memory. */
uint64_t *cap_counter_cpus(const struct cap_bpf *c, unsigned int counter, size_t *cnt);

/* cap_sample - cap_bpf__attach() where samples are taken. */
int cap_sample(struct cap_bpf *c, const struct interp *in, pid_t pid, uint32_t filter,
	       struct err *e);

/* cap_sample_file - cap_bpf__probe_file() where samples are taken: processes that map the file of this
 * number are met from when it is in the table of files. @pid: one that maps it. */
int cap_sample_file(struct cap_bpf *c, const struct interp *in, pid_t pid, uint32_t number,
		    struct err *e);

#endif
