// SPDX-License-Identifier: Apache-2.0
/* What the store keeps: the oldest windows go first. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/catalogue.h"
#include "store/store_priv.h"

#define STEP	       64 /* windows removed between two looks at the catalogue */
#define CATALOGUE_ROOM (256u << 10) /* to write it to disk again */

struct oldest {
	char names[STEP][NAME_MAX + 1];
	uint64_t bytes[STEP];
	int64_t end_ns[STEP];
	unsigned int cnt;
};

static int note(void *ctx, const struct store_window *w)
{
	struct oldest *o = ctx;

	if (strlen(w->file) > NAME_MAX)
		return -PYE_EFORMAT;
	strcpy(o->names[o->cnt], w->file);
	o->bytes[o->cnt] = w->bytes;
	o->end_ns[o->cnt] = w->end_ns;
	return ++o->cnt == STEP;
}

/* Windows that are too old, or too many, among the oldest; 1 when there may be more of them. */
static int trim_some(struct store *s, int64_t oldest_ns, uint64_t max_bytes, uint64_t *held,
		     struct store_trimmed *removed, struct err *e)
{
	auto_free struct oldest *o = calloc(1, sizeof(*o));
	int err;

	if (!o)
		return -ENOMEM;
	err = catalogue__each(s->catalogue, INT64_MIN, INT64_MAX, note, o, e);
	if (err < 0)
		return err;
	for (unsigned int i = 0; i < o->cnt; i++) {
		bool old = o->end_ns[i] < oldest_ns;

		if (!old && (!max_bytes || *held <= max_bytes))
			return 0;
		if (unlinkat(s->dir_fd, o->names[i], 0) && errno != ENOENT)
			return err_set(e, -PYE_EOUTPUT, "the window %s cannot be removed: %s",
				       o->names[i], strerror(errno));
		err = catalogue__remove(s->catalogue, o->names[i], e);
		err = err == -ENOSPC ? store_leave_disk(s, e) : err;
		if (err)
			return err;
		*held -= o->bytes[i] < *held ? o->bytes[i] : *held;
		removed->bytes += o->bytes[i];
		*(old ? &removed->by_age : &removed->by_bytes) += 1;
	}
	return o->cnt == STEP;
}

static int trim(struct store *s, int64_t now_ns, const struct store_limits *limits,
		struct store_trimmed *removed, struct err *e)
{
	int64_t oldest_ns = limits->max_age_ns ? now_ns - limits->max_age_ns : INT64_MIN;
	uint64_t held;
	int err = catalogue__bytes(s->catalogue, &held, e);

	err = err ? err : 1;
	while (err == 1)
		err = trim_some(s, oldest_ns, limits->max_bytes, &held, removed, e);
	return err;
}

int store__trim(struct store *s, int64_t now_ns, const struct store_limits *limits,
		struct store_trimmed *removed, struct err *e)
{
	struct statvfs disk;
	int err, end;

	if (s->off_disk && !fstatvfs(s->dir_fd, &disk) &&
	    disk.f_bavail * disk.f_frsize >= CATALOGUE_ROOM)
		store_back_to_disk(s);
	store__together_begin(s);
	err = trim(s, now_ns, limits, removed, e);
	end = store__together_end(s, e);
	return err ? err : end;
}

int store__make_room(struct store *s, uint64_t bytes, uint64_t keep, struct store_trimmed *removed,
		     struct err *e)
{
	struct store_limits limits = { 0 };
	uint64_t held;
	int err = catalogue__bytes(s->catalogue, &held, e);

	if (err)
		return err;
	limits.max_bytes = held > keep && held - keep > bytes ? held - bytes : keep;
	limits.max_bytes += !limits.max_bytes; /* 0 is no limit */
	return trim(s, 0, &limits, removed, e);
}
