/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time-outs of sockets (SO_RCVTIMEO, SO_SNDTIMEO): a call on one that is begun anew has no time-out of its own that could be what is left of it
 * (time_out.h). So the socket has what is left, until the thread waits once more: the kernel looks at it as the call begins. When that has to end is
 * noted in the register of the call's descriptor, in the upper half, which nobody looks at.
 *
 * That takes pidfd_getfd() (Linux 5.6). If pyebpf is killed in these moments the socket keeps the shorter one.
 */
#ifndef PYEBPF_INLINE_SOCK_TIME_OUT_H
#define PYEBPF_INLINE_SOCK_TIME_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* Those that have another time-out for now. For several threads at once. */
struct sock_time_outs;

struct sock_time_outs *sock_time_outs__new(void); /* NULL: no memory */
void sock_time_outs__free(
	struct sock_time_outs *s); /* what is not given back is, at once. NULL: nothing */

/**
 * sock_time_out__is_in - is a thread of process @pid in a call that such a time-out ends?
 * @takes_ns: at most; 0: that end is noted already
 */
bool sock_time_out__is_in(pid_t pid, const struct user_regs_struct *regs, uint64_t *takes_ns);

/**
 * sock_time_out__keep - of a thread that stands still, and is about to begin its call anew
 * @s:        NULL: only its end is noted
 * @since_ns: as of time_out__keep()
 *
 * True: it is over, and the call need not be begun anew: it ends with EAGAIN.
 */
bool sock_time_out__keep(struct sock_time_outs *s, pid_t pid, pid_t tid,
			 struct user_regs_struct *regs, uint64_t since_ns);

/* sock_time_outs__give_back_seen - of these threads, which have gone on: the sockets of those that wait in their calls by now have their own ones
 * from here on. Do all? sock_time_outs__give_back - all sockets: a thread that does not wait yet begins anew. NULL: there are none */
#define SOCK_TIME_OUT_NS 10000000ull /* that is waited for */
bool sock_time_outs__give_back_seen(struct sock_time_outs *s);
void sock_time_outs__give_back(struct sock_time_outs *s);

#endif
