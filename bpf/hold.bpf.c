// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Launching: holds our own child, and with -s what it starts, at the moments at which an interpreter
 * can appear: when it executes a program and when it maps a file as code. It sends itself SIGSTOP, so
 * nothing of the new code has run when user space looks and lets it go on. Processes that we did not
 * start are never in the table with these flags. No ptrace.
 */
#include "lib/core.bpf.h"

#define SIGSTOP	  19
#define PROT_EXEC 4
#define NR_MMAP	  9 /* x86-64 */

/* A process that nobody hears of must not be stopped, and who hears of it must find it stopped: the
 * place for the record first, then the signal, then the record. */
static __always_inline void hold(u32 pid, u32 why)
{
	struct pye_proc_rec *rec = bpf_ringbuf_reserve(&control, sizeof(*rec), 0);

	if (!rec) {
		count(CNT_LATE_RECORD);
		return;
	}
	__builtin_memset(rec, 0, sizeof(*rec));
	rec->head.ts_ns = bpf_ktime_get_ns();
	rec->head.kind = PYE_REC_HELD;
	rec->head.sub = why;
	rec->pid = pid;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
	bpf_send_signal(SIGSTOP);
	bpf_ringbuf_submit(rec, BPF_RB_FORCE_WAKEUP);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(hold_exec, struct task_struct *task)
{
	u32 pid = task_tgid(task);
	struct pye_proc *proc = bpf_map_lookup_elem(&procs, &pid);

	if (proc && proc->flags & PYE_PROC_LAUNCHED) {
		proc->flags |= PYE_PROC_WATCH_MAP;
		hold(pid, PYE_HELD_EXEC);
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(hold_map, struct pt_regs *regs, long ret)
{
	struct pye_proc *proc;
	u32 pid;

	if (BPF_CORE_READ(regs, orig_ax) != NR_MMAP || !(BPF_CORE_READ(regs, dx) & PROT_EXEC))
		return 0;
	if ((int)BPF_CORE_READ(regs, r8) < 0 || ret < 0)
		return 0;
	pid = task_tgid(bpf_get_current_task_btf());
	proc = bpf_map_lookup_elem(&procs, &pid);
	if (proc && proc->flags & PYE_PROC_LAUNCHED && proc->flags & PYE_PROC_WATCH_MAP)
		hold(pid, PYE_HELD_MAP);
	return 0;
}
