// SPDX-License-Identifier: Apache-2.0
#include "sink/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/grow.h"

#define SECOND	     1000000000ll
#define WINDOW_MAX_S 86400

static const char window_end[] = ".pb.gz";

static struct sink_stats *stats_of(struct spool *s, uint32_t sink)
{
	return &s->shared->sinks[sink];
}

static bool is_window(const char *name)
{
	size_t len = strlen(name), end = strlen(window_end);

	return len > end && len <= NAME_MAX && *name != '.' &&
	       !strcmp(name + len - end, window_end);
}

/* The end of 20261122T010203Z-60s-...; one that is called otherwise is of now. */
static int64_t end_by_name(const char *name)
{
	struct tm tm = { 0 };
	const char *rest = strptime(name, "%Y%m%dT%H%M%SZ-", &tm);
	char *end = NULL;
	unsigned long length = rest ? strtoul(rest, &end, 10) : 0;

	if (!rest || end == rest || strncmp(end, "s-", 2) != 0 || length > WINDOW_MAX_S)
		return wall_ns();
	return ((int64_t)timegm(&tm) + (int64_t)length) * SECOND;
}

/* --- the list --- */

/* Where a name is, or would be. Most come at the end. */
static uint32_t place_of(const struct spool *s, const char *name)
{
	uint32_t from = 0, to = s->cnt;

	if (to && strcmp(s->windows[to - 1]->file, name) < 0)
		return to;
	while (from < to) {
		uint32_t middle = (from + to) / 2;

		if (strcmp(s->windows[middle]->file, name) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static struct spool_window *find(const struct spool *s, const char *name)
{
	uint32_t at = place_of(s, name);

	return at < s->cnt && !strcmp(s->windows[at]->file, name) ? s->windows[at] : NULL;
}

static void window_free(struct spool_window *w)
{
	free(w->file);
	free(w);
}

static void drop_from_list(struct spool *s, struct spool_window *w)
{
	uint32_t at = place_of(s, w->file);

	memmove(s->windows + at, s->windows + at + 1, (s->cnt - at - 1) * sizeof(*s->windows));
	s->cnt--;
	window_free(w);
}

static void count_owed(struct spool *s, const struct spool_window *w, uint32_t sink, bool more)
{
	struct sink_stats *st = stats_of(s, sink);

	st->owed += more ? 1 : UINT64_MAX;
	st->owed_bytes += more ? w->bytes : -w->bytes;
}

static void note_oldest(struct spool *s)
{
	for (uint32_t i = 0; i < s->sinks->cnt; i++) {
		int64_t oldest = 0;

		for (uint32_t k = 0; k < s->cnt && !oldest; k++)
			if (s->windows[k]->owed >> i & 1)
				oldest = s->windows[k]->end_ns;
		stats_of(s, i)->oldest_owed_ns = oldest;
	}
}

static int add_to_list(struct spool *s, const char *name, uint64_t bytes, uint32_t owed)
{
	struct spool_window *w = calloc(1, sizeof(*w));
	uint32_t at = place_of(s, name);

	if (!w || GROW(s->windows, s->cap, s->cnt)) {
		free(w);
		return -ENOMEM;
	}
	w->file = strdup(name);
	if (!w->file) {
		free(w);
		return -ENOMEM;
	}
	w->end_ns = end_by_name(name);
	w->bytes = bytes;
	w->owed = owed;
	memmove(s->windows + at + 1, s->windows + at, (s->cnt - at) * sizeof(*s->windows));
	s->windows[at] = w;
	s->cnt++;
	for (uint32_t i = 0; i < s->sinks->cnt; i++) {
		if (!(owed >> i & 1))
			continue;
		stats_of(s, i)->seen++;
		count_owed(s, w, i, true);
	}
	return 0;
}

/* --- what is in the folder --- */

static int take_in(struct spool *s, const char *name, struct err *e)
{
	uint32_t owed = 0;
	struct stat st;

	if (!is_window(name) || find(s, name) ||
	    fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return 0;
	for (uint32_t i = 0; i < s->sinks->cnt; i++) {
		int settled = outbox__settled(s->outbox, s->sinks->items[i].name, name, e);

		if (settled < 0)
			return settled;
		owed |= settled ? 0 : 1u << i;
	}
	if (!owed)
		return 0;
	s->changed_ns = now_ns();
	return add_to_list(s, name, (uint64_t)st.st_size, owed);
}

/* What is in a push is in memory, and can still be sent. */
static int take_out(struct spool *s, const char *name, struct err *e)
{
	struct spool_window *w = find(s, name);
	int err = is_window(name) ? outbox__forget(s->outbox, name, e) : 0;

	if (!w)
		return err;
	w->gone = true;
	for (uint32_t i = 0; i < s->sinks->cnt; i++) {
		if (!(w->owed >> i & 1) || w->flying >> i & 1)
			continue;
		w->owed &= ~(1u << i);
		count_owed(s, w, i, false);
		stats_of(s, i)->dropped[SINK_DROP_EVICTED]++;
	}
	if (!w->owed)
		drop_from_list(s, w);
	return err;
}

static int close_dir(DIR *dir, int err)
{
	closedir(dir);
	return err;
}

struct gone {
	const struct spool *s;
	char **names;
	uint32_t cnt, cap;
};

static int note_gone(struct gone *g, const char *name)
{
	if (!faccessat(g->s->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (GROW(g->names, g->cap, g->cnt))
		return -ENOMEM;
	g->names[g->cnt] = strdup(name);
	return g->names[g->cnt++] ? 0 : -ENOMEM;
}

static int note_settled(void *ctx, const char *name)
{
	return note_gone(ctx, name);
}

static int remove_gone(struct spool *s, struct err *e)
{
	struct gone gone = { .s = s };
	int err = outbox__each(s->outbox, note_settled, &gone, e);

	for (uint32_t i = 0; i < s->cnt && !err; i++)
		err = note_gone(&gone, s->windows[i]->file);
	for (uint32_t i = 0; i < gone.cnt; i++) {
		err = err ? err : take_out(s, gone.names[i], e);
		free(gone.names[i]);
	}
	free(gone.names);
	return err;
}

static int look_through(struct spool *s, struct err *e)
{
	int copy = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;
	int err;

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return err_set(e, -PYE_EOUTPUT, "the store cannot be read: %s", strerror(errno));
	}
	err = outbox__begin(s->outbox, e);
	err = err ? err : remove_gone(s, e);
	while (!err && (entry = readdir(dir)))
		err = take_in(s, entry->d_name, e);
	err = err ? err : outbox__commit(s->outbox, e);
	return close_dir(dir, err);
}

/* --- opening --- */

int spool__open(struct spool *s, const char *dir, const struct sink_list *sinks,
		struct sink_shared *shared, struct err *e)
{
	int err;

	*s = (struct spool){ .dir_fd = -1, .watch_fd = -1, .sinks = sinks, .shared = shared };
	s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0 && errno == ENOENT)
		return -ENOENT;
	s->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	/* before it is looked through, so that nothing is missed */
	if (s->dir_fd < 0 || s->watch_fd < 0 ||
	    inotify_add_watch(s->watch_fd, dir,
			      IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM) < 0)
		return err_set(e, -PYE_EOUTPUT, "the store %s cannot be read: %s", dir,
			       strerror(errno));
	err = outbox__open(&s->outbox, dir, e);
	err = err ? err : look_through(s, e);
	if (err)
		return err;
	note_oldest(s);
	shared->ready = 1;
	return 0;
}

void spool__done(struct spool *s)
{
	for (uint32_t i = 0; i < s->cnt; i++)
		window_free(s->windows[i]);
	free(s->windows);
	outbox__free(s->outbox);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	if (s->watch_fd >= 0)
		close(s->watch_fd);
	*s = (struct spool){ .dir_fd = -1, .watch_fd = -1 };
}

static int take_event(struct spool *s, const struct inotify_event *event, struct err *e)
{
	if (event->mask & IN_Q_OVERFLOW)
		return look_through(s, e);
	if (!event->len)
		return 0;
	return event->mask & (IN_DELETE | IN_MOVED_FROM) ? take_out(s, event->name, e)
							 : take_in(s, event->name, e);
}

int spool__look(struct spool *s, struct err *e)
{
	char buf[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool any = false;
	ssize_t len;
	int err = 0;

	while (!err && (len = read(s->watch_fd, buf, sizeof(buf))) > 0) {
		any = true;
		for (ssize_t at = 0; at < len && !err;) {
			const struct inotify_event *event = (const void *)(buf + at);

			err = take_event(s, event, e);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
	if (any)
		note_oldest(s);
	return err;
}

/* --- the end of windows --- */

static int write_down(struct spool *s, uint32_t sink, struct spool_window *const *windows,
		      uint32_t cnt, unsigned int how, struct err *e)
{
	int err = outbox__begin(s->outbox, e);

	for (uint32_t i = 0; i < cnt && !err; i++)
		if (!windows[i]->gone)
			err = outbox__settle(s->outbox, s->sinks->items[sink].name,
					     windows[i]->file, how, e);
	return err ? err : outbox__commit(s->outbox, e);
}

int spool__settle(struct spool *s, uint32_t sink, struct spool_window *const *windows, uint32_t cnt,
		  bool sent, enum sink_drop drop, struct err *e)
{
	struct sink_stats *st = stats_of(s, sink);
	int err = write_down(s, sink, windows, cnt, sent ? 0 : drop + 1, e);

	for (uint32_t i = 0; i < cnt; i++) {
		struct spool_window *w = windows[i];

		w->owed &= ~(1u << sink);
		w->flying &= ~(1u << sink);
		count_owed(s, w, sink, false);
		if (!w->owed)
			drop_from_list(s, w);
	}
	*(sent ? &st->sent : &st->dropped[drop]) += cnt;
	note_oldest(s);
	return err;
}

int spool__part(struct spool *s, uint32_t sink, const struct spool_window *w,
		const struct outbox_progress *progress, struct err *e)
{
	/* without its file nobody asks for it again */
	return w->gone ? 0
		       : outbox__part(s->outbox, s->sinks->items[sink].name, w->file, progress, e);
}

int spool__progress(struct spool *s, uint32_t sink, const struct spool_window *w,
		    struct outbox_progress *out, struct err *e)
{
	return outbox__parts(s->outbox, s->sinks->items[sink].name, w->file, out, e);
}
