// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "attach"
#include "capture/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "abi/event.h"
#include "abi/proc.h"
#include "base/caps.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "capture/apart.h"
#include "capture/feature.h"
#include "trace.skel.h"

/* Which program serves a kind of site, and what the cookie says of the event beforehand. */
static const struct bpf_program *program_of(const struct trace_bpf *skel, enum probe_kind kind,
					    uint32_t *sub)
{
	*sub = 0;
	switch (kind) {
	case PROBE_RESUME:
		return skel->progs.probe_resume;
	case PROBE_CLEAR:
		return skel->progs.probe_clear;
	case PROBE_RETURN:
		*sub = PYE_EXIT_RETURN;
		return skel->progs.probe_leave;
	case PROBE_UNWIND:
		*sub = PYE_EXIT_UNWIND;
		return skel->progs.probe_leave;
	case PROBE_YIELD:
		*sub = PYE_EXIT_YIELD;
		return skel->progs.probe_leave;
	case PROBE_EVAL_ENTRY:
		return skel->progs.probe_eval_entry;
	case PROBE_EVAL_EXIT:
		return skel->progs.probe_eval_exit;
	case PROBE_EVAL_REFUSED:
		*sub = PYE_EXIT_REFUSED;
		return skel->progs.probe_eval_exit;
	case PROBE_CODE_DEALLOC:
		if (bpf_program__autoload(skel->progs.sample_code_dealloc))
			return skel->progs.sample_code_dealloc;
		return skel->progs.probe_code_dealloc;
	case PROBE_UNWINDING:
		return skel->progs.probe_unwinding;
	case PROBE_GEN_CLOSE:
		return skel->progs.probe_gen_close;
	case PROBE_GEN_CLOSED:
		return skel->progs.probe_gen_closed;
	case PROBE_USDT_ENTRY:
		return skel->progs.probe_usdt_entry;
	case PROBE_USDT_RETURN:
		return skel->progs.probe_usdt_return;
	}
	return NULL;
}

static uint64_t cookie_of(const struct probe_site *site, uint32_t sub, uint32_t file)
{
	return PYE_COOKIE_OF_FILE(file) |
	       PYE_COOKIE(site->reg, site->value_reg, site->cond, site->source, sub, site->disp);
}

static int keep(struct attached *a, int fd)
{
	if (fd < 0)
		return fd;
	a->fds[a->fd_cnt++] = fd;
	return 0;
}

/* One link per program, with all its sites: of those kinds that stay, or of the others. */
static int attach_multi(const struct bpf_loaded *bpf, const struct interp *in, uint32_t pid,
			bool stay, struct attached *a)
{
	const struct probe_plan *plan = &in->plan;
	bool done[PLAN_SITES_MAX] = { false };

	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		uint64_t offsets[PLAN_SITES_MAX], cookies[PLAN_SITES_MAX],
			semaphores[PLAN_SITES_MAX];
		struct uprobe_multi_opts opts = { .path = in->open_path,
						  .offsets = offsets,
						  .cookies = cookies,
						  .semaphores = semaphores,
						  .pid = pid };
		const struct bpf_program *prog;
		uint32_t sub;
		int err;

		if (done[i] || stay != (plan->sites[i].kind == PROBE_CODE_DEALLOC))
			continue;
		prog = program_of(bpf->skel, plan->sites[i].kind, &sub);
		for (uint32_t k = i; k < plan->site_cnt; k++) {
			if (program_of(bpf->skel, plan->sites[k].kind, &sub) != prog)
				continue;
			offsets[opts.cnt] = plan->sites[k].offset;
			semaphores[opts.cnt] = plan->sites[k].semaphore;
			cookies[opts.cnt++] = cookie_of(&plan->sites[k], sub, a->file);
			done[k] = true;
		}
		err = prog ? keep(a, uprobe_multi_link(bpf_probe_fd(bpf, prog), &opts)) : -EINVAL;
		if (err)
			return err;
	}
	return 0;
}

static int attach_classic(const struct bpf_loaded *bpf, const struct interp *in, struct attached *a)
{
	int type = feature_uprobe_type();

	if (type < 0)
		return type;
	for (uint32_t i = 0; i < in->plan.site_cnt; i++) {
		const struct probe_site *site = &in->plan.sites[i];
		const struct bpf_program *prog;
		struct uprobe_classic probe;
		uint32_t sub;
		int err;

		prog = program_of(bpf->skel, site->kind, &sub);
		if (!prog)
			return -EINVAL;
		probe = (struct uprobe_classic){ .type = type,
						 .path = in->open_path,
						 .offset = site->offset,
						 .semaphore = site->semaphore,
						 .cookie = cookie_of(site, sub, a->file) };
		err = keep(a, feature_classic_link(bpf_probe_fd(bpf, prog), &probe));
		if (err)
			return err;
	}
	return 0;
}

struct placing {
	const struct bpf_loaded *bpf;
	const struct interp *in;
	struct attached *a;
	uint32_t pid;
	bool again; /* those that stay are there */
	int err;
};

static void place(void *arg)
{
	struct placing *p = arg;

	if (!p->bpf->multi) {
		p->err = attach_classic(p->bpf, p->in, p->a);
		return;
	}
	if (!p->again)
		p->err = attach_multi(p->bpf, p->in, p->pid, true, p->a);
	if (!p->again)
		p->a->stay_cnt = p->a->fd_cnt;
	p->err = p->err ? p->err : attach_multi(p->bpf, p->in, p->pid, false, p->a);
}

uint64_t attach_needs(const struct bpf_loaded *bpf)
{
	return bpf->multi ? CAPS_BPF | CAPS_PROC : CAPS(CAP_SYS_ADMIN);
}

static int refused(const struct bpf_loaded *bpf, const struct interp *in, int err, struct err *e)
{
	char what[512], path[400];

	if (err == -ESRCH)
		return err_set(e, -PYE_ETARGET,
			       "the process has ended before the probes were placed");
	text_escape(path, sizeof(path), in->path, strlen(in->path));
	snprintf(what, sizeof(what), "the kernel refused the probes in %s", path);
	return bpf_refused(e, err, attach_needs(bpf), what);
}

int attach_plan(const struct bpf_loaded *bpf, const struct interp *in, uint32_t pid, uint32_t file,
		struct attached *out, struct err *e)
{
	struct attached a = { .dev = in->dev, .ino = in->ino, .pid = pid, .file = file };
	struct placing p = { bpf, in, &a, bpf->per_process ? pid : 0, false, 0 };

	apart(place, &p);
	if (p.err) {
		attach_close(&a);
		return refused(bpf, in, p.err, e);
	}
	a.placed_ns = now_ns();
	log_debug("%u probes in %s, pid %u", in->plan.site_cnt, in->open_path, pid);
	*out = a;
	return 0;
}

void attach_pause(struct attached *a)
{
	a->closing = closing_begin(a->fds + a->stay_cnt, a->fd_cnt - a->stay_cnt);
	a->fd_cnt = a->stay_cnt;
}

int attach_resume(const struct bpf_loaded *bpf, const struct interp *in, struct attached *a)
{
	struct placing p = { bpf, in, a, a->pid, true, 0 };

	apart(place, &p);
	a->placed_ns = now_ns();
	if (p.err) {
		attach_pause(a);
		closing_end(a->closing);
		a->closing = NULL;
	}
	return p.err;
}

struct closing *attach_closing(struct attached *a)
{
	size_t cnt = a->fd_cnt;

	closing_leave(a->closing);
	a->closing = NULL;
	a->fd_cnt = 0;
	return closing_begin(a->fds, cnt);
}

void attach_close(struct attached *a)
{
	closing_end(attach_closing(a));
}

void attach_close_all(struct attached *all, size_t cnt)
{
	auto_free int *fds = calloc(cnt * PLAN_SITES_MAX + 1, sizeof(*fds));
	size_t fd_cnt = 0;

	for (size_t i = 0; i < cnt; i++) {
		closing_end(all[i].closing);
		all[i].closing = NULL;
		if (!fds) {
			attach_close(&all[i]);
			continue;
		}
		memcpy(fds + fd_cnt, all[i].fds, all[i].fd_cnt * sizeof(*fds));
		fd_cnt += all[i].fd_cnt;
		all[i].fd_cnt = 0;
	}
	closing_end(closing_begin(fds, fd_cnt));
}
