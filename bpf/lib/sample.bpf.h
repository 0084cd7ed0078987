/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What sample.bpf.c lends: a sample of the current thread. */
#ifndef PYEBPF_LIB_SAMPLE_BPF_H
#define PYEBPF_LIB_SAMPLE_BPF_H

#include "abi/sample.h"
#include "lib/core.bpf.h"

#define NULL ((void *)0)

/* Contexts that have working memory of their own, since one can interrupt the other. */
enum sample_context {
	IN_CLOCK = 0,
	IN_SCHEDULER = 1,
	SAMPLE_CONTEXTS = 2
};

/* Why a thread leaves the CPU, and the word that it waits for with a futex. */
struct off_cpu {
	u64 futex;
	u32 reason; /* enum pye_off_reason */
	u32 pad;
};

#define PF_EXITING 4
#define PF_KTHREAD 0x200000 /* the idle threads, too */

#define IS_SAMPLE  1 /* for `ip` of thread_get(): no probe's, and a thread without room is a loss */

/* sampled_thread - state of the current thread; NULL: it is not sampled, is the kernel's own, or is ending:
 * its last number has been sent, or will be now. */
static __always_inline struct thread *sampled_thread(void)
{
	struct thread *t;

	if (bpf_get_current_task_btf()->flags & (PF_EXITING | PF_KTHREAD))
		return NULL;
	t = thread_get(0, IS_SAMPLE);
	if (!t || t->flags & T_ANNOUNCED)
		return t;
	t->seq++; /* the sample is lost: the hole shows once the thread is announced */
	count(CNT_LOST_RING);
	return NULL;
}

/**
 * sample_take - send the stack of the current thread
 * @ctx: of the program, as the kernel gives it
 * @why: of the time that it was off the CPU; NULL: it runs
 *
 * Nothing happens if it is not one of those that are sampled, or, in gil mode, does not hold the lock.
 *
 * Return: did it happen?
 */
bool sample_take(void *ctx, u32 context, u64 weight_ns, const struct off_cpu *why);

/* A stack of a wait that has to be known to be long before it is sent, as it goes into the ring. Deeper ones are sent at once. */
#define KEPT_FRAMES 120
struct kept_stack {
	u64 size; /* of what is used of: */
	u64 rec[(PYE_SAMPLE_HEAD + KEPT_FRAMES * sizeof(struct pye_sample_frame)) / 8];
};

/* About 2 kB for each thread that has waited, where there is a threshold. */
struct kept_map {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct kept_stack);
};
extern struct kept_map kept SEC(".maps");

extern __u64 wait_min_ns; /* shorter waits are counted and left out; 0: none */

/*
 * come_back_late - the current thread was seen leaving the CPU, and not coming back (t->off_ns is not 0), though it runs
 *
 * There are kernels that do not tell of a switch from some tasks, such as those of a virtual machine's own agent.
 */
void come_back_late(struct thread *t);

#define KEEP_ALL 1000000

extern __u32 keep_ppm; /* of the stacks; of those left out the next one takes the time */
extern const volatile bool cfg_budget;
extern __u32 unwanted_any; /* there is, or was, a process with PYE_PROC_UNWANTED */

/* is_unwanted - nobody wants the samples of the current process: all that it costs is this look. */
static __always_inline bool is_unwanted(void)
{
	struct pye_proc *proc;
	u32 pid;

	if (!unwanted_any)
		return false;
	pid = task_tgid(bpf_get_current_task_btf());
	proc = pid ? bpf_map_lookup_elem(&procs, &pid) : NULL;
	return proc && proc->flags & PYE_PROC_UNWANTED;
}

/* budget_begin, budget_end - around all of a program's work: what it took is counted. */
static __always_inline u64 budget_begin(void)
{
	return cfg_budget ? bpf_ktime_get_ns() : 0;
}

static __always_inline void budget_end(u64 begin)
{
	if (cfg_budget)
		count_many(CNT_SAMPLE_NS, bpf_ktime_get_ns() - begin);
}

extern const volatile __u64 cfg_sample_ns;
extern const volatile bool cfg_gil_only;

#endif
