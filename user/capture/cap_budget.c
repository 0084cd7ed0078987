// SPDX-License-Identifier: Apache-2.0
#include "capture/cap_budget.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "capture/cap_bpf_priv.h"
#include "capture/pause.h"
#include "trace.skel.h"

static struct attached *own_probes(struct cap_bpf *c, pid_t pid)
{
	for (size_t i = 0; i < c->attached_cnt; i++)
		if (c->attached[i].pid == (uint32_t)pid)
			return &c->attached[i];
	return NULL;
}

int cap_bpf__pause(struct cap_bpf *c, pid_t pid)
{
	struct attached *a = own_probes(c, pid);

	return a && cap_bpf__per_process(c) ? pause_begin(c, a) : -ENOTSUP;
}

int cap_bpf__paused(struct cap_bpf *c, pid_t pid)
{
	struct attached *a = own_probes(c, pid);

	return a ? pause_done(c, a) : -ESRCH;
}

int cap_bpf__resume(struct cap_bpf *c, const struct interp *in, pid_t pid, uint64_t *since_ns)
{
	struct attached *a = own_probes(c, pid);

	return a ? pause_end(c, in, a, since_ns) : -ESRCH;
}

static int hits_fd(const struct cap_bpf *c)
{
	return bpf_map__fd(c->bpf.skel->maps.hits);
}

int cap_bpf__count_hits(struct cap_bpf *c, uint32_t pix)
{
	uint64_t none = 0;

	return bpf_map_update_elem(hits_fd(c), &pix, &none, BPF_ANY) ? -errno : 0;
}

uint64_t cap_bpf__hits(const struct cap_bpf *c, uint32_t pix)
{
	uint64_t cnt;

	return bpf_map_lookup_elem(hits_fd(c), &pix, &cnt) ? 0 : cnt;
}

uint32_t cap_bpf__hit_ns(const struct cap_bpf *c, const struct interp *in, pid_t pid)
{
	uint32_t others = 0;
	struct trace_cost t;

	calibration_apply(&c->calibration, &in->plan, &t);
	for (size_t i = 0; i < c->attached_cnt; i++) {
		const struct attached *a = &c->attached[i];

		others += a->dev == in->dev && a->ino == in->ino && a->pid != (uint32_t)pid &&
			  a->fd_cnt > a->stay_cnt;
	}
	return (t.entry_before_ns + t.entry_after_ns + t.exit_before_ns + t.exit_after_ns) / 2 +
	       others * c->calibration.other_ns;
}
