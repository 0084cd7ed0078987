/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that are stopped in the middle of a call, and do the rest of it (rest.h) before they are let go, while all others run. Where that takes
 * longer than a second the program is told what was done. Those that are followed do it as they go on (follow.h), however long.
 */
#ifndef PYEBPF_INLINE_PARTIAL_H
#define PYEBPF_INLINE_PARTIAL_H

#include <stdbool.h>
#include <sys/types.h>

struct remote;
struct remote_thread;

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
