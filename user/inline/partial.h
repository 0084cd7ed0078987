/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that were stopped in the middle of a call, and do the rest of it (rest.h) while all others run. They are traced until it is done, in the
 * next stop, too, which asks them as it does others; what we end before that is told of what was done. Those that are followed do it as they go
 * on (follow.h).
 */
#ifndef PYEBPF_INLINE_PARTIAL_H
#define PYEBPF_INLINE_PARTIAL_H

#include <stdbool.h>
#include <sys/types.h>

struct remote;
struct remote_thread;

/* partial__waits_whole - does it sleep in a call that has no parts? partial__waits_in_parts - in one that has? */
bool partial__waits_whole(pid_t pid, pid_t tid);
bool partial__waits_in_parts(pid_t pid, pid_t tid);

/* partial__is_to_finish - is it let go by partial__begin_all()? Not where it is followed. */
bool partial__is_to_finish(const struct remote *r, const struct remote_thread *t);

/* partial__finish - a thread that was stopped alone, and has done a part, does the rest now, or as much as a second allows, and stands still;
 * nobody does meanwhile. 0; as remote_await() */
int partial__finish(struct remote *r, struct remote_thread *t);

/* partial__let_go - where others stand still that were asked with it, and look at their stops themselves (sleepers.h): as remote_let_go(); it does
 * the rest first, if that takes some ms. 1: it goes on; 0: it will stop later; -1: it has ended meanwhile, says waitpid(): @status */
int partial__let_go(const struct remote *r, const struct remote_thread *t, int *status);

/* partial__begin - it does the rest from here on, which partial__look() sees the end of: then it goes on. False: it stands still yet */
bool partial__begin(struct remote *r, const struct remote_thread *t);

/* partial__has - does it, or one that is followed? */
bool partial__has(const struct remote *r, pid_t tid);

/* partial__passes - for those who have asked any thread to stop: one came, says waitpid(): @status. True: it is of a rest, and the thread was
 * asked once more. False: it stands as any other would, or has ended */
bool partial__passes(struct remote *r, pid_t tid, int status);

/* partial__begin_all - those of r->threads that are to; partial__look - at all of them, once; partial__await - for a moment, in which most come
 * to their end; partial__end - when we leave: what takes longer than a second is told of what was done */
void partial__begin_all(struct remote *r);
void partial__look(struct remote *r);
void partial__await(struct remote *r);
void partial__end(struct remote *r);

#endif
