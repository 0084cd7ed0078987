/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping the threads of another process for a moment, writing its memory, and having it make system
 * calls. Nothing here leaves it stopped when pyebpf dies: what ptrace holds goes on by itself, and the
 * calls are made by code that needs no tracer to come to its end.
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
	/* of one that is kept: of its stack from there on signals' frames and what is r->watched, borrowed; NULL: it was not read */
	const uint64_t *stack;
	size_t stack_words;
};

/* The lock that keeps others from running Python code (GIL), for remote__stop_holder(). */
struct remote_lock {
	const struct interp *in; /* borrowed; NULL: there is none */
	int32_t tstate_tls; /* where a thread has its state, from its fs register; 0: not known */
	uint64_t loop, loop_bytes; /* the function that runs frames */
};

struct remote {
	pid_t pid;
	int mem; /* /proc/PID/mem, read and write */
	uint64_t scratch; /* unused bytes at the end of a page of code, where the calls run: scratch.h */
	struct remote_thread *threads; /* of a stop: stopped, kept, late; or blocked, and passed by */
	size_t cnt, size;
	/* between stops: those asked to stop that have not, nor were let go: they are in calls; looked at then, the last time */
	struct remote_thread *late_threads;
	size_t late_cnt;
	uint64_t late_looked_at;
	struct late *late; /* those that did not stop, the last time; NULL: all did */
	struct partials *partials; /* those that do the rest of a call (partial.h); owned */
	struct slept slept; /* before the last stop */
	uint64_t stopped_at; /* since when, ns; 0: not stopped */
	uint32_t stops, longest_us; /* so far */
	uint64_t put_back_ns; /* when what was written into its code and tables was, all standing still; 0: it was not */
	struct hurry hurry; /* meanwhile */
	bool calling; /* a thread makes calls for us: that counts as stopped */
	pid_t caller; /* the last one that did */
	bool other_caller; /* an earlier one was not seen to be out of them */
	uint64_t table; /* of its calls, on its stack */
	bool call_failed; /* one of the calls did, not what we do for them */
	pid_t only; /* this one alone is to be stopped; 0: all */
	bool past_blocked; /* those in an uninterruptible sleep are not waited for */
	struct remote_lock lock;
	bool rest_runs; /* the one that has the lock stands still alone */
	uint64_t waited_ns; /* when nobody was seen to have it for long */
	uint16_t tid_at; /* where the C library has a thread's id, from its pthread_self() on; 0: not known */
	/* it waited in a call: the kernel lets it go on, or ends it for a signal, once it has these again, so we give them back */
	bool waits;
	struct user_regs_struct back;
	uint64_t back_mask; /* the signals that it blocks by itself; it takes none meanwhile */
	bool ended; /* it was our child, and waitpid() said here how it ended: */
	int status;
	pid_t held; /* our child, which we trace all the time: its one thread; 0 = none */
	void (*before)(void *ctx); /* before each time that all are asked to stop; NULL: nothing */
	void *before_ctx;
	/* asked when the thread that makes calls stands still: 0, or a negative errno, and it makes none; NULL: nothing is */
	int (*ready)(void *ctx);
	void *ready_ctx;
	uint64_t watched, watched_end; /* what leads here on stacks is asked for in stops */
	struct sleepers *sleepers; /* kept for a stop of all; NULL: none */
	size_t kept_cnt; /* the last ones of @threads, which are copies of these */
	struct follow *follow; /* its threads stay traced, by the thread we are; borrowed; or NULL */
	/* its one thread is kept from running on between calls: it waits in the code of the calls, for park_ticks at most
	 * without us, and would go on with these: */
	bool parked, ran_on; /* ran_on: it went on by itself, we took too long */
	struct user_regs_struct park;
	uint64_t park_ticks; /* of the time stamp counter, that it waits for a sign of us: less than a second */
};

struct remote_call {
	uint64_t nr, args[6];
};
#define REMOTE_CALLS_MAX     7
#define REMOTE_SCRATCH_BYTES 208

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

/* remote__follow - what any of its threads forks, starts or executes is seen from here on, where it is r->follow'ed at all: they are traced,
 * none of them stops for that. 0 or a negative errno. */
int remote__follow(struct remote *r);

/**
 * remote__stop - stop all threads; those born meanwhile, too
 *
 * Interrupted system calls go on afterwards, those included that answer a stop with EINTR.
 *
 * Return: 0; -ETIMEDOUT when one does not stop (all go on then, it once it could: with
 * remote__let_late_go(), at the next stop, or when we end); -ESRCH; -EPERM.
 */
int remote__stop(struct remote *r);
int remote__stop_one(struct remote *r, pid_t tid); /* this one of its threads */
void remote__resume(struct remote *r);

/* remote__stop_past_blocked - one in an uninterruptible sleep counts as stopped: when it wakes up it stops before it runs, unless
 * all were let go. What is known of it is nothing. As remote__stop() */
int remote__stop_past_blocked(struct remote *r);

/**
 * remote__stop_holder - stop the thread that has the interpreter's lock alone
 *
 * Nobody else runs Python code, or is in a stub, until it goes on with remote__resume(); the others run what needs no lock, and
 * are not in @threads. Where there are few threads it does nothing.
 *
 * Return: 0; -ESRCH: it is followed, and has executed something, or ended; another negative errno: all have to be stopped, all of
 * them run.
 */
int remote__stop_holder(struct remote *r);

/* remote__holder - the thread that has the lock, which was true when it was read; 0: nobody is seen to */
pid_t remote__holder(struct remote *r);

/* remote__stop_python - the same, or else remote__stop(): nobody runs Python code. As that */
int remote__stop_python(struct remote *r);

/* remote__kept - between two stops: the pthread_self() of those that are kept now, for free(). How many; 0: *selves is NULL */
size_t remote__kept(const struct remote *r, uint64_t **selves);

/* remote__tid_of - whose pthread_self() this is; 0: not known, or it has ended */
pid_t remote__tid_of(struct remote *r, uint64_t self);

/* remote__let_late_go - those that did not stop when they were asked to. False: some are late yet */
bool remote__let_late_go(struct remote *r);

/* remote__is_inside - is a stopped thread in this code: by its program counter, or since it was there, or on
 * its way, when a signal came whose handler runs now? */
bool remote__is_inside(const struct remote *r, const struct remote_thread *t, uint64_t start,
		       uint64_t bytes);

/**
 * remote__call - have a thread make system calls
 * @results: address in the target of 56 bytes for each call, and 16 more, that may be written when the first one has been made
 * @values:  what they returned
 *
 * One thread is stopped while its registers are set, who has the lock if that is seen, the leader only if there is no other. It makes the calls whether we live or not, up to the
 * first one that fails. One that waits in a call of its own takes no signal before it is back there: that would not
 * end its call any more.
 *
 * Return: 0; what the one that failed said; -ETIMEDOUT when it did not come to an end; -EOPNOTSUPP when no thread may make any (a
 * filter of system calls) or would now (SIGSTOP); -ENOPROTOOPT: they would go to a handler of the program; -ESRCH; -EPERM; -EAGAIN.
 */
int remote__call(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		 uint64_t results, int64_t *values);

/**
 * remote__finish - the last calls: the very last unmaps @gone
 *
 * The results are not wanted, but that they were made is waited for, and that no thread is in the scratch
 * code any more, which is zeroed. All threads go on. As remote__call().
 */
int remote__finish(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		   uint64_t gone);

/* remote__park - the one thread of a process that is followed, which stands still, does not run on before
 * remote__unpark(), unless we give no sign for park_ticks. 0 or a negative errno. */
int remote__park(struct remote *r);

/* remote__unpark - no more; it goes on when it is resumed. No error when it is not parked. */
int remote__unpark(struct remote *r);

/* remote__await_calls - when a pyebpf was killed after it had a thread begin calls, until they are made.
 * 0: there were none; 1: now they are; a negative errno as above. */
struct maps;
int remote__await_calls(struct remote *r, const struct maps *maps);

/* remote__give_time - between two stops, since a thread stood where it must not: the longer, the more there were in vain (@tries). A
 * thread that waits for a CPU has not run when it is stopped again at once, and stands where it stood. All of REMOTE_TRIES take
 * 25 ms. */
#define REMOTE_TRIES 60
void remote__give_time(unsigned int tries);

/* remote_pause - a wait of some us */
void remote_pause(void);

/* remote__clear - wait until no thread is in the scratch code any more, and zero it; all go on. 0; -ETIMEDOUT; -ESRCH; -EPERM. */
int remote__clear(struct remote *r);

#endif
