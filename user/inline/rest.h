/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that do their work piece by piece, and say how much that was when a stop interrupts them: a write() into a full pipe, of more than
 * there was room for. The kernel does not begin them anew, and not every program asks for the rest (`python -u` and a print() of much).
 * So a thread does it before it goes on: traced up to there, in a call for what is left, which can be interrupted itself.
 *
 * Of write(), pwrite64(), writev(), sendto(), sendmsg(), sendfile(), recvfrom() with MSG_WAITALL, getrandom(). Where a signal or an error comes the program is
 * told what was done, as by the kernel. If pyebpf is killed meanwhile it is told of the rest alone.
 */
#ifndef PYEBPF_INLINE_REST_H
#define PYEBPF_INLINE_REST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* Of a thread's call; by value. */
struct rest {
	pid_t tid;
	struct user_regs_struct whole; /* as the thread stood, rax: what is done */
	uint64_t bytes; /* that it is to do */
};

/* rest__is_left - has a thread that stands still just done a part of its call? */
bool rest__is_left(pid_t tid, const struct user_regs_struct *regs);

/* rest__has_parts - is it in one of these calls? */
bool rest__has_parts(const struct user_regs_struct *regs);

/* rest__begin - one that stands still does it from here on. False: it stands as it was, as nothing is left or a signal waits; or has ended */
bool rest__begin(struct rest *rest, pid_t tid);

/**
 * rest__goes_on - it has stopped
 * @status: of waitpid()
 * @more:   where its call was interrupted once more, and not by a signal, it begins what is left then; else it stands
 *
 * Return: true: it does its rest yet, or has ended, which waitpid() tells. False: it stands still, and its registers say all that was done.
 */
bool rest__goes_on(struct rest *rest, int status, bool more);

/* rest__ask_on - for those who have asked it to stop, as rest__goes_on(). True: not that yet, and it was asked once more; it comes to no code of its
 * own before. @over: it does the rest no more */
bool rest__ask_on(struct rest *rest, int status, bool *over);

/* rest__end - it stands still as it was asked to, and its registers say all that was done. */
void rest__end(struct rest *rest);

#endif
