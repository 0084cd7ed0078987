/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as a stream of values with their paths, like "threads[].samples.stack[]": nothing is kept. */
#ifndef PYEBPF_IMPORT_JSON_H
#define PYEBPF_IMPORT_JSON_H

#include "import/importers.h"

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
	/* of json_read() */
	uint32_t path_len, depth, base[JSON_DEPTH_MAX];
	bool is_list[JSON_DEPTH_MAX];
	bool called; /* a callback since the last piece */
	int err;
	struct source *s;
};

/* json_read - read all of @s. Return: 0, JSON_DONE, -PYE_EFORMAT with a sentence, or an error. */
int json_read(struct source *s, struct json_reader *r);

/* json_choose - the importer of an input in JSON, by its first members. */
int json_choose(struct source *s, const struct importer **out);

#endif
