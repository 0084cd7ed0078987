// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Time off the CPU. A thread that is about to lose it has its stack taken: it stays the same all the time
 * that the thread is away. When it comes back another record says how long that was. A thread that waits
 * very often has its stack taken now and then only, and the time of the waits between is added to the
 * next one that has a stack; a long wait without one is shown as such.
 */
#include "abi/wait.h"
#include "lib/sample.bpf.h"

#define OFF_LONG_NS 10000000ULL
#define OFF_BURST   64
#define OFF_SPARED  32 /* of these: not for waits that are none, the thread was ready all the time */

const volatile __u64 cfg_off_every_ns = 1; /* between the stacks of a thread, when it waits often */

/* What is read of pt_regs, where these are neighbours. */
struct call_regs {
	u64 si, di, orig_ax;
};

static __always_inline void off_why(struct task_struct *task, bool preempted, struct off_cpu *why)
{
	struct pt_regs *from = (struct pt_regs *)bpf_task_pt_regs(task);
	struct call_regs regs = {};

	why->futex = 0;
	why->pad = 0;
	why->reason = PYE_OFF_PREEMPTED;
	if (preempted || !BPF_CORE_READ(task, __state))
		return;
	why->reason = PYE_OFF_OTHER;
	if (!from || bpf_probe_read_kernel(&regs, sizeof(regs), &from->si))
		return;
	why->reason = pye_wait_reason((s64)regs.orig_ax, regs.di, regs.si);
	if (why->reason == PYE_OFF_LOCK)
		why->futex = regs.di;
}

/* The stack that was kept goes into the ring. Not at the time that it is from: records are numbered as they are sent. */
static __always_inline void kept_send(struct thread *t, struct task_struct *task)
{
	struct kept_stack *k = bpf_task_storage_get(&kept, task, 0, 0);
	struct pye_head *head;
	void *ring = ring_of(t);
	u64 size;

	t->off_kept = false;
	if (!k)
		return;
	size = k->size;
	barrier_var(size);
	if (size > sizeof(k->rec)) /* verifier */
		size = sizeof(k->rec);
	head = (struct pye_head *)k->rec;
	head->seq = t->seq++;
	if (!ring || bpf_ringbuf_output(ring, k->rec, size, BPF_RB_NO_WAKEUP))
		count(CNT_LOST_RING);
}

/* Shorter than what is asked for: all that is left of it is a number. What user space has half of needs the other half. */
static __always_inline bool is_short(struct thread *t, u64 away)
{
	if (away >= wait_min_ns || (t->off_has_stack && !t->off_kept))
		return false;
	count(CNT_WAIT_SHORT);
	count_many(CNT_WAIT_SHORT_NS, away);
	t->off_kept = false;
	return true;
}

/* The thread has the CPU again. In its own context, or still in that of the one before it: nobody else touches t. */
static __always_inline void come_back(struct thread *t, struct task_struct *task, u64 now)
{
	u64 away = now - t->off_ns, weight = away;
	struct pye_wait_rec *rec;
	void *ring = ring_of(t);

	t->off_ns = 0;
	if (is_short(t, away))
		return;
	if (t->off_has_stack) {
		weight += t->off_debt_ns;
		t->off_debt_ns = 0;
	} else if (away < OFF_LONG_NS) {
		t->off_debt_ns += away;
		return;
	}
	if (t->off_kept)
		kept_send(t, task);
	rec = ring ? bpf_ringbuf_reserve(ring, sizeof(*rec), 0) : NULL;
	if (!rec) {
		t->seq++;
		count(CNT_LOST_RING);
		return;
	}
	rec->head.ts_ns = now;
	*(u64 *)((void *)rec + 8) = (u64)PYE_REC_WAIT << 48 | (u64)t->off_has_stack << 56;
	rec->head.tix = t->tix;
	rec->head.seq = t->seq++;
	rec->weight_ns = weight;
	rec->reason = t->off_reason;
	rec->pad = 0;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
}

/*
 * The current thread runs, and it was not told when it began to. What it has run since says it: the kernel's own sum, which
 * can be a timer tick behind.
 */
__hidden void come_back_late(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 ran = task->se.sum_exec_runtime - t->off_ran_ns;
	u64 now = bpf_ktime_get_ns();

	count(CNT_RETURN_UNSEEN);
	come_back(t, task, ran < now - t->off_ns ? now - ran : t->off_ns);
}

/* So many stacks a second of one thread, and some at once. */
static __always_inline bool may_walk(struct thread *t, u64 now, bool preempted)
{
	u64 since = now - t->off_filled_ns, every = cfg_off_every_ns, more;

	if (cfg_budget) /* fewer of these, too */
		every = every * KEEP_ALL / (keep_ppm ? keep_ppm : 1) + 1;
	more = since / every;

	if (more) {
		t->off_tokens = t->off_tokens + more > OFF_BURST ? OFF_BURST : t->off_tokens + more;
		t->off_filled_ns = now;
	}
	if (t->off_tokens <= (preempted ? OFF_SPARED : 0))
		return false;
	t->off_tokens--;
	return true;
}

static __always_inline void leave(void *ctx, struct thread *t, bool preempted, u64 now)
{
	struct off_cpu why;

	if (t->off_ns)
		come_back_late(t);
	off_why(bpf_get_current_task_btf(), preempted, &why);
	t->off_ran_ns = bpf_get_current_task_btf()->se.sum_exec_runtime;
	t->off_reason = why.reason;
	t->off_has_stack = may_walk(t, now, why.reason == PYE_OFF_PREEMPTED);
	if (t->off_has_stack)
		t->off_has_stack = sample_take(ctx, IN_SCHEDULER, 0, &why);
	else if (cfg_budget && keep_ppm < KEEP_ALL)
		count(CNT_SAMPLE_SKIPPED);
	/* in gil mode only the time of holders counts */
	if (t->off_has_stack || !cfg_gil_only)
		t->off_ns = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct thread *t = bpf_task_storage_get(&threads, next, 0, 0);
	u64 now = bpf_ktime_get_ns();

	if (t && t->off_ns)
		come_back(t, next, now);
	t = is_unwanted() ? NULL : sampled_thread(); /* prev still has the CPU */
	if (t)
		leave(ctx, t, preempt, now);
	budget_end(now);
	return 0;
}

/* At the end, when no other program runs any more: stacks of waits that last, and are long enough by now. */
SEC("iter/task")
int send_kept(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t = task ? bpf_task_storage_get(&threads, task, 0, 0) : NULL;

	if (t && t->off_ns && t->off_kept && bpf_ktime_get_ns() - t->off_ns >= wait_min_ns)
		kept_send(t, task);
	return 0;
}

/* The threads of sampled processes, for what is still waiting when a recording ends. */
SEC("iter/task")
int list_waiting(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct pye_waiter rec = {};
	struct off_cpu why;
	struct pye_proc *proc;
	struct thread *t;

	if (!task)
		return 0;
	rec.pid = task_tgid(task);
	proc = bpf_map_lookup_elem(&procs, &rec.pid);
	if (!proc || !(proc->flags & PYE_PROC_TRACED))
		return 0;
	off_why(task, false, &why);
	rec.tid = task_pid(task);
	rec.pix = proc->pix;
	rec.fsbase = BPF_CORE_READ(task, thread.fsbase);
	rec.futex = why.futex;
	rec.reason = why.reason == PYE_OFF_PREEMPTED ? PYE_OFF_NONE : why.reason;
	BPF_CORE_READ_STR_INTO(&rec.comm, task, comm);
	t = bpf_task_storage_get(&threads, task, 0, 0);
	rec.tix = t ? t->tix : 0;
	bpf_seq_write(ctx->meta->seq, &rec, sizeof(rec));
	return 0;
}
