// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "sink"
#include "sink/ship.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "sink/http.h"
#include "sink/lane.h"
#include "sink/spool.h"
#include "store/store.h"

#define MS			  1000000ull
#define SECOND			  1000000000ull
#define WAIT_MAX_MS		  1000
#define STOP_NS			  (5 * SECOND) /* what can be sent when the agent ends */
#define FOLDER_MS		  500 /* between two looks for a store that is not there */

#define X(id, number, name, text) [number] = (name),
static const char *const drops[] = { SINK_DROPS(X) };
#undef X

const char *sink_drop_name(unsigned int drop)
{
	return drop < SINK_DROP_CNT ? drops[drop] : "unknown";
}

const char *sink_state_name(unsigned int state)
{
	static const char *const names[] = { "idle", "sending", "waiting", "held" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

struct ship {
	const struct ship_opts *opts;
	struct spool spool;
	struct http *http;
	struct lane lanes[SINK_MAX];
	uint64_t end_ns; /* monotonic; 0: none */
	bool stopping;
};

void ship_prepare(struct sink_shared *shared, const struct sink_list *sinks_)
{
	shared->cnt = sinks_->cnt;
	for (uint32_t i = 0; i < sinks_->cnt; i++) {
		struct sink_stats *st = &shared->sinks[i];

		snprintf(st->name, sizeof(st->name), "%s", sinks_->items[i].name);
		snprintf(st->type, sizeof(st->type), "%s", sinks_->items[i].ops->type);
	}
}

static void ship_done(struct ship *s)
{
	for (uint32_t i = 0; i < s->opts->sinks->cnt; i++)
		lane__done(&s->lanes[i]);
	http__free(s->http);
	spool__done(&s->spool);
}

static bool stop_asked(const struct ship *s, int ms)
{
	struct pollfd fd = { .fd = s->opts->stop_fd, .events = POLLIN };

	return poll(&fd, 1, ms) > 0;
}

/* The store is made by the agent, which starts at the same time. Return: 1 to go on, 0: not wanted any more. */
static int open_spool(struct ship *s, struct err *e)
{
	for (;;) {
		int err =
			spool__open(&s->spool, s->opts->store, s->opts->sinks, s->opts->shared, e);

		if (err != -ENOENT)
			return err ? err : 1;
		if (s->opts->until_empty)
			return err_set(e, -PYE_EOUTPUT, "the store %s is not there",
				       s->opts->store);
		if (stop_asked(s, FOLDER_MS))
			return 0;
	}
}

static bool is_empty(const struct ship *s)
{
	for (uint32_t i = 0; i < s->opts->sinks->cnt; i++)
		if (s->opts->shared->sinks[i].owed)
			return false;
	return true;
}

static bool is_over(const struct ship *s, uint64_t now)
{
	if (s->end_ns && now >= s->end_ns)
		return true;
	return (s->opts->until_empty || s->stopping) && is_empty(s);
}

static int wait_ms(const struct ship *s, uint64_t now)
{
	uint64_t until = s->end_ns ? s->end_ns : now + WAIT_MAX_MS * MS;

	for (uint32_t i = 0; i < s->opts->sinks->cnt; i++) {
		uint64_t at = lane__next_ns(&s->lanes[i]);

		until = at < until ? at : until;
	}
	if (until <= now)
		return 0;
	until = (until - now) / MS + 1;
	return until < WAIT_MAX_MS ? (int)until : WAIT_MAX_MS;
}

static int look(struct ship *s, struct err *e)
{
	if (!store_folder_is(s->spool.dir_fd, s->opts->store))
		return err_set(e, -PYE_EOUTPUT, "the store %s was removed", s->opts->store);
	return spool__look(&s->spool, e);
}

static int step(struct ship *s, struct err *e)
{
	struct http_result result;
	uint64_t now;
	int err = look(s, e);

	while (!err && http__next(s->http, &result)) {
		for (uint32_t i = 0; i < s->opts->sinks->cnt && !err; i++)
			if (s->lanes[i].call == result.call)
				err = lane__answer(&s->lanes[i], &result, e);
	}
	now = now_ns();
	for (uint32_t i = 0; i < s->opts->sinks->cnt && !err; i++)
		if (now >= lane__next_ns(&s->lanes[i]))
			err = lane__start(&s->lanes[i], e);
	return err;
}

static int loop(struct ship *s, struct err *e)
{
	const int fds[] = { s->spool.watch_fd, s->opts->stop_fd };
	int err = 0;

	while (!err && !is_over(s, now_ns())) {
		if (!s->stopping && s->opts->stop_fd >= 0 && stop_asked(s, 0)) {
			s->stopping = true;
			s->end_ns = now_ns() + STOP_NS;
			for (uint32_t i = 0; i < s->opts->sinks->cnt; i++)
				s->lanes[i].hurry = true;
		}
		err = step(s, e);
		if (!err && !is_over(s, now_ns()))
			err = http__wait(s->http, fds,
					 s->opts->stop_fd >= 0 && !s->stopping ? 2 : 1,
					 wait_ms(s, now_ns()));
	}
	return err;
}

int ship_run(const struct ship_opts *opts, struct err *e)
{
	struct ship s = { .opts = opts, .spool = { .dir_fd = -1, .watch_fd = -1 } };
	int err = open_spool(&s, e);

	if (err <= 0) {
		spool__done(&s.spool);
		return err;
	}
	err = http__new(&s.http, e);
	for (uint32_t i = 0; i < opts->sinks->cnt && !err; i++)
		err = lane__init(&s.lanes[i], i, &opts->sinks->items[i], &s.spool, s.http);
	if (opts->duration_ns)
		s.end_ns = now_ns() + opts->duration_ns;
	err = err ? err : loop(&s, e);
	ship_done(&s);
	return err;
}
