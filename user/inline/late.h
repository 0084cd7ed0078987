/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that did not stop when they were asked to: they are in a call, asleep or at work there, which comes to its end first. Nobody
 * is to stand still for that, nor can it be waited for that they are out of it, where they are back in the next one at once. So they are
 * kept in their calls when all are stopped the next time: traced so that they stand where the call ends (ptrace(2): syscall-exit-stop);
 * where they came from was seen when it began.
 */
#ifndef PYEBPF_INLINE_LATE_H
#define PYEBPF_INLINE_LATE_H

#include <stdbool.h>
#include <sys/types.h>

struct remote;
struct remote_thread;

/* late__note - this one was, the last time; late__forget: nobody was */
void late__note(struct remote *r, pid_t tid);
void late__forget(struct remote *r);

/**
 * late__keep - before all others are asked to stop: those that were noted, while everybody runs
 *
 * They are r->threads then, kept, or asked to stop (they were at work outside of calls); a single one, or r->how.only, has stopped.
 * Nothing is done where there are none, nor where what is followed is kept by others (sleepers.h).
 *
 * Return: 0; -ETIMEDOUT: one sleeps where nothing wakes it, or is at work for very long; -ESRCH. r->threads are to be let go in any case.
 */
int late__keep(struct remote *r);

/* late__unwatch - those that are followed are looked at as before */
void late__unwatch(struct remote *r);

/* late__has_gone - one that was not seen to stop: it has ended, or has stopped by now, and was let go */
bool late__has_gone(struct remote *r, struct remote_thread *t);

/* late__look - at all of r->late.threads, once. Nobody stands still for longer than from one time to the next. */
void late__look(struct remote *r);

/* late__await - until those that sleep have been let go. False: that may take long */
bool late__await(struct remote *r);

#endif
