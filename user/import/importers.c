// SPDX-License-Identifier: Apache-2.0
/* The table of formats, and which of them an input has. */
#include "import/importers.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "import/import.h"
#include "import/json.h"

/* clang-format off */
static const struct importer *const importers[] = {
	&import_pstats,
	&import_pprof,
	&import_perf,
	&import_collapsed,
};
/* clang-format on */

enum {
	IMPORTER_CNT = sizeof(importers) / sizeof(*importers)
};

int import_label(struct sink *k, uint32_t process, const char *label, size_t len, bool is_first,
		 struct trace_frame *frame)
{
	size_t open = len, colon = len, name_len = len;
	uint32_t line = 0, name, file = 0;
	int err;

	if (len > 3 && label[len - 1] == ')') {
		for (open = len - 1; open > 0 && (label[open] != '(' || label[open - 1] != ' ');)
			open--;
		for (colon = len - 1; colon > open && label[colon] != ':';)
			colon--;
	}
	if (open && open < colon && colon < len - 2) {
		for (size_t i = colon + 1; i < len - 1; i++) {
			if (label[i] < '0' || label[i] > '9' || line > UINT32_MAX / 10 - 1)
				goto plain;
			line = line * 10 + (uint32_t)(label[i] - '0');
		}
		name_len = open - 1;
	}
plain:
	err = sink__text(k, label, name_len, &name);
	if (!err && name_len < len)
		err = sink__text(k, label + open + 1, colon - open - 1, &file);
	line = name_len < len ? line : 0;
	frame->line = line;
	return err ? err : sink__func(k, process, name, file, is_first ? line : 0, &frame->func);
}

int import_note_counts(struct sink *k)
{
	return err_set(
		k->e, 0,
		"the file counts samples and does not say how long one is: each was taken as "
		"%g ms (--count-time)",
		(double)k->count_ns / 1e6);
}

static bool is_json(const uint8_t *head, size_t len)
{
	size_t i = len > 2 && !memcmp(head, "\xef\xbb\xbf", 3) ? 3 : 0;

	while (i < len && strchr(" \t\r\n", head[i]) && head[i])
		i++;
	if (i == len || (head[i] != '{' && head[i] != '['))
		return false;
	for (i++; i < len && strchr(" \t\r\n", head[i]) && head[i];)
		i++;
	return i == len || strchr("\"}{[]", head[i]);
}

static int choose(struct source *s, const struct importer **out)
{
	int more = source__fill(s);

	*out = NULL;
	if (more < 0)
		return more;
	if (!more)
		return err_set(s->e, -PYE_EFORMAT, "the file is empty");
	/* marshal's dictionaries begin with a brace, too */
	for (size_t i = 0; i < IMPORTER_CNT && !*out; i++) {
		if (importers[i]->is(s->buf, s->len))
			*out = importers[i];
		if (!i && !*out && is_json(s->buf, s->len))
			return json_choose(s, out);
	}
	if (*out)
		return 0;
	return err_set(s->e, -PYE_EFORMAT,
		       "this is none of the formats that are read: a pyebpf capture, pprof, "
		       "collapsed, speedscope, firefox, perf script, pstats");
}

static void done(struct source *s)
{
	source__done(s);
}

static void sink_done(struct sink *k)
{
	sink__done(k);
}

int import_file(int fd, const struct import_opts *opts, const struct trace_consumer *consumer,
		void *self, struct err *e)
{
	auto_fn(done) struct source s = { 0 };
	auto_fn(sink_done) struct sink k = { 0 };
	const struct importer *importer = NULL;
	struct err none = { 0 };
	int err;

	e = e ? e : &none;
	err_set(e, 0, "%s", "");
	err = source__open(&s, fd, e);
	err = err ? err : sink__init(&k, consumer, self, e);
	if (!err)
		k.count_ns = opts && opts->count_ns ? opts->count_ns : IMPORT_COUNT_NS;
	err = err ? err : choose(&s, &importer);
	err = err ? err : source__rewind(&s);
	if (!err && importer)
		err = importer->run(&s, &k);
	if (!err)
		sink__note_full(&k);
	return err < 0 ? err : 0;
}
