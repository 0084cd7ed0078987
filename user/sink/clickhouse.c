// SPDX-License-Identifier: Apache-2.0
/*
 * ClickHouse, by its HTTP interface. Two tables (deploy/clickhouse): profiles has a row for each window and type of value, with
 * the hashes of its stacks and their values side by side; stacks has what a hash stands for. A row that comes twice has the same
 * key, and the engine keeps one, whichever server it came through and however late: that is what makes a retry
 * harmless, also on servers that know nothing of deduplication tokens. The stacks go first, so that a profile never has
 * one that nobody knows.
 *
 * A stack is sent once a day: the hashes are remembered once the server has them.
 *
 * What an insert costs a server is the part of a table that it becomes, whatever its size. Servers that can are told to make one
 * part of what many agents send at about the same time, and to answer when it is there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "base/grow.h"
#include "base/idmap.h"
#include "base/text.h"
#include "sink/pprof_window.h"
#include "sink/rowbinary.h"
#include "sink/sink.h"

#define KNOWN_MAX   (1u << 18) /* hashes; all are forgotten when there are more */
#define SECOND	    1000000000
#define DAY_NS	    (86400ll * SECOND)
#define BUFFER_SIZE (64u << 10)

enum request {
	REQUEST_STACKS,
	REQUEST_PROFILES,
	REQUEST_CNT
};

static const char *const inserts[REQUEST_CNT] = {
	[REQUEST_STACKS] =
		"INSERT%20INTO%20stacks%20(service,node,stack,last_seen,names,files,lines)%20FORMAT%20RowBinary",
	[REQUEST_PROFILES] =
		"INSERT%20INTO%20profiles%20(ts,start_ns,end_ns,type,service,node,lk,lv,profile,period,"
		"stacks,values)%20FORMAT%20RowBinary",
};

struct clickhouse {
	const struct sink_spec *spec;
	struct idmap known; /* stacks of services that the server has, by their hash */
	uint32_t day; /* since 1970, of what is known */
	bool old; /* a server that has no deduplication tokens and gathers nothing */
};

/* A push while it is put together. */
struct rows {
	struct membuf data[REQUEST_CNT];
	uint64_t *fresh; /* what will be known when it was taken */
	uint32_t fresh_cnt, fresh_cap;
	struct idmap in_push;
};

static int clickhouse_open(void *self, const struct sink_spec *spec)
{
	((struct clickhouse *)self)->spec = spec;
	return 0;
}

static void clickhouse_close(void *self)
{
	idmap__done(&((struct clickhouse *)self)->known);
}

static void rows_free(void *state)
{
	struct rows *r = state;

	if (!r)
		return;
	for (unsigned int i = 0; i < REQUEST_CNT; i++)
		membuf__done(&r->data[i]);
	idmap__done(&r->in_push);
	free(r->fresh);
	free(r);
}

/* --- rows --- */

static void put_frames(struct outbuf *b, const struct pprof_window *p,
		       const struct window_stack *stack)
{
	const struct window_frame *f = p->frames + stack->first_frame;

	row_count(b, stack->frame_cnt);
	for (uint32_t i = 0; i < stack->frame_cnt; i++)
		row_string(b, pprof_window__name(p, &f[i]));
	row_count(b, stack->frame_cnt);
	for (uint32_t i = 0; i < stack->frame_cnt; i++)
		row_string(b, pprof_window__file(p, &f[i]));
	row_count(b, stack->frame_cnt);
	for (uint32_t i = 0; i < stack->frame_cnt; i++)
		row_u32(b, f[i].line);
}

static int put_stacks(const struct clickhouse *c, struct rows *r, struct outbuf *b,
		      const struct pprof_window *p, const char *service, const char *node)
{
	uint64_t seed = XXH3_64bits(service, strlen(service));

	for (uint32_t i = 0; i < p->stack_cnt; i++) {
		uint64_t key = p->stacks[i].hash ^ seed;

		if (idmap__find(&c->known, key) != IDMAP_NONE ||
		    idmap__find(&r->in_push, key) != IDMAP_NONE)
			continue;
		if (GROW(r->fresh, r->fresh_cap, r->fresh_cnt) || idmap__set(&r->in_push, key, 1))
			return -ENOMEM;
		r->fresh[r->fresh_cnt++] = key;
		row_string(b, service);
		row_string(b, node);
		row_u64(b, p->stacks[i].hash);
		row_u32(b, (uint32_t)(wall_ns() / SECOND));
		put_frames(b, p, &p->stacks[i]);
	}
	return b->err;
}

static void put_labels(struct outbuf *b, const struct head *h)
{
	row_count(b, h->label_cnt);
	for (uint32_t i = 0; i < h->label_cnt; i++)
		row_string(b, h->labels[i].name);
	row_count(b, h->label_cnt);
	for (uint32_t i = 0; i < h->label_cnt; i++)
		row_string(b, h->labels[i].value);
}

static const char *label(const struct head *h, const char *name)
{
	return label_value(h->labels, h->label_cnt, name);
}

/* The row of a type of values; none when all are 0. */
static void put_profile(struct outbuf *b, const struct sink_window *w, const struct pprof_window *p,
			uint32_t type)
{
	const struct pprof_names *n = &p->r.names;
	char name[256];
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < p->stack_cnt; i++)
		cnt += pprof_window__value(p, i, type) != 0;
	if (!cnt)
		return;
	snprintf(name, sizeof(name), "%s/%s", pprof_names__text(n, n->types[type].type),
		 pprof_names__text(n, n->types[type].unit));
	row_u32(b, (uint32_t)(w->head->start_ns / SECOND));
	row_u64(b, (uint64_t)w->head->start_ns);
	row_u64(b, (uint64_t)w->head->end_ns);
	row_string(b, name);
	row_string(b, label(w->head, STORE_SERVICE));
	row_string(b, label(w->head, "node"));
	put_labels(b, w->head);
	row_u64(b, w->id);
	row_u64(b, n->period);
	row_count(b, cnt);
	for (uint32_t i = 0; i < p->stack_cnt; i++)
		if (pprof_window__value(p, i, type))
			row_u64(b, p->stacks[i].hash);
	row_count(b, cnt);
	for (uint32_t i = 0; i < p->stack_cnt; i++)
		if (pprof_window__value(p, i, type))
			row_u64(b, (uint64_t)pprof_window__value(p, i, type));
}

static int put_window(const struct clickhouse *c, struct rows *r, struct outbuf *b,
		      const struct sink_window *w, const struct pprof_window *p)
{
	int err = put_stacks(c, r, &b[REQUEST_STACKS], p, label(w->head, STORE_SERVICE),
			     label(w->head, "node"));

	for (uint32_t i = 0; i < p->r.names.type_cnt && !err; i++)
		put_profile(&b[REQUEST_PROFILES], w, p, i);
	for (unsigned int i = 0; i < REQUEST_CNT && !err; i++)
		err = outbuf__flush(&b[i]);
	return err;
}

static int clickhouse_add(void *self, struct sink_push *push, const struct sink_window *w,
			  struct err *e)
{
	struct clickhouse *c = self;
	struct rows *r = push->state = push->state ? push->state : calloc(1, sizeof(struct rows));
	struct outbuf b[REQUEST_CNT] = { 0 };
	struct pprof_window p;
	int err = r ? 0 : -ENOMEM;

	if (err)
		return err;
	/* a window that cannot be read is found out before anything of it is written */
	err = pprof_window__read(&p, w->fd, e);
	for (unsigned int i = 0; i < REQUEST_CNT && !err; i++)
		err = outbuf__init(&b[i], BUFFER_SIZE, membuf__write, &r->data[i]);
	err = err ? err : put_window(c, r, b, w, &p);
	for (unsigned int i = 0; i < REQUEST_CNT; i++)
		outbuf__done(&b[i]);
	pprof_window__done(&p);
	return err;
}

/* --- requests --- */

static int add_request(const struct clickhouse *c, struct sink_push *push,
		       const struct membuf *rows, enum request which)
{
	struct sink_request *r;
	char path[sizeof(r->path)], newer[128] = "";

	/* Sync: the shard has it when the answer comes. Else the server that was asked hands it on later, and may lose it when that shard
	 * dies; we would not know, and our queue is the safer one. The token: a replicated table drops a block that it knows by this name. */
	if (!c->old)
		snprintf(newer, sizeof(newer),
			 "&async_insert=1&wait_for_async_insert=1"
			 "&insert_deduplication_token=%016" PRIx64,
			 (uint64_t)XXH3_64bits(rows->data, rows->len));
	snprintf(path, sizeof(path), "/?database=%s&insert_distributed_sync=1%s&query=%s",
		 *c->spec->database ? c->spec->database : "default", newer, inserts[which]);
	r = sink_push__request(push, path);
	return r ? sink_request__gzip(r, rows->data, rows->len) : -ENOMEM;
}

static void forget_yesterday(struct clickhouse *c)
{
	uint32_t day = (uint32_t)(wall_ns() / DAY_NS);

	if (day == c->day && c->known.cnt < KNOWN_MAX)
		return;
	idmap__done(&c->known);
	c->day = day;
}

static int clickhouse_finish(void *self, struct sink_push *push)
{
	struct clickhouse *c = self;
	const struct rows *r = push->state;
	int err = 0;

	for (unsigned int i = 0; i < REQUEST_CNT && !err; i++)
		if (r->data[i].len)
			err = add_request(c, push, &r->data[i], i);
	return err;
}

static void clickhouse_sent(void *self, const struct sink_push *push)
{
	struct clickhouse *c = self;
	const struct rows *r = push->state;

	forget_yesterday(c);
	/* one that is not remembered is sent again, no more */
	for (uint32_t i = 0; i < r->fresh_cnt; i++)
		if (idmap__set(&c->known, r->fresh[i], 1))
			return;
}

/* --- answers --- */

/* Most errors are 500 and have a number. "Code: 60, e.displayText() = ..." or "Code: 60. DB::Exception: ...". */
static long code_of(const struct sink_reply *reply)
{
	const char *code = strstr(reply->body, "Code: ");

	return code ? strtol(code + strlen("Code: "), NULL, 10) : 0;
}

static enum sink_verdict clickhouse_judge(void *self, const struct sink_reply *reply, struct err *e)
{
	struct clickhouse *c = self;
	enum sink_verdict by_status = sink_judge_http(self, reply, e);

	if (by_status == SINK_OK)
		return by_status;
	switch (code_of(reply)) {
	case 115: /* no such setting */
		if (c->old)
			return SINK_HOLD;
		c->old = true;
		return SINK_AGAIN;
	case 16: /* no such column */
	case 60: /* no such table */
	case 81: /* no such database */
	case 164: /* read only */
	case 192: /* no such user */
	case 193: /* wrong password */
	case 194: /* a password is wanted */
	case 195: /* no access from this address */
	case 291: /* no access to this database */
	case 497: /* not enough privileges */
	case 516: /* authentication failed */
		return SINK_HOLD;
	default:
		return by_status;
	}
}

const struct sink_ops sink_clickhouse = {
	.type = "clickhouse",
	.user_header = "X-ClickHouse-User",
	.key_header = "X-ClickHouse-Key",
	.windows_max = 1000,
	.bytes_max = 1u << 20,
	.size = sizeof(struct clickhouse),
	.open = clickhouse_open,
	.close = clickhouse_close,
	.add = clickhouse_add,
	.finish = clickhouse_finish,
	.judge = clickhouse_judge,
	.sent = clickhouse_sent,
	.free_state = rows_free,
};
