/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that sleep before a stop, and that nothing but the stop has woken: what was read of their memory meanwhile holds, and
 * need not be read in the stop.
 *
 * The kernel counts how often a thread gets a CPU (proc(5): schedstat), and how often it gives one up or loses it (status: both
 * kinds of context switches). Where as many are gone as have come it is on none. Where it has given one up once since, that was to
 * stand still, if it is in a system call that was interrupted: it has not slept a second time. It may have been woken by something
 * else, and have come to another such call at the moment when it was stopped: then it has run for longer than a thread does that only
 * wakes up to stand still, which takes 3 to 20 us. Whoever relies on it looks at the innermost frames once more, for what can be
 * done in that time.
 */
#ifndef PYEBPF_INLINE_ASLEEP_H
#define PYEBPF_INLINE_ASLEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ASLEEP_OPEN_MAX 128

struct remote_thread;

struct asleep {
	pid_t pid;
	struct asleep_thread {
		pid_t tid; /* first: order_pid() */
		uint64_t sleeps; /* so far: voluntary context switches */
		uint64_t ran_ns, come; /* so far, on CPUs; how often it got one */
		/* the two files, which saves most of the time: of the first ASLEEP_OPEN_MAX; of as many as half of the descriptors that we
		 * may have; else -1 */
		int status, runs;
	} * threads; /* by tid; owned */
	size_t cnt, size;
};

/* asleep__note - which threads of a process sleep now. 0, or a negative errno: none are known then. Released by asleep__done(). */
int asleep__note(struct asleep *a, pid_t pid);

/* asleep__is_still - has this one, which stands still, slept since until it was stopped? */
bool asleep__is_still(const struct asleep *a, const struct remote_thread *t);

/* asleep__has_not_run - the same of one that was not stopped: it has not had a CPU since. */
bool asleep__has_not_run(const struct asleep *a, pid_t tid);

void asleep__done(struct asleep *a);

#endif
