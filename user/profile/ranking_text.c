// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "profile/module.h"
#include "profile/ranking.h"

static size_t put(char *out, size_t size, const struct agg_result *r, uint32_t string)
{
	const struct strpool_str *s = &r->strings.strs[string];

	return strlen(text_escape(out, size, s->s, s->len));
}

/* "json/decoder.py:353"; nothing for what has no file. */
static void put_line(char *out, size_t size, const struct agg_result *r, const struct agg_func *f,
		     uint32_t line)
{
	uint32_t file = agg_shown_file(r, f);
	size_t len = file ? put(out, size - 16, r, file) : 0;

	if (len)
		snprintf(out + len, size - len, ":%" PRIu32, line);
}

static void put_process(char *out, size_t size, const struct agg_result *r, uint32_t process)
{
	size_t len = put(out, size - 16, r, r->processes[process].comm);

	snprintf(out + len, size - len, " %" PRIu32, r->processes[process].pid);
}

static void thread_text(const struct agg_result *r, const struct agg_thread *t,
			struct ranking_text *out)
{
	size_t len = put(out->name, sizeof(out->name) - 32, r, t->name);

	snprintf(out->name + len, sizeof(out->name) - len, " %" PRIu32 "%s", t->tid,
		 t->is_main ? " (main)" : "");
	put_process(out->place, sizeof(out->place), r, t->process);
}

static void module_text(const struct agg_result *r, const struct agg_func *f,
			struct ranking_text *out)
{
	char module[512];

	if (!f->file) {
		put(out->name, sizeof(out->name), r, f->qualname);
		return;
	}
	module_name(module, sizeof(module), strpool__get(&r->strings, f->short_file));
	text_escape(out->name, sizeof(out->name), module, strlen(module));
	put(out->place, sizeof(out->place), r, agg_shown_file(r, f));
}

void ranking_text(const struct agg_result *r, enum ranking_by by, const struct ranking_row *row,
		  struct ranking_text *out)
{
	const struct agg_func *f = by < RANKING_THREAD ? &r->funcs[row->index] : NULL;

	out->name[0] = out->place[0] = '\0';
	switch (by) {
	case RANKING_FUNCTION:
		put(out->name, sizeof(out->name), r, f->qualname);
		put_line(out->place, sizeof(out->place), r, f, f->line);
		break;
	case RANKING_MODULE:
		module_text(r, f, out);
		break;
	case RANKING_LINE:
		put_line(out->name, sizeof(out->name), r, f, row->line);
		put(out->name[0] ? out->place : out->name, sizeof(out->name), r, f->qualname);
		break;
	case RANKING_THREAD:
		thread_text(r, &r->threads[row->index], out);
		break;
	case RANKING_PROCESS:
		put_process(out->name, sizeof(out->name), r, row->index);
		break;
	}
}
