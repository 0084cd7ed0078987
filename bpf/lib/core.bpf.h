/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What core.bpf.c lends to the probe families: the state of a thread, its ring, the counters. Maps
 * shared by all families are defined there and declared here.
 */
#ifndef PYEBPF_LIB_CORE_BPF_H
#define PYEBPF_LIB_CORE_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "abi/event.h"
#include "abi/filter.h"
#include "abi/limits.h"
#include "abi/proc.h"
#include "abi/pylayout.h"

extern const volatile __u32 cfg_filter;
extern const volatile __u32 cfg_max_depth;
extern char thread_glob[PYE_FILTER_NAME];
extern const volatile char cfg_tail[PYE_FILTER_TAIL];
extern const volatile __u32 cfg_tail_of;
extern const volatile bool cfg_tail_any;

enum pye_counter {
#define PYE_COUNTER(name, number, text) CNT_##name = number,
#include "abi/counters.def"
#undef PYE_COUNTER
	CNT_MAX
};

enum thread_other {
	OTHER_NO = 0, /* recorded */
	OTHER_YES = 1, /* its name is not the one that is asked for */
	OTHER_WAS = 2, /* it is now: what is known of its stack is worth nothing */
};

/* flags of struct thread */
#define T_KNOWN	    1 /* the slots say what the stack is */
#define T_NEED_WALK 2 /* user space does not know the stack: events were lost */
#define T_ANNOUNCED 4 /* the THREAD record is written */
#define T_UNWINDING 8 /* the frame that is cleared next ends by an exception */
#define T_CUT	    16 /* the last walk was cut: user space knows the top of the stack only */

/* Low bits of a stack slot: frames are at least 8-aligned. */
#define SLOT_GENERATOR 1ULL
#define SLOT_QUIET     2ULL /* its entry was not recorded, so its exit is not */
#define SLOT_CLOSING \
	4ULL /* cleared without running: what runs meanwhile has the frame below as its caller */
/* Room for PYE_FRAME_READ bytes; verifier: a power of two, so that a mask bounds the index. */
#define FRAME_WORDS   16

#define SLOT_FRAME(s) ((s)&0xfffffffffff8ULL)
/* SLOT_CLOSING: which one it is of those that are being closed, from the innermost frame that runs on */
#define SLOT_CLOSING_NTH(s) ((s) >> 48)

/* What is known of a str before its data is read. */
struct str_info {
	u64 addr, data;
	u64 length;
	u32 state, bytes;
	u32 fault, pad;
};

/*
 * A traced thread. Only its own thread touches it (probes run in the thread's context), so nothing
 * here needs a lock. `pos` grows and wraps; the frame on top lies in slot (pos - 1), and `valid`
 * slots below pos are known; `below` more frames lie under them, whose slots were overwritten.
 */
struct thread {
	u32 tix;
	u32 seq;
	u32 pix;
	u32 layout;
	u32 ring;
	u32 flags;
	u32 pos, valid, below;
	u32 walk_cnt; /* frames in walk[] */
	/* verifier: counters of loops lie here and not on the stack, where it would follow each value */
	u32 walk_sent; /* records of the walk */
	u32 walk_n; /* frames of the walk */
	u32 hits; /* of probes, not added to those of its process yet */
	u32 pad;
	u64 walk_more; /* where frame_real() ended with FRAME_MORE */
	u64 tstate_current;
	u64 frame[FRAME_WORDS]; /* the frame being looked at */
	struct str_info str; /* the str being sent */
	struct pye_walk_frame walk[PYE_WALK_FRAMES];
	u64 stack[PYE_STACK_SLOTS];
	u32 sp[PYE_STACK_SLOTS]; /* to 3.10: the stack pointer at the frame's entry; 0 = not known. SLOT_CLOSING: at the call */
	u32 eval_size; /* to 3.10: how far below that it is at the exits */
	u64 quiet; /* entries that a filter kept back, not in the counter yet */
	u64 now_ns; /* with a filter: of the hit, where a walk can follow */
	u32 other; /* enum thread_other: a filter by names */
	u32 names_seen; /* value of names_now when it was judged last; 0: it is to be judged */
	u32 renaming; /* so many hits more, and a name may have been given behind each */
	char name[PYE_COMM]; /* the operating system's */
	u64 object; /* a filter by names: its threading.Thread; 0 = not known */
	u32 root_at; /* PYE_FILTER_ROOT: depth of the outermost frame that can be of the function; 0: none */
	u32 root_n; /* of a walk: its place from the top down, from 1 on */
	char tail[2 * PYE_FILTER_TAIL]; /* the name being compared: of a function, or the thread's */
	u64 interpreters; /* of struct pye_proc */
	u64 tstate; /* as the last sample or probe found it; 0 = not known */
	u64 off_ns; /* when it left the CPU; 0 = it has it, or that was not seen */
	u64 off_ran_ns; /* CPU time that it had had then */
	u64 off_debt_ns; /* time off it that no sample stands for yet */
	u64 off_filled_ns; /* when there were more of these: */
	u64 on_debt_ns; /* time on it that no sample stands for yet */
	u32 off_tokens; /* stacks that may be taken now */
	u16 off_reason; /* enum pye_off_reason */
	u8 off_has_stack; /* it was taken when it left */
	u8 off_kept; /* and is in the table of kept stacks: it is sent when the wait is long enough */
};

/* Key: process, by its pid in pyebpf's pid namespace. Written by user space (attach) and by
 * proclife.bpf.c (fork, exec, exit). When full, new processes are refused by user space. */
struct procs_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYE_PROCS_MAX);
	__type(key, u32);
	__type(value, struct pye_proc);
};
extern struct procs_map procs SEC(".maps");

/* Key: number of a layout. Written by user space before the first probe. */
struct layouts_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYE_LAYOUTS_MAX);
	__type(key, u32);
	__type(value, struct pye_pylayout);
};
extern struct layouts_map layouts SEC(".maps");

/* State of each traced thread, about 3.7 kB. Freed by the kernel with the thread. */
struct threads_map {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
};
extern struct threads_map threads SEC(".maps");

/* Key: counter of counters.def. Summed over CPUs by user space. */
struct counters_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CNT_MAX);
	__type(key, u32);
	__type(value, u64);
};
extern struct counters_map counters SEC(".maps");

struct ring_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* The rings; a thread writes the one at (tid & cfg_ring_mask). Sized and filled by user space. */
struct rings_map {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PYE_RINGS_MAX);
	__type(key, u32);
	__array(values, struct ring_map);
};
extern struct rings_map rings SEC(".maps");

/* Key: thread number; final sequence numbers of threads whose THREAD_END record found its ring
 * full. Read by user space at the end. */
struct ends_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u32);
};
extern struct ends_map ends SEC(".maps");

static __always_inline void count_many(u32 counter, u64 n)
{
	u64 *value = bpf_map_lookup_elem(&counters, &counter);

	if (value)
		__sync_fetch_and_add(value, n);
}

static __always_inline void count(u32 counter)
{
	count_many(counter, 1);
}

/* Records of processes (fork, exec, exit, held): few, read at once, never behind a flood of events. */
struct control_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PYE_CONTROL_BYTES);
};
extern struct control_map control SEC(".maps");

/* Definitions of code objects, of all threads: one thread's event can use what another one defined,
 * so user space reads this ring up to its end before it looks at events. */
struct defs_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PYE_DEFS_BYTES);
};
extern struct defs_map defs SEC(".maps");

extern __u32 next_pix;

/* proc_send - a record of a process into the control ring; false if it was full (counted). */
static __always_inline bool proc_send(u32 kind, u32 sub, const struct pye_proc_rec *from)
{
	struct pye_proc_rec *rec = bpf_ringbuf_reserve(&control, sizeof(*rec), 0);

	if (!rec) {
		count(CNT_LATE_RECORD);
		return false;
	}
	*rec = *from;
	rec->head.ts_ns = bpf_ktime_get_ns();
	rec->head.kind = kind;
	rec->head.sub = sub;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
	bpf_ringbuf_submit(rec, BPF_RB_FORCE_WAKEUP);
	return true;
}

/* Values of `stopped`: all processes, or those of the table `paused`, whose probes are being taken out
 * or put in, one link after the other. */
#define STOPPED_ALL  1
#define STOPPED_SOME 2
extern __u32 stopped;

/* With a budget. Key: number of a process (pix); hits of its probes, those included that record nothing.
 * Made and deleted by user space. */
struct hits_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYE_PROCS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u64);
};
extern struct hits_map hits SEC(".maps");

extern const volatile bool cfg_hits; /* count them */

/* Key: process, by its pid in pyebpf's pid namespace. Written by user space, for some 50 ms each. */
struct paused_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYE_PAUSED_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
};
extern struct paused_map paused SEC(".maps");

/* is_stopped - where `stopped` is not 0: does it mean the current process? */
int is_stopped(void);

/* thread_quiet - the same for a hit that is no event: nothing is lost when it cannot be announced. */
struct thread *thread_quiet(void);

/* thread_start - the slow part of thread_get(): a thread that is new, or not announced yet. @cookie,
 * @ip: of the probe. */
struct thread *thread_start(u64 cookie, u64 ip);

/* hits_add - what is counted in a thread goes to its process. */
void hits_add(struct thread *t);

/* Not each hit goes to the table: that would cost as much as the rest of one that is filtered out. */
static __always_inline void hits_count(struct thread *t)
{
	if (cfg_hits && ++t->hits == PYE_HITS_STEP)
		hits_add(t);
}

/* names_now - grows when a program gives a name. */
extern __u32 names_now;

/* thread_meet - the state of the current thread, also if it is not wanted, made where it was not there. */
struct thread *thread_meet(u64 cookie, u64 ip);

/* thread_renamed - a record: whether it is recorded from here on. */
void thread_renamed(struct thread *t);

/* thread_get - state of the current thread, NULL if it is not traced. If it could not be announced its
 * events are lost (resync()). */
static __always_inline struct thread *thread_get(u64 cookie, u64 ip)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	if (t)
		hits_count(t);
	if (stopped && is_stopped())
		return NULL;
	return t && t->flags & T_ANNOUNCED ? t : thread_start(cookie, ip);
}

/* thread_end - a record with the final sequence number, when the thread dies or executes. */
void thread_end(struct task_struct *task);

/* task_pid, task_tgid - as pyebpf's pid namespace numbers them; 0 if it does not see the task. */
u32 task_pid(struct task_struct *task);
u32 task_tgid(struct task_struct *task);

/* ring_of - the ring that a thread writes. */
static __always_inline void *ring_of(struct thread *t)
{
	u32 ring = t->ring;

	return bpf_map_lookup_elem(&rings, &ring);
}

extern const volatile __u32 cfg_pidns_inum;
extern const volatile __u32 cfg_ring_mask;
extern const volatile __u64 cfg_ring_free_min;
extern const volatile __u32 cfg_walk_records;
extern const volatile bool cfg_sleepable;

#endif
