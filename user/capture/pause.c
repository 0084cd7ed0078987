// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel takes links out one after the other, some 10 ms each. With a part of them there are exits
 * without entries, so the programs ignore the process meanwhile; when it has no probes, what its threads'
 * stacks are is not known any more.
 */
#include "capture/pause.h"

#include <errno.h>
#include <stdbool.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "capture/iterate.h"
#include "trace.skel.h"

enum {
	STOPPED_NONE = 0,
	STOPPED_SOME = 2 /* as in lib/core.bpf.h */
};

static int ignore(const struct bpf_loaded *bpf, uint32_t pid, bool on)
{
	int fd = bpf_map__fd(bpf->skel->maps.paused);
	uint8_t value = 1;

	if (on && bpf_map_update_elem(fd, &pid, &value, BPF_ANY))
		return -errno;
	if (!on)
		bpf_map_delete_elem(fd, &pid);
	__atomic_store_n(&bpf->skel->bss->stopped, on ? STOPPED_SOME : STOPPED_NONE,
			 __ATOMIC_RELEASE);
	return 0;
}

static int nothing(void *ctx, const void *rec)
{
	(void)ctx;
	(void)rec;
	return 0;
}

int pause_probes(const struct bpf_loaded *bpf, struct attached *a)
{
	int err = ignore(bpf, a->pid, true);

	if (err)
		return err;
	attach_pause(a);
	bpf->skel->bss->forget_pid = a->pid;
	err = bpf_iterate(bpf->skel->progs.forget_stacks, sizeof(uint32_t), nothing, NULL);
	ignore(bpf, a->pid, false);
	return err;
}

int pause_end(const struct bpf_loaded *bpf, const struct interp *in, struct attached *a,
	      uint64_t *since_ns)
{
	int err = ignore(bpf, a->pid, true);

	if (err)
		return err;
	err = attach_resume(bpf, in, a);
	*since_ns = now_ns();
	ignore(bpf, a->pid, false);
	return err;
}
