// SPDX-License-Identifier: Apache-2.0
/*
 * The importers over any bytes; each format is known by its content, so the seeds in corpus/import decide which of
 * them are reached. The consumer checks the rules that every consumer relies on, and so does an aggregate.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/import.h"
#include "import/sink.h"
#include "profile/aggregate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	IDS = 1 << 16,
	PUSHED_MAX = 100000
};

struct checker {
	uint64_t last_ns;
	uint32_t pushed_cnt;
	bool begun;
	uint8_t processes[IDS], threads[IDS], funcs[IDS]; /* known; ids modulo IDS */
	uint32_t depth[IDS]; /* of thread ids below IDS */
	struct aggregate *agg;
};

static void demand(int ok)
{
	if (!ok)
		abort();
}

static void touch(const char *s)
{
	demand(s && strlen(s) <= SINK_TEXT_MAX);
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct checker *c = self;

	demand(!c->begun);
	c->begun = true;
	touch(info->engine);
	touch(info->version);
	c->last_ns = info->start_ns;
	return aggregate_consumer.begin(c->agg, info);
}

static int on_process(void *self, const struct trace_process *p)
{
	struct checker *c = self;

	demand(c->begun);
	touch(p->comm);
	touch(p->exe);
	touch(p->python);
	c->processes[p->id % IDS] = 1;
	return aggregate_consumer.process(c->agg, p);
}

static int on_thread(void *self, const struct trace_thread *t)
{
	struct checker *c = self;

	touch(t->name);
	demand(c->processes[t->process % IDS]);
	c->threads[t->id % IDS] = 1;
	return aggregate_consumer.thread(c->agg, t);
}

static int on_func(void *self, const struct trace_func *f)
{
	struct checker *c = self;

	touch(f->qualname);
	touch(f->name);
	touch(f->file);
	demand(c->processes[f->process % IDS]);
	c->funcs[f->id % IDS] = 1;
	return aggregate_consumer.func(c->agg, f);
}

static int on_event(void *self, const struct trace_event *e)
{
	struct checker *c = self;

	demand(e->ts_ns >= c->last_ns && e->kind < TRACE_KIND_CNT && e->depth < SINK_DEPTH_MAX);
	demand(c->threads[e->thread % IDS] && c->funcs[e->func % IDS]);
	c->last_ns = e->ts_ns;
	if (e->thread < IDS) {
		if (trace_is_leave(e->kind))
			demand(--c->depth[e->thread] == e->depth);
		else
			demand(c->depth[e->thread]++ == e->depth);
	}
	return ++c->pushed_cnt > PUSHED_MAX ? -1 : aggregate_consumer.event(c->agg, e);
}

static int on_sample(void *self, const struct trace_sample *s)
{
	struct checker *c = self;

	demand(s->ts_ns >= c->last_ns && s->frame_cnt <= TRACE_SAMPLE_FRAMES);
	demand(c->threads[s->thread % IDS] && s->reason < REASON_CNT);
	for (uint32_t i = 0; i < s->frame_cnt; i++)
		demand(c->funcs[s->frames[i].func % IDS]);
	c->last_ns = s->ts_ns;
	return ++c->pushed_cnt > PUSHED_MAX ? -1 : aggregate_consumer.sample(c->agg, s);
}

static int on_end(void *self, const struct trace_totals *t)
{
	struct checker *c = self;

	demand(c->begun && t->end_ns >= c->last_ns);
	return aggregate_consumer.end(c->agg, t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct trace_consumer consumer = { .begin = on_begin,
							.process = on_process,
							.thread = on_thread,
							.func = on_func,
							.event = on_event,
							.sample = on_sample,
							.end = on_end };
	static struct checker c;
	struct err e;
	int fd, err;

	memset(&c, 0, sizeof(c));
	demand(!aggregate__new(&c.agg, NULL));
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	demand(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	err = import_file(fd, NULL, &consumer, &c, &e);
	/* what is refused has a sentence */
	demand(err != -PYE_EFORMAT || e.what[0]);
	aggregate__free(c.agg);
	close(fd);
	return 0;
}
