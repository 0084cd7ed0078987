// SPDX-License-Identifier: Apache-2.0
#include "import/json.h"

#include <string.h>

#include "base/cleanup.h"

/* A single text or number that needs more input than this is none of a profile. */
static const struct json_feed_opts feed_opts = { .text_max = 16u << 20 };

int json_read(struct source *s, struct json_reader *r)
{
	auto_fn(json_feed__freep) struct json_feed *feed = NULL;
	int err = json_feed__new(&feed, r, &feed_opts, s->e);
	int more = 0;

	while (!err && (more = source__fill(s)) > 0) {
		err = json_feed__put(feed, s->buf + s->at, s->len - s->at);
		if (!err)
			s->at = s->len;
	}
	if (err || more < 0)
		return err ? err : more;
	return json_feed__end(feed);
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
	{ "ev", NULL, "pyebpf's own ndjson" },
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
	if (!c.refused)
		return err_set(s->e, -PYE_EFORMAT,
			       "the JSON is neither a firefox nor a speedscope profile");
	err_set(s->e, -PYE_EFORMAT, "the file holds %s, which pyebpf does not read", c.refused);
	err_hint(
		s->e,
		"give the capture it was made of (trace --keep-capture keeps it), or another format");
	return -PYE_EFORMAT;
}
