/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of another process that wait in a system call, kept from coming out of it. Each is stopped for a moment by itself, and then
 * waits on, traced so that it stops where its call ends (ptrace(2): syscall-exit-stop). So hundreds of them need not stand still all
 * at once where nobody may run for a moment; that takes 20 to 40 us each.
 *
 * They are traced by a thread of ours that does nothing else, or, where they are followed, by the one that does that, and stay with it. When it ends, or pyebpf is killed, the kernel lets all of them go, those
 * that wait without being woken. One that stands where its call has ended runs on: with PTRACE_O_TRACESYSGOOD the number of that stop is
 * none of a signal, which it would get else.
 */
#ifndef PYEBPF_INLINE_SLEEPERS_H
#define PYEBPF_INLINE_SLEEPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct remote;
struct remote_thread;
struct sleepers;

/**
 * sleepers__keep - keep all threads of a process that wait, but one
 * @r: whose it is; borrowed until they are let go
 *
 * That one, never the first thread, is left for requests of ptrace() that need a thread which stands still. Those that come out of
 * their calls are let go, and are kept no more, until sleepers__hold(). What signals of the process they take is sent to the first
 * thread, unless that blocks it.
 *
 * Return: 0; -EAGAIN: none waits, or one that was asked did not stop for long: none is kept; another negative errno. @out is for
 * sleepers__let_go() in any case, and can be NULL.
 */
int sleepers__keep(const struct remote *r, struct sleepers **out);

/* sleepers__hold - from here on those that come out of their calls stand still. False: none is kept */
bool sleepers__hold(struct sleepers *s);

/* sleepers__serve - they are let go again */
void sleepers__serve(struct sleepers *s);

/* sleepers__threads - while they are held: those that are kept, by their tid; as they were when each was stopped. Borrowed. */
const struct remote_thread *sleepers__threads(const struct sleepers *s, size_t *cnt);

/* sleepers__has - while they are held: is it one of them? */
bool sleepers__has(const struct sleepers *s, pid_t tid);

/* sleepers__listed - all threads that there were when these were chosen. Borrowed. */
const pid_t *sleepers__listed(const struct sleepers *s, size_t *cnt);

/* sleepers__selves - while they are served: the pthread_self() of those that are kept now, for free(). How many; 0: *out is NULL */
size_t sleepers__selves(struct sleepers *s, uint64_t **out);

/* sleepers__look - while they are served, which takes that where they are followed: let those go that came out of their calls */
void sleepers__look(struct sleepers *s);

/* sleepers__longest_us - the longest time that one stood still to be kept */
uint32_t sleepers__longest_us(struct sleepers *s);

/* sleepers__let_go - all of them. NULL: nothing is done. Has the process ended, which we were told as its parent or tracer? @status: of
 * waitpid(), which says it once */
bool sleepers__let_go(struct sleepers *s, int *status);

#endif
