// SPDX-License-Identifier: Apache-2.0
/*
 * What is written to the store. A thread does it: a file system that does not answer, as one that is frozen or on a disk that is
 * about to fail, stops nothing but that. As a rule the loop waits for it the few ms that it takes; when it takes longer, windows wait in
 * memory until it is done. There is no more than one thing at hand, and the store is the thread's as long as there is.
 */
#define LOG_DOMAIN "agent"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "cmd/agent_priv.h"
#include "sink/sender.h"

#define SECOND	    1000000000ull
#define WAIT_NS	    SECOND /* the loop waits: the rings have room for more */
#define STUCK_NS    (5 * SECOND) /* it is said */
#define END_NS	    (5 * SECOND)
#define WAITING_MAX (16u << 20) /* bytes of windows that wait */

struct job {
	struct profiles *window;
	struct store_limits limits;
	struct window_result got, *to; /* who waits for it, or NULL */
	struct store_mended mended;
	struct store_trimmed trimmed;
	bool lost; /* the store was removed */
	int err, trim_err;
	struct err e, trim_e;
	struct job *next;
};

struct agent_store {
	char *dir;
	struct store *store; /* NULL: there is no room for one */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job *at_hand, *done; /* the thread has it; had it */
	bool ends;
	/* the loop's */
	struct job *first, **end; /* that wait */
	uint64_t waiting_bytes, since_ns; /* since when there is one at hand */
	uint32_t waiting, waited; /* with that at hand; when it was told that it is stuck */
	bool stuck;
};

static void job_free(struct job *j)
{
	profiles__free(j->window);
	free(j);
}

/* --- in the thread --- */

static int open_store(struct agent_store *s, struct store_mended *mended, struct err *e)
{
	int err;

	if (!strcmp(s->dir, AGENT_STORE))
		mkdir(AGENT_STORE_ABOVE,
		      0755); /* where no package did; opening the store says what is wrong */
	err = store__open(&s->store, s->dir, STORE_WRITE, e);
	if (!err)
		*mended = *store__mended(s->store);
	return err;
}

/* Somebody may have removed it, or put another one in its place. */
static bool leave_lost_store(struct agent_store *s)
{
	if (!s->store || store__is_there(s->store))
		return false;
	store__free(take_ptr(s->store));
	return true;
}

static void work(struct agent_store *s, struct job *j)
{
	j->lost = leave_lost_store(s);
	if (!s->store)
		open_store(s, &j->mended, &j->e);
	j->err = profiles__put(j->window, s->store, &j->got, &j->e);
	if (s->store)
		j->trim_err = store__trim(s->store, wall_ns(), &j->limits, &j->trimmed, &j->trim_e);
}

static void *thread_main(void *ctx)
{
	struct agent_store *s = ctx;

	pthread_mutex_lock(&s->lock);
	while (!s->ends) {
		struct job *j = s->at_hand;

		if (!j) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		pthread_mutex_unlock(&s->lock);
		work(s, j);
		pthread_mutex_lock(&s->lock);
		s->done = j;
		s->at_hand = NULL;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* --- what came of it --- */

static void say_mended(const struct store_mended *m)
{
	if (m->added || m->removed || m->unreadable)
		log_info("the catalogue was mended: %" PRIu64 " added, %" PRIu64 " gone, %" PRIu64
			 " files are no windows",
			 m->added, m->removed, m->unreadable);
}

static void note_evicted(struct agent *a, const struct store_trimmed *removed, const char *why)
{
	a->totals.trimmed_by_bytes += removed->by_bytes;
	if (removed->by_bytes)
		log_warn("%" PRIu64 " profiles were removed before their time: %s",
			 removed->by_bytes, why);
}

/* That the disk is full, and that it is not any more, is said once. */
static void note_unwritten(struct agent *a, const struct window_result *got, int err,
			   const struct err *e)
{
	bool was_full = a->full;

	a->full = got->full;
	if ((err || got->unwritten) && !(was_full && got->full))
		log_warn("a window is not whole: %s", e->what[0] ? e->what : err_str(err));
	if (was_full && !got->full && got->profiles)
		log_info("there is room for profiles again: %" PRIu64 " were not written",
			 a->totals.unwritten);
	/* of a window without profiles nothing is known */
	a->full |= was_full && !got->profiles;
}

static void settle(struct agent *a, struct job *j)
{
	struct agent_totals *t = &a->totals;

	if (j->lost)
		log_warn("the store %s was removed: it is made anew", a->store->dir);
	say_mended(&j->mended);
	t->profiles += j->got.profiles;
	t->samples += j->got.samples;
	t->bytes += j->got.bytes;
	t->unwritten += j->got.unwritten + (j->err != 0);
	note_evicted(a, &j->got.evicted, "its disk is full");
	note_unwritten(a, &j->got, j->err, &j->e);
	t->trimmed_by_age += j->trimmed.by_age;
	note_evicted(a, &j->trimmed, "the store is full");
	if (j->trim_err && !a->full)
		log_warn("%s",
			 j->trim_e.what[0] ? j->trim_e.what : "old profiles cannot be removed");
	if (j->to)
		*j->to = j->got;
	a->store->waiting--;
	a->store->waiting_bytes -= profiles__bytes(j->window);
	job_free(j);
}

/* --- the loop --- */

/* The one that is done, if it is until then. */
static struct job *take_done(struct agent_store *s, uint64_t until_ns)
{
	struct job *j;
	int err = 0;

	pthread_mutex_lock(&s->lock);
	while (s->at_hand && !err)
		err = thread_wait_until(&s->changed, &s->lock, until_ns);
	j = take_ptr(s->done);
	pthread_mutex_unlock(&s->lock);
	return j;
}

static void hand_over(struct agent_store *s)
{
	struct job *j = s->first;

	s->first = j->next;
	if (!s->first)
		s->end = &s->first;
	s->since_ns = now_ns();
	pthread_mutex_lock(&s->lock);
	s->at_hand = j;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void note_stuck(struct agent_store *s)
{
	bool stuck = s->waiting && now_ns() - s->since_ns > STUCK_NS;

	if (stuck && !s->stuck)
		log_warn("the file system of the store %s does not answer: windows wait in memory",
			 s->dir);
	if (s->stuck && !s->waiting)
		log_info("the file system of the store answers again: all windows are written");
	s->stuck = stuck || (s->stuck && s->waiting);
}

/* Everything that is done until then, and what comes after it. */
static void turn(struct agent *a, uint64_t until_ns)
{
	struct agent_store *s = a->store;
	struct job *j;

	while (s->waiting && (j = take_done(s, until_ns))) {
		settle(a, j);
		if (s->first)
			hand_over(s);
	}
	note_stuck(s);
}

void agent_store_turn(struct agent *a)
{
	if (a->store->waiting)
		turn(a, 0);
}

bool agent_store_is_idle(const struct agent *a)
{
	return !a->store->waiting;
}

bool agent_store_is_stuck(const struct agent *a)
{
	return a->store->stuck;
}

uint32_t agent_store_waiting(const struct agent *a)
{
	return a->store->waiting;
}

/* What is still owed to a sink is too old for nothing but the number of bytes. */
static int64_t age_limit(const struct agent *a, int64_t now)
{
	int64_t age = (int64_t)a->opts->max_age_ns, owed;

	if (!a->sender || !age)
		return age;
	owed = sender__oldest_owed_ns(a->sender);
	if (!owed)
		return 0;
	/* names of windows have whole seconds */
	owed = owed == INT64_MAX ? 0 : now - owed + 2 * (int64_t)SECOND;
	return owed > age ? owed : age;
}

void agent_store_write(struct agent *a, struct profiles *window, struct window_result *got)
{
	struct agent_store *s = a->store;
	struct job *j = s->waiting_bytes < WAITING_MAX ? calloc(1, sizeof(*j)) : NULL;

	if (!j) {
		got->unwritten += profiles__cnt(window);
		a->totals.unwritten += got->unwritten;
		log_warn("a window is not written: too many wait for the store");
		profiles__free(window);
		return;
	}
	*j = (struct job){ .window = window, .got = *got, .to = got };
	j->limits = (struct store_limits){ .max_bytes = a->opts->max_bytes,
					   .max_age_ns = age_limit(a, wall_ns()) };
	*s->end = j;
	s->end = &j->next;
	s->waiting_bytes += profiles__bytes(window);
	if (!s->waiting++)
		hand_over(s);
	turn(a, s->since_ns + WAIT_NS);
	if (s->waiting) /* it is the last one of them */
		j->to = NULL;
}

/* --- begin and end --- */

static int start_thread(struct agent_store *s)
{
	pthread_mutex_init(&s->lock, NULL);
	thread_cond_init(&s->changed);
	mallopt(M_ARENA_MAX, 1); /* one heap is smaller than two, and they seldom meet */
	return thread_start(&s->thread, NULL, thread_main, s);
}

int agent_store_open(struct agent *a, struct err *e)
{
	struct agent_store *s = calloc(1, sizeof(*s));
	struct store_mended mended = { 0 };
	int err;

	if (!s)
		return -ENOMEM;
	s->end = &s->first;
	s->dir = strdup(a->opts->store);
	err = s->dir ? open_store(s, &mended, e) : -ENOMEM;
	/* a start on a full disk may have had no room for the folder */
	if (err == -ENOSPC) {
		log_warn("%s; it is tried again with each window", e->what);
		a->full = true;
		err = 0;
	}
	err = err ? err : start_thread(s);
	if (err) {
		store__free(s->store);
		free(s->dir);
		free(s);
		return err;
	}
	say_mended(&mended);
	a->store = s;
	return 0;
}

void agent_store_finish(struct agent *a)
{
	uint64_t until_ns = now_ns() + END_NS;

	turn(a, until_ns);
	if (!a->store->waiting)
		return;
	a->totals.unwritten += a->store->waiting;
	log_warn("%" PRIu32
		 " windows are not written: the file system of the store does not answer",
		 a->store->waiting);
}

void agent_store_close(struct agent *a)
{
	struct agent_store *s = a->store;

	if (!s || s->waiting)
		return; /* what the thread has it has */
	pthread_mutex_lock(&s->lock);
	s->ends = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	store__free(s->store);
	free(s->dir);
	free(s);
	a->store = NULL;
}
