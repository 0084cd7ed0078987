/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping the threads of another process for a moment: each of them, one, or the one that runs Python code. They go on by themselves
 * when pyebpf dies.
 */
#ifndef PYEBPF_INLINE_REMOTE_STOP_H
#define PYEBPF_INLINE_REMOTE_STOP_H

#include "inline/remote.h"

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

/* remote__give_time - between two stops, since a thread stood where it must not: the longer, the more there were in vain (@tries). A
 * thread that waits for a CPU has not run when it is stopped again at once, and stands where it stood. All of REMOTE_TRIES take
 * 25 ms. */
#define REMOTE_TRIES 60
void remote__give_time(unsigned int tries);

/* remote_pause - a wait of some us */
void remote_pause(void);

#endif
