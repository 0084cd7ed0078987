/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that do their work piece by piece, and say how much that was when a stop interrupts them: a write() into a full pipe, of more than
 * there was room for. The kernel does not begin them anew, and not every program asks for the rest (`python -u` and a print() of much).
 * So they do it before the thread goes on: traced up to there, in a call for what is left.
 *
 * Of write(), pwrite64(), sendto(), sendfile(), recvfrom() with MSG_WAITALL, getrandom(). Where the rest does not come to its end within a second, or
 * a signal or an error comes, the program is told what was done, as by the kernel. If pyebpf is killed meanwhile it is told of the rest alone.
 */
#ifndef PYEBPF_INLINE_PARTIAL_H
#define PYEBPF_INLINE_PARTIAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

struct remote;
struct remote_thread;

/* partial__is_left - has a thread that stands still just done a part of its call? */
bool partial__is_left(const struct user_regs_struct *regs);

/* partial__waits_whole - does it sleep in a call that has no parts? */
bool partial__waits_whole(pid_t pid, pid_t tid);

/* partial__is_to_finish - is it let go by partial__begin_all()? Not where it is followed, whose stops others look at. */
bool partial__is_to_finish(const struct remote *r, const struct remote_thread *t);

/* partial__finish - a thread that was stopped alone, and has done a part, stands still behind its call; nobody does meanwhile. 0; as
 * remote_await() */
int partial__finish(struct remote *r, struct remote_thread *t);

/* partial__let_go - where others stand still that were asked with it, and look at their stops themselves (sleepers.h): as remote_let_go(); it does
 * the rest first, if that takes some ms. False: it has ended meanwhile, says waitpid(): @status */
bool partial__let_go(const struct remote *r, const struct remote_thread *t, int *status);

/* partial__begin - it does the rest from here on, which partial__look() sees the end of: then it goes on. False: it stands still yet */
bool partial__begin(struct remote *r, const struct remote_thread *t);

/* partial__begin_all - those of r->threads that are to; partial__look - at all of them, once; partial__await - until all go on */
void partial__begin_all(struct remote *r);
void partial__look(struct remote *r);
void partial__await(struct remote *r);

#endif
