// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"

int thread_start(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(out, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

void thread_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int thread_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t ns)
{
	const struct timespec until = timespec_of(ns);

	return -pthread_cond_timedwait(cond, lock, &until);
}
