// SPDX-License-Identifier: Apache-2.0
#include "capture/feature.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "base/cleanup.h"

/* The part of union bpf_attr that BPF_LINK_CREATE reads for uprobe_multi (kernel 6.6 on). */
struct link_create_multi {
	__u32 prog_fd, target_fd, attach_type, flags;
	__aligned_u64 path, offsets, ref_ctr_offsets, cookies;
	__u32 cnt, multi_flags, pid, pad;
};

int uprobe_multi_link(int prog_fd, const struct uprobe_multi_opts *opts)
{
	struct link_create_multi attr = {
		.prog_fd = (__u32)prog_fd,
		.attach_type = FEATURE_UPROBE_MULTI,
		.path = (uintptr_t)opts->path,
		.offsets = (uintptr_t)opts->offsets,
		.ref_ctr_offsets = (uintptr_t)opts->semaphores,
		.cookies = (uintptr_t)opts->cookies,
		.cnt = opts->cnt,
		.pid = opts->pid,
	};
	long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

/* What the test probes: its second byte is a one-byte nop, which every kernel emulates. */
__attribute__((noinline, noclone)) static void probed(void)
{
	__asm__ volatile("nop" ::: "memory");
}

static void *call_probed(void *arg)
{
	probed();
	return arg;
}

struct find_self {
	uintptr_t address;
	uint64_t offset;
};

static int find_offset(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct find_self *find = ctx;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || find->address < start ||
		    find->address >= start + p->p_filesz)
			continue;
		find->offset = find->address - start + p->p_offset;
		return 1;
	}
	return 0;
}

uint64_t feature_self_offset(const void *address)
{
	struct find_self find = { .address = (uintptr_t)address };

	dl_iterate_phdr(find_offset, &find);
	return find.offset;
}

/* A program that adds one to element 0 of an array map. */
static int counting_program(int map_fd, uint32_t attach_type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type);
	/* NOLINTBEGIN(misc-redundant-expression): some of the kernel's names are 0 */
	struct bpf_insn insns[] = {
		{ .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4, .imm = 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -4 },
		{ .code = BPF_LD | BPF_DW | BPF_IMM,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_FD,
		  .imm = map_fd },
		{ 0 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem },
		{ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = 2, .imm = 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_1, .imm = 1 },
		{ .code = BPF_STX | BPF_ATOMIC | BPF_DW,
		  .dst_reg = BPF_REG_0,
		  .src_reg = BPF_REG_1,
		  .imm = BPF_ADD },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	/* NOLINTEND(misc-redundant-expression) */

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "pye_feature", "GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &opts);
}

static bool fires_from_thread(int map_fd)
{
	uint64_t value = 0;
	pthread_t thread;
	uint32_t key = 0;

	if (pthread_create(&thread, NULL, call_probed, NULL))
		return false;
	pthread_join(thread, NULL);
	return !bpf_map_lookup_elem(map_fd, &key, &value) && value > 0;
}

int feature_try_multi(bool *per_process)
{
	uint64_t offset = feature_self_offset((const void *)(uintptr_t)probed);
	struct uprobe_multi_opts opts = {
		.path = "/proc/self/exe", .offsets = &offset, .cnt = 1, .pid = (uint32_t)getpid()
	};
	auto_close int map_fd = -1, prog_fd = -1, link_fd = -1;

	*per_process = false;
	map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pye_feature", 4, 8, 1, NULL);
	if (map_fd < 0)
		return -errno;
	prog_fd = counting_program(map_fd, FEATURE_UPROBE_MULTI);
	if (prog_fd < 0)
		return -errno;
	link_fd = offset ? uprobe_multi_link(prog_fd, &opts) : -ENOENT;
	if (link_fd < 0)
		return link_fd;
	*per_process = fires_from_thread(map_fd);
	return 0;
}

bool feature_uprobe_multi(bool *per_process)
{
	return !feature_try_multi(per_process);
}

int feature_uprobe_type(void)
{
	auto_fclose FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type;

	if (!f)
		return -errno;
	/* NOLINTNEXTLINE(cert-err34-c): the kernel wrote the number */
	return fscanf(f, "%d", &type) == 1 ? type : -ENOENT;
}

int feature_classic_link(int prog_fd, const struct uprobe_classic *probe)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = probe->cookie);
	struct perf_event_attr attr = {
		.type = (__u32)probe->type,
		.size = sizeof(attr),
		.config = probe->semaphore << 32, /* where the kernel looks for the semaphore */
		.config1 = (uintptr_t)probe->path,
		.config2 = probe->offset,
	};
	int event, link;

	event = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	link = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (link < 0)
		link = -errno;
	close(event); /* the link holds it */
	return link;
}

int feature_try_classic(void)
{
	struct uprobe_classic probe = { .type = feature_uprobe_type(),
					.path = "/proc/self/exe",
					.offset = feature_self_offset(
						(const void *)(uintptr_t)probed) };
	auto_close int map_fd = -1, prog_fd = -1, link_fd = -1;

	if (probe.type < 0)
		return probe.type;
	map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pye_feature", 4, 8, 1, NULL);
	if (map_fd < 0)
		return -errno;
	prog_fd = counting_program(map_fd, 0);
	if (prog_fd < 0)
		return -errno;
	link_fd = feature_classic_link(prog_fd, &probe);
	if (link_fd < 0)
		return link_fd;
	return fires_from_thread(map_fd) ? 0 : -ENOTSUP;
}
