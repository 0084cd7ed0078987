// SPDX-License-Identifier: Apache-2.0
/*
 * A thread of ours is made to wait for a lock (a PI futex) of which the other one is the owner, as far as the kernel knows: its number
 * stands there. So that one inherits the priority of ours, until ours does not wait any more, at the end of its time or with us.
 *
 * It sleeps at a gate, from where it is put there (FUTEX_CMP_REQUEUE_PI). If it went there by itself (FUTEX_LOCK_PI) it would spin as
 * long as the owner is on a CPU, past its time, past SIGKILL.
 *
 * To stop waiting ours needs a CPU, and has no more of a claim to it than the one to which it lends. Were there as many of these as CPUs, none
 * would ever stop. So there is one at a time on the machine, of all pyebpfs, on one of two CPUs at least: for so long its lender has
 * locked a file, which it has until it has ended. And who has lent takes the priority of the lender itself away.
 */
#include "inline/lender.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

/* Of which there is one for all who may go first, in whatever /proc; nothing is read from it. */
#define LOCKED_FILE "/proc/self/ns/user"
#define SPARE_FDS   16

struct lender {
	pthread_t thread;
	int file; /* locked while it is @first: */
	bool first; /* it runs before others, and so does to whom it lends */
	sem_t begin;
	bool active, ended;
	uint32_t turn_ns;
	uint32_t gate; /* always 0 */
	uint32_t lock; /* its owner */
};

static void stand_at_gate(struct lender *l)
{
	const struct timespec at = timespec_of(now_ns() + l->turn_ns);

	if (syscall(SYS_futex, &l->gate, FUTEX_WAIT_REQUEUE_PI, 0, &at, &l->lock, 0) &&
	    errno != ETIMEDOUT)
		nanosleep(&(struct timespec){ .tv_nsec = l->turn_ns }, NULL);
}

static void *run(void *arg)
{
	struct lender *l = arg;

	while (!__atomic_load_n(&l->ended, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&l->active, __ATOMIC_ACQUIRE))
			stand_at_gate(l);
		while (sem_wait(&l->begin))
			;
	}
	return NULL;
}

static bool has_cpus(void)
{
	cpu_set_t cpus;

	return !sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) > 1;
}

/* None of the last ones, without which more goes wrong than that others are waited for. */
static int open_locked(void)
{
	int fd = open(LOCKED_FILE, O_RDONLY | O_CLOEXEC);
	struct rlimit most;

	if (fd < 0 || (!getrlimit(RLIMIT_NOFILE, &most) && (rlim_t)fd + SPARE_FDS < most.rlim_cur))
		return fd;
	close(fd);
	return -1;
}

static struct lender *make(uint32_t turn_ns)
{
	struct lender *l = has_cpus() ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return NULL;
	sem_init(&l->begin, 0, 0);
	l->turn_ns = turn_ns;
	l->file = open_locked();
	if (l->file >= 0 && !thread_start(&l->thread, NULL, run, l))
		return l;
	if (l->file >= 0)
		close(l->file);
	sem_destroy(&l->begin);
	free(l);
	return NULL;
}

static bool go_first(struct lender *l)
{
	const struct sched_param first = { .sched_priority = LENT_PRIORITY };

	if (l->first)
		return true;
	if (flock(l->file, LOCK_EX | LOCK_NB))
		return false;
	l->first = !pthread_setschedparam(l->thread, SCHED_FIFO, &first);
	if (!l->first)
		flock(l->file, LOCK_UN);
	return l->first;
}

void lender__lend(struct lender **lender, struct lender *other, pid_t tid, uint32_t turn_ns)
{
	struct lender *l = *lender ? *lender : make(turn_ns);

	*lender = l;
	lender__rest(other);
	if (!l || !go_first(l))
		return;
	if (!__atomic_exchange_n(&l->active, true, __ATOMIC_ACQ_REL))
		sem_post(&l->begin);
	__atomic_store_n(&l->lock, (uint32_t)tid, __ATOMIC_RELEASE);
	/* it may not be there yet, or for the last one yet; the other one may have ended */
	(void)syscall(SYS_futex, &l->gate, FUTEX_CMP_REQUEUE_PI, 1, 0, &l->lock, 0);
}

/* Its turn may last, but is worth nothing then. */
void lender__rest(struct lender *l)
{
	const struct sched_param usual = { 0 };

	if (!l || !l->first)
		return;
	__atomic_store_n(&l->active, false, __ATOMIC_RELEASE);
	if (pthread_setschedparam(l->thread, SCHED_OTHER, &usual))
		return; /* as long as it lends nobody else does */
	l->first = false;
	flock(l->file, LOCK_UN);
}

void lender__free(struct lender *l)
{
	if (!l)
		return;
	lender__rest(l);
	__atomic_store_n(&l->ended, true, __ATOMIC_RELEASE);
	sem_post(&l->begin);
	pthread_join(l->thread, NULL);
	close(l->file);
	sem_destroy(&l->begin);
	free(l);
}
