// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that slept where nothing wakes them when a run ended: they have been asked to stop, which can be taken back only where they do, by
 * the thread that asked. So that one waits for them, if there are any, and what comes after the run is done beside it.
 */
#include <stdbool.h>

#include "base/thread.h"
#include "cmd/session_inline_priv.h"
#include "inline/remote_stop.h"

#define LOOK_NS 1000000 /* for so long one of them stands still */

struct work {
	int (*run)(void *ctx);
	void *ctx;
	int ret;
	bool done;
};

static void *work(void *arg)
{
	struct work *w = arg;

	w->ret = w->run(w->ctx);
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	return NULL;
}

bool inline_run__let_late_go(struct inline_run *r)
{
	bool all = inline_target__let_late_go(&r->t);

	for (struct inline_member *m = r->members; m; m = m->next)
		all &= remote__let_late_go(&m->engine->remote);
	return all;
}

int session_inline__beside(struct inline_run *left, int (*run)(void *ctx), void *ctx)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	struct work w = { run, ctx, 0, false };
	pthread_t thread;

	if (!left || thread_start(&thread, NULL, work, &w))
		return run(ctx);
	while (!__atomic_load_n(&w.done, __ATOMIC_ACQUIRE) && !inline_run__let_late_go(left))
		nanosleep(&pause, NULL);
	pthread_join(thread, NULL);
	return w.ret;
}
