// SPDX-License-Identifier: Apache-2.0
#include "profile/lines.h"

#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/strpool.h"
#include "profile/forward.h"

struct lines {
	struct forward next; /* to the aggregate */
	struct aggregate *agg;
	enum lines_by by;
	struct strpool keys; /* process, file, name, line; id - 1 is the row */
	struct line_row *rows;
	uint32_t cnt, cap;
	uint64_t samples;
};

int lines__new(struct lines **out, enum lines_by by, const struct aggregate_opts *opts)
{
	struct lines *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	if (strpool__init(&l->keys) || aggregate__new(&l->agg, opts)) {
		lines__free(l);
		return -ENOMEM;
	}
	l->next = (struct forward){ &aggregate_consumer, l->agg };
	l->by = by;
	*out = l;
	return 0;
}

void lines__free(struct lines *l)
{
	if (!l)
		return;
	strpool__done(&l->keys);
	free(l->rows);
	aggregate__free(l->agg);
	free(l);
}

const struct agg_result *lines__result(const struct lines *l)
{
	return aggregate__result(l->agg);
}

enum lines_by lines__by(const struct lines *l)
{
	return l->by;
}

const struct line_row *lines__rows(const struct lines *l, uint32_t *cnt)
{
	*cnt = l->cnt;
	return l->rows;
}

static int row_of(struct lines *l, const struct trace_frame *frame, struct line_row **row)
{
	uint32_t index = aggregate__func_index(l->agg, frame->func), id;
	const struct agg_func *f = aggregate__func(l->agg, index);
	/* what has no file is no line of one */
	const bool named = l->by == LINES_OF_FUNCTIONS || !f->file;
	const uint32_t key[4] = { f->process, f->file, named ? f->qualname : 0, frame->line };
	int err = strpool__add(&l->keys, (const char *)key, sizeof(key), &id);

	if (err)
		return err;
	if (GROW(l->rows, l->cap, id - 1))
		return -ENOMEM;
	if (id - 1 == l->cnt)
		l->rows[l->cnt++] = (struct line_row){ .func = index, .line = frame->line };
	*row = &l->rows[id - 1];
	return 0;
}

static int on_sample(void *self, const struct trace_sample *sample)
{
	struct lines *l = self;
	struct line_row *row = NULL;
	int err = forward_sample(l, sample);

	l->samples++;
	for (uint32_t i = 0; i < sample->frame_cnt && !err; i++) {
		err = row_of(l, &sample->frames[i], &row);
		if (err || row->seen == l->samples)
			continue;
		row->seen = l->samples;
		row->total_ns += sample->weight_ns;
	}
	if (err || !row)
		return err;
	row->samples += sample->count;
	row->self_ns += sample->weight_ns;
	return 0;
}

const struct trace_consumer lines_consumer = {
	.begin = forward_begin,
	.process = forward_process,
	.thread = forward_thread,
	.func = forward_func,
	.event = forward_event,
	.sample = on_sample,
	.gap = forward_gap,
	.end = forward_end,
};
