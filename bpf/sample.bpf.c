// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Sampling: a clock on each CPU, and the scheduler. The clock's program takes the stack of the thread
 * that it interrupts. A thread that gets the CPU back takes its own stack then: it has been the same
 * all the time that the thread was away, and only now it is known how long that was.
 */
#include "py/sample.bpf.h"
#include "lib/sample.bpf.h"
#include "lib/select.bpf.h"

/* Working memory, about 22 kB for each context. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SAMPLE_CONTEXTS);
	__type(key, u32);
	__type(value, struct sample_scratch);
} sample_scratches SEC(".maps");

#define GIL_BYTES 240 /* of the lock, with its conditions */

const volatile __u64 cfg_sample_ns; /* between two samples of a CPU */

static __always_inline u64 thread_pointer(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->thread.fsbase;
}

static __always_inline u32 stack_take(struct thread *t, struct sample_scratch *s,
				      const struct pye_pylayout *l)
{
	struct sample_thread who = { .self = thread_pointer(),
				     .interpreters = t->interpreters,
				     .tstate_current = t->tstate_current,
				     .tstate = t->tstate };
	u32 status;

	s->rec.cnt = 0;
	t->tstate = sample_tstate(s, l, &who);
	if (!t->tstate) {
		count(CNT_SAMPLE_NO_STATE);
		return PYE_SAMPLE_NO_STATE;
	}
	status = sample_frames(s, l);
	if (status == PYE_SAMPLE_FAULT)
		count(CNT_SAMPLE_FAULT);
	if (s->rec.cnt > PYE_SAMPLE_FRAMES)
		count(CNT_SAMPLE_DEEP);
	return status;
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
	s->rec.head.seq = t->seq++;
	if (!ring || bpf_ringbuf_output(ring, &s->rec, size, BPF_RB_NO_WAKEUP))
		count(CNT_LOST_RING);
}

/* Is it the interpreter's lock that the thread, whose state is in s->tstate, waited for? */
static __always_inline bool is_gil(struct thread *t, struct sample_scratch *s,
				   const struct pye_pylayout *l, u64 futex)
{
	u64 gil = 0;

	if (l->rt_gil != PYE_NO_FIELD && t->interpreters)
		gil = t->interpreters - l->rt_interpreters + l->rt_gil;
	else if (l->is_gil != PYE_NO_FIELD)
		bpf_probe_read_user(&gil, 8, (void *)(tstate_word(s, l->ts_interp) + l->is_gil));
	return gil && futex >= gil && futex - gil < GIL_BYTES;
}

__hidden void sample_take(u32 context, u64 weight_ns, const struct off_cpu *why)
{
	struct sample_scratch *s = bpf_map_lookup_elem(&sample_scratches, &context);
	struct thread *t = sampled_thread();
	const struct pye_pylayout *l;
	u32 layout, status;

	if (!t || !s)
		return;
	layout = t->layout;
	l = bpf_map_lookup_elem(&layouts, &layout);
	if (!l)
		return;
	count(CNT_SAMPLES);
	s->rec.weight_ns = weight_ns;
	s->rec.state = why ? PYE_SAMPLE_OFF : PYE_SAMPLE_ON;
	s->rec.reason = why ? why->reason : PYE_OFF_NONE;
	s->rec.pad = 0;
	status = stack_take(t, s, l);
	if (why && why->reason == PYE_OFF_LOCK && t->tstate && is_gil(t, s, l, why->futex))
		s->rec.reason = PYE_OFF_GIL;
	sample_send(t, s, status);
}

SEC("perf_event")
int on_clock(void *ctx)
{
	count(CNT_TICKS);
	if (cfg_select)
		mapped_meet();
	sample_take(IN_CLOCK, cfg_sample_ns, NULL);
	return 0;
}
