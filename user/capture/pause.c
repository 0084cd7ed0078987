// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel needs some 50 ms to take links out. With a part of them there are exits without entries, so the
 * programs ignore the process meanwhile; when it has no probes, what its threads' stacks are is not known any
 * more.
 */
#include "capture/pause.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "capture/cap_bpf_priv.h"
#include "capture/iterate.h"
#include "trace.skel.h"

static int ignore(struct cap_bpf *c, uint32_t pid)
{
	uint8_t value = 1;

	if (bpf_map_update_elem(bpf_map__fd(c->bpf.skel->maps.paused), &pid, &value, BPF_NOEXIST))
		return -errno;
	c->paused_cnt++;
	cap_unstop(c);
	return 0;
}

static void heed(struct cap_bpf *c, uint32_t pid)
{
	if (bpf_map_delete_elem(bpf_map__fd(c->bpf.skel->maps.paused), &pid))
		return;
	c->paused_cnt--;
	cap_unstop(c);
}

static int nothing(void *ctx, const void *rec)
{
	(void)ctx;
	(void)rec;
	return 0;
}

int pause_begin(struct cap_bpf *c, struct attached *a)
{
	int err = ignore(c, a->pid);

	if (!err)
		attach_pause(a);
	return err;
}

int pause_done(struct cap_bpf *c, struct attached *a)
{
	int err;

	if (a->closing && !closing_done(a->closing))
		return 0;
	closing_end(a->closing);
	a->closing = NULL;
	c->bpf.skel->bss->forget_pid = a->pid;
	err = bpf_iterate(c->bpf.skel->progs.forget_stacks, sizeof(uint32_t), nothing, NULL);
	heed(c, a->pid);
	return err ? err : 1;
}

void pause_drop(struct cap_bpf *c, struct attached *a)
{
	if (a->pid)
		heed(c, a->pid);
}

int pause_end(struct cap_bpf *c, const struct interp *in, struct attached *a, uint64_t *since_ns)
{
	int err = ignore(c, a->pid);

	if (err)
		return err;
	err = attach_resume(&c->bpf, in, a);
	*since_ns = now_ns();
	heed(c, a->pid);
	return err;
}
