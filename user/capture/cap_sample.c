// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "capture"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "abi/select.h"
#include "base/caps.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "capture/cap_bpf_priv.h"
#include "capture/cap_waits.h"
#include "capture/iterate.h"
#include "trace.skel.h"

#define FIND_TRIES   20
#define LOOK_NS	     1000000000ull
#define BUDGET_NS    (250 * 1000000ull)
#define BUDGET_RISE  1.2
#define LOOK_PERIODS 4

static int refused_switch(struct err *e, int err)
{
	return bpf_refused(e, err, CAPS_BPF, "the kernel refused to tell when threads wait");
}

/* With all that mainline asks for it can be a distribution's own rule: perf_event_paranoid above 2. */
static int refused_clocks(struct err *e, int err)
{
	uint64_t needs = err == -EACCES ? CAPS_BPF | CAPS(CAP_SYS_ADMIN) : CAPS_BPF;

	return bpf_refused(e, err, needs, "the kernel refused the clocks");
}

static int start_clocks(struct cap_bpf *c, struct err *e)
{
	int err = 0;

	if (c->on_cpu && !c->sampler.links)
		err = sampler__start(&c->sampler, c->bpf.skel->progs.on_clock, c->sample_ns);
	if (err)
		return refused_clocks(e, err);
	if (c->off_cpu && c->select && !c->sampler.meet) {
		c->sampler.meet = bpf_program__attach(c->bpf.skel->progs.meet_switch);
		if (!c->sampler.meet)
			return refused_switch(e, -errno);
	}
	if (c->off_cpu && !c->sampler.off) {
		c->sampler.off = bpf_program__attach(c->bpf.skel->progs.on_switch);
		err = c->sampler.off ? 0 : -errno;
	}
	return err ? refused_switch(e, err) : 0;
}

/* The only probe of a sampled process: it tells when the addresses in samples change their meaning. */
static int watch_codes(struct cap_bpf *c, const struct interp *in, uint32_t filter, uint32_t file,
		       struct err *e)
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
	return cnt ? cap_place(c, only, filter, file, e) : 0;
}

static int inode_one(void *ctx, const void *rec)
{
	memcpy(ctx, rec, sizeof(struct pye_inode));
	return 1;
}

/* The numbers of the file that a process maps, as the kernel side will see them. */
static int find_inode(struct cap_bpf *c, const struct interp *in, pid_t pid, struct pye_inode *out)
{
	int found = 0;

	c->bpf.skel->bss->find_pid = (uint32_t)pid;
	c->bpf.skel->bss->find_addr = in->plan.sites[0].vaddr + in->bias;
	/* the process may be changing its mappings just now */
	for (int tries = 0; tries < FIND_TRIES && !found; tries++)
		found = bpf_iterate(c->bpf.skel->progs.find_inode, sizeof(*out), inode_one, out);
	return found > 0 ? 0 : found ? found : -PYE_ETARGET;
}

int cap_sample_file(struct cap_bpf *c, const struct interp *in, pid_t pid, uint32_t number,
		    struct err *e)
{
	struct pye_inode inode;
	int err = start_clocks(c, e);

	if (err)
		return err;
	err = find_inode(c, in, pid, &inode);
	if (err)
		return err_set(e, err, "process %d has ended", pid);
	err = watch_codes(c, in, 0, number, e);
	if (err == -PYE_ETARGET)
		return err;
	if (err)
		log_debug("freed code objects are not noticed at once: %s", e->what);
	if (bpf_map_update_elem(bpf_map__fd(c->bpf.skel->maps.file_numbers), &inode, &number,
				BPF_ANY))
		return err_set(e, -errno, "the file cannot be told to the kernel");
	return 0;
}

int cap_sample(struct cap_bpf *c, const struct interp *in, pid_t pid, uint32_t filter,
	       struct err *e)
{
	int err = start_clocks(c, e);

	if (err)
		return err;
	err = watch_codes(c, in, filter, 0, e);
	if (err == -PYE_ETARGET)
		return err;
	if (err) /* names are compared with what is there now and then, too */
		log_debug("freed code objects are not noticed at once: %s", e->what);
	cap_set_flags(c, pid, PYE_PROC_TRACED | PYE_PROC_SHARED | PYE_PROC_SAMPLED, 0);
	return 0;
}

void cap_bpf__look(struct cap_bpf *c, uint64_t now_ns)
{
	uint64_t every_ns = c->sample_ns * LOOK_PERIODS > LOOK_NS ? c->sample_ns * LOOK_PERIODS
								  : LOOK_NS;
	auto_free uint64_t *ticks = NULL;
	size_t cnt = 0;

	if (!c->sampler.links || now_ns < c->sampler.look_ns)
		return;
	if (!c->sampler.look_ns) { /* they were started a moment ago */
		c->sampler.look_ns = now_ns + every_ns;
		return;
	}
	c->sampler.look_ns = now_ns + every_ns;
	ticks = cap_counter_cpus(c, CNT_TICKS, &cnt);
	if (ticks)
		sampler__look(&c->sampler, c->bpf.skel->progs.on_clock, c->sample_ns, ticks, cnt);
}

static uint64_t cost_ns(const struct cap_bpf *c)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + c->budget.beside_ns +
	       cap_bpf__counter(c, CNT_SAMPLE_NS);
}

/* In proportion, but up again slowly: what is in the rings is still to be paid for. */
void cap_bpf__budget(struct cap_bpf *c, uint64_t now_ns)
{
	struct sample_budget *b = &c->budget;
	uint64_t cost, passed = now_ns - b->last_ns;
	double used;

	if (!b->max_pct || b->paused || (!c->sampler.links && !c->sampler.off) ||
	    passed < BUDGET_NS)
		return;
	cost = cost_ns(c);
	used = (double)(cost - b->last_cost_ns) / (double)passed;
	if (b->last_ns && used > 0) {
		double fits = b->max_pct / 100.0 / used;

		b->keep *= fits > BUDGET_RISE ? BUDGET_RISE : fits;
		b->keep = b->keep > 1 ? 1 : b->keep < b->least ? b->least : b->keep;
		__atomic_store_n(&c->bpf.skel->data->keep_ppm, (uint32_t)(b->keep * 1e6),
				 __ATOMIC_RELAXED);
	}
	b->last_ns = now_ns;
	b->last_cost_ns = cost;
}

/* Time that nobody stands for while it is paused is left out, not made up for afterwards. */
void cap_bpf__limit(struct cap_bpf *c, uint32_t max_cpu_pct)
{
	struct sample_budget *b = &c->budget;
	double keep = max_cpu_pct ? b->keep : 0;

	if (!b->max_pct)
		return;
	b->paused = !max_cpu_pct;
	b->max_pct = max_cpu_pct ? max_cpu_pct : b->max_pct;
	b->last_ns = 0; /* what was spent meanwhile counts for nothing */
	__atomic_store_n(&c->bpf.skel->data->keep_ppm, (uint32_t)(keep * 1e6), __ATOMIC_RELAXED);
}

void cap_bpf__beside(struct cap_bpf *c, uint64_t cpu_ns)
{
	c->budget.beside_ns = cpu_ns;
}

void cap_bpf__wait_min(struct cap_bpf *c, uint64_t ns)
{
	__atomic_store_n(&c->bpf.skel->bss->wait_min_ns, ns, __ATOMIC_RELAXED);
}

static int none(void *ctx, const void *rec)
{
	(void)ctx;
	(void)rec;
	return 0;
}

void cap_bpf__send_waits(struct cap_bpf *c)
{
	int err;

	if (!c->off_cpu || !c->bpf.skel->bss->wait_min_ns)
		return;
	err = bpf_iterate(c->bpf.skel->progs.send_kept, 1, none, NULL);
	if (err)
		log_debug("waits that last are not told: %s", err_str(err));
}

double cap_bpf__keep(const struct cap_bpf *c)
{
	return c->budget.paused ? 0 : c->budget.max_pct ? c->budget.keep : 1;
}

uint64_t cap_bpf__unwanted(const struct cap_bpf *c)
{
	return cap_bpf__counter(c, CNT_SAMPLE_UNWANTED);
}

uint64_t cap_bpf__skipped(const struct cap_bpf *c)
{
	return cap_bpf__counter(c, CNT_SAMPLE_SKIPPED);
}
