// SPDX-License-Identifier: Apache-2.0
#include "empty_probes.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "capture/feature.h"

enum probe_family family_of(enum probe_kind kind)
{
	switch (kind) {
	case PROBE_RESUME:
	case PROBE_EVAL_ENTRY:
	case PROBE_USDT_ENTRY:
		return FAMILY_ENTRY;
	case PROBE_CODE_DEALLOC:
		return 0;
	default:
		return FAMILY_EXIT;
	}
}

int empty_program(const char *name, bool sleepable)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = FEATURE_UPROBE_MULTI,
		    .prog_flags = sleepable ? BPF_F_SLEEPABLE : 0);
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, name, "GPL", insns,
			       sizeof(insns) / sizeof(insns[0]), &opts);

	return fd < 0 ? -errno : fd;
}

int empty_attach(int prog_fd, const struct probe_plan *plan, const char *path,
		 enum probe_family family, pid_t pid)
{
	uint64_t offsets[PLAN_SITES_MAX], semaphores[PLAN_SITES_MAX];
	struct uprobe_multi_opts opts = {
		.path = path, .offsets = offsets, .semaphores = semaphores, .pid = (uint32_t)pid
	};

	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		if (!(family_of(plan->sites[i].kind) & family))
			continue;
		semaphores[opts.cnt] = plan->sites[i].semaphore;
		offsets[opts.cnt++] = plan->sites[i].offset;
	}
	return opts.cnt ? uprobe_multi_link(prog_fd, &opts) : -ENOENT;
}
