/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as a stream of values with their paths, like "threads[].samples.stack[]": nothing is kept. What is read is
 * hostile: its depth, and the length of each of its texts, are bounded. */
#ifndef PYEBPF_BASE_JSON_READ_H
#define PYEBPF_BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	JSON_DEPTH_MAX = 64,
	JSON_PATH_MAX = 256,
	JSON_DONE = 1 /* a callback has seen enough */
};

enum json_type {
	JSON_NULL,
	JSON_BOOL, /* s is "true" or "false" */
	JSON_NUMBER, /* s is its digits, number its value */
	JSON_STRING
};

struct json_value {
	enum json_type type;
	const char *s; /* borrowed, not NUL-terminated */
	size_t len;
	double number;
};

/**
 * struct json_reader - who reads, and where it is
 * @open:  a list or an object begins, of this path
 * @close: it has ended
 * @key:   an object has this member; NULL: not wanted
 * @path:  of the value at hand; a member of something too deep or with too long a name has none that is right
 *
 * Callbacks return 0, JSON_DONE or a negative number.
 */
struct json_reader {
	void *ctx;
	int (*open)(void *ctx, bool is_list);
	int (*close)(void *ctx, bool is_list);
	int (*key)(void *ctx);
	int (*value)(void *ctx, const struct json_value *v);
	char path[JSON_PATH_MAX];
	/* of json_feed */
	uint32_t path_len, depth, base[JSON_DEPTH_MAX];
	bool is_list[JSON_DEPTH_MAX];
	bool called; /* a callback since the last piece */
	int err;
	struct err *e;
};

/* How its bytes are to be taken. */
struct json_feed_opts {
	bool several; /* one value after the other, as in a stream of lines */
	size_t text_max; /* bytes of a text or number that comes in pieces */
};

struct json_feed;

/**
 * json_feed__new - a parser that is fed with pieces of any length
 * @r:  borrowed; its callbacks are called from json_feed__put() and json_feed__end()
 * @e:  borrowed; the sentences of errors
 *
 * Return: 0 or -ENOMEM.
 */
int json_feed__new(struct json_feed **out, struct json_reader *r, const struct json_feed_opts *opts,
		   struct err *e);
void json_feed__free(struct json_feed *f); /* NULL is fine */

static inline void json_feed__freep(struct json_feed **f)
{
	json_feed__free(*f);
}

/* json_feed__put - the next bytes. Return: 0, JSON_DONE, -PYE_EFORMAT with a sentence, or what a callback said;
 * after anything but 0 no more. */
int json_feed__put(struct json_feed *f, const void *data, size_t len);

/* json_feed__end - there is no more. Return: as json_feed__put(). */
int json_feed__end(struct json_feed *f);

#endif
