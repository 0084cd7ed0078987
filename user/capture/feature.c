// SPDX-License-Identifier: Apache-2.0
#include "capture/feature.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

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
static int counting_program(int map_fd)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = FEATURE_UPROBE_MULTI);
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

bool feature_uprobe_multi(bool *per_process)
{
	uint64_t offset = feature_self_offset((const void *)(uintptr_t)probed);
	struct uprobe_multi_opts opts = {
		.path = "/proc/self/exe", .offsets = &offset, .cnt = 1, .pid = (uint32_t)getpid()
	};
	int map_fd, prog_fd = -1, link_fd = -1;
	bool has;

	*per_process = false;
	map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pye_feature", 4, 8, 1, NULL);
	if (map_fd >= 0)
		prog_fd = counting_program(map_fd);
	if (prog_fd >= 0 && offset)
		link_fd = uprobe_multi_link(prog_fd, &opts);
	has = link_fd >= 0;
	if (has)
		*per_process = fires_from_thread(map_fd);
	if (link_fd >= 0)
		close(link_fd);
	if (prog_fd >= 0)
		close(prog_fd);
	if (map_fd >= 0)
		close(map_fd);
	return has;
}
