/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that threads wait in when they are stopped. Most of them tell the kernel how they go on; those that answer EINTR would
 * end by a mere stop, which the program has not asked for.
 */
#ifndef PYEBPF_INLINE_INTERRUPTED_H
#define PYEBPF_INLINE_INTERRUPTED_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

struct slept;

/* What an interrupted system call says to the kernel itself: how it is made once more, unless a signal ends it. */
enum {
	ERESTARTSYS = 512,
	ERESTARTNOINTR,
	ERESTARTNOHAND,
	ERESTART_RESTARTBLOCK = 516
};

/* The signal of a stop where a call begins or ends, with PTRACE_O_TRACESYSGOOD. */
#define SYSCALL_STOP (SIGTRAP | 0x80)

/* Of the instruction that makes a call, which is behind it when it was interrupted. */
#define SYSCALL_LEN 2

/* interrupted__is_call - does a thread that stands still have such an instruction there? */
bool interrupted__is_call(pid_t tid, uint64_t at);

/* INTERRUPTED_IS_ONE - is a call's number in an array of some? */
bool interrupted__is_one(uint64_t nr, const uint16_t *calls, size_t cnt);
#define INTERRUPTED_IS_ONE(nr, calls) \
	interrupted__is_one(nr, calls, sizeof(calls) / sizeof((calls)[0]))

/* interrupted__waits - has a thread that stands still been interrupted in such a call? */
bool interrupted__waits(const struct user_regs_struct *regs);

/* interrupted__ends - or in one that ends with EINTR, unless it is begun anew? */
bool interrupted__ends(const struct user_regs_struct *regs);

/**
 * interrupted__begin_anew - make such a one, by which the thread stands still, go on unless a handler runs first
 * @regs:  the thread's, as they are; changed with it
 * @slept: looked at before it was stopped; NULL: it was not
 *
 * Time-outs are those of the first time (time_out.h, sock_time_out.h).
 *
 * Return: 0 or a negative errno, as ESRCH.
 */
int interrupted__begin_anew(pid_t tid, struct user_regs_struct *regs, const struct slept *slept);

/**
 * interrupted__look - the registers of a thread that was asked to stop, and stands still
 *
 * A call that answers that with EINTR is made to go on, where no signal is why. One that is about to be begun anew has been interrupted just now.
 * Return: 0 or a negative errno.
 */
int interrupted__look(pid_t tid, struct user_regs_struct *regs, const struct slept *slept);

/* interrupted__has_signal - does one wait for it, or for its process, that it does not block, nor its process ignore? It may be why a
 * call was interrupted. */
bool interrupted__has_signal(pid_t tid);

/* interrupted__blocks - does it block a signal? */
bool interrupted__blocks(pid_t tid, int sig);

/* interrupted__is_diverted - does a thread that stands still get a signal in place of the system calls that it makes outside of some code
 * (prctl(PR_SET_SYSCALL_USER_DISPATCH))? From Linux 6.4 on that is told. */
bool interrupted__is_diverted(pid_t tid);

/* interrupted__is_group_stop - has SIGSTOP or one like it stopped the process, of whose thread waitpid() says @status? */
bool interrupted__is_group_stop(int status);

/* interrupted__go_on - ptrace(@request, @tid, 0, @sig): @sig is delivered; 0: none. 0; -1: errno */
long interrupted__go_on(enum __ptrace_request request, pid_t tid, int sig);

/* interrupted__begins_call - of one that stands for a system call of its own: where that begins, not where it ends? */
bool interrupted__begins_call(pid_t tid);

/**
 * interrupted__pass - a thread stands still before it gets a signal. Nobody would have been woken for one that its process ignores,
 * were it not traced: the call that it has ended goes on (here; a part of one, by rest__begin())
 * @lasting: it is traced for long. A call whose time-out would begin anew ends with EINTR then, as it would never end where more signals come
 *
 * Return: the signal to be delivered, or 0: it is ignored.
 */
int interrupted__pass(pid_t tid, int sig, bool lasting, const struct slept *slept);

#endif
