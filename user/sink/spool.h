/* SPDX-License-Identifier: Apache-2.0 */
/* The windows of a store that are owed to a sink: found when it is opened, then as they come and go. */
#ifndef PYEBPF_SINK_SPOOL_H
#define PYEBPF_SINK_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "sink/stats.h"
#include "store/outbox.h"

struct spool_window {
	char *file;
	int64_t end_ns; /* by its name */
	uint64_t bytes;
	uint32_t owed; /* bit of each sink */
	uint32_t flying; /* in a push of it */
	bool gone; /* no file any more */
	uint32_t suspect; /* failed there since something was taken */
	uint8_t tries[SINK_MAX]; /* that failed there, with an answer */
	uint8_t strikes[SINK_MAX]; /* it failed there while others were taken before and after */
};

struct spool {
	int dir_fd, watch_fd; /* watch_fd is to be waited for */
	struct outbox *outbox;
	const struct sink_list *sinks;
	struct sink_shared *shared;
	struct spool_window **windows; /* by name, that is by time */
	uint32_t cnt, cap;
	uint64_t changed_ns; /* when one came last; monotonic */
};

/**
 * spool__open - look through a store
 * @s:      initialised by this; release with spool__done() in any case
 * @sinks:  borrowed, as @shared, whose names are set by now
 *
 * Return: 0; -ENOENT: there is no such folder so far; -PYE_EOUTPUT with a sentence; -ENOMEM.
 */
int spool__open(struct spool *s, const char *dir, const struct sink_list *sinks,
		struct sink_shared *shared, struct err *e);
void spool__done(struct spool *s);

/* spool__look - take in what has come and gone; does not wait. As spool__open(). */
int spool__look(struct spool *s, struct err *e);

/**
 * spool__settle - windows are not owed to a sink any more
 * @windows: borrowed; none of them may be used afterwards
 * @sent:    else they are dropped, for reason @drop
 *
 * Return: 0, or -PYE_EOUTPUT with a sentence: it is so as long as this process runs.
 */
int spool__settle(struct spool *s, uint32_t sink, struct spool_window *const *windows, uint32_t cnt,
		  bool sent, enum sink_drop drop, struct err *e);

/* spool__part - a part of a window was taken: it will not be sent again. 0, or -PYE_EOUTPUT with a sentence. */
int spool__part(struct spool *s, uint32_t sink, const struct spool_window *w,
		const struct outbox_progress *progress, struct err *e);

/* spool__progress - what was noted last. As above. */
int spool__progress(struct spool *s, uint32_t sink, const struct spool_window *w,
		    struct outbox_progress *out, struct err *e);

#endif
