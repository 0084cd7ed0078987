/* SPDX-License-Identifier: Apache-2.0 */
/* Having a thread of another process make system calls, by code that needs no tracer to come to its end. */
#ifndef PYEBPF_INLINE_REMOTE_CALL_H
#define PYEBPF_INLINE_REMOTE_CALL_H

#include "inline/remote.h"

struct maps;

struct remote_call {
	uint64_t nr, args[6];
};
#define REMOTE_CALLS_MAX     7
#define REMOTE_SCRATCH_BYTES 208

/**
 * remote__call - have a thread make system calls
 * @results: address in the target of 56 bytes for each call, and 16 more, that may be written when the first one has been made
 * @values:  what they returned
 *
 * One thread is stopped while its registers are set, who has the lock if that is seen, the leader only if there is no other. It makes the
 * calls whether we live or not, up to the first one that fails. One that waits in a call of its own takes no signal before it is back there:
 * that would not end its call any more.
 *
 * Return: 0; what the one that failed said; -ETIMEDOUT when it did not come to an end; -EOPNOTSUPP when no thread may make any (a
 * filter of system calls) or would now (SIGSTOP); -ENOPROTOOPT: they would go to a handler of the program; -ESRCH; -EPERM; -EAGAIN.
 */
int remote__call(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		 uint64_t results, int64_t *values);

/**
 * remote__finish - the last calls: the very last unmaps @gone
 *
 * The results are not wanted, but that they were made is waited for, and that no thread is in the scratch
 * code any more, which is zeroed. All threads go on. As remote__call().
 */
int remote__finish(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		   uint64_t gone);

/* remote__park - the one thread of a process that is followed, which stands still, does not run on before
 * remote__unpark(), unless we give no sign for park_ticks. 0 or a negative errno. */
int remote__park(struct remote *r);

/* remote__unpark - no more; it goes on when it is resumed. No error when it is not parked. */
int remote__unpark(struct remote *r);

/* remote__await_calls - when a pyebpf was killed after it had a thread begin calls, until they are made.
 * 0: there were none; 1: now they are; a negative errno as above. */
int remote__await_calls(struct remote *r, const struct maps *maps);

/* remote__clear - wait until no thread is in the scratch code any more, and zero it; all go on. 0; -ETIMEDOUT; -ESRCH; -EPERM. */
int remote__clear(struct remote *r);

#endif
