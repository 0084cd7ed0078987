// SPDX-License-Identifier: Apache-2.0
/*
 * The flight recorder: chunks that would go to a file stay in memory, and the older ones are forgotten.
 * A file can begin only where all open frames are known, so now and then a chunk begins with those of
 * all threads; it and what follows up to the next such one are a group, which is forgotten as a whole.
 * An eighth of what is to be kept makes a group: the frames of all threads are not repeated too often,
 * and no more than an eighth is kept too much, or too little when the bytes decide.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capfile/writer_priv.h"

#define KEEP_BYTES	(256u << 20) /* default */
#define KEEP_BYTES_MIN	(1u << 20)
#define CHUNK_BYTES_MIN (64u << 10)
#define GROUPS		8u

void capw_keep_init(struct capw *w, const struct capw_opts *opts)
{
	struct keep *k = &w->keep;
	size_t chunk;

	k->ns = opts->keep_ns;
	k->bytes_max = opts->keep_bytes ? opts->keep_bytes : KEEP_BYTES;
	if (k->bytes_max < KEEP_BYTES_MIN)
		k->bytes_max = KEEP_BYTES_MIN;
	k->end = &k->first;
	k->begins = true;
	capw_chunk_totals(w, &k->base);
	k->base.end_ns = w->start_ns;
	chunk = k->bytes_max / GROUPS / 2;
	if (w->chunk_bytes > chunk)
		w->chunk_bytes = chunk > CHUNK_BYTES_MIN ? chunk : CHUNK_BYTES_MIN;
}

/* Where the group after the first one begins; NULL: there is one only. */
static struct kept *second(const struct keep *k)
{
	struct kept *c = k->first;

	for (c = c ? c->next : NULL; c && !c->begins; c = c->next)
		continue;
	return c;
}

static void forget_first(struct keep *k, const struct kept *until)
{
	while (k->first != until) {
		struct kept *c = k->first;

		k->first = c->next;
		k->bytes -= c->len;
		k->dropped_chunks++;
		free(c);
	}
}

static void forget(struct keep *k, uint64_t now_ns)
{
	struct kept *next;

	while ((next = second(k))) {
		bool old = next->base.end_ns + k->ns <= now_ns;

		if (!old && k->bytes <= k->bytes_max)
			return;
		k->full = !old;
		forget_first(k, next);
	}
}

int capw_keep_add(struct capw *w, const uint8_t *chunk, size_t len, uint64_t min_ns)
{
	struct keep *k = &w->keep;
	struct kept *c = malloc(sizeof(*c) + len);

	if (!c)
		return -ENOMEM;
	c->next = NULL;
	c->begins = k->begins;
	c->base = k->base;
	c->min_ns = min_ns;
	c->len = len;
	memcpy(c->data, chunk, len);
	*k->end = c;
	k->end = &c->next;
	k->begins = false;
	k->bytes += len;
	k->group_bytes += len;
	return 0;
}

void capw_keep_tick(struct capw *w, uint64_t now_ns)
{
	struct keep *k = &w->keep;

	forget(k, now_ns);
	if (k->begins ||
	    (now_ns < k->base.end_ns + k->ns / GROUPS && k->group_bytes < k->bytes_max / GROUPS))
		return;
	k->begins = true;
	k->group_bytes = 0;
	capw_chunk_totals(w, &k->base);
	k->base.end_ns = now_ns;
	capw_join_all(w);
}

static uint64_t start_of(const struct capw *w)
{
	const struct keep *k = &w->keep;
	uint64_t start = UINT64_MAX;

	if (!k->dropped_chunks)
		return w->start_ns;
	for (const struct kept *c = k->first; c; c = c->next)
		if (c->min_ns < start)
			start = c->min_ns;
	return start == UINT64_MAX ? w->last_ns : start;
}

static int dump(struct capw *w)
{
	const struct keep *k = &w->keep;
	const struct trace_before before = { .keep_ns = k->ns, .chunks = k->dropped_chunks };
	const struct trace_totals *base = k->first ? &k->first->base : &k->base;
	int err = capw_chunk_write_info(w, start_of(w), base, &before);

	for (struct kept *c = k->first; c && !err; c = c->next) {
		capw_chunk_number(c->data, w->chunk_seq++);
		err = capw_chunk_write_all(w, c->data, c->len);
	}
	return err ? err : capw_chunk_write_end(w);
}

int capw__dump(struct capw *w, int fd)
{
	uint64_t file_bytes = w->file_bytes, chunk_seq = w->chunk_seq;
	int err, write_err = w->write_err, own_fd = w->fd;

	w->fd = fd;
	w->file_bytes = w->chunk_seq = 0;
	err = dump(w);
	w->fd = own_fd;
	w->file_bytes = file_bytes;
	w->chunk_seq = chunk_seq;
	w->write_err = write_err;
	return err;
}

void capw__kept(const struct capw *w, struct capw_kept *out)
{
	const struct keep *k = &w->keep;

	*out = (struct capw_kept){ .start_ns = k->first ? k->first->base.end_ns : k->base.end_ns,
				   .bytes = k->bytes,
				   .dropped_chunks = k->dropped_chunks,
				   .full = k->full };
}

void capw_keep_done(struct capw *w)
{
	forget_first(&w->keep, NULL);
}
