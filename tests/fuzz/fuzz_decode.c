// SPDX-License-Identifier: Apache-2.0
/*
 * The decoder over any bytes. The first byte chooses: 0 to 127, the rest is a file as it stands
 * (checksums are not looked at in this build); otherwise it is cut into payloads, two bytes of length
 * before each and one of type and time, that get good headers, so that mutations reach what they
 * hold. The consumer checks the rules that every consumer relies on.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capfile/format.h"
#include "capfile/le.h"
#include "decode/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	IDS = 1 << 16,
	CHUNKS_MAX = 64
};

struct checker {
	uint64_t last_ns;
	uint32_t event_cnt;
	uint8_t processes[IDS], threads[IDS], funcs[IDS]; /* known; ids modulo IDS */
	uint32_t depth[IDS]; /* of thread ids below IDS */
};

static void demand(int ok)
{
	if (!ok)
		abort();
}

/* Read every byte of a string. */
static void touch(const char *s)
{
	demand(strlen(s) <= CAP_STRING_MAX);
}

static int on_begin(void *self, const struct trace_info *info)
{
	(void)self;
	touch(info->engine);
	touch(info->version);
	touch(info->hostname);
	touch(info->kernel);
	touch(info->cpu);
	touch(info->arguments);
	return 0;
}

static int on_process(void *self, const struct trace_process *p)
{
	struct checker *c = self;

	touch(p->comm);
	touch(p->exe);
	touch(p->python);
	touch(p->prefix);
	for (uint32_t i = 0; p->import_roots && p->import_roots[i]; i++)
		touch(p->import_roots[i]);
	c->processes[p->id % IDS] = 1;
	return 0;
}

static int on_thread(void *self, const struct trace_thread *t)
{
	struct checker *c = self;

	touch(t->name);
	demand(c->processes[t->process % IDS]);
	c->threads[t->id % IDS] = 1;
	return 0;
}

static int on_func(void *self, const struct trace_func *f)
{
	struct checker *c = self;

	touch(f->qualname);
	touch(f->name);
	touch(f->file);
	demand(c->processes[f->process % IDS]);
	c->funcs[f->id % IDS] = 1;
	return 0;
}

static int on_event(void *self, const struct trace_event *e)
{
	struct checker *c = self;

	demand(e->ts_ns >= c->last_ns && e->kind < TRACE_KIND_CNT && e->depth < CAP_DEPTH_MAX);
	demand(c->threads[e->thread % IDS] && c->funcs[e->func % IDS]);
	c->last_ns = e->ts_ns;
	if (e->thread < IDS) {
		if (trace_is_leave(e->kind))
			demand(--c->depth[e->thread] == e->depth);
		else
			demand(c->depth[e->thread]++ == e->depth);
	}
	return ++c->event_cnt > 2000000 ? -1 : 0;
}

static int on_gap(void *self, const struct trace_gap *g)
{
	struct checker *c = self;

	demand(g->ts_ns >= c->last_ns && g->until_ns >= g->ts_ns && g->reason < GAP_CNT);
	demand(c->threads[g->thread % IDS]);
	c->last_ns = g->ts_ns;
	if (g->thread < IDS)
		c->depth[g->thread] = 0;
	return 0;
}

static int on_end(void *self, const struct trace_totals *t)
{
	struct checker *c = self;

	demand(t->end_ns >= c->last_ns && t->written <= c->event_cnt);
	return 0;
}

static void put(int fd, const void *data, size_t len)
{
	demand(write(fd, data, len) == (ssize_t)len);
}

static void put_chunk(int fd, uint64_t seq, uint8_t how, const uint8_t *payload, uint32_t len)
{
	uint8_t h[CAP_CHUNK_HEADER_SIZE] = { 0 };

	le32_put(h + CAP_CHUNK_AT_MAGIC, CAP_CHUNK_MAGIC);
	le16_put(h + CAP_CHUNK_AT_TYPE, how & 0x40 ? how & 3 : CAP_CHUNK_DATA);
	le32_put(h + CAP_CHUNK_AT_STORED, len);
	le32_put(h + CAP_CHUNK_AT_RAW, len);
	le64_put(h + CAP_CHUNK_AT_SEQ, seq);
	le64_put(h + CAP_CHUNK_AT_MIN_TS, how & 0x3c);
	le64_put(h + CAP_CHUNK_AT_MAX_TS, CAP_TS_MAX);
	put(fd, h, sizeof(h));
	put(fd, payload, len);
}

static void put_payloads(int fd, const uint8_t *data, size_t size)
{
	uint8_t h[CAP_HEADER_SIZE] = CAP_MAGIC;

	le16_put(h + CAP_AT_MAJOR, CAP_MAJOR);
	put(fd, h, sizeof(h));
	for (uint64_t seq = 0; size >= 3 && seq < CHUNKS_MAX; seq++) {
		uint32_t len = le16_get(data);
		uint8_t how = data[2];

		data += 3;
		size -= 3;
		if (len > size)
			len = (uint32_t)size;
		put_chunk(fd, seq, how, data, len);
		data += len;
		size -= len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct trace_consumer consumer = { .begin = on_begin,
							.process = on_process,
							.thread = on_thread,
							.func = on_func,
							.event = on_event,
							.gap = on_gap,
							.end = on_end };
	static struct checker c;
	struct err e;
	int fd;

	if (!size)
		return 0;
	memset(&c, 0, sizeof(c));
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	demand(fd >= 0);
	if (data[0] < 128)
		put(fd, data + 1, size - 1);
	else
		put_payloads(fd, data + 1, size - 1);
	demand(lseek(fd, 0, SEEK_SET) == 0);
	decode_file(fd, &consumer, &c, &e);
	close(fd);
	return 0;
}
