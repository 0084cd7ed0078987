// SPDX-License-Identifier: Apache-2.0
#include "inline/heart.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/grow.h"
#include "base/thread.h"
#include "inline/engine.h"

#define BEAT_NS 200000000ull /* of the second after which the stubs wait no more */

struct inline_heart {
	pthread_t thread;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t wake;
	bool ends;
	struct inline_engine **engines;
	uint32_t cnt, size;
	uint64_t patience_ns;
	uint64_t read_ns; /* when the reader was last at work; without the lock */
};

static void beat_once(struct inline_heart *h)
{
	if (now_ns() - __atomic_load_n(&h->read_ns, __ATOMIC_RELAXED) > h->patience_ns)
		return;
	for (uint32_t i = 0; i < h->cnt; i++)
		inline__alive(h->engines[i]);
}

static void *beat(void *arg)
{
	struct inline_heart *h = arg;

	pthread_mutex_lock(&h->lock);
	while (!h->ends) {
		beat_once(h);
		thread_wait_until(&h->wake, &h->lock, now_ns() + BEAT_NS);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

struct inline_heart *inline_heart__new(uint64_t patience_ns)
{
	struct inline_heart *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->patience_ns = patience_ns;
	pthread_mutex_init(&h->lock, NULL);
	thread_cond_init(&h->wake);
	inline_heart__reads(h);
	if (!thread_start(&h->thread, NULL, beat, h))
		return h;
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	free(h);
	return NULL;
}

void inline_heart__add(struct inline_heart *h, struct inline_engine *e)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	if (!GROW(h->engines, h->size, h->cnt))
		h->engines[h->cnt++] = e;
	pthread_mutex_unlock(&h->lock);
}

void inline_heart__remove(struct inline_heart *h, const struct inline_engine *e)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	for (uint32_t i = 0; i < h->cnt; i++)
		if (h->engines[i] == e)
			h->engines[i--] = h->engines[--h->cnt];
	pthread_mutex_unlock(&h->lock);
}

void inline_heart__reads(struct inline_heart *h)
{
	if (h)
		__atomic_store_n(&h->read_ns, now_ns(), __ATOMIC_RELAXED);
}

void inline_heart__free(struct inline_heart *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->ends = true;
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	free(h->engines);
	free(h);
}
