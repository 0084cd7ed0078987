// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The life of traced processes: fork, exec, exit. Keeps the table of processes right in the kernel,
 * so that a child's first call is known as its own, and tells user space.
 */
#include "lib/core.bpf.h"
#include "lib/select.bpf.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct pye_proc_rec rec = {};
	struct pye_proc *proc, copy;
	u32 pid = task_tgid(parent), child_pid = task_tgid(child);

	proc = bpf_map_lookup_elem(&procs, &pid);
	if (!proc || !(proc->flags & PYE_PROC_FOLLOW) || !child_pid || child_pid == pid)
		return 0;
	copy = *proc;
	if (!(copy.flags & PYE_PROC_SHARED))
		copy.flags &= ~PYE_PROC_TRACED; /* until user space has placed its probes */
	copy.pix = __sync_fetch_and_add(&next_pix, 1);
	if (bpf_map_update_elem(&procs, &child_pid, &copy, BPF_ANY)) {
		count(CNT_PROC_FULL);
		return 0;
	}
	rec.pix = copy.pix;
	rec.old_pix = proc->pix;
	rec.pid = child_pid;
	rec.parent = pid;
	proc_send(PYE_REC_FORK, copy.flags & PYE_PROC_SHARED ? PYE_FORK_SHARED : 0, &rec);
	return 0;
}

/* The file that it runs from here on is known when its probes are hit. */
static __always_inline int select_again(struct pye_proc *proc, u32 pid)
{
	struct pye_proc_rec rec = { .pix = proc->pix, .pid = pid };

	if (proc->flags & PYE_PROC_STAYS) {
		__sync_fetch_and_and(&proc->flags, ~(u32)(PYE_PROC_TRACED | PYE_PROC_UNWANTED));
		proc->pix = 0;
	} else {
		bpf_map_delete_elem(&procs, &pid);
	}
	proc_send(PYE_REC_PROC_END, 0, &rec);
	return 0;
}

/* The process runs another program from here on: its threads, code objects and interpreter are new.
 * If it is of the same file, the probes go on to fire with the same layout. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	struct pye_proc_rec rec = {};
	struct pye_proc *proc;
	u32 pid = task_tgid(task);

	proc = bpf_map_lookup_elem(&procs, &pid);
	if (!proc || !(proc->flags & (PYE_PROC_TRACED | PYE_PROC_FOLLOW)))
		return 0;
	thread_end(task);
	bpf_task_storage_delete(&threads, task);
	if (proc->flags & PYE_PROC_SELECTED)
		return select_again(proc, pid);
	rec.old_pix = proc->pix;
	proc->pix = __sync_fetch_and_add(&next_pix, 1);
	proc->tstate_current = 0;
	proc->interpreters = 0;
	if (proc->flags & PYE_PROC_SAMPLED) /* until user space has found the new interpreter */
		__sync_fetch_and_and(&proc->flags, ~(u32)(PYE_PROC_TRACED | PYE_PROC_UNWANTED));
	else if (cfg_locate)
		__sync_fetch_and_or(&proc->flags, PYE_PROC_EXECUTED);
	rec.pix = proc->pix;
	rec.pid = pid;
	proc_send(PYE_REC_EXEC, 0, &rec);
	return 0;
}

/* For user space: see abi/proc.h. An exec between the two looks at the number wins: what was written for the
 * program before it is taken back. */
SEC("syscall")
int change_proc(struct pye_proc_change *c)
{
	u32 pid = c->pid;
	struct pye_proc *proc = bpf_map_lookup_elem(&procs, &pid);

	if (!proc || (c->pix && proc->pix != c->pix))
		return 0;
	if (c->moved) {
		/* first what is enough for a sample, where it is known: a tick may come in between */
		proc->interpreters = c->interpreters;
		proc->tstate_current = c->tstate_current;
		if (c->pix && *(volatile u32 *)&proc->pix != c->pix) {
			proc->tstate_current = 0;
			proc->interpreters = 0;
			return 0;
		}
	}
	__sync_fetch_and_and(&proc->flags, ~c->clear);
	__sync_fetch_and_or(&proc->flags, c->set);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit_task, struct task_struct *task)
{
	struct pye_proc_rec rec = {};
	struct pye_proc *proc;
	u32 pid = task_tgid(task);

	thread_end(task);
	/* a zombie is still in the kernel's list of tasks */
	bpf_task_storage_delete(&threads, task);
	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0;
	proc = bpf_map_lookup_elem(&procs, &pid);
	if (!proc)
		return 0;
	rec.pix = proc->pix;
	rec.pid = pid;
	rec.exit_code = BPF_CORE_READ(task, signal, group_exit_code);
	if (!rec.exit_code)
		rec.exit_code = BPF_CORE_READ(task, exit_code);
	proc_send(PYE_REC_PROC_END, 0, &rec);
	bpf_map_delete_elem(&procs, &pid);
	return 0;
}
