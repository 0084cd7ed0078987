// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Samples of more than was named: a chosen process that executes an interpreter whose file is known is met
 * there, before any of it has run. One that executes something else, and maps such a file, is met by the
 * first sample in the file's code, or by user space, which looks for interpreters in what was executed just
 * now. Others cost a look into a table of those at each tick.
 */
#include "lib/sample.bpf.h"
#include "lib/select.bpf.h"

#define VM_EXEC	 4
#define YOUNG_NS 3000000000ULL /* user space has looked by then */

/* Key: an interpreter's file; its number, of the table of files. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYE_FILES_MAX);
	__type(key, struct pye_inode);
	__type(value, u32);
} file_numbers SEC(".maps");

/* For find_inode. Set by user space. */
__u32 find_pid;
__u64 find_addr;

/* Not the numbers of stat(): an overlay shows others. */
static __always_inline bool inode_of(struct vm_area_struct *vma, struct pye_inode *key)
{
	struct inode *inode = BPF_CORE_READ(vma, vm_file, f_inode);

	key->pad = 0;
	key->ino = BPF_CORE_READ(inode, i_ino);
	key->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	return inode != NULL;
}

struct mapped {
	u64 start, end, offset;
	u32 number, pad;
};

static __always_inline void look(struct vm_area_struct *vma, struct mapped *m)
{
	struct pye_inode key;
	u32 *number;

	m->number = 0;
	if (!(BPF_CORE_READ(vma, vm_flags) & VM_EXEC) || !inode_of(vma, &key))
		return;
	number = bpf_map_lookup_elem(&file_numbers, &key);
	if (!number)
		return;
	m->number = *number;
	m->start = BPF_CORE_READ(vma, vm_start);
	m->end = BPF_CORE_READ(vma, vm_end);
	m->offset = BPF_CORE_READ(vma, vm_pgoff) << 12;
}

static __noinline struct pye_proc *take(struct task_struct *task, struct mapped *m)
{
	struct pye_proc *known, proc = {};
	u32 pid = task_tgid(task);
	struct pye_file *file;
	u64 bias;

	file = bpf_map_lookup_elem(&files, &m->number);
	if (!file || !pid || select_on != PYE_SELECT_CALLS)
		return NULL;
	if (file->code < m->offset || file->code - m->offset >= m->end - m->start)
		return NULL;
	known = bpf_map_lookup_elem(&procs, &pid);
	if (!select_wants(task, known))
		return NULL;
	bias = m->start - m->offset - file->segment;
	proc.tstate_current = file->tstate_current ? file->tstate_current + bias : 0;
	proc.interpreters = file->interpreters ? file->interpreters + bias : 0;
	proc.layout = file->layout;
	proc.flags = PYE_PROC_SAMPLED;
	return select_put(task, pid, m->number, known, &proc);
}

static long look_in(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	(void)task;
	look(vma, ctx);
	return 0;
}

static __always_inline void take_at(struct task_struct *task, u64 addr)
{
	struct mapped m = {};

	if (!bpf_find_vma(task, addr, look_in, &m, 0) && m.number)
		take(task, &m);
}

__hidden void mapped_meet(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs;
	u64 *executed, ip = 0;
	u32 pid;

	if (task->flags & (PF_EXITING | PF_KTHREAD) || bpf_task_storage_get(&threads, task, 0, 0))
		return;
	pid = task_tgid(task);
	executed = bpf_map_lookup_elem(&execs, &pid);
	if (!executed || bpf_ktime_get_ns() - *executed > YOUNG_NS)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (regs && !bpf_probe_read_kernel(&ip, 8, &regs->ip))
		take_at(task, ip);
}

/* Before on_switch, and apart from it: the stack of both together is more than a program has. */
SEC("tp_btf/sched_switch")
int meet_switch(void *ctx)
{
	mapped_meet();
	return 0;
}

/* After on_exec, which has forgotten what the process was, and select_exec. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_executed, struct task_struct *task)
{
	take_at(task, BPF_CORE_READ(task, mm, start_code));
	return 0;
}

static long find_in(struct task_struct *task, struct vm_area_struct *vma, void *ctx)
{
	(void)task;
	inode_of(vma, ctx);
	return 0;
}

/* Which file a process maps at find_addr. */
SEC("iter/task")
int find_inode(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct pye_inode key = {};

	if (!task || task_pid(task) != find_pid)
		return 0;
	if (!bpf_find_vma(task, find_addr, find_in, &key, 0) && key.ino)
		bpf_seq_write(ctx->meta->seq, &key, sizeof(key));
	return 0;
}
