/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process: its memory, read and written, and what is known of its threads. remote_stop.h stops them for a moment, remote_call.h has one of
 * them make system calls. Nothing there leaves it stopped when pyebpf dies: what ptrace holds goes on by itself, and the calls are made by
 * code that needs no tracer to come to its end.
 */
#ifndef PYEBPF_INLINE_REMOTE_H
#define PYEBPF_INLINE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/err.h"
#include "inline/follow.h"
#include "inline/hurry.h"
#include "inline/slept.h"

struct interp;
struct proc_mem;

struct remote_thread {
	pid_t tid; /* first: order_pid() */
	enum remote_is {
		REMOTE_ASKED, /* to stop, and not seen to; or not even asked, as it is blocked */
		REMOTE_STANDS, /* seen to stand still */
		/* not stopped: at work in a call, in which it was kept as it was late before: it stands where that ends (late.h) */
		REMOTE_LATE,
		/* not stopped: kept from coming out of its call (sleepers.h), where all below is as it was a moment ago */
		REMOTE_KEPT,
	} is;
	bool as_group; /* it would not run anyway: SIGSTOP */
	bool in_call; /* it waits in a system call, which goes on afterwards */
	bool partial; /* it has done a part of one: partial.h */
	uint64_t pc, sp, self; /* self: pthread_self() */
	uint64_t regs[15]; /* the others */
	/* of one that is kept: of its stack from there on signals' frames and what is watched, borrowed; NULL: it was not read */
	const uint64_t *stack;
	size_t stack_words;
};

/* The lock that keeps others from running Python code (GIL), for remote__stop_holder(). */
struct remote_lock {
	const struct interp *in; /* borrowed; NULL: there is none */
	int32_t tstate_tls; /* where a thread has its state, from its fs register; 0: not known */
	uint64_t loop, loop_bytes; /* the function that runs frames */
	uint64_t waited_ns; /* when nobody was seen to have it for long */
};

/* What a stop is to be. */
struct remote_how {
	pid_t only; /* this one alone is to be stopped; 0: all */
	bool past_blocked; /* those in an uninterruptible sleep are not waited for */
	void (*before)(void *ctx); /* before each time that all are asked to stop; NULL: nothing */
	void *ctx;
};

/* Those that did not stop in time: late.h. */
struct remote_late {
	/* between stops: those asked to stop that have not, nor were let go: they are in calls; looked at then, the last time */
	struct remote_thread *threads;
	size_t cnt;
	uint64_t looked_at;
	struct late *last; /* those that did not stop, the last time; NULL: all did */
};

/* The thread that makes calls for us. */
struct remote_caller {
	pid_t tid; /* the last one */
	bool at_work; /* that counts as stopped */
	bool other; /* an earlier one was not seen to be out of its calls */
	bool failed; /* one of the calls did, not what we do for them */
	uint64_t table; /* of its calls, on its stack */
	/* it waited in a call: the kernel lets it go on, or ends it for a signal, once it has these again, so we give them back */
	bool waits;
	struct user_regs_struct back;
	uint64_t back_mask; /* the signals that it blocks by itself; it takes none meanwhile */
	/* asked when it stands still: 0, or a negative errno, and it makes none; NULL: nothing is */
	int (*ready)(void *ctx);
	void *ready_ctx;
};

/* A process that is our child. */
struct remote_child {
	pid_t held; /* its one thread, which we trace all the time; 0: it is none, or let go */
	bool ended; /* waitpid() said here how: */
	int status;
};

/* The one thread of a process that is kept from running on between calls: it waits in the code of the calls. */
struct remote_park {
	bool on, ran_on; /* ran_on: it went on by itself, we took too long */
	struct user_regs_struct regs; /* with which it would go on */
	uint64_t ticks; /* of the time stamp counter, that it waits for a sign of us: less than a second */
};

struct remote {
	pid_t pid;
	int mem; /* /proc/PID/mem, read and write */
	uint64_t scratch; /* unused bytes at the end of a page of code, where the calls run: scratch.h */
	uint16_t tid_at; /* where the C library has a thread's id, from its pthread_self() on; 0: not known */
	struct remote_lock lock;
	struct {
		uint64_t start, end;
	} watched; /* what leads here on stacks is asked for in stops */
	struct follow *follow; /* its threads stay traced, by the thread we are; borrowed; or NULL */

	struct remote_how how; /* the next stop is */
	struct remote_thread *threads; /* of a stop: stopped, kept, late; or blocked, and passed by */
	size_t cnt, size;
	size_t kept_cnt; /* the last ones of @threads, which are copies of those of: */
	struct sleepers *sleepers; /* kept for a stop of all; NULL: none */
	struct slept slept; /* before the last stop */
	struct hurry hurry; /* meanwhile */
	bool rest_runs; /* the one that has the lock stands still alone */
	uint64_t stopped_at; /* since when, ns; 0: not stopped */

	struct remote_late late;
	struct partials *partials; /* those that do the rest of a call (partial.h); owned */
	struct remote_caller caller;
	struct remote_child child;
	struct remote_park park;

	uint32_t stops, longest_us; /* so far */
	/* when what was written into its code and tables was, all standing still, by two clocks; 0: it was not */
	uint64_t put_back_ns, put_back_tsc;
};

/* remote__open - 0; -EBUSY: another pyebpf has it open; -PYE_EPRIV, -PYE_ETARGET with the sentence. */
int remote__open(struct remote *r, pid_t pid, struct err *e);

/* remote__close - the threads that are stopped go on; one that does not come to a stop in time does when we end. */
void remote__close(struct remote *r);
/* remote__is_dead - a thread has ended, or only its status is left. The kernel refuses to stop such a one with EPERM. */
bool remote__is_dead(pid_t pid, pid_t tid);
/* remote__state - as proc(5) has it; 'X': it is gone */
char remote__state(pid_t pid, pid_t tid);
/* remote__is_ending - or has: a thread that ends has no descriptors any more some time before it is dead */
bool remote__is_ending(pid_t pid, pid_t tid);
/* remote__is_frozen - by the freezer of version 2: until it goes on it makes no calls. (That of version 1 is an uninterruptible sleep.)
 * @ms: so long for one that was let go just now, which comes to it first */
bool remote__is_frozen(pid_t pid, pid_t tid, unsigned int ms);
#define REMOTE_FREEZES_MS 20
/* remote__await_thaw - wait until it is not frozen any more; -ETIMEDOUT: that may be never */
int remote__await_thaw(pid_t pid);
#define REMOTE_THAW_NS 1000000000ull
/* remote__blocked_one - a thread in an uninterruptible sleep, which stops when it wakes up: NFS, a disk, vfork(), a freezer. 0: none */
pid_t remote__blocked_one(pid_t pid);

/* 0 or -EFAULT. Code is written while a thread stands still. */
int remote__read(const struct remote *r, uint64_t at, void *to, size_t size);
/* remote__read_some - while it is stopped: as many bytes as there are, or a negative errno */
ssize_t remote__read_some(const struct remote *r, uint64_t at, void *to, size_t size);
int remote__write(const struct remote *r, uint64_t at, const void *from, size_t size);

/* remote__poke - into the memory of a thread that we trace and that stands still, word by word, as a debugger does it: where the process itself may
 * not write, too. 0 or -EFAULT. */
int remote__poke(pid_t tid, uint64_t at, const void *bytes, size_t size);

/* remote__touch - pages of shared memory that exist are put into the target's page tables, which saves it the faults */
void remote__touch(const struct remote *r, uint64_t at, uint64_t bytes);

/* remote__memory - for those who read another process's memory; valid as long as it is open */
struct proc_mem remote__memory(const struct remote *r);

/* remote__has_executed - does the process live, but not the program whose memory was opened? @at: of eight bytes that
 * were there. Nothing has to stand still for it. */
bool remote__has_executed(const struct remote *r, uint64_t at);

/* remote__check_program - is the program that threads stand still in the one whose memory was opened? 0; -ESRCH: it is
 * another one; -EFAULT: that could not be seen. @at: of eight bytes that no other program has there. */
int remote__check_program(const struct remote *r, uint64_t at);

#endif
