// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "abi/filter.h"
#include "abi/sample.h"
#include "base/caps.h"
#include "capture/cap_bpf_priv.h"
#include "capture/cap_named.h"
#include "capture/iterate.h"
#include "trace.skel.h"

struct pids {
	int (*cb)(void *ctx, pid_t pid);
	void *ctx;
};

static int pid_one(void *ctx, const void *rec)
{
	const struct pids *p = ctx;
	uint32_t pid;

	memcpy(&pid, rec, sizeof(pid));
	return p->cb(p->ctx, (pid_t)pid);
}

int cap_bpf__chosen(struct cap_bpf *c, int (*cb)(void *ctx, pid_t pid), void *ctx, struct err *e)
{
	struct pids p = { cb, ctx };
	int err;

	err = bpf_iterate(c->bpf.skel->progs.list_chosen, sizeof(uint32_t), pid_one, &p);
	if (!err || err == -ENOMEM)
		return err;
	return bpf_refused(e, err, CAPS_BPF, "the kernel refused to list the processes");
}

struct tasks {
	int (*cb)(void *ctx, const struct pye_task_rec *task);
	void *ctx;
};

static int task_one(void *ctx, const void *rec)
{
	const struct tasks *t = ctx;

	return t->cb(t->ctx, rec);
}

int cap_bpf__tasks(struct cap_bpf *c, int (*cb)(void *ctx, const struct pye_task_rec *task),
		   void *ctx)
{
	struct tasks t = { cb, ctx };

	return bpf_iterate(c->bpf.skel->progs.list_tasks, sizeof(struct pye_task_rec), task_one,
			   &t);
}

void cap_bpf__named(struct cap_bpf *c, pid_t tid, uint32_t pix, uint64_t object)
{
	const struct pye_named named = { .object = object, .pix = pix };
	uint32_t key = (uint32_t)tid;

	/* full: that thread has the system's name */
	(void)bpf_map_update_elem(bpf_map__fd(c->bpf.skel->maps.named), &key, &named, BPF_ANY);
}

void cap_bpf__names_changed(struct cap_bpf *c)
{
	__atomic_fetch_add(&c->bpf.skel->data->names_now, 1, __ATOMIC_RELAXED);
}

struct waiting {
	int (*cb)(void *ctx, const struct pye_waiter *wait);
	void *ctx;
};

static int waiting_one(void *ctx, const void *rec)
{
	const struct waiting *w = ctx;

	return w->cb(w->ctx, rec);
}

int cap_bpf__waiting(struct cap_bpf *c, int (*cb)(void *ctx, const struct pye_waiter *wait),
		     void *ctx)
{
	struct waiting w = { cb, ctx };

	return bpf_iterate(c->bpf.skel->progs.list_waiting, sizeof(struct pye_waiter), waiting_one,
			   &w);
}
