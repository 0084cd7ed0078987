// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The maps that all probe families share, and the functions around them: the state of a thread, the
 * rings, the counters.
 */
#include "lib/core.bpf.h"
#include "lib/sample.bpf.h"
#include "lib/select.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define PIDNS_DEPTH 32 /* MAX_PID_NS_LEVEL */

/* Configuration, set before loading by user/capture/bpf_config.c. */
const volatile __u32 cfg_pidns_inum; /* inode number of pyebpf's pid namespace */
const volatile __u32 cfg_ring_mask; /* rings - 1 */
const volatile __u64
	cfg_ring_free_min; /* bytes that must be free before a thread resumes after a loss */
const volatile __u32 cfg_walk_records; /* records that a walk sends at most: less than a ring holds */
const volatile __u32 cfg_filter; /* PYE_FILTER_*; 0: everything is recorded */
const volatile __u32 cfg_max_depth; /* PYE_FILTER_DEPTH */
/* PYE_FILTER_THREAD: a pattern with * and ?. verifier: not constant, or it would go through it byte by byte. */
char thread_glob[PYE_FILTER_NAME];
/* PYE_FILTER_ROOT, PYE_FILTER_ONLY: what the user typed. A code object whose qualified name (to 3.10: whose
 * name) is the end of it is PYE_CODE_CHOSEN, until user space knows better. */
const volatile char cfg_tail[PYE_FILTER_TAIL]; /* its last bytes, at the end of this */
const volatile __u32 cfg_tail_of; /* bytes that it has in all */
const volatile bool cfg_tail_any; /* not ASCII: every name that is not either can be it */
const volatile bool cfg_hits; /* count hits of probes by process: there is a budget */
const volatile bool cfg_loop;
const volatile bool cfg_sleepable; /* the probes may sleep: read pages that are not there yet */

struct procs_map procs SEC(".maps");
struct layouts_map layouts SEC(".maps");
struct threads_map threads SEC(".maps");
struct counters_map counters SEC(".maps");
struct rings_map rings SEC(".maps");
struct ends_map ends SEC(".maps");
struct control_map control SEC(".maps");
struct defs_map defs SEC(".maps");
struct paused_map paused SEC(".maps");
struct hits_map hits SEC(".maps");

__u32 next_tix = 1;
__u32 next_pix = 1;
__u32 names_now = 1;
__u32 stopped; /* the probes are being taken out, one link after the other: nothing counts any more */
__u32 forget_pid; /* for forget_stacks */
__u32 pidns_level; /* of cfg_pidns_inum; 0: the first one, or not known yet */
__u32 pidns_first; /* pyebpf is in the first namespace. Not constant: so every load verifies the same */

/* The number at one level, if the namespace there is ours. Not static, nor what asks: they are verified once each. */
__noinline u32 number_at(u64 addr, u32 level)
{
	struct pid *pid = (struct pid *)addr;
	struct upid number;

	if (bpf_core_read(&number, sizeof(number), &pid->numbers[level]))
		return 0;
	return BPF_CORE_READ(number.ns, ns.inum) == cfg_pidns_inum ? number.nr : 0;
}

/* In a namespace of its own pyebpf learns from the first process in it how deep that lies. */
__noinline u32 pid_number(u64 addr)
{
	struct pid *pid = (struct pid *)addr;
	u32 level = pid ? BPF_CORE_READ(pid, level) : 0, nr;

	if (pidns_level)
		return pidns_level <= level ? number_at(addr, pidns_level) : 0;
	for (u32 i = 0; pid && i <= PIDNS_DEPTH && i <= level; i++) {
		nr = number_at(addr, level - i);
		if (!nr)
			continue;
		pidns_level = level - i;
		return nr;
	}
	return 0;
}

/* In the first namespace the numbers are the kernel's own; every tick of every process asks. */
__hidden u32 task_pid(struct task_struct *task)
{
	if (pidns_first)
		return BPF_CORE_READ(task, pid);
	return pid_number((u64)BPF_CORE_READ(task, thread_pid));
}

__hidden u32 task_tgid(struct task_struct *task)
{
	if (pidns_first)
		return BPF_CORE_READ(task, tgid);
	return pid_number((u64)BPF_CORE_READ(task, group_leader, thread_pid));
}

/* A thread can live as long as others fill its ring: so that its losses have a place, it is told beside the
 * definitions then, which are read before events. Not where samples are taken: there are none. */
static __always_inline struct pye_thread_rec *announce_reserve(struct thread *t)
{
	struct pye_thread_rec *rec;
	void *ring = ring_of(t);

	rec = ring ? bpf_ringbuf_reserve(ring, sizeof(*rec), 0) : NULL;
	if (!rec && !cfg_sample_ns)
		rec = bpf_ringbuf_reserve(&defs, sizeof(*rec), 0);
	return rec;
}

static __always_inline bool announce(struct thread *t, struct task_struct *task)
{
	struct pye_thread_rec *rec = announce_reserve(t);

	if (!rec)
		return false;
	rec->head.ts_ns = bpf_ktime_get_ns();
	rec->head.frame = 0;
	rec->head.kind = PYE_REC_THREAD;
	rec->head.sub = 0;
	rec->head.tix = t->tix;
	rec->head.seq = t->seq;
	rec->pix = t->pix;
	rec->pid = task_tgid(task);
	rec->tid = task_pid(task);
	rec->pad = 0;
	rec->start_boottime_ns = BPF_CORE_READ(task, start_boottime);
	rec->fsbase = BPF_CORE_READ(task, thread.fsbase);
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	t->flags |= T_ANNOUNCED;
	return true;
}

static __noinline struct thread *thread_new(struct task_struct *task, u64 cookie, u64 ip)
{
	u32 pid = task_tgid(task);
	struct pye_proc *proc = bpf_map_lookup_elem(&procs, &pid);
	struct thread *t;

	if (cfg_select && cookie && (!proc || !(proc->flags & PYE_PROC_TRACED)))
		proc = select_take(task, cookie, ip);
	if (!proc || !(proc->flags & PYE_PROC_TRACED))
		return NULL;
	if (cfg_locate && proc->flags & PYE_PROC_EXECUTED &&
	    (!cookie || !select_runs(task, proc, cookie, ip)))
		return NULL;
	/* it executed a program just when it was said to be traced: what it runs is being looked up */
	if (cfg_sample_ns && !proc->interpreters && !proc->tstate_current)
		return NULL;
	t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		if (ip) /* an event, not a hit that only tells us something */
			count(CNT_LOST_THREAD);
		return NULL;
	}
	t->tix = __sync_fetch_and_add(&next_tix, 1);
	t->pix = proc->pix;
	t->layout = proc->layout;
	t->tstate_current = proc->tstate_current;
	t->interpreters = proc->interpreters;
	t->ring = task_pid(task) & cfg_ring_mask;
	if (cfg_filter & PYE_FILTER_THREAD) {
		bpf_get_current_comm(t->name, sizeof(t->name));
		t->other = OTHER_YES; /* until it is judged */
	}
	return t;
}

__hidden struct thread *thread_quiet(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (stopped == STOPPED_ALL)
		return NULL;
	return t ? t : thread_new(task, 0, 0);
}

__hidden struct thread *thread_meet(u64 cookie, u64 ip)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (stopped && is_stopped())
		return NULL;
	return t ? t : thread_new(task, cookie, ip);
}

__hidden void hits_add(struct thread *t)
{
	u32 pix = t->pix;
	u64 *value = bpf_map_lookup_elem(&hits, &pix);

	if (value)
		__sync_fetch_and_add(value, t->hits);
	t->hits = 0;
}

int is_stopped(void)
{
	u32 pid;

	if (stopped == STOPPED_ALL)
		return true;
	pid = task_tgid(bpf_get_current_task_btf());
	return bpf_map_lookup_elem(&paused, &pid) != NULL;
}

__hidden struct thread *thread_start(u64 cookie, u64 ip)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (!t)
		t = thread_new(task, cookie, ip);
	if (!t)
		return NULL;
	if (!announce(t, task))
		t->flags |=
			T_NEED_WALK; /* its events are lost: the hole shows once it is announced */
	return t;
}

/* A counter per hit would cost as much as the rest of a quiet one. */
static __always_inline void count_quiet(struct thread *t)
{
	if (!cfg_filter || !t->quiet)
		return;
	count_many(CNT_FILTERED, t->quiet);
	t->quiet = 0;
}

/* A record without a name so far; NULL if the ring was full (counted). */
static __always_inline struct pye_thread_end_rec *end_reserve(struct thread *t, u32 kind, u32 sub)
{
	struct pye_thread_end_rec *rec;
	void *ring = ring_of(t);

	rec = ring ? bpf_ringbuf_reserve(ring, sizeof(*rec), 0) : NULL;
	if (!rec) {
		count(CNT_LATE_RECORD);
		return NULL;
	}
	rec->head.ts_ns = bpf_ktime_get_ns();
	rec->head.frame = 0;
	rec->head.kind = kind;
	rec->head.sub = sub;
	rec->head.tix = t->tix;
	rec->head.seq = t->seq;
	rec->pix = t->pix;
	rec->pad = 0;
	return rec;
}

__hidden void thread_end(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	struct pye_thread_end_rec *rec;
	u32 tix, seq;

	if (!t || !t->pix)
		return;
	if (t->off_ns)
		come_back_late(t);
	count_quiet(t);
	tix = t->tix;
	seq = t->seq;
	rec = end_reserve(t, PYE_REC_THREAD_END, 0);
	if (!rec) {
		if (bpf_map_update_elem(&ends, &tix, &seq, BPF_ANY))
			count(CNT_LOST_END);
		return;
	}
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
}

/* Before it has the new name. It can be another thread that gives it, so the thread itself looks at it. */
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (!t || !t->pix)
		return 0;
	bpf_probe_read_kernel_str(t->name, sizeof(t->name), comm);
	t->names_seen = 0;
	return 0;
}

__hidden void thread_renamed(struct thread *t)
{
	bool recorded = t->other != OTHER_YES;
	struct pye_thread_end_rec *rec;

	rec = t->flags & T_ANNOUNCED ? end_reserve(t, PYE_REC_RENAME, recorded) : NULL;
	if (!rec)
		return;
	__builtin_memcpy(rec->comm, t->name, sizeof(rec->comm));
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
}

/* The final sequence numbers of the threads that are alive when the trace ends: one record each,
 * {tix, seq}, in the order of the kernel's task list. */
SEC("iter/task")
int list_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;
	u32 out[2];

	if (!task)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t || !t->pix) /* process 0: pyebpf measuring itself */
		return 0;
	count_quiet(t);
	out[0] = t->tix;
	out[1] = t->seq;
	bpf_seq_write(ctx->meta->seq, out, sizeof(out));
	return 0;
}

/* The threads of traced processes: which of them pthread_self() is whose. */
SEC("iter/task")
int list_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct pye_task_rec rec = {};
	struct pye_proc *proc;
	u32 pid;

	if (!task)
		return 0;
	pid = task_tgid(task);
	proc = bpf_map_lookup_elem(&procs, &pid);
	if (!proc || !(proc->flags & PYE_PROC_TRACED))
		return 0;
	rec.pid = pid;
	rec.tid = task_pid(task);
	rec.pix = proc->pix;
	rec.fsbase = BPF_CORE_READ(task, thread.fsbase);
	BPF_CORE_READ_STR_INTO(&rec.comm, task, comm);
	bpf_seq_write(ctx->meta->seq, &rec, sizeof(rec));
	return 0;
}

/* A process has no probes for a while: what its threads do then is not seen, so what is known of their
 * stacks is worth nothing. No probe runs in them meanwhile. */
SEC("iter/task")
int forget_stacks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;

	if (!task || task_tgid(task) != forget_pid)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t)
		return 0;
	t->valid = 0;
	t->below = 0;
	t->root_at = 0;
	t->flags &= ~(T_KNOWN | T_UNWINDING); /* as when it was first seen */
	return 0;
}
