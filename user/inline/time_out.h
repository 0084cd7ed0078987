/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time-outs of system calls that answer a stop with EINTR, and are begun anew: the call ends when it would have without. That moment is noted
 * when it is begun anew for the first time, where it is found the next time, by another pyebpf, too:
 *
 * - a number of milliseconds (epoll_wait, epoll_pwait) is 32 bits of a register whose others nobody looks at;
 * - for one in memory (semtimedop, sigtimedwait, epoll_pwait2, io_getevents, io_uring_enter) the register leads to one of ours, which the
 *   kernel reads when the call begins: in a thread_room.
 *
 * The kernel leaves both registers as they are. They are of those that a function may change, and a program that makes the call itself
 * sets them anew.
 */
#ifndef PYEBPF_INLINE_TIME_OUT_H
#define PYEBPF_INLINE_TIME_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* time_out__is_kept - can it be kept, if this call has one? */
bool time_out__is_kept(const struct user_regs_struct *regs);

/* time_out__takes - ns that a call of thread @tid takes at most; 0: it has no time-out, or one that is noted already */
uint64_t time_out__takes(pid_t tid, const struct user_regs_struct *regs);

/**
 * time_out__left_ms - what is left of @whole_ms; 0: it is over
 * @reg:      that the kernel reads 32 bits of: in the others the call's end is noted, or is from now on
 * @since_ns: as of time_out__keep()
 */
uint32_t time_out__left_ms(unsigned long long *reg, uint32_t whole_ms, uint64_t since_ns);

/**
 * time_out__keep - of a thread that stands still, and is about to begin its call anew
 * @since_ns: since when it has waited, where that is not noted yet; 0: not known, then all of it is left
 */
void time_out__keep(pid_t tid, struct user_regs_struct *regs, uint64_t since_ns);

#endif
