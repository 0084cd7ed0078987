// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Sampling: a clock on each CPU, and the scheduler. The clock's program takes the stack of the thread
 * that it interrupts. A thread that gets the CPU back takes its own stack then: it has been the same
 * all the time that the thread was away, and only now it is known how long that was.
 */
#include "py/sample.bpf.h"
#include "lib/sample.bpf.h"
#include "lib/select.bpf.h"
#include "native/fp.bpf.h"

/* Working memory, about 30 kB for each context, and 18 kB. A value cannot have more than 32 kB. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SAMPLE_CONTEXTS);
	__type(key, u32);
	__type(value, struct sample_scratch);
} sample_scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SAMPLE_CONTEXTS);
	__type(key, u32);
	__type(value, struct sample_parts);
} sample_memory SEC(".maps");

const volatile __u64 cfg_sample_ns; /* between two samples of a CPU */
const volatile bool cfg_budget; /* there is a budget: the programs measure themselves */
__u32 keep_ppm = KEEP_ALL;
__u32 unwanted_any;
__u64 wait_min_ns;
struct kept_map kept SEC(".maps");
const volatile __u32 cfg_native; /* PYE_TAKE_* */
const volatile bool cfg_gil_only; /* of threads that hold the interpreter's lock */

static __always_inline u64 thread_pointer(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->thread.fsbase;
}

static __always_inline u32 tstate_find(struct thread *t, struct sample_scratch *s,
				       const struct pye_pylayout *l)
{
	struct sample_thread who = { .self = thread_pointer(),
				     .interpreters = t->interpreters,
				     .tstate_current = t->tstate_current,
				     .tstate = t->tstate };

	t->tstate = sample_tstate(s, l, &who);
	if (t->tstate)
		return PYE_SAMPLE_OK;
	count(CNT_SAMPLE_NO_STATE);
	return PYE_SAMPLE_NO_STATE;
}

/*
 * Global functions are verified each on its own: nothing that calls one has to be looked at again for each
 * way through it.
 */
__noinline u32 stack_walk(u32 context, u32 layout)
{
	struct sample_scratch *s = bpf_map_lookup_elem(&sample_scratches, &context);
	struct sample_parts *parts = bpf_map_lookup_elem(&sample_memory, &context);
	const struct pye_pylayout *l = bpf_map_lookup_elem(&layouts, &layout);

	return s && parts && l ? sample_frames(s, parts, l) : PYE_SAMPLE_FAULT;
}

static __always_inline u32 stack_take(struct sample_scratch *s, u32 context, u32 layout)
{
	u32 status = stack_walk(context, layout);

	if (status == PYE_SAMPLE_FAULT)
		count(CNT_SAMPLE_FAULT);
	if (s->rec.cnt > PYE_SAMPLE_FRAMES)
		count(CNT_SAMPLE_DEEP);
	return status;
}

/* Before 6.2 the kernel counted pages otherwise. */
struct atomic_long___old {
	long counter;
} __attribute__((preserve_access_index));
struct mm_rss_stat___old {
	struct atomic_long___old count[4];
} __attribute__((preserve_access_index));
struct mm_struct___old {
	struct mm_rss_stat___old rss_stat;
} __attribute__((preserve_access_index));

enum {
	RSS_FILE = 0,
	RSS_ANON = 1,
	RSS_SHMEM = 3
};

/* As /proc/PID/status has it, less what CPUs have not added up yet (32 pages and more for each of them). */
static __always_inline u32 rss_pages(void)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	s64 pages;

	if (!mm)
		return 0;
	if (bpf_core_field_exists(((struct mm_struct___old *)0)->rss_stat.count)) {
		struct mm_struct___old *old = (struct mm_struct___old *)mm;
		s64 counts[RSS_SHMEM + 1] = {};

		/* 6.1's verifier does not let a program look into an array of a typedef itself */
		bpf_core_read(counts, sizeof(counts), &old->rss_stat.count);
		pages = counts[RSS_FILE] + counts[RSS_ANON] + counts[RSS_SHMEM];
	} else {
		pages = mm->rss_stat[RSS_FILE].count + mm->rss_stat[RSS_ANON].count +
			mm->rss_stat[RSS_SHMEM].count;
	}
	return pages > 0 ? (u32)pages : 0;
}

/* What a lock is that the thread is going to wait for: user space asks its object. */
static __always_inline void lock_take(struct sample_scratch *s)
{
	s->rec.lock.frame = s->top;
	bpf_probe_read_user(&s->rec.lock.parked, 8, (void *)(s->rec.futex - 8));
}

/* Not numbered, since it may never be sent. */
static __always_inline bool sample_keep(struct thread *t, struct sample_scratch *s, u64 size)
{
	struct kept_stack *k;

	barrier_var(size); /* verifier: what is compared is what is used */
	if (size > sizeof(k->rec))
		return false;
	k = bpf_task_storage_get(&kept, bpf_get_current_task_btf(), 0,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!k || bpf_probe_read_kernel(k->rec, size, &s->rec))
		return false;
	k->size = size;
	t->off_kept = true;
	return true;
}

static __always_inline void sample_send(struct thread *t, struct sample_scratch *s, u32 status)
{
	u32 cnt = s->rec.cnt, size;
	void *ring = ring_of(t);

	if (cnt > PYE_SAMPLE_FRAMES)
		cnt = PYE_SAMPLE_FRAMES;
	size = PYE_SAMPLE_HEAD + cnt * sizeof(struct pye_sample_frame);
	s->rec.head.ts_ns = bpf_ktime_get_ns();
	*(u64 *)((void *)&s->rec + 8) = (u64)PYE_REC_SAMPLE << 48 | (u64)status << 56;
	s->rec.head.tix = t->tix;
	/* native frames are numbered with it, and go before it */
	if (s->rec.state == PYE_SAMPLE_OFF && wait_min_ns && !cfg_native && sample_keep(t, s, size))
		return;
	s->rec.head.seq = t->seq++;
	if (!ring || bpf_ringbuf_output(ring, &s->rec, size, BPF_RB_NO_WAKEUP))
		count(CNT_LOST_RING);
}

static __always_inline u32 native_user(struct sample_scratch *s)
{
	struct pye_native_rec *rec = &s->native;
	struct pt_regs *from = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	u32 end;

	rec->user_cnt = 0;
	if (!(cfg_native & PYE_TAKE_USER))
		return PYE_NATIVE_NONE;
	end = fp_walk(rec, s->page, from->ip, from->sp, from->bp);
	if (end == PYE_NATIVE_BROKEN)
		count(CNT_NATIVE_BROKEN);
	else if (end == PYE_NATIVE_FAULT)
		count(CNT_NATIVE_FAULT);
	else if (end == PYE_NATIVE_DEEP)
		count(CNT_NATIVE_DEEP);
	return end;
}

/* native_send - the record that goes before the sample; it has the sample's number, and none of its own. */
__noinline int native_send(u32 context)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	struct sample_scratch *s = bpf_map_lookup_elem(&sample_scratches, &context);
	struct pye_native_rec *rec;
	void *ring;
	u32 cnt, end;

	if (!t || !s)
		return 0;
	rec = &s->native;
	end = native_user(s);
	cnt = rec->kernel_cnt + rec->user_cnt;
	if (cnt > PYE_NATIVE_ADDRS) /* verifier */
		cnt = PYE_NATIVE_ADDRS;
	rec->head.ts_ns = 0;
	*(u64 *)((void *)rec + 8) = (u64)PYE_REC_NATIVE << 48 | (u64)end << 56;
	rec->head.tix = t->tix;
	rec->head.seq = t->seq;
	ring = ring_of(t);
	if (!ring ||
	    bpf_ringbuf_output(ring, rec, PYE_NATIVE_HEAD + cnt * sizeof(u64), BPF_RB_NO_WAKEUP))
		count(CNT_NATIVE_LOST);
	return 0;
}

static __always_inline void native_take(void *ctx, u32 context, struct pye_native_rec *rec)
{
	long bytes = 0;

	if (cfg_native & PYE_TAKE_KERNEL)
		bytes = bpf_get_stack(ctx, rec->addrs, PYE_KERNEL_FRAMES * sizeof(u64), 0);
	rec->kernel_cnt = bytes > 0 ? bytes / sizeof(u64) : 0;
	native_send(context);
}

/* The interpreter's lock of the thread whose state is in s->tstate; 0: not known, or there is none. */
static __always_inline u64 gil_of(struct thread *t, struct sample_scratch *s,
				  const struct pye_pylayout *l)
{
	u64 gil = 0;

	if (l->rt_gil != PYE_NO_FIELD && t->interpreters)
		gil = t->interpreters - l->rt_interpreters + l->rt_gil;
	else if (l->is_gil != PYE_NO_FIELD)
		bpf_probe_read_user(&gil, 8, (void *)(tstate_word(s, l->ts_interp) + l->is_gil));
	else if (l->gil_behind)
		gil = t->tstate_current;
	return gil;
}

/* Nothing happens in gil mode to a thread that does not hold the lock. */
static __always_inline bool is_wanted(struct thread *t, struct sample_scratch *s,
				      const struct pye_pylayout *l, u64 gil)
{
	return !cfg_gil_only || (t->tstate && gil && gil_holder(l, gil) == t->tstate);
}

__hidden bool sample_take(void *ctx, u32 context, u64 weight_ns, const struct off_cpu *why)
{
	struct sample_scratch *s = bpf_map_lookup_elem(&sample_scratches, &context);
	struct thread *t = sampled_thread();
	const struct pye_pylayout *l;
	u32 layout, status;
	u64 gil = 0;

	if (!t || !s)
		return false;
	if (!why && t->off_ns)
		come_back_late(t);
	layout = t->layout;
	l = bpf_map_lookup_elem(&layouts, &layout);
	if (!l)
		return false;
	s->rec.weight_ns = weight_ns;
	s->rec.state = why ? PYE_SAMPLE_OFF : PYE_SAMPLE_ON;
	s->rec.reason = why ? why->reason : PYE_OFF_NONE;
	s->rec.pad = 0;
	s->rec.futex = why ? why->futex : 0;
	s->rec.holder.code = s->rec.holder.instr = 0;
	s->rec.rss_pages = rss_pages();
	s->rec.pad2 = 0;
	s->rec.cnt = 0;
	status = tstate_find(t, s, l);
	if (cfg_gil_only || (why && why->reason == PYE_OFF_LOCK))
		gil = t->tstate ? gil_of(t, s, l) : 0;
	if (!is_wanted(t, s, l, gil))
		return false;
	count(CNT_SAMPLES);
	if (!why && cfg_budget) {
		s->rec.weight_ns += t->on_debt_ns;
		t->on_debt_ns = 0;
	}
	if (status == PYE_SAMPLE_OK)
		status = stack_take(s, context, layout);
	if (waits_for_gil(s, l, gil)) {
		s->rec.reason = PYE_OFF_GIL;
		holder_take(s, l, gil);
	} else if (s->rec.reason == PYE_OFF_LOCK) {
		lock_take(s);
	}
	if (cfg_native)
		native_take(ctx, context, &s->native);
	sample_send(t, s, status);
	return true;
}

/* On this CPU, in parts of a stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} sample_tokens SEC(".maps");

static __always_inline bool may_take(void)
{
	u32 zero = 0, *tokens = bpf_map_lookup_elem(&sample_tokens, &zero), keep = keep_ppm;

	if (keep >= KEEP_ALL || !tokens)
		return true;
	*tokens += keep;
	if (*tokens < KEEP_ALL)
		return false;
	*tokens -= KEEP_ALL;
	return true;
}

/* What a thread still owes when it ends, nobody stands for. So ten samples a second of a CPU, or a tenth of
 * them, are taken whatever the budget. */
#define MAX_DEBT_NS	 100000000ULL
#define MAX_DEBT_PERIODS 10

/* In gil mode it is not known whether the thread held the lock: nothing stands for this time then. Nor for
 * that in which nothing at all is taken (keep_ppm 0): it was not wanted. */
static __always_inline bool may_skip(void)
{
	struct thread *t = sampled_thread();

	if (!t)
		return true;
	if (keep_ppm && t->on_debt_ns >= MAX_DEBT_NS &&
	    t->on_debt_ns >= MAX_DEBT_PERIODS * cfg_sample_ns)
		return false;
	count(CNT_SAMPLE_SKIPPED);
	if (!cfg_gil_only && keep_ppm)
		t->on_debt_ns += cfg_sample_ns;
	return true;
}

SEC("perf_event")
int on_clock(void *ctx)
{
	u64 begin = budget_begin();

	count(CNT_TICKS);
	if (is_unwanted()) {
		count(CNT_SAMPLE_UNWANTED);
		budget_end(begin);
		return 0;
	}
	if (cfg_select)
		mapped_meet();
	if (!cfg_budget || may_take() || !may_skip())
		sample_take(ctx, IN_CLOCK, cfg_sample_ns, NULL);
	budget_end(begin);
	return 0;
}
