// SPDX-License-Identifier: Apache-2.0
/*
 * A thread of ours is made to wait for a lock (a PI futex) of which the other one is the owner, as far as the kernel knows: its number
 * stands there. So that one inherits the priority of ours, until ours does not wait any more, at the end of its time or with us.
 *
 * It sleeps at a gate, from where it is put there (FUTEX_CMP_REQUEUE_PI). If it went there by itself (FUTEX_LOCK_PI) it would spin as
 * long as the owner is on a CPU, past its time, past SIGKILL.
 */
#include "inline/lender.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

struct lender {
	pthread_t thread;
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

/* Else ours could wait behind the one to which it lends, for ever if we are killed. */
static bool has_cpus(void)
{
	cpu_set_t cpus;

	return !sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) > 1;
}

static int start(struct lender *l)
{
	const struct sched_param first = { .sched_priority = LENT_PRIORITY };
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &first);
	err = thread_start(&l->thread, &attr, run, l);
	pthread_attr_destroy(&attr);
	return err;
}

static struct lender *make(uint32_t turn_ns)
{
	struct lender *l = has_cpus() ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return NULL;
	sem_init(&l->begin, 0, 0);
	l->turn_ns = turn_ns;
	if (!start(l))
		return l;
	sem_destroy(&l->begin);
	free(l);
	return NULL;
}

void lender__lend(struct lender **lender, pid_t tid, uint32_t turn_ns)
{
	struct lender *l = *lender ? *lender : make(turn_ns);

	*lender = l;
	if (!l)
		return;
	if (!__atomic_exchange_n(&l->active, true, __ATOMIC_ACQ_REL))
		sem_post(&l->begin);
	__atomic_store_n(&l->lock, (uint32_t)tid, __ATOMIC_RELEASE);
	/* it may not be there yet, or for the last one yet; the other one may have ended */
	(void)syscall(SYS_futex, &l->gate, FUTEX_CMP_REQUEUE_PI, 1, 0, &l->lock, 0);
}

void lender__rest(struct lender *l)
{
	if (l)
		__atomic_store_n(&l->active, false, __ATOMIC_RELEASE);
}

void lender__free(struct lender *l)
{
	if (!l)
		return;
	lender__rest(l);
	__atomic_store_n(&l->ended, true, __ATOMIC_RELEASE);
	sem_post(&l->begin);
	pthread_join(l->thread, NULL);
	sem_destroy(&l->begin);
	free(l);
}
