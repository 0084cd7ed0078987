/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF source of records: loads the programs, tells them which processes are traced, places the
 * probes of a plan and reads the rings. One object for a whole trace; one thread uses it.
 */
#ifndef PYEBPF_CAPTURE_CAP_BPF_H
#define PYEBPF_CAPTURE_CAP_BPF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/event.h"
#include "abi/filter.h"
#include "abi/proc.h"
#include "abi/sample.h"
#include "base/err.h"
#include "capture/bpf_load.h"
#include "capture/capture.h"
#include "cpython/interp.h"
#include "profile/trace.h"

struct cap_bpf;

struct cap_bpf_opts {
	size_t ring_bytes; /* all rings together; 0: 64 MiB */
	bool launch; /* cap_bpf__hold() will be used */
	bool select; /* cap_bpf__select() will be used: from Linux 5.17 on */
	struct bpf_filter filter;
	bool force_classic; /* tests: as if the kernel had no uprobe_multi */
	uint32_t table_max; /* tests: tables of processes and code objects with so few entries; or 0 */
	uint64_t sample_ns; /* sample each CPU so often, instead of placing probes; 0 = probes */
	bool on_cpu, off_cpu; /* which threads are sampled then */
	uint64_t wait_min_ns; /* shorter waits are counted and left out */
	uint32_t max_cpu_pct; /* samples: of one CPU, for all of the recording; 0 = no limit */
	double keep_least; /* of the stacks so many are taken all the same; 0 = the least there is */
	bool gil_only; /* of these those that hold the interpreter's lock */
	uint32_t native; /* with their native frames: PYE_TAKE_* of abi/sample.h */
	bool budget; /* probes: cap_bpf__count_hits() will be used */
	uint32_t families; /* of programs that are there from the beginning: BPF_* of bpf_load.h. Others
			    * are loaded when a process that needs them is attached to */
};

/* cap_bpf_families - what a plan needs: BPF_* of bpf_load.h. */
uint32_t cap_bpf_families(const struct probe_plan *plan);

int cap_bpf__new(struct cap_bpf **out, const struct cap_bpf_opts *opts, struct err *e);

/* cap_bpf__free - detaches first; NULL is fine. */
void cap_bpf__free(struct cap_bpf *c);

/* cap_bpf__calibrate - measure what an event costs, before the first process is traced. All zero when
 * that is not possible. */
void cap_bpf__calibrate(struct cap_bpf *c);

/* cap_bpf__cost - what was measured then, for the probes of this plan. */
void cap_bpf__cost(const struct cap_bpf *c, const struct probe_plan *plan, struct trace_cost *out);

/**
 * cap_bpf__trace - record a process from now on
 * @pid:   in our pid namespace
 * @in:    its interpreter
 * @flags: PYE_PROC_FOLLOW, PYE_PROC_LAUNCHED; of a selection with probes of their own PYE_PROC_SELECTED,
 *	   PYE_PROC_STAYS
 * @pix:   the number under which its records come
 *
 * Recording begins when cap_bpf__attach() has placed all probes.
 *
 * Return: 0; -E2BIG when the table of processes or layouts is full.
 */
int cap_bpf__trace(struct cap_bpf *c, pid_t pid, const struct interp *in, uint32_t flags,
		   uint32_t *pix);

/* cap_bpf__hold - a child of ours is to be held at exec and when it maps code, and so are those that it starts:
 * until cap_bpf__trace() says otherwise of one, which is Python. Should we be killed they go on. To be called
 * once, while there is no other thread. 0 or an error with its sentence. */
int cap_bpf__hold(struct cap_bpf *c, pid_t pid, struct err *e);

/* cap_bpf__stop_holding - nobody is held from here on; who was is in the control records by now. */
void cap_bpf__stop_holding(struct cap_bpf *c);

/* cap_bpf__forget - a process is not traced or held any more. */
void cap_bpf__forget(struct cap_bpf *c, pid_t pid);

/* cap_bpf__moved - a traced process executed the same file again: its interpreter lies elsewhere now. Nothing if
 * it has executed something else since it had the number @pix. */
void cap_bpf__moved(struct cap_bpf *c, pid_t pid, uint32_t pix, const struct interp *in);

/* cap_bpf__ended - nothing of this process number is running any more: its code objects are forgotten,
 * some processes at a time. */
void cap_bpf__ended(struct cap_bpf *c, uint32_t pix);

/* cap_bpf__gone - a process has ended: the probes that were its own are taken out, else each event of
 * another process would be compared with them. */
void cap_bpf__gone(struct cap_bpf *c, pid_t pid);

/* cap_bpf__settle - a launched process needs no more stops at mappings: its interpreter is found. */
void cap_bpf__settle(struct cap_bpf *c, pid_t pid);

/**
 * cap_bpf__attach - place the probes of an interpreter's plan
 * @pid:    the process, known by cap_bpf__trace() or as the child of one that is followed
 * @shared: for every process that uses the file (the programs ignore those that are not traced): a
 *	    child has its probes from its first call on. Else only for this one, where the kernel can
 *
 * Where samples are taken this starts the clocks, and places one probe, which tells of freed code objects.
 *
 * A file that has its probes for everybody, or for this process, is left as it is.
 *
 * Return: 0, or the kernel's refusal with its sentence in @e.
 */
int cap_bpf__attach(struct cap_bpf *c, const struct interp *in, pid_t pid, bool shared,
		    struct err *e);

/* cap_bpf__file - its number: who has the file's probes and executes it is recorded from its first call on, under a RUNS
 * record. 0: not so, with a selection, samples, an old kernel. cap_bpf__placed - since when; 0: it has none. */
uint32_t cap_bpf__file(struct cap_bpf *c, const struct interp *in);
uint64_t cap_bpf__placed(const struct cap_bpf *c, pid_t pid, uint32_t file);

/* cap_bpf__needs - the capabilities (CAPS() of base/caps.h) that it takes to attach to one more process. */
uint64_t cap_bpf__needs(const struct cap_bpf *c);

/* Which processes are traced without being named, now and later. Any of it. */
struct cap_select {
	bool all;
	bool follow; /* the children of those that are chosen, too, whatever they are */
	bool own; /* cap_bpf__probe_file() will not be used: each process gets probes of its own */
	const char *const *comms; /* names of processes; cut to 15 bytes, as the kernel does */
	size_t comm_cnt;
	const struct cgroup_key *cgroups; /* those below them are meant, too */
	size_t cgroup_cnt;
};

/**
 * cap_bpf__select - choose; programs that chosen processes execute are reported from here on
 *
 * A selection may be empty: then only processes that are followed are taken in. Return: 0; -E2BIG for more than PYE_SELECT_MAX of a sort.
 */
int cap_bpf__select(struct cap_bpf *c, const struct cap_select *rule);

/**
 * cap_bpf__probe_file - place the probes of a file for everybody; calls of chosen processes count
 * @pid:    a process that maps it
 * @number: under which TAKEN records name it
 *
 * With a selection, and instead of cap_bpf__attach(). Once for each file. Where samples are taken, a
 * process is taken in when it executes the file or runs its code.
 *
 * Return: 0, or as cap_bpf__attach(), or -E2BIG.
 */
int cap_bpf__probe_file(struct cap_bpf *c, const struct interp *in, pid_t pid, uint32_t *number,
			struct err *e);

/* cap_bpf__knows - is a process recorded? cap_bpf__has - is it in the table, recorded or not? */
bool cap_bpf__knows(const struct cap_bpf *c, pid_t pid);
bool cap_bpf__has(const struct cap_bpf *c, pid_t pid);

/* cap_bpf__pix - the number of the program that a process runs now: another one after each exec. 0: not in the table. */
uint32_t cap_bpf__pix(const struct cap_bpf *c, pid_t pid);

/* cap_bpf__begin - record a process that cap_bpf__trace() told of and whose file has its probes;
 * @stays: whatever it executes. */
void cap_bpf__begin(struct cap_bpf *c, pid_t pid, bool stays);

/* cap_bpf__take_calls - from here on a chosen process is taken in by its first call (or mapping). */
void cap_bpf__take_calls(struct cap_bpf *c);

/* cap_bpf__chosen - the processes that run now and are chosen; @cb may return -ENOMEM to stop. Refusals with a sentence. */
int cap_bpf__chosen(struct cap_bpf *c, int (*cb)(void *ctx, pid_t pid), void *ctx, struct err *e);

/* cap_bpf__probed - a file has its probes for everybody. */
bool cap_bpf__probed(const struct cap_bpf *c, const struct interp *in);

/* cap_bpf__waiting - the threads of all sampled processes, with off_cpu; @cb may return a negative number to stop. */
int cap_bpf__waiting(struct cap_bpf *c, int (*cb)(void *ctx, const struct pye_waiter *wait),
		     void *ctx);

/* cap_bpf__budget - samples: to be called often; several times a second it compares what the programs and
 * this process took with max_cpu_pct, and lets so many stacks be taken that it holds. */
void cap_bpf__budget(struct cap_bpf *c, uint64_t now_ns);

/* cap_bpf__limit - another max_cpu_pct, where there was one; 0: no stacks until the next call. cap_bpf__beside - CPU time
 * so far of other processes, which counts as this one's; it only grows. */
void cap_bpf__limit(struct cap_bpf *c, uint32_t max_cpu_pct);
void cap_bpf__beside(struct cap_bpf *c, uint64_t cpu_ns);

/* cap_bpf__keep - of all stacks so many are taken now, 0 to 1. cap_bpf__skipped - stacks that it left out so far. */
double cap_bpf__keep(const struct cap_bpf *c);
uint64_t cap_bpf__skipped(const struct cap_bpf *c);
/* cap_bpf__want - is process @pix sampled, until it executes something? cap_bpf__unwanted - ticks in those that are not. */
void cap_bpf__want(struct cap_bpf *c, pid_t pid, uint32_t pix, bool wanted);
uint64_t cap_bpf__unwanted(const struct cap_bpf *c);

/* cap_bpf__look - samples: to be called often; about once a second it gives CPUs that came online their clocks. */
void cap_bpf__look(struct cap_bpf *c, uint64_t now_ns);

/* cap_bpf__detach - take all probes out; records already made can still be read. */
void cap_bpf__detach(struct cap_bpf *c);

/* cap_bpf__per_process - false: attaching reaches every process that uses the file. */
bool cap_bpf__per_process(const struct cap_bpf *c);

/* cap_bpf_ops - next() of the events' rings, round robin; one batch is at most 256 kB. */
extern const struct capture_ops cap_bpf_ops;

/* cap_bpf__control - next record of the control ring, borrowed until the next call; NULL: none. */
const struct pye_proc_rec *cap_bpf__control(struct cap_bpf *c);

/* cap_bpf__control_fd - readable (epoll) when a control record is there. */
int cap_bpf__control_fd(const struct cap_bpf *c);

/* cap_bpf__backlog - how full the fullest ring is, 0 to 100. cap_bpf__crowded - that of definitions, with samples: some may have found no room. */
unsigned int cap_bpf__backlog(const struct cap_bpf *c);
bool cap_bpf__crowded(const struct cap_bpf *c);

/**
 * cap_bpf__finals - the final sequence number of every thread whose end was not recorded
 * @cb: called for each; the threads that are alive and those whose last record found no room
 */
int cap_bpf__finals(struct cap_bpf *c, void (*cb)(void *ctx, uint32_t tix, uint32_t seq),
		    void *ctx);

/* cap_bpf__tasks - the threads of all traced processes; @cb may return a negative number to stop. */
int cap_bpf__tasks(struct cap_bpf *c, int (*cb)(void *ctx, const struct pye_task_rec *task),
		   void *ctx);

/* cap_bpf__new_thread, cap_bpf__new_code - a number that the kernel side will not give. */
uint32_t cap_bpf__new_thread(struct cap_bpf *c);
uint32_t cap_bpf__new_code(struct cap_bpf *c);

/* cap_bpf__decide - a filter: what the programs do with a code object from now on. An error only costs
 * time: what they let pass is looked at once more. 0 or a negative errno. */
int cap_bpf__decide(struct cap_bpf *c, const struct pye_verdict *verdict);

/* cap_bpf__filtered - entries of frames that the programs kept back; exact after cap_bpf__finals(). */
uint64_t cap_bpf__filtered(const struct cap_bpf *c);

/* cap_bpf__losses - events lost by reason as the programs and the kernel counted them. */
void cap_bpf__losses(const struct cap_bpf *c, uint64_t lost[LOSS_CNT]);

/* cap_bpf__deaths - the next definitions, also amid a batch of events; false: none now. @cap: a struct cap_bpf */
bool cap_bpf__deaths(void *cap, struct capture_batch *batch);
/* cap_bpf__counter - a counter of counters.def by its number, summed over CPUs. */
uint64_t cap_bpf__counter(const struct cap_bpf *c, unsigned int counter);

#endif
