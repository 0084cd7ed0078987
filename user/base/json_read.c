// SPDX-License-Identifier: Apache-2.0
#include "base/json_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yajl/yajl_parse.h>

#include "base/log.h"

struct json_feed {
	yajl_handle yajl;
	struct json_reader *reader;
	struct json_feed_opts opts;
	uint64_t passed, silent; /* bytes so far; those since a callback */
};

static int append(struct json_reader *r, const char *s, size_t len)
{
	if (r->path_len + len >= JSON_PATH_MAX || memchr(s, '\0', len)) {
		s = "?"; /* none that is looked for */
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
		return result(r, err_set(r->e, -PYE_EFORMAT, "the JSON is nested more than %d deep",
					 JSON_DEPTH_MAX));
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

int json_feed__new(struct json_feed **out, struct json_reader *r, const struct json_feed_opts *opts,
		   struct err *e)
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
	struct json_feed *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	*f = (struct json_feed){ .reader = r, .opts = *opts };
	f->yajl = yajl_alloc(&callbacks, &memory, r);
	if (!f->yajl) {
		free(f);
		return -ENOMEM;
	}
	/* names need not be UTF-8; what prints them looks at each character */
	yajl_config(f->yajl, yajl_dont_validate_strings, 1);
	yajl_config(f->yajl, yajl_allow_multiple_values, opts->several);
	r->e = e;
	r->err = 0;
	r->depth = r->path_len = 0;
	r->path[0] = '\0';
	*out = f;
	return 0;
}

void json_feed__free(struct json_feed *f)
{
	if (!f)
		return;
	yajl_free(f->yajl);
	free(f);
}

int json_feed__put(struct json_feed *f, const void *data, size_t len)
{
	struct json_reader *r = f->reader;
	yajl_status status;

	r->called = false;
	status = yajl_parse(f->yajl, data, len);
	if (r->err)
		return r->err;
	if (status != yajl_status_ok)
		return err_set(r->e, -PYE_EFORMAT, "the JSON is damaged at byte %" PRIu64,
			       f->passed + yajl_get_bytes_consumed(f->yajl));
	f->passed += len;
	f->silent = r->called ? 0 : f->silent + len;
	if (f->silent > f->opts.text_max)
		return err_set(r->e, -PYE_EFORMAT, "a text in the JSON is longer than %zu kB",
			       f->opts.text_max >> 10);
	return 0;
}

int json_feed__end(struct json_feed *f)
{
	struct json_reader *r = f->reader;
	yajl_status status = yajl_complete_parse(f->yajl);

	if (r->err)
		return r->err;
	if (status != yajl_status_ok || r->depth)
		return err_set(r->e, -PYE_EFORMAT, "the JSON is cut after %" PRIu64 " bytes",
			       f->passed);
	return 0;
}
