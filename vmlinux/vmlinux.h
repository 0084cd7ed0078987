/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The kernel types that pyebpf's BPF programs touch, and only the fields they touch: accesses are
 * relocated to the running kernel's BTF when the programs are loaded. `vmlinux/regen` rewrites the parts
 * between the marks from a kernel's BTF, `vmlinux/regen --check` compares every field with it.
 */
#ifndef PYEBPF_VMLINUX_H
#define PYEBPF_VMLINUX_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };
typedef int pid_t;

/* The context of a uprobe: part of the kernel's BPF ABI, not relocated. */
/* regs: begin */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	unsigned long regs[31], sp, pc, pstate;
};
#endif
/* regs: end */

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* regen: begin */
struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	int group_exit_code;
	struct {
		int counter;
	} live;
};

struct thread_struct {
	unsigned long fsbase;
};

struct kernfs_node {
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct list_head {
	struct list_head *next;
};

struct css_set {
	struct cgroup *dfl_cgrp;
	struct list_head cgrp_links;
};

struct cgrp_cset_link {
	struct cgroup *cgrp;
	struct list_head cgrp_link;
};

struct super_block {
	u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct percpu_counter {
	s64 count;
};

struct mm_struct {
	unsigned long start_code;
	struct percpu_counter rss_stat[4];
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int exit_code;
	pid_t pid;
	pid_t tgid;
	struct sched_entity se;
	u64 start_boottime;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct css_set *cgroups;
	char comm[16];
	struct thread_struct thread;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
/* regen: end */

#pragma clang attribute pop

#endif
