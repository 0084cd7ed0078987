// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "sink"
#include "sink/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/text.h"
#include "sink/stats.h"

#define MS	       1000000ull
#define SECOND	       1000000000ull
#define GATHER_NS      (200 * MS) /* the windows of a moment are written one after the other */
#define BACKOFF_NS     (SECOND / 2) /* after the first failure */
#define RETRY_AFTER_S  3600 /* a server that wants more is asked again */
#define POISON_STRIKES 4
#define STAMP_LEN      16 /* 20261122T010203Z */
#define WINDOW_BYTES   (64u << 20)
#define REPLY_BYTES    8192
#define START_JITTER   SECOND
#define SMALLER_MAX    8

static uint64_t random_below(uint64_t limit)
{
	uint64_t value = 0;

	if (getrandom(&value, sizeof(value), 0) != sizeof(value))
		value = now_ns();
	return limit ? value % limit : 0;
}

int lane__init(struct lane *l, uint32_t number, const struct sink_spec *spec, struct spool *spool,
	       struct http *http)
{
	int err;

	*l = (struct lane){
		.number = number,
		.spec = spec,
		.ops = spec->ops,
		.spool = spool,
		.stats = &spool->shared->sinks[number],
		.windows_max = spec->ops->windows_max,
		/* a fleet that starts at once does not push at once */
		.next_ns = now_ns() + (spool->cnt > 1 ? random_below(START_JITTER) : 0),
	};
	l->self = calloc(1, l->ops->size ? l->ops->size : 1);
	if (!l->self)
		return -ENOMEM;
	err = l->ops->open ? l->ops->open(l->self, spec) : 0;
	return err ? err : http_call__new(&l->call, http, spec, REPLY_BYTES, false);
}

void lane__done(struct lane *l)
{
	sink_push__done(&l->push);
	http_call__free(l->call);
	if (l->self && l->ops->close)
		l->ops->close(l->self);
	free(l->self);
	free(l->in_push);
	*l = (struct lane){ 0 };
}

uint64_t lane__next_ns(const struct lane *l)
{
	uint64_t at = l->spool->changed_ns + GATHER_NS;

	if (l->flying || !l->stats->owed)
		return UINT64_MAX;
	at = at > l->next_ns ? at : l->next_ns;
	return l->hurry || at > l->rest_ns ? at : l->rest_ns;
}

/* --- messages --- */

static void tell(struct lane *l, enum sink_state state, const char *why)
{
	l->stats->state = state;
	if (!why) {
		l->stats->last_error[0] = '\0';
	} else {
		text_escape(l->stats->last_error, sizeof(l->stats->last_error), why, strlen(why));
	}
	/* a long outage is said once */
	if (l->told == (int)state || state == SINK_SENDING)
		return;
	if (state == SINK_WAITING || state == SINK_HELD)
		log_warn("sink %s: %s; %" PRIu64 " windows wait", l->spec->name,
			 l->stats->last_error, l->stats->owed);
	else if (l->told == SINK_WAITING || l->told == SINK_HELD)
		log_info("sink %s: everything is sent", l->spec->name);
	l->told = state;
}

/* --- the end of a push --- */

static void let_go(struct lane *l)
{
	for (uint32_t i = 0; i < l->in_push_cnt; i++)
		l->in_push[i]->flying &= ~(1u << l->number);
	l->in_push_cnt = 0;
	sink_push__done(&l->push);
	l->request_at = 0;
}

static void say_aside(const struct lane *l, const struct spool_window *w, enum sink_drop drop,
		      const struct err *e)
{
	char shown[NAME_MAX * 4];

	if (drop != SINK_DROP_AGE)
		log_warn("sink %s: %s is set aside (%s): %s", l->spec->name,
			 text_escape(shown, sizeof(shown), w->file, strlen(w->file)),
			 sink_drop_name(drop), e->what);
}

static int settle(struct lane *l, bool sent, enum sink_drop drop, struct err *e)
{
	int err = spool__settle(l->spool, l->number, l->in_push, l->in_push_cnt, sent, drop, e);

	l->in_push_cnt = 0;
	let_go(l);
	return err;
}

/* A push of one window that will never be taken. */
static int set_aside(struct lane *l, enum sink_drop drop, struct err *e)
{
	say_aside(l, l->in_push[0], drop, e);
	return settle(l, false, drop, e);
}

static int settle_one(struct lane *l, struct spool_window *w, enum sink_drop drop, struct err *e)
{
	say_aside(l, w, drop, e);
	return spool__settle(l->spool, l->number, &w, 1, false, drop, e);
}

/* Those whose files are gone meanwhile cannot be sent again. */
static int let_go_of_gone(struct lane *l, struct err *e)
{
	int err = 0;

	for (uint32_t i = 0; i < l->in_push_cnt; i++) {
		struct spool_window *w = l->in_push[i];

		w->flying &= ~(1u << l->number);
		if (!w->gone)
			continue;
		l->in_push[i--] = l->in_push[--l->in_push_cnt];
		err = spool__settle(l->spool, l->number, &w, 1, false, SINK_DROP_EVICTED, e);
		if (err)
			return err;
	}
	let_go(l);
	return 0;
}

/* --- a push --- */

struct loaded {
	uint8_t *bytes;
	int fd;
	struct head head;
};

static void loaded_done(struct loaded *d)
{
	free(d->bytes);
	head_done(&d->head);
	if (d->fd >= 0)
		close(d->fd);
}

static int load(const struct lane *l, const struct spool_window *w, struct loaded *d,
		struct sink_window *out, struct err *e)
{
	struct stat st;
	int err;

	d->fd = openat(l->spool->dir_fd, w->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (d->fd < 0)
		return errno == ENOENT ? -ENOENT
				       : err_set(e, -PYE_EFORMAT, "it cannot be opened: %s",
						 strerror(errno));
	if (fstat(d->fd, &st) || !S_ISREG(st.st_mode) || st.st_size > (off_t)WINDOW_BYTES)
		return err_set(e, -PYE_EFORMAT, "it is no file of a window");
	d->bytes = malloc((size_t)st.st_size + 1);
	if (!d->bytes)
		return -ENOMEM;
	if (pread(d->fd, d->bytes, (size_t)st.st_size, 0) != st.st_size)
		return err_set(e, -PYE_EFORMAT, "it cannot be read");
	err = head_read(d->fd, &d->head);
	if (err)
		return err == -PYE_EFORMAT ? err_set(e, err, "it is damaged") : err;
	*out = (struct sink_window){
		.file = w->file,
		.fd = d->fd,
		.bytes = d->bytes,
		.len = (size_t)st.st_size,
		.id = XXH3_64bits(d->bytes, (size_t)st.st_size),
		.head = &d->head,
		.smaller = l->smaller,
	};
	return l->ops->parts ? spool__progress(l->spool, l->number, w, &out->from, e) : 0;
}

/* Return: 1 when it was added; 0 when it cannot be; or an error. */
static int add_window(struct lane *l, struct spool_window *w, struct err *e)
{
	auto_fn(loaded_done) struct loaded d = { .fd = -1 };
	struct sink_window window;
	int err;

	if (GROW(l->in_push, l->in_push_cap, l->in_push_cnt))
		return -ENOMEM;
	err = load(l, w, &d, &window, e);
	err = err ? err : l->ops->add(l->self, &l->push, &window, e);
	if (err == -ENOENT) /* its end is on the way to us */
		return settle_one(l, w, SINK_DROP_EVICTED, e);
	if (err == -PYE_EFORMAT)
		return settle_one(l, w, SINK_DROP_UNREADABLE, e);
	if (err)
		return err;
	l->push.free_state = l->ops->free_state;
	l->push.window_cnt++;
	w->flying |= 1u << l->number;
	l->in_push[l->in_push_cnt++] = w;
	return 1;
}

static bool is_owed(const struct lane *l, const struct spool_window *w)
{
	return w->owed >> l->number & 1;
}

static bool is_too_old(const struct lane *l, const struct spool_window *w)
{
	return l->spec->max_age_ns && wall_ns() - w->end_ns > (int64_t)l->spec->max_age_ns;
}

static int drop_old(struct lane *l, struct err *e)
{
	for (uint32_t i = 0; i < l->spool->cnt;) {
		struct spool_window *w = l->spool->windows[i];
		uint32_t before = l->spool->cnt;
		int err;

		if (!is_too_old(l, w))
			return 0;
		err = is_owed(l, w) ? settle_one(l, w, SINK_DROP_AGE, e) : 0;
		if (err)
			return err;
		i += l->spool->cnt == before;
	}
	return 0;
}

/* Windows that servers have failed on wait until the others had their turn. */
static uint8_t fewest_tries(const struct lane *l)
{
	uint8_t fewest = UINT8_MAX;

	for (uint32_t i = 0; i < l->spool->cnt; i++) {
		const struct spool_window *w = l->spool->windows[i];

		if (is_owed(l, w) && w->tries[l->number] < fewest)
			fewest = w->tries[l->number];
	}
	return fewest;
}

/* Names of what goes into the next push; the list of windows changes while it is put together. */
static uint32_t choose(struct lane *l, struct spool_window **out, uint32_t max)
{
	uint8_t tries = fewest_tries(l);
	bool newest = l->newest && l->stats->owed > l->windows_max;
	uint32_t cnt = 0;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < l->spool->cnt && cnt < max; i++) {
		struct spool_window *w = l->spool->windows[newest ? l->spool->cnt - 1 - i : i];

		if (!is_owed(l, w) || w->tries[l->number] > tries)
			continue;
		if (cnt && (bytes + w->bytes > l->ops->bytes_max ||
			    (newest && strncmp(w->file, out[0]->file, STAMP_LEN) != 0)))
			break;
		if (w->strikes[l->number]) { /* alone, to know that it is this one */
			if (!cnt)
				out[cnt++] = w;
			break;
		}
		bytes += w->bytes;
		out[cnt++] = w;
	}
	l->newest = !l->newest;
	return cnt;
}

static int build(struct lane *l, struct err *e)
{
	struct spool_window *chosen[1024];
	uint32_t max = l->windows_max < 1024 ? l->windows_max : 1024, cnt;
	int err = drop_old(l, e);

	if (err)
		return err;
	cnt = choose(l, chosen, max);
	for (uint32_t i = 0; i < cnt && err >= 0; i++)
		err = add_window(l, chosen[i], e);
	if (err < 0)
		return err;
	if (!l->push.window_cnt)
		return 0;
	err = l->ops->finish ? l->ops->finish(l->self, &l->push) : 0;
	if (!err && !l->push.request_cnt) /* there was nothing in them */
		return settle(l, true, 0, e);
	return err;
}

/* --- failures --- */

static void wait_for(struct lane *l, const struct http_result *r, enum sink_state state,
		     const struct err *e)
{
	uint64_t limit = BACKOFF_NS;

	for (uint32_t i = 0; i < l->failures && limit < l->spec->max_backoff_ns; i++)
		limit *= 2;
	limit = limit < l->spec->max_backoff_ns ? limit : l->spec->max_backoff_ns;
	l->failures++;
	if (state == SINK_HELD) /* it takes a human being */
		limit = l->spec->max_backoff_ns;
	l->next_ns = now_ns() + random_below(limit) + MS;
	if (r && r->retry_after_s > 0) {
		int64_t s = r->retry_after_s < RETRY_AFTER_S ? r->retry_after_s : RETRY_AFTER_S;

		l->next_ns = now_ns() + (uint64_t)s * SECOND + random_below(SECOND / 4);
	}
	l->url_number++;
	tell(l, state, e->what[0] ? e->what : "it failed");
}

/*
 * Errors of the server's own, with an answer. In an outage every push fails; a window that the server cannot take fails while
 * others are taken before and after. Only the latter is a strike against it (see absolve), and enough of them set it aside.
 */
static int suspect(struct lane *l, struct err *e)
{
	uint32_t bit = 1u << l->number;
	bool again = true, poison = false;

	for (uint32_t i = 0; i < l->in_push_cnt; i++) {
		struct spool_window *w = l->in_push[i];

		again &= (w->suspect & bit) != 0;
		w->suspect |= bit;
		w->tries[l->number] += w->tries[l->number] < UINT8_MAX - 1;
		poison |= w->strikes[l->number] >= POISON_STRIKES;
	}
	l->mixed |= l->suspecting && !again;
	l->suspecting = true;
	if (poison && l->in_push_cnt == 1)
		return set_aside(l, SINK_DROP_POISON, e);
	return let_go_of_gone(l, e);
}

/* Something was taken: what failed since the time before was the server, or that one push. */
static void absolve(struct lane *l)
{
	uint32_t bit = 1u << l->number;

	for (uint32_t i = 0; l->suspecting && i < l->spool->cnt; i++) {
		struct spool_window *w = l->spool->windows[i];

		if (w->suspect & bit && !l->mixed)
			w->strikes[l->number]++;
		w->suspect &= ~bit;
	}
	l->suspecting = l->mixed = false;
}

static int retry(struct lane *l, const struct http_result *r, struct err *e)
{
	l->stats->retries++;
	wait_for(l, r, SINK_WAITING, e);
	l->request_at = l->ops->parts ? l->request_at : 0;
	/* what got no answer, or one that is about the moment, is sent again as it is */
	return r->reply.status >= 500 ? suspect(l, e) : 0;
}

static int split(struct lane *l, enum sink_drop drop, struct err *e)
{
	if (l->in_push_cnt == 1 && drop == SINK_DROP_TOO_LARGE && l->ops->parts &&
	    l->smaller < SMALLER_MAX) { /* of smaller parts some may have been taken already */
		l->smaller++;
		l->stats->retries++;
		return let_go_of_gone(l, e);
	}
	if (l->in_push_cnt == 1) {
		l->smaller = 0;
		return set_aside(l, drop, e);
	}
	l->windows_max = drop == SINK_DROP_TOO_LARGE ? l->in_push_cnt / 2 : 1;
	l->stats->retries++;
	return let_go_of_gone(l, e);
}

/* --- the whole --- */

static int start_request(struct lane *l, struct err *e)
{
	struct err why = { 0 };
	int err = http_call__start(l->call, l->url_number, &l->push.requests[l->request_at], &why);

	if (err == -PYE_EUSAGE) {
		wait_for(l, NULL, SINK_HELD, &why);
		return 0;
	}
	if (err) {
		*e = why;
		return err;
	}
	l->flying = true;
	l->stats->requests++;
	tell(l, SINK_SENDING, l->failures ? l->stats->last_error : NULL);
	return 0;
}

int lane__start(struct lane *l, struct err *e)
{
	int err = 0;

	/* what is kept from a try before may have become too old */
	for (uint32_t i = 0; i < l->in_push_cnt && !err; i++)
		if (is_too_old(l, l->in_push[i])) {
			err = let_go_of_gone(l, e);
			break;
		}
	if (!err && !l->push.request_cnt)
		err = build(l, e);
	if (err || !l->push.request_cnt) {
		if (err)
			let_go(l);
		return err;
	}
	return start_request(l, e);
}

/* The first time a part of it: agents that were started at once do not push at once for ever. */
static void rest(struct lane *l)
{
	uint64_t interval = l->spec->interval_ns;

	if (interval)
		l->rest_ns = now_ns() + (l->rest_ns ? interval : 1 + random_below(interval));
}

static int all_sent(struct lane *l, struct err *e)
{
	int err;

	if (l->ops->sent)
		l->ops->sent(l->self, &l->push);
	l->failures = 0;
	l->stats->last_sent_ns = wall_ns();
	/* it was too much for a while; perhaps it is not any more */
	l->windows_max = l->windows_max * 2 < l->ops->windows_max ? l->windows_max * 2
								  : l->ops->windows_max;
	err = settle(l, true, 0, e);
	absolve(l);
	if (!l->stats->owed) {
		rest(l);
		tell(l, SINK_IDLE, NULL);
	}
	return err;
}

/* The request at hand was. */
static int taken(struct lane *l, struct err *e)
{
	const struct sink_request *r = &l->push.requests[l->request_at++];
	int err = 0;

	l->stats->sent_bytes += r->body.len;
	if (l->request_at == l->push.request_cnt)
		return all_sent(l, e);
	if (l->ops->parts)
		err = spool__part(l->spool, l->number, l->in_push[0], &r->then, e);
	return err ? err : start_request(l, e);
}

static void count_answer(struct lane *l, const struct http_result *r)
{
	long class = r->reply.status / 100;

	l->stats->by_class[class >= 1 && class <= 5 ? class : 0]++;
	l->stats->request_ns += r->took_ns;
	if (r->took_ns > l->stats->request_max_ns)
		l->stats->request_max_ns = r->took_ns;
}

int lane__answer(struct lane *l, const struct http_result *r, struct err *e)
{
	enum sink_verdict verdict = SINK_RETRY;

	l->flying = false;
	count_answer(l, r);
	if (!r->reply.status)
		err_set(e, -PYE_EOUTPUT, "no answer: %s", r->why);
	else
		verdict = l->ops->judge(l->self, &r->reply, e);
	switch (verdict) {
	case SINK_OK:
		e->what[0] = '\0';
		return taken(l, e);
	case SINK_AGAIN:
		return let_go_of_gone(l, e);
	case SINK_HOLD:
		wait_for(l, r, SINK_HELD, e);
		return let_go_of_gone(l, e);
	case SINK_SPLIT:
		return split(l, SINK_DROP_TOO_LARGE, e);
	case SINK_DROP:
		return split(l, SINK_DROP_REFUSED, e);
	default:
		return retry(l, r, e);
	}
}
