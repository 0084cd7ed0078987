/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since when threads wait in calls with a time-out, looked at before they are stopped: the call that a stop interrupts is begun anew,
 * and has to end when it would have without.
 *
 * The kernel tells when a thread has last been on a CPU (se.exec_start in /proc/PID/task/TID/sched), by a clock that each CPU has for itself, and
 * that stands still while the CPU is at interrupts, or another machine's: a wait seems shorter by that, never longer. A kernel
 * without scheduler statistics (CONFIG_SCHED_DEBUG) does not tell.
 */
#ifndef PYEBPF_INLINE_SLEPT_H
#define PYEBPF_INLINE_SLEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define SLEPT_MAX   64 /* threads with such a call; of others nothing is known */
#define SLEPT_WORDS 9 /* of proc(5): syscall: its number, six arguments, sp, pc */

struct slept {
	struct slept_thread {
		pid_t tid;
		uint64_t since_ns; /* CLOCK_MONOTONIC */
		uint64_t takes_ns; /* the call, at most */
		uint64_t ran_ns; /* so far, on CPUs */
		uint64_t sleeps; /* so far: voluntary context switches, this one included */
		uint64_t call[SLEPT_WORDS];
	} threads[SLEPT_MAX];
	size_t cnt;
	struct sock_time_outs *
		socks; /* of threads that are to go on with what is left; NULL: none wait for a socket with a time-out */
};

/* slept__read_call - the call that a thread waits in: its number, arguments, sp and pc. False: it does not wait, or is gone */
bool slept__read_call(pid_t pid, pid_t tid, struct user_regs_struct *regs);

/* slept__free - what it holds, not itself */
void slept__free(struct slept *s);

/* slept__add - of one thread of a process, or of all (0). Takes some 10 us for each, 100 for one with a time-out; nobody need stand still.
 * slept__note - the same, and what was there is forgotten */
void slept__add(struct slept *s, pid_t pid, pid_t only);
void slept__note(struct slept *s, pid_t pid, pid_t only);

/**
 * slept__since - of a thread that was interrupted in a call, and stands still: since when it had waited there
 * @sleeps: its voluntary context switches by now
 *
 * Return: ns of CLOCK_MONOTONIC; 0: not known, it may have begun the call since, or have been awake meanwhile.
 */
uint64_t slept__since(const struct slept *s, pid_t pid, pid_t tid,
		      const struct user_regs_struct *regs, uint64_t sleeps);

#endif
