// SPDX-License-Identifier: Apache-2.0
/*
 * Questions to ClickHouse (see clickhouse.c for the tables). The sums are made by the shards and put together by the one that is asked; a
 * row that came twice is counted once. A question is small, however much it is about: types, a sum for each, then the names of the stacks that came back.
 */
#include "sink/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "base/idmap.h"
#include "import/sink.h"
#include "sink/http.h"
#include "sink/rowbinary.h"

#define SECOND	      1000000000
#define WINDOW_MAX_S  301 /* a window is not longer */
#define REPLY_MAX     (512u << 20)
#define BUFFER_SIZE   4096
#define FRAMES_MAX    TRACE_SAMPLE_FRAMES
#define NAMED_AT_ONCE 4000u /* stacks that are asked for by their numbers */
#define NAMED_MAX     (4 * NAMED_AT_ONCE) /* for more the server finds out which */
#define NAMES	      "SELECT stack, any(names), any(files), any(lines) FROM stacks"
#define UNKNOWN_STACK "[a stack whose names are not there so far]"

int ask_spec(struct sink_spec *out, const char *text, struct err *e)
{
	char whole[2048];
	bool bare = !strncmp(text, "http://", 7) || !strncmp(text, "https://", 8);

	if (snprintf(whole, sizeof(whole), "%s%s", bare ? "clickhouse=" : "", text) >=
	    (int)sizeof(whole))
		return err_set(e, -PYE_EUSAGE, "the server's address is too long");
	if (sink_spec__parse(out, whole, e))
		return -PYE_EUSAGE;
	return out->ops == &sink_clickhouse
		       ? 0
		       : err_set(e, -PYE_EUSAGE,
				 "%s is not asked from here: it has a page of its own",
				 out->ops->type);
}

/* --- the question --- */

/* A text of SQL. */
static void put_text(struct outbuf *b, const char *s)
{
	outbuf__putc(b, '\'');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < ' ' || c == 0x7f)
			outbuf__printf(b, "\\x%02X", c);
		else if (c == '\'' || c == '\\')
			outbuf__printf(b, "\\%c", c);
		else
			outbuf__putc(b, (char)c);
	}
	outbuf__putc(b, '\'');
}

static void put_label(struct outbuf *b, const char *name)
{
	if (!strcmp(name, STORE_SERVICE)) {
		outbuf__puts(b, "service");
	} else if (!strcmp(name, "node")) {
		outbuf__puts(b, "node");
	} else { /* one that is missing is at 0, and that is "" */
		outbuf__puts(b, "lv[indexOf(lk, ");
		put_text(b, name);
		outbuf__puts(b, ")]");
	}
}

static void put_condition(struct outbuf *b, const struct selector_condition *c)
{
	bool match = c->op >= SELECTOR_MATCH,
	     negated = c->op == SELECTOR_NOT_EQUAL || c->op == SELECTOR_NOT_MATCH;
	char whole[2048];

	outbuf__puts(b, negated ? " AND NOT " : " AND ");
	outbuf__puts(b, match ? "match(" : "(");
	put_label(b, c->name);
	outbuf__puts(b, match ? ", " : " = ");
	snprintf(whole, sizeof(whole), match ? "^(?:%s)$" : "%s", c->value);
	put_text(b, whole);
	outbuf__putc(b, ')');
}

static void put_where(struct outbuf *b, const struct ask *a)
{
	bool is_default = a->type && !strcmp(a->type, ASK_TYPE_DEFAULT);
	struct selector_condition c = { STORE_SERVICE, a->service, SELECTOR_EQUAL };
	int64_t from_s = a->since_ns / SECOND - WINDOW_MAX_S;
	const struct selector_condition type = { ASK_TYPE_LABEL,
						 is_default ? "|" ASK_TYPE_DEFAULT : a->type,
						 is_default ? SELECTOR_MATCH : SELECTOR_EQUAL };

	/* ts is in the key, and the windows of a day lie together */
	outbuf__printf(b,
		       " WHERE ts >= toDateTime(%" PRId64 ") AND ts <= toDateTime(%" PRId64
		       ") AND end_ns > %" PRId64 " AND start_ns < %" PRId64,
		       from_s > 0 ? from_s : 0, a->until_ns / SECOND + 1, a->since_ns, a->until_ns);
	if (a->service)
		put_condition(b, &c);
	if (a->type)
		put_condition(b, &type);
	for (uint32_t i = 0; selector__condition(a->selector, i, &c); i++)
		put_condition(b, &c);
}

/* --- asking --- */

struct answer {
	struct http *http;
	struct http_call *call;
	struct sink_request request;
	const uint8_t *at, *end;
	bool bad;
};

static void answer_done(struct answer *x)
{
	http_call__free(x->call);
	http__free(x->http);
	membuf__done(&x->request.body);
}

static int wait_for(struct answer *x, struct err *e)
{
	struct http_result r;

	while (!http__next(x->http, &r)) {
		int err = http__wait(x->http, NULL, 0, 1000);

		if (err)
			return err;
	}
	if (!r.reply.status)
		return err_set(e, -PYE_EOUTPUT, "the server does not answer: %s", r.why);
	if (sink_judge_http(NULL, &r.reply, e) != SINK_OK)
		return -PYE_EOUTPUT;
	x->at = (const uint8_t *)r.reply.body;
	x->end = x->at + r.reply.len;
	return 0;
}

static int send_question(struct answer *x, const struct ask *a, struct err *e)
{
	int err = http__new(&x->http, e);

	/* answers are whole, or an error by their status */
	snprintf(x->request.path, sizeof(x->request.path),
		 "/?database=%s&wait_end_of_query=1&default_format=RowBinary%s",
		 *a->server->database ? a->server->database : "default",
		 a->partial ? "&skip_unavailable_shards=1" : "");
	err = err ? err : http_call__new(&x->call, x->http, a->server, REPLY_MAX, true);
	err = err ? err : http_call__start(x->call, 0, &x->request, e);
	return err ? err : wait_for(x, e);
}

/* @put: writes the SQL. */
static int ask_sql(struct answer *x, const struct ask *a,
		   void (*put)(struct outbuf *b, const struct ask *a, const void *what),
		   const void *what, struct err *e)
{
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	int err = outbuf__init(&b, BUFFER_SIZE, membuf__write, &x->request.body);

	if (err)
		return err;
	put(&b, a, what);
	err = outbuf__flush(&b);
	return err ? err : send_question(x, a, e);
}

/* Of SQL around the conditions. */
struct around {
	const char *before, *after;
};

static void put_around(struct outbuf *b, const struct ask *a, const void *what)
{
	const struct around *around = what;

	outbuf__puts(b, around->before);
	put_where(b, a);
	outbuf__puts(b, around->after);
}

static int ask_for(struct answer *x, const struct ask *a, const char *before, const char *after,
		   struct err *e)
{
	return ask_sql(x, a, put_around, &(const struct around){ before, after }, e);
}

/* --- rows --- */

static const void *take(struct answer *x, uint64_t len)
{
	const void *at = x->at;

	if (x->bad || len > (uint64_t)(x->end - x->at)) {
		x->bad = true;
		return NULL;
	}
	x->at += len;
	return at;
}

static uint64_t take_u64(struct answer *x)
{
	const void *at = take(x, sizeof(uint64_t));
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static uint32_t take_u32(struct answer *x)
{
	const void *at = take(x, sizeof(uint32_t));
	uint32_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint64_t take_count(struct answer *x)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		const uint8_t *at = take(x, 1);

		if (!at)
			return 0;
		value |= (uint64_t)(*at & 0x7f) << shift;
		if (!(*at & 0x80))
			return value;
	}
	x->bad = true;
	return 0;
}

struct text {
	const char *s;
	size_t len;
};

static struct text take_text(struct answer *x)
{
	uint64_t len = take_count(x);
	const char *s = take(x, len);

	return (struct text){ s ? s : "", s ? len : 0 };
}

static bool is_text(const struct text *t, const char *s)
{
	return t->len == strlen(s) && !memcmp(t->s, s, t->len);
}

static int not_understood(struct err *e)
{
	return err_set(e, -PYE_EFORMAT,
		       "the server's answer is not understood: are its tables those of "
		       "deploy/clickhouse?");
}

/* --- sums --- */

enum value {
	VALUE_SAMPLES,
	VALUE_CALLS,
	VALUE_CPU,
	VALUE_WALL,
	VALUE_OFF,
	VALUE_CNT
};

static const char *const value_types[VALUE_CNT] = {
	"samples/count",    "calls/count",	   "cpu/nanoseconds",
	"wall/nanoseconds", "off_cpu/nanoseconds",
};

struct total {
	uint64_t stack;
	int64_t values[VALUE_CNT];
	bool named;
};

struct totals {
	struct total *v;
	uint32_t cnt, cap;
	struct idmap by_stack;
	uint64_t profiles, period, rows;
	bool twice; /* rows are there that came twice, or it is not known */
	int64_t first_ns, last_ns;
	bool any[VALUE_CNT];
};

static void totals_done(struct totals *t)
{
	free(t->v);
	idmap__done(&t->by_stack);
}

/* What a shard has of a type. */
struct kind {
	struct text type;
	uint64_t rows, distinct; /* distinct: of those that count, one for each window */
	int64_t first_ns, last_ns;
	uint64_t period;
};

static void add_kind(struct totals *t, const struct kind *k)
{
	bool counts = is_text(&k->type, value_types[VALUE_SAMPLES]) ||
		      is_text(&k->type, value_types[VALUE_CALLS]);

	for (unsigned int i = 0; i < VALUE_CNT; i++)
		t->any[i] |= is_text(&k->type, value_types[i]);
	t->rows += k->rows;
	if (counts) {
		t->profiles += k->distinct;
		t->twice |= k->distinct != k->rows;
	}
	t->first_ns = k->first_ns < t->first_ns ? k->first_ns : t->first_ns;
	t->last_ns = k->last_ns > t->last_ns ? k->last_ns : t->last_ns;
	t->period = k->period > t->period ? k->period : t->period;
}

/*
 * Which types of values there are, of how many profiles, and whether rows are there twice. A window's rows come in one block, so those
 * that count (one for each window) tell it for all; they are a third of what there is to look at. Each shard answers for itself, as all of
 * a node is in one of them: what they would have to hand over for one answer is each profile's number.
 */
static int ask_kinds(const struct ask *a, struct totals *t, struct err *e)
{
	auto_fn(answer_done) struct answer x = { 0 };
	int err = ask_for(&x, a,
			  "SELECT type, count(), uniqExact(if(type IN ('samples/count', "
			  "'calls/count'), profile, 0)), min(start_ns), max(end_ns), max(period) "
			  "FROM profiles",
			  " GROUP BY type SETTINGS distributed_group_by_no_merge = 1", e);

	t->profiles = t->period = t->rows = 0;
	t->twice = false;
	t->first_ns = INT64_MAX;
	t->last_ns = INT64_MIN;
	while (!err && x.at < x.end && !x.bad) {
		struct kind k = { .type = take_text(&x) };

		k.rows = take_u64(&x);
		k.distinct = take_u64(&x);
		k.first_ns = (int64_t)take_u64(&x);
		k.last_ns = (int64_t)take_u64(&x);
		k.period = take_u64(&x);
		if (!x.bad)
			add_kind(t, &k);
	}
	if (err || x.bad)
		return err ? err : not_understood(e);
	/* a row that counts is in each window of ours: without one nothing is known of these */
	t->twice |= t->rows && !t->profiles;
	t->profiles = t->profiles ? t->profiles : t->rows;
	if (t->any[VALUE_CALLS] && t->any[VALUE_SAMPLES])
		return err_set(e, -PYE_EFORMAT,
			       "there are profiles of samples and of calls: they do not add up");
	return 0;
}

/* How many rows there are now. */
static int ask_rows(const struct ask *a, uint64_t *rows, struct err *e)
{
	auto_fn(answer_done) struct answer x = { 0 };
	int err = ask_for(&x, a, "SELECT count() FROM profiles", "", e);

	/* of none there is no answer in old versions */
	*rows = !err && x.at < x.end ? take_u64(&x) : 0;
	return err || !x.bad ? err : not_understood(e);
}

static int add_total(struct totals *t, uint64_t stack, enum value which, int64_t value)
{
	uint32_t at = idmap__find(&t->by_stack, stack);

	if (at == IDMAP_NONE) {
		at = t->cnt;
		if (GROW(t->v, t->cap, at) || idmap__set(&t->by_stack, stack, at))
			return -ENOMEM;
		t->v[t->cnt++] = (struct total){ .stack = stack };
	}
	if (!t->v)
		return -ENOMEM;
	t->v[at].values[which] += value;
	return 0;
}

/* One type at a time: its rows lie together, and are grouped by a number alone. */
static int ask_type(const struct ask *a, struct totals *t, enum value which, bool final,
		    struct err *e)
{
	auto_fn(answer_done) struct answer x = { 0 };
	char after[128];
	int err;

	snprintf(after, sizeof(after), " AND type = '%s' GROUP BY stack", value_types[which]);
	err = ask_for(&x, a,
		      final ? "SELECT stack, sum(value) FROM profiles FINAL"
			      " ARRAY JOIN stacks AS stack, values AS value"
			    : "SELECT stack, sum(value) FROM profiles"
			      " ARRAY JOIN stacks AS stack, values AS value",
		      after, e);
	while (!err && x.at < x.end && !x.bad) {
		uint64_t stack = take_u64(&x);
		int64_t value = (int64_t)take_u64(&x);

		if (!x.bad)
			err = add_total(t, stack, which, value);
	}
	return err || !x.bad ? err : not_understood(e);
}

/* What push_total() makes use of. */
static bool is_used(const struct totals *t, enum value which)
{
	if (!t->any[which])
		return false;
	return which != VALUE_WALL || t->any[VALUE_CALLS] ||
	       !(t->any[VALUE_CPU] || t->any[VALUE_OFF]);
}

static int ask_values(const struct ask *a, struct totals *t, bool final, struct err *e)
{
	int err = 0;

	t->cnt = 0;
	idmap__done(&t->by_stack);
	for (unsigned int i = 0; i < VALUE_CNT && !err; i++)
		if (is_used(t, i))
			err = ask_type(a, t, i, final, e);
	return err;
}

/*
 * FINAL counts a row once that came twice, and takes several times as long. So it is left out where no row did; one that comes while
 * we add up is seen afterwards: then there are more rows.
 */
static int ask_totals(const struct ask *a, struct totals *t, struct err *e)
{
	uint64_t rows;
	bool final = t->twice;
	int err = ask_values(a, t, final, e);

	if (err || final)
		return err;
	err = ask_rows(a, &rows, e);
	if (err || rows == t->rows)
		return err;
	err = ask_kinds(a, t, e);
	return err || !t->twice ? err : ask_values(a, t, true, e);
}

/* --- as a trace --- */

struct push {
	struct sink k;
	struct totals *totals;
	uint32_t process, thread;
	struct text names[FRAMES_MAX], files[FRAMES_MAX];
	struct trace_frame frames[FRAMES_MAX];
};

static int begin(struct push *p)
{
	struct totals *t = p->totals;
	const struct trace_info info = {
		.engine = "clickhouse",
		.start_unix_ns = t->first_ns,
		.sample_ns = t->any[VALUE_CALLS] ? 0
			     : t->period	 ? t->period
						 : 1,
	};
	uint32_t name;
	int err = sink__begin(&p->k, &info);

	err = err ? err : sink__text(&p->k, "fleet", 5, &name);
	err = err ? err : sink__process(&p->k, 0, name, &p->process);
	return err ? err : sink__thread(&p->k, p->process, 0, name, &p->thread);
}

static uint64_t positive(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

static int push_total(struct push *p, const struct total *t, uint32_t frame_cnt)
{
	bool calls = p->totals->any[VALUE_CALLS];
	uint64_t off = calls ? 0 : positive(t->values[VALUE_OFF]);
	struct trace_sample s = {
		.frames = p->frames,
		.frame_cnt = frame_cnt,
		.thread = p->thread,
		.count = positive(t->values[calls ? VALUE_CALLS : VALUE_SAMPLES]),
		.weight_ns = positive(t->values[calls				   ? VALUE_WALL
						: p->totals->any[VALUE_CPU] || off ? VALUE_CPU
										   : VALUE_WALL]),
	};
	int err = 0;

	if (s.weight_ns || !off) {
		err = sink__sum(&p->k, &s);
		s.count = 0;
	}
	if (err || !off)
		return err;
	s.off_cpu = true;
	s.reason = REASON_OTHER;
	s.weight_ns = off;
	return sink__sum(&p->k, &s);
}

static int frame_of(struct push *p, uint32_t i, uint32_t line)
{
	uint32_t name, file;
	int err = sink__text(&p->k, p->names[i].s, p->names[i].len, &name);

	err = err ? err : sink__text(&p->k, p->files[i].s, p->files[i].len, &file);
	p->frames[i].line = line;
	return err ? err : sink__func(&p->k, p->process, name, file, 0, &p->frames[i].func);
}

/* A list of texts of a row; those that are too many are read and not kept. */
static uint64_t take_texts(struct answer *x, struct text *out)
{
	uint64_t cnt = take_count(x);

	for (uint64_t i = 0; i < cnt && !x->bad; i++) {
		struct text t = take_text(x);

		if (i < FRAMES_MAX)
			out[i] = t;
	}
	return cnt;
}

/* A row of stack, names, files, lines. */
static int push_row(struct push *p, struct answer *x)
{
	uint64_t stack = take_u64(x), cnt = take_texts(x, p->names);
	uint32_t at = idmap__find(&p->totals->by_stack, stack);
	int err = 0;

	if (take_texts(x, p->files) != cnt || take_count(x) != cnt)
		x->bad = true;
	for (uint64_t i = 0; i < cnt && !err && !x->bad; i++) {
		uint32_t line = take_u32(x);

		if (i < FRAMES_MAX && !x->bad)
			err = frame_of(p, (uint32_t)i, line);
	}
	if (err || x->bad || at == IDMAP_NONE || p->totals->v[at].named)
		return err;
	p->totals->v[at].named = true;
	return push_total(p, &p->totals->v[at], cnt < FRAMES_MAX ? (uint32_t)cnt : FRAMES_MAX);
}

static int push_unnamed(struct push *p)
{
	int err = 0;

	p->names[0] = (struct text){ UNKNOWN_STACK, strlen(UNKNOWN_STACK) };
	p->files[0] = (struct text){ "", 0 };
	for (uint32_t i = 0; i < p->totals->cnt && !err; i++) {
		if (p->totals->v[i].named)
			continue;
		err = frame_of(p, 0, 0);
		err = err ? err : push_total(p, &p->totals->v[i], 1);
	}
	return err;
}

/* Of some stacks, by their numbers; a question has a limit of 256 KB. */
struct named {
	const struct total *v;
	uint32_t cnt;
};

static void put_named(struct outbuf *b, const struct ask *a, const void *what)
{
	const struct named *n = what;
	const struct selector_condition service = { STORE_SERVICE, a->service, SELECTOR_EQUAL };

	outbuf__puts(b, NAMES " WHERE stack IN (");
	for (uint32_t i = 0; i < n->cnt; i++)
		outbuf__printf(b, "%s%" PRIu64, i ? "," : "", n->v[i].stack);
	outbuf__putc(b, ')');
	if (a->service) /* is in front in the key */
		put_condition(b, &service);
	outbuf__puts(b, " GROUP BY stack");
}

/* @n: NULL: all. */
static int push_rows(struct push *p, const struct ask *a, const struct named *n, struct err *e)
{
	auto_fn(answer_done) struct answer x = { 0 };
	int err = n ? ask_sql(&x, a, put_named, n, e)
		    : ask_for(&x, a,
			      NAMES " WHERE stack GLOBAL IN"
				    " (SELECT stack FROM profiles ARRAY JOIN stacks AS stack",
			      ") GROUP BY stack", e);

	while (!err && x.at < x.end && !x.bad)
		err = push_row(p, &x);
	return err || !x.bad ? err : not_understood(e);
}

static int push_all(struct push *p, const struct ask *a, struct err *e)
{
	int64_t length = p->totals->last_ns - p->totals->first_ns;
	uint32_t cnt = p->totals->cnt;
	int err = begin(p);

	if (!err && cnt > NAMED_MAX)
		err = push_rows(p, a, NULL, e);
	for (uint32_t at = 0; at < cnt && cnt <= NAMED_MAX && !err; at += NAMED_AT_ONCE) {
		const struct named n = { p->totals->v + at,
					 cnt - at < NAMED_AT_ONCE ? cnt - at : NAMED_AT_ONCE };

		err = push_rows(p, a, &n, e);
	}
	err = err ? err : push_unnamed(p);
	return err ? err : sink__end(&p->k, length > 0 ? (uint64_t)length : 0);
}

int ask_sum(const struct ask *a, const struct trace_consumer *consumer, void *self,
	    uint64_t *profiles, struct err *e)
{
	auto_fn(totals_done) struct totals t = { 0 };
	auto_free struct push *p = calloc(1, sizeof(*p));
	int err = p ? ask_kinds(a, &t, e) : -ENOMEM;

	if (err)
		return err;
	*profiles = t.profiles;
	if (!t.profiles)
		return 0;
	err = ask_totals(a, &t, e);
	err = err ? err : sink__init(&p->k, consumer, self, e);
	if (err)
		return err;
	p->totals = &t;
	err = push_all(p, a, e);
	sink__done(&p->k);
	return err;
}

/* --- services --- */

int ask_services(const struct ask *a, int (*fn)(void *ctx, const struct ask_service *s), void *ctx,
		 struct err *e)
{
	auto_fn(answer_done) struct answer x = { 0 };
	int err = ask_for(
		&x, a,
		"SELECT service, uniqExact(profile), min(start_ns), max(end_ns) FROM profiles",
		" GROUP BY service ORDER BY service", e);

	while (!err && x.at < x.end && !x.bad) {
		struct ask_service s = { 0 };
		struct text name = take_text(&x);
		auto_free char *copy = strndup(name.s, name.len);

		s.name = copy;
		s.profiles = take_u64(&x);
		s.first_ns = (int64_t)take_u64(&x);
		s.last_ns = (int64_t)take_u64(&x);
		err = !copy ? -ENOMEM : x.bad ? 0 : fn(ctx, &s);
	}
	return err || !x.bad ? err : not_understood(e);
}
