/* SPDX-License-Identifier: Apache-2.0 */
/* What those share who stop threads, look at them, and have them make calls. */
#ifndef PYEBPF_INLINE_REMOTE_PRIV_H
#define PYEBPF_INLINE_REMOTE_PRIV_H

#include "inline/remote.h"

/* remote_has_many - threads: fewer stand still within a millisecond */
bool remote_has_many(const struct remote *r);

/* remote_count_threads - 0 or -1: that is not known */
long remote_count_threads(const struct remote *r);

/* Threads that are stopped before or after all others are so in groups of that many, each of which stands still for 0.1 to 0.2 ms. */
#define REMOTE_BATCH	8u
#define REMOTE_STAND_NS 3000000ull /* until those that were asked together stand still */

/* remote_look - what is known of a thread that stands still; as interrupted__look() */
int remote_look(const struct remote *r, struct remote_thread *t);

/* remote_is_signal_frame - what a signal has put on the stack: 16 registers, the program counter, to which @pc points, the flags, the
 * segments */
#define REMOTE_FRAME_REGS 16
bool remote_is_signal_frame(const uint64_t *pc);

/* remote_stack - the innermost part of a stack, into @room; of a thread that is kept what was read of it then. @cnt: words */
#define REMOTE_STACK_BYTES (64u << 10)
const uint64_t *remote_stack(const struct remote *r, const struct remote_thread *t, uint64_t *room,
			     size_t *cnt);

/* remote_hurry - hurry__begin() or hurry__end(), but for the terminal where somebody is kept for a stop: from there to its end it does not stop us */
void remote_hurry(struct remote *r, bool on);

/* remote_leave_time - for the target to go on, between two stops */
void remote_leave_time(const struct remote *r, unsigned int us);

/* remote_let_out - the same for one thread to come out of code of ours, where it was seen @tries times before. It may get no CPU, or more signals
 * than it is let go after, one by one, if it is followed: in the end it goes before others, and so do we. */
void remote_let_out(struct remote *r, pid_t tid, unsigned int tries, unsigned int us);

/* remote_begin_stop - the first thread stands still, if none does yet */
void remote_begin_stop(struct remote *r);

/* remote_end_stop - one that took so long is over */
void remote_end_stop(struct remote *r, uint64_t us);

/* remote_settle - behind a stop, but where a thread makes calls yet: for some ms at most. Rests come to their end, and sockets have their own
 * time-outs again. */
void remote_settle(struct remote *r);

/* remote_note_stop - single threads stood still, that long at most; 0: none did */
void remote_note_stop(struct remote *r, uint32_t us);

/* remote_call_before - r->how.before, if there is one; nobody who is followed stands still for it */
void remote_call_before(struct remote *r);

/* remote_stop_thread - this one alone. As remote__stop(). */
int remote_stop_thread(struct remote *r, pid_t tid);

/* remote_seize_one - also asked to stop, but for the leader, and put behind r->threads; not where it has ended. 0 or a negative errno */
int remote_seize_one(struct remote *r, pid_t tid, bool *leader);

/* remote_await - until one that was asked has stopped. 0; -ETIMEDOUT: not by @deadline (0: it is not waited for), or it sleeps; -ESRCH */
int remote_await(struct remote *r, struct remote_thread *t, uint64_t deadline);
#define REMOTE_LAST_NS 1000000000ull /* for what does not stop in time, in the end */

/* remote_signal_of - what one gets that was stopped so, says waitpid(): 0 where it was asked, or begins or ends a call of its own */
int remote_signal_of(const struct remote *r, pid_t tid, int status);

/* remote_let_go - one that stands still. @sig: of remote_signal_of() */
void remote_let_go(const struct remote *r, const struct remote_thread *t, int sig);

/* remote_note_end - of waitpid(): only the process's, where it is our own child, that nobody else will be told */
void remote_note_end(struct remote *r, pid_t tid, int status);

/* remote_is_asleep - by its state, where nothing wakes it: a disk, NFS, vfork(), a freezer; another thread's core dump */
bool remote_is_asleep(char state);

#endif
