// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "capture"
#include <errno.h>
#include <stdlib.h>

#include <bpf/libbpf.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "capture/cap_bpf_priv.h"
#include "trace.skel.h"

static int start_clocks(struct cap_bpf *c, struct err *e)
{
	int err = 0;

	if (c->on_cpu && !c->sampler.links)
		err = sampler__start(&c->sampler, c->bpf.skel->progs.on_clock, c->sample_ns);
	if (err)
		return bpf_refused(e, err, CAPS_BPF, "the kernel refused the clocks");
	if (c->off_cpu && !c->sampler.off) {
		c->sampler.off = bpf_program__attach(c->bpf.skel->progs.on_switch);
		err = c->sampler.off ? 0 : -errno;
	}
	if (err)
		return bpf_refused(e, err, CAPS_BPF,
				   "the kernel refused to tell when threads wait");
	return 0;
}

/* The only probe of a sampled process: it tells when the addresses in samples change their meaning. */
static int watch_codes(struct cap_bpf *c, const struct interp *in, uint32_t filter, struct err *e)
{
	auto_free struct interp *only = malloc(sizeof(*only));
	uint32_t cnt = 0;

	if (!only)
		return -ENOMEM;
	*only = *in;
	for (uint32_t i = 0; i < in->plan.site_cnt; i++)
		if (in->plan.sites[i].kind == PROBE_CODE_DEALLOC)
			only->plan.sites[cnt++] = in->plan.sites[i];
	only->plan.site_cnt = cnt;
	return cnt ? cap_place(c, only, filter, 0, e) : 0;
}

int cap_sample(struct cap_bpf *c, const struct interp *in, pid_t pid, uint32_t filter,
	       struct err *e)
{
	int err = start_clocks(c, e);

	if (err)
		return err;
	err = watch_codes(c, in, filter, e);
	if (err == -PYE_ETARGET)
		return err;
	if (err) /* names are compared with what is there now and then, too */
		log_debug("freed code objects are not noticed at once: %s", e->what);
	cap_set_flags(c, pid, PYE_PROC_TRACED | PYE_PROC_SHARED | PYE_PROC_SAMPLED, 0);
	return 0;
}
