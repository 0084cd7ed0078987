// SPDX-License-Identifier: Apache-2.0
#include "capture/closing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "capture/apart.h"

#define THREADS_MAX 64
#define STACK_BYTES ((size_t)64 << 10)

struct closing {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	size_t next,
		cnt; /* descriptors; next without the lock, which somebody who is killed can hold */
	size_t running; /* threads */
	bool left; /* the last thread frees this */
	int fds[];
};

static void closing_free(struct closing *c)
{
	pthread_cond_destroy(&c->ended);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void close_next(void *arg)
{
	struct closing *c = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED)) < c->cnt)
		close(c->fds[i]);
}

static void *close_some(void *arg)
{
	struct closing *c = arg;
	bool last;

	apart(close_next, c);
	pthread_mutex_lock(&c->lock);
	last = !--c->running && c->left;
	pthread_cond_signal(&c->ended);
	pthread_mutex_unlock(&c->lock);
	if (last)
		closing_free(c);
	return NULL;
}

/* Threads that are not joined: nobody may be there to do it. */
static void start_threads(struct closing *c)
{
	size_t wanted = c->cnt < THREADS_MAX ? c->cnt : THREADS_MAX;
	pthread_attr_t attr;

	if (pthread_attr_init(&attr))
		return;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_mutex_lock(&c->lock);
	while (c->running < wanted) {
		pthread_t thread;

		if (thread_start(&thread, &attr, close_some, c))
			break;
		c->running++;
	}
	pthread_mutex_unlock(&c->lock);
	pthread_attr_destroy(&attr);
}

struct closing *closing_begin(const int *fds, size_t cnt)
{
	struct closing *c = cnt ? calloc(1, sizeof(*c) + cnt * sizeof(*fds)) : NULL;
	bool alone;

	if (!c) {
		for (size_t i = 0; i < cnt; i++)
			close(fds[i]);
		return NULL;
	}
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->ended, NULL);
	memcpy(c->fds, fds, cnt * sizeof(*fds));
	c->cnt = cnt;
	start_threads(c);
	pthread_mutex_lock(&c->lock);
	alone = !c->running && __atomic_load_n(&c->next, __ATOMIC_RELAXED) < c->cnt;
	c->running += alone;
	pthread_mutex_unlock(&c->lock);
	if (alone)
		close_some(c);
	return c;
}

bool closing_done(struct closing *c)
{
	bool done;

	pthread_mutex_lock(&c->lock);
	done = !c->running;
	pthread_mutex_unlock(&c->lock);
	return done;
}

void closing_end(struct closing *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	while (c->running)
		pthread_cond_wait(&c->ended, &c->lock);
	pthread_mutex_unlock(&c->lock);
	closing_free(c);
}

void closing_leave(struct closing *c)
{
	bool ended;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	ended = !c->running;
	c->left = true;
	pthread_mutex_unlock(&c->lock);
	if (ended)
		closing_free(c);
}
