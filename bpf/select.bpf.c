// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Traces of more than was named: whole machines, cgroups, names. The probes are in the file for
 * everybody, so a process that nobody heard of is met in its first call, and taken in there if it is
 * chosen: how it was started, and how long it lives, does not matter. What a probe's cookie says of the
 * file stands for a look at the process; only where the file lies is read from its mappings.
 */
#include "lib/select.bpf.h"

#define CGROUP_DEPTH 32
#define HIERARCHIES  32 /* of version 1: 13 have controllers */

const volatile bool cfg_select;
const volatile bool cfg_locate;

/* Set by user space. */
__u32 select_on; /* enum pye_select_on */
__u32 select_by; /* PYE_SELECT_* */
__u32 select_flags; /* of a process that is taken in */

struct files_map files SEC(".maps");

/* Names of processes that are chosen, NUL-padded. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYE_SELECT_MAX);
	__type(key, char[PYE_COMM]);
	__type(value, u32);
} select_comms SEC(".maps");

/* Cgroups whose processes are chosen, and the hierarchies of version 1 that have one. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * PYE_CGROUPS_MAX);
	__type(key, struct pye_cgroup);
	__type(value, u32);
} select_cgroups SEC(".maps");

struct execs_map execs SEC(".maps");

static __noinline bool has_name(struct task_struct *task)
{
	char comm[PYE_COMM] = {};

	BPF_CORE_READ_STR_INTO(&comm, task, group_leader, comm);
	return bpf_map_lookup_elem(&select_comms, &comm) != NULL;
}

int in_cgroup(u64 cgroup, u32 hierarchy);

/* In a chosen cgroup or below it. Upwards by the parents: the table of ancestors differs between kernels.
 * verifier: a global function is looked at once, not in each turn of in_cgroup1() */
__noinline int in_cgroup(u64 cgroup, u32 hierarchy)
{
	struct pye_cgroup key = { .hierarchy = hierarchy };
	struct cgroup *at = (void *)cgroup;

	for (u32 i = 0; at && i < CGROUP_DEPTH; i++) {
		struct cgroup_subsys_state *parent = BPF_CORE_READ(at, self.parent);

		key.id = BPF_CORE_READ(at, kn, id);
		if (bpf_map_lookup_elem(&select_cgroups, &key))
			return 1;
		at = parent ? BPF_CORE_READ(parent, cgroup) : NULL;
	}
	return 0;
}

/* Of version 1 a process has a cgroup in each hierarchy. The list does not change while its set is in use,
 * but for hierarchies that are mounted for the first time. */
static __noinline bool in_cgroup1(struct css_set *set)
{
	struct list_head *at = BPF_CORE_READ(set, cgrp_links.next);

	for (u32 i = 0; at != &set->cgrp_links && i < HIERARCHIES; i++) {
		struct cgrp_cset_link *link =
			(void *)at - bpf_core_field_offset(struct cgrp_cset_link, cgrp_link);
		struct cgroup *cgroup = BPF_CORE_READ(link, cgrp);
		struct pye_cgroup key = { .hierarchy = BPF_CORE_READ(cgroup, root, hierarchy_id) };

		if (key.hierarchy && bpf_map_lookup_elem(&select_cgroups, &key) &&
		    in_cgroup((u64)cgroup, key.hierarchy))
			return true;
		at = BPF_CORE_READ(at, next);
	}
	return false;
}

static __always_inline bool chosen(struct task_struct *task)
{
	u32 by = select_by;

	return by & PYE_SELECT_ALL || (by & PYE_SELECT_COMM && has_name(task)) ||
	       (by & PYE_SELECT_CGROUP2 &&
		in_cgroup((u64)BPF_CORE_READ(task, cgroups, dfl_cgrp), 0)) ||
	       (by & PYE_SELECT_CGROUP1 && in_cgroup1(BPF_CORE_READ(task, cgroups)));
}

struct place {
	u64 start, offset;
};

static long take_place(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	struct place *place = ctx;

	(void)task;
	place->start = vma->vm_start;
	place->offset = vma->vm_pgoff << 12;
	return 0;
}

/* Does the pointer to the thread state need a place, and where is it? False: ask again later. */
static __always_inline bool locate(const struct pye_file *file, struct pye_proc *proc, u64 ip)
{
	struct place place = {};

	proc->tstate_current = 0;
	if (!file->tstate_current)
		return true;
	if (bpf_find_vma(bpf_get_current_task_btf(), ip, take_place, &place, 0))
		return false;
	proc->tstate_current = place.start - place.offset - file->segment + file->tstate_current;
	return true;
}

/* On the clock of the records, as long as the machine was not suspended since. */
static __always_inline u64 began(struct task_struct *task, u32 pid)
{
	u64 *exec = bpf_map_lookup_elem(&execs, &pid);

	if (exec)
		return *exec;
	return bpf_ktime_get_ns() -
	       (bpf_ktime_get_boot_ns() - BPF_CORE_READ(task, group_leader, start_boottime));
}

static __noinline bool taken_send(struct task_struct *task, const struct pye_proc *proc, u32 pid,
				  u32 number, bool late)
{
	struct pye_proc_rec *rec = bpf_ringbuf_reserve(&control, sizeof(*rec), 0);

	if (!rec)
		return false;
	__builtin_memset(rec, 0, sizeof(*rec));
	rec->head.ts_ns = bpf_ktime_get_ns();
	rec->head.kind = PYE_REC_TAKEN;
	rec->head.sub = late ? PYE_TAKEN_LATE : 0;
	rec->pix = proc->pix;
	rec->old_pix = number;
	rec->pid = pid;
	BPF_CORE_READ_STR_INTO(&rec->comm, task, group_leader, comm);
	bpf_ringbuf_submit(rec, BPF_RB_FORCE_WAKEUP);
	return true;
}

__hidden bool select_wants(struct task_struct *task, struct pye_proc *known)
{
	if (known)
		return (known->flags & (PYE_PROC_TRACED | PYE_PROC_SELECTED)) == PYE_PROC_SELECTED;
	return chosen(task);
}

__hidden struct pye_proc *select_put(struct task_struct *task, u32 pid, u32 number,
				     struct pye_proc *known, struct pye_proc *proc)
{
	struct pye_file *file = bpf_map_lookup_elem(&files, &number);
	bool late = file && began(task, pid) < file->ready_ns;

	proc->flags |= (known ? known->flags : select_flags) | PYE_PROC_TRACED | PYE_PROC_SHARED |
		       PYE_PROC_SELECTED;
	proc->pix = __sync_fetch_and_add(&next_pix, 1);
	/* two threads of it may be here: the second one finds it in the table */
	if (!known && bpf_map_update_elem(&procs, &pid, proc, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&procs, &pid);
		if (!known)
			count(CNT_LOST_THREAD);
		return known;
	}
	if (!taken_send(task, proc, pid, number, late)) {
		/* user space would not know what it is: the next call tries again */
		if (!known)
			bpf_map_delete_elem(&procs, &pid);
		count(CNT_LOST_THREAD);
		return NULL;
	}
	if (known)
		bpf_map_update_elem(&procs, &pid, proc, BPF_EXIST);
	return bpf_map_lookup_elem(&procs, &pid);
}

__hidden struct pye_proc *select_take(struct task_struct *task, u64 cookie, u64 ip)
{
	u32 number = PYE_COOKIE_FILE(cookie), pid = task_tgid(task);
	struct pye_proc *known = bpf_map_lookup_elem(&procs, &pid), proc = {};
	struct pye_file *file;

	if (!cfg_select || select_on != PYE_SELECT_CALLS || !number || !pid)
		return NULL;
	file = bpf_map_lookup_elem(&files, &number);
	if (!file || !file->ready_ns || !select_wants(task, known))
		return NULL;
	if (!locate(file, &proc, ip)) {
		count(CNT_LOST_THREAD);
		return NULL;
	}
	proc.layout = file->layout;
	return select_put(task, pid, number, known, &proc);
}

__hidden bool select_runs(struct task_struct *task, struct pye_proc *proc, u64 cookie, u64 ip)
{
	struct pye_proc_rec rec = { .pix = proc->pix, .pid = task_tgid(task) };
	u32 number = PYE_COOKIE_FILE(cookie);
	struct pye_file *file = bpf_map_lookup_elem(&files, &number);

	rec.old_pix = number;
	if (number && file && file->ready_ns) {
		if (!locate(file, proc, ip) || !proc_send(PYE_REC_RUNS, 0, &rec)) {
			count(CNT_LOST_THREAD);
			return false;
		}
		proc->layout = file->layout;
	}
	__sync_fetch_and_and(&proc->flags, ~(u32)PYE_PROC_EXECUTED);
	return true;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(select_exec, struct task_struct *task)
{
	struct pye_proc_rec rec = {};
	u64 now = bpf_ktime_get_ns();
	u32 pid = task_tgid(task);
	struct pye_proc *proc;

	if (!select_on || !pid)
		return 0;
	proc = bpf_map_lookup_elem(&procs, &pid);
	if (proc && !(proc->flags & PYE_PROC_SELECTED))
		return 0;
	if (!proc && !chosen(task))
		return 0;
	bpf_map_update_elem(&execs, &pid, &now, BPF_ANY);
	rec.pid = pid;
	proc_send(PYE_REC_EXECUTED, 0, &rec);
	return 0;
}

/* The chosen processes that run already: their pids in our pid namespace. */
SEC("iter/task")
int list_chosen(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 pid;

	if (!task || BPF_CORE_READ(task, pid) != BPF_CORE_READ(task, tgid))
		return 0;
	pid = task_tgid(task);
	if (pid && chosen(task))
		bpf_seq_write(ctx->meta->seq, &pid, sizeof(pid));
	return 0;
}
