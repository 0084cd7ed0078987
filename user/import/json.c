// SPDX-License-Identifier: Apache-2.0
#include "import/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yajl/yajl_parse.h>

#include "base/log.h"

/* A single text or number that needs more input than this is none of a profile. */
#define VALUE_BYTES_MAX (16u << 20)

static int append(struct json_reader *r, const char *s, size_t len)
{
	if (r->path_len + len >= JSON_PATH_MAX) {
		s = "?"; /* too long to be one that is looked for */
		len = r->path_len + 1 < JSON_PATH_MAX;
	}
	memcpy(r->path + r->path_len, s, len);
	r->path_len += (uint32_t)len;
	r->path[r->path_len] = '\0';
	return 0;
}

static int result(struct json_reader *r, int err)
{
	r->err = r->err ? r->err : err;
	return !r->err;
}

static int on_value(void *ctx, enum json_type type, const char *s, size_t len, double number)
{
	struct json_reader *r = ctx;
	const struct json_value v = { .type = type, .s = s, .len = len, .number = number };

	r->called = true;
	return result(r, r->value(r->ctx, &v));
}

static int on_null(void *ctx)
{
	return on_value(ctx, JSON_NULL, "", 0, 0);
}

static int on_bool(void *ctx, int value)
{
	return on_value(ctx, JSON_BOOL, value ? "true" : "false", value ? 4 : 5, value);
}

static int on_number(void *ctx, const char *s, size_t len)
{
	char copy[64];
	size_t n = len < sizeof(copy) ? len : sizeof(copy) - 1;

	memcpy(copy, s, n);
	copy[n] = '\0';
	return on_value(ctx, JSON_NUMBER, s, len, strtod(copy, NULL));
}

static int on_string(void *ctx, const unsigned char *s, size_t len)
{
	return on_value(ctx, JSON_STRING, (const char *)s, len, 0);
}

static int on_key(void *ctx, const unsigned char *s, size_t len)
{
	struct json_reader *r = ctx;

	r->called = true;
	r->path_len = r->base[r->depth - 1];
	if (r->depth > 1)
		append(r, ".", 1);
	append(r, (const char *)s, len);
	return result(r, r->key ? r->key(r->ctx) : 0);
}

static int on_open(struct json_reader *r, bool is_list)
{
	r->called = true;
	if (r->depth == JSON_DEPTH_MAX)
		return result(r, err_set(r->s->e, -PYE_EFORMAT,
					 "the JSON is nested more than %d deep", JSON_DEPTH_MAX));
	if (!result(r, r->open(r->ctx, is_list)))
		return 0;
	if (is_list)
		append(r, "[]", 2);
	r->is_list[r->depth] = is_list;
	r->base[r->depth++] = r->path_len;
	return 1;
}

/* Back to the path of what was opened. */
static int on_close(struct json_reader *r, bool is_list)
{
	r->called = true;
	r->depth--;
	r->path_len = r->base[r->depth];
	if (is_list && r->path_len >= 2 && r->path[r->path_len - 1] == ']')
		r->path_len -= 2;
	r->path[r->path_len] = '\0';
	return result(r, r->close ? r->close(r->ctx, is_list) : 0);
}

static int on_map_open(void *ctx)
{
	return on_open(ctx, false);
}

static int on_map_close(void *ctx)
{
	return on_close(ctx, false);
}

static int on_list_open(void *ctx)
{
	return on_open(ctx, true);
}

static int on_list_close(void *ctx)
{
	return on_close(ctx, true);
}

static int not_json(struct json_reader *r, uint64_t offset)
{
	return err_set(r->s->e, -PYE_EFORMAT, "the JSON is damaged at byte %" PRIu64, offset);
}

static int parse(yajl_handle y, struct json_reader *r)
{
	struct source *s = r->s;
	uint64_t silent = 0;
	yajl_status status;
	int more;

	while ((more = source__fill(s)) > 0) {
		r->called = false;
		status = yajl_parse(y, s->buf + s->at, s->len - s->at);
		if (r->err)
			return r->err;
		if (status != yajl_status_ok)
			return not_json(r, source__offset(s) + yajl_get_bytes_consumed(y));
		silent = r->called ? 0 : silent + s->len - s->at;
		if (silent > VALUE_BYTES_MAX)
			return err_set(s->e, -PYE_EFORMAT,
				       "a text in the JSON is longer than 16 MB");
		s->at = s->len;
	}
	if (more < 0)
		return more;
	status = yajl_complete_parse(y);
	if (r->err)
		return r->err;
	if (status != yajl_status_ok || r->depth)
		return err_set(s->e, -PYE_EFORMAT, "the JSON is cut after %" PRIu64 " bytes",
			       source__offset(s));
	return 0;
}

/* yajl takes it for granted that there is memory. What it has is small: a text at most. */
static void *sure(void *p)
{
	if (!p) {
		log_err("out of memory");
		_exit(1);
	}
	return p;
}

static void *sure_malloc(void *ctx, size_t size)
{
	(void)ctx;
	return sure(malloc(size));
}

static void *sure_realloc(void *ctx, void *old, size_t size)
{
	(void)ctx;
	return sure(realloc(old, size ? size : 1));
}

static void sure_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

int json_read(struct source *s, struct json_reader *r)
{
	static const yajl_callbacks callbacks = { .yajl_null = on_null,
						  .yajl_boolean = on_bool,
						  .yajl_number = on_number,
						  .yajl_string = on_string,
						  .yajl_start_map = on_map_open,
						  .yajl_map_key = on_key,
						  .yajl_end_map = on_map_close,
						  .yajl_start_array = on_list_open,
						  .yajl_end_array = on_list_close };
	yajl_alloc_funcs memory = { sure_malloc, sure_realloc, sure_free, NULL };
	yajl_handle y = yajl_alloc(&callbacks, &memory, r);
	int err;

	if (!y)
		return -ENOMEM;
	/* names of files need not be UTF-8; what prints them looks at each character */
	yajl_config(y, yajl_dont_validate_strings, 1);
	r->s = s;
	r->path[0] = '\0';
	err = parse(y, r);
	yajl_free(y);
	return err;
}

/* The members that tell one format from the others. */
static const struct {
	const char *path;
	const struct importer *importer;
	const char *refused;
} marks[] = {
	{ "profiles", &import_speedscope, NULL },
	{ "activeProfileIndex", &import_speedscope, NULL },
	{ "threads", &import_firefox, NULL },
	{ "libs", &import_firefox, NULL },
	{ "meta.preprocessedProfileVersion", &import_firefox, NULL },
	{ "traceEvents", NULL, "Chrome trace events" },
	{ "nodes", NULL, "a profile of JavaScript" },
};

struct chooser {
	struct json_reader r;
	const struct importer *importer;
	const char *refused;
};

static int look(void *ctx)
{
	struct chooser *c = ctx;

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		if (strcmp(c->r.path, marks[i].path) != 0)
			continue;
		c->importer = marks[i].importer;
		c->refused = marks[i].refused;
		return JSON_DONE;
	}
	return 0;
}

static int ignore(void *ctx, const struct json_value *v)
{
	(void)ctx, (void)v;
	return 0;
}

static int ignore_open(void *ctx, bool is_list)
{
	(void)ctx, (void)is_list;
	return 0;
}

int json_choose(struct source *s, const struct importer **out)
{
	struct chooser c = { .r = { .open = ignore_open, .key = look, .value = ignore } };
	int err;

	c.r.ctx = &c;
	err = json_read(s, &c.r);
	if (err < 0)
		return err;
	*out = c.importer;
	if (*out)
		return 0;
	return err_set(s->e, -PYE_EFORMAT,
		       c.refused ? "the file holds %s, which pyebpf does not read"
				 : "the JSON is neither a %s profile",
		       c.refused ? c.refused : "firefox nor a speedscope");
}
