/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which windows of a store need not be sent any more, and where: a table beside the catalogue, since it holds what cannot be made again from
 * the windows. What is in no row is owed. If it is lost, windows are sent again, and the server tells.
 *
 * On a full disk what is noted stays in memory until there is room, and counts: only who ends before that sends again.
 *
 * One process has it open.
 */
#ifndef PYEBPF_STORE_OUTBOX_H
#define PYEBPF_STORE_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct outbox;

/* How much of a window a server has that stores its parts one by one. */
struct outbox_progress {
	uint32_t parts, samples; /* of the profile, in its order */
};

/**
 * outbox__open - open that of a store, or make one
 * @dir: of the store, which is there
 *
 * One that is damaged is made again.
 *
 * Return: 0; -PYE_EOUTPUT with a sentence, also when another process has it; -ENOSPC: there is no room for a new one; -ENOMEM.
 */
int outbox__open(struct outbox **out, const char *dir, struct err *e);
void outbox__free(struct outbox *o);

/* outbox__begin, outbox__commit - many changes as one. 0 or an error with a sentence. */
int outbox__begin(struct outbox *o, struct err *e);
int outbox__commit(struct outbox *o, struct err *e);

/* outbox__settle - a window of a sink is not owed any more; @how: 0: it was sent, else why not. */
int outbox__settle(struct outbox *o, const char *sink, const char *file, unsigned int how,
		   struct err *e);

/* outbox__settled - 1, 0 or an error. */
int outbox__settled(struct outbox *o, const char *sink, const char *file, struct err *e);

/* outbox__part - so much of a window, which is owed, was sent. */
int outbox__part(struct outbox *o, const char *sink, const char *file,
		 const struct outbox_progress *progress, struct err *e);

/* outbox__parts - what was said last; zeros when nothing was. 0 or an error. */
int outbox__parts(struct outbox *o, const char *sink, const char *file, struct outbox_progress *out,
		  struct err *e);

/* outbox__forget - the window is gone. */
int outbox__forget(struct outbox *o, const char *file, struct err *e);

/* outbox__each - all files that are in it; @fn must not change it. 0, what @fn returned, or an error. */
int outbox__each(struct outbox *o, int (*fn)(void *ctx, const char *file), void *ctx,
		 struct err *e);

#endif
