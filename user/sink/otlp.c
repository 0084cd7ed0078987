// SPDX-License-Identifier: Apache-2.0
/*
 * OTLP profiles by HTTP, POST /v1development/profiles, of opentelemetry-proto v1.11.0. The protocol is in development and its
 * shape has changed with most of its versions; field numbers and the path are all here. A request has one window, or a part of one that
 * is large: who answers that some profiles were rejected does not say which. A window is a profile for each type of value; names, stacks
 * and attributes are in tables that these share, each of which begins with an entry of zeros, and has just what the part needs.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/wire.h"
#include "export/proto.h"
#include "import/pprof_read.h"
#include "sink/sink.h"

#define OTLP_PATH "/v1development/profiles"
/* Of a request, before compression. The collector takes 20 MiB, and answers what has more with 400 as if it were wrong. */
#define PART_BYTES (16u << 20)

enum {
	REQUEST_RESOURCE_PROFILES = 1,
	REQUEST_DICTIONARY = 2,
	RESOURCE_PROFILES_RESOURCE = 1,
	RESOURCE_PROFILES_SCOPE_PROFILES = 2,
	RESOURCE_ATTRIBUTES = 1,
	SCOPE_PROFILES_SCOPE = 1,
	SCOPE_PROFILES_PROFILES = 2,
	SCOPE_NAME = 1,
	SCOPE_VERSION = 2,
	OTLP_SAMPLE_TYPE = 1,
	OTLP_SAMPLES = 2,
	OTLP_TIME = 3, /* fixed64 */
	OTLP_DURATION = 4,
	OTLP_PERIOD_TYPE = 5,
	OTLP_PERIOD = 6,
	OTLP_PROFILE_ID = 7,
	OTLP_STACK_INDEX = 1, /* of a sample */
	OTLP_ATTRIBUTE_INDICES = 2,
	OTLP_VALUES = 4,
	OTLP_LINE = 3, /* of a location */
	OTLP_MAPPING_FILENAME = 4,
	KEY_VALUE_KEY = 1,
	KEY_VALUE_VALUE = 2,
	ANY_STRING = 1,
	ANY_INT = 3,
	RESPONSE_PARTIAL_SUCCESS = 1,
	PARTIAL_REJECTED = 1,
	PARTIAL_MESSAGE = 2
};

/* Tables of the dictionary; their numbers there. */
enum table {
	TABLE_MAPPING = 1,
	TABLE_LOCATION,
	TABLE_FUNCTION,
	TABLE_LINK,
	TABLE_STRING,
	TABLE_ATTRIBUTE,
	TABLE_STACK,
	TABLE_CNT
};

struct name_pair {
	const char *ours, *theirs;
};

/* Labels of a window and of its samples, by OpenTelemetry's semantic conventions. Others keep their names. */
static const struct name_pair resource_names[] = {
	{ STORE_SERVICE, "service.name" },
	{ "node", "host.name" },
	{ "container_id", "container.id" },
	{ "executable", "process.executable.name" },
	{ "python", "process.runtime.version" },
	{ "namespace", "k8s.namespace.name" },
	{ "pod", "k8s.pod.name" },
	{ "container", "k8s.container.name" },
};
static const struct name_pair sample_names[] = {
	{ "pid", "process.pid" },
	{ "tid", "thread.id" },
	{ "thread", "thread.name" },
	{ "process", "process.executable.name" },
};

/* A window, and a request while it is put together. */
struct otlp {
	struct pprof_reader r;
	struct source source;
	const struct sink_window *w;
	struct sink_push *push;
	struct outbox_progress at; /* behind the sample at hand */
	uint32_t sample_cnt; /* in this part */
	uint32_t *functions,
		*locations; /* their numbers, by index in the profile; 0: not in this part */
	uint32_t function_cnt, location_cnt;
	struct proto tables[TABLE_CNT];
	struct proto samples[PPROF_VALUES_MAX]; /* of each type */
	uint32_t string_cnt, stack_cnt, attribute_cnt;
	struct idmap strings; /* by number in the profile */
	struct idmap stacks, attributes; /* by hash */
	struct idmap keys; /* of attributes, by string of the profile */
};

static void otlp_done(struct otlp *o)
{
	pprof_reader__done(&o->r);
	source__done(&o->source);
	for (unsigned int i = 0; i < TABLE_CNT; i++)
		proto__done(&o->tables[i]);
	for (unsigned int i = 0; i < PPROF_VALUES_MAX; i++)
		proto__done(&o->samples[i]);
	idmap__done(&o->strings);
	idmap__done(&o->stacks);
	idmap__done(&o->attributes);
	idmap__done(&o->keys);
	free(o->functions);
	free(o->locations);
}

static const char *renamed(const struct name_pair *names, size_t cnt, const char *name)
{
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(names[i].ours, name))
			return names[i].theirs;
	return name;
}
#define RENAMED(names, name) renamed(names, sizeof(names) / sizeof((names)[0]), name)

/* --- tables --- */

static uint32_t add_string(struct otlp *o, const char *s)
{
	proto__bytes(&o->tables[TABLE_STRING], TABLE_STRING, s, strlen(s));
	return o->string_cnt++;
}

/* The number of one of the profile's strings. What it does not have is "". */
static uint32_t string_of(struct otlp *o, uint64_t string)
{
	const char *text = pprof_names__text(&o->r.names, string);
	uint32_t number = *text ? idmap__find(&o->strings, string) : 0;

	if (number != IDMAP_NONE)
		return number;
	number = add_string(o, text);
	if (idmap__set(&o->strings, string, number))
		o->tables[TABLE_STRING].err = -ENOMEM;
	return number;
}

/* As string_of(). */
static uint32_t function_of(struct otlp *o, uint32_t index)
{
	const struct pprof_function *f = &o->r.names.functions[index];
	struct proto *p = &o->tables[TABLE_FUNCTION];
	char address[32];
	size_t mark;

	if (o->functions[index])
		return o->functions[index];
	mark = proto__open(p, TABLE_FUNCTION);
	if (f->address) {
		snprintf(address, sizeof(address), "0x%" PRIx64, f->address);
		proto__u64(p, 1, add_string(o, address));
	} else {
		proto__u64(p, 1, string_of(o, f->name));
	}
	proto__u64(p, 3, string_of(o, f->file));
	proto__u64(p, 4, f->line);
	proto__close(p, mark);
	return o->functions[index] = o->function_cnt++;
}

static uint32_t location_of(struct otlp *o, uint32_t index)
{
	const struct pprof_names *n = &o->r.names;
	const struct pprof_location *l = &n->locations[index];
	struct proto *p = &o->tables[TABLE_LOCATION];
	size_t mark, line;

	if (o->locations[index])
		return o->locations[index];
	mark = proto__open(p, TABLE_LOCATION);
	proto__u64(p, 1, 1); /* the mapping */
	for (uint32_t k = l->first_line; k < l->first_line + l->line_cnt; k++) {
		line = proto__open(p, OTLP_LINE);
		proto__u64(p, 1, function_of(o, n->lines[k].function));
		proto__u64(p, 2, n->lines[k].line);
		proto__close(p, line);
	}
	proto__close(p, mark);
	return o->locations[index] = o->location_cnt++;
}

static void clear(uint32_t *numbers, uint32_t cnt)
{
	if (cnt)
		memset(numbers, 0, cnt * sizeof(*numbers));
}

/* Tables with what is in each of them, and no samples. */
static void begin_part(struct otlp *o)
{
	struct proto *t = o->tables;
	size_t mark;

	for (unsigned int i = 0; i < TABLE_CNT; i++)
		t[i].len = 0;
	for (unsigned int i = 0; i < PPROF_VALUES_MAX; i++)
		o->samples[i].len = 0;
	idmap__done(&o->strings);
	idmap__done(&o->stacks);
	idmap__done(&o->attributes);
	idmap__done(&o->keys);
	clear(o->functions, o->r.names.function_cnt);
	clear(o->locations, o->r.names.location_cnt);
	o->string_cnt = o->sample_cnt = 0;
	o->function_cnt = o->location_cnt = o->stack_cnt = o->attribute_cnt = 1;
	for (unsigned int i = TABLE_MAPPING; i < TABLE_CNT; i++)
		if (i != TABLE_STRING)
			proto__close(&t[i], proto__open(&t[i], i));
	add_string(o, "");
	mark = proto__open(&t[TABLE_MAPPING], TABLE_MAPPING);
	proto__u64(&t[TABLE_MAPPING], OTLP_MAPPING_FILENAME, string_of(o, o->r.names.mapping));
	proto__close(&t[TABLE_MAPPING], mark);
}

static size_t part_size(const struct otlp *o)
{
	size_t size = 0;

	for (unsigned int i = 0; i < TABLE_CNT; i++)
		size += o->tables[i].len;
	for (unsigned int i = 0; i < o->r.names.type_cnt; i++)
		size += o->samples[i].len;
	return size;
}

/* --- samples --- */

static int find_stack(struct otlp *o, const struct pprof_sample *s, uint32_t *out)
{
	uint64_t key = XXH3_64bits(s->locations, s->location_cnt * sizeof(*s->locations));
	struct proto *p = &o->tables[TABLE_STACK];
	struct pprof_location *at;
	size_t mark, packed;
	int err = 0;

	*out = idmap__find(&o->stacks, key);
	if (*out != IDMAP_NONE)
		return 0;
	mark = proto__open(p, TABLE_STACK);
	packed = proto__open(p, 1);
	for (uint32_t i = 0; i < s->location_cnt && !err; i++) {
		err = pprof_names__find(&o->r.names, s->locations[i], &at);
		if (!err)
			proto__varint(p, location_of(o, (uint32_t)(at - o->r.names.locations)));
	}
	proto__close(p, packed);
	proto__close(p, mark);
	*out = o->stack_cnt++;
	return err ? err : idmap__set(&o->stacks, key, *out);
}

static int find_key(struct otlp *o, uint64_t key, uint32_t *out)
{
	*out = idmap__find(&o->keys, key);
	if (*out != IDMAP_NONE)
		return 0;
	*out = add_string(o, RENAMED(sample_names, pprof_names__text(&o->r.names, key)));
	return idmap__set(&o->keys, key, *out);
}

static int find_attribute(struct otlp *o, const struct pprof_label *l, uint32_t *out)
{
	uint64_t hash = XXH3_64bits(l, sizeof(*l));
	struct proto *p = &o->tables[TABLE_ATTRIBUTE];
	const char *text = pprof_names__text(&o->r.names, l->text);
	size_t mark, value;
	uint32_t key;
	int err;

	*out = idmap__find(&o->attributes, hash);
	if (*out != IDMAP_NONE)
		return 0;
	err = find_key(o, l->key, &key);
	mark = proto__open(p, TABLE_ATTRIBUTE);
	proto__u64(p, KEY_VALUE_KEY, key);
	value = proto__open(p, KEY_VALUE_VALUE);
	if (l->text) {
		proto__bytes(p, ANY_STRING, text, strlen(text));
	} else { /* of a choice, so 0 is written, too */
		proto__raw(p, "\x18", 1);
		proto__varint(p, l->number);
	}
	proto__close(p, value);
	proto__close(p, mark);
	*out = o->attribute_cnt++;
	return err ? err : idmap__set(&o->attributes, hash, *out);
}

static void put_sample(struct proto *p, uint32_t stack, const uint32_t *attributes, uint32_t cnt,
		       uint64_t value)
{
	size_t mark = proto__open(p, OTLP_SAMPLES), packed;

	proto__u64(p, OTLP_STACK_INDEX, stack);
	packed = proto__open(p, OTLP_ATTRIBUTE_INDICES);
	proto__varints(p, attributes, cnt);
	proto__close(p, packed);
	packed = proto__open(p, OTLP_VALUES);
	proto__varint(p, value);
	proto__close(p, packed);
	proto__close(p, mark);
}

/* --- the request --- */

static void put_text(struct proto *p, uint32_t field, const char *text)
{
	proto__bytes(p, field, text, strlen(text));
}

static void put_fixed64(struct proto *p, uint32_t field, uint64_t value)
{
	uint8_t tag = (uint8_t)(field << 3 | WIRE_64);

	value = htole64(value);
	proto__raw(p, &tag, sizeof(tag));
	proto__raw(p, &value, sizeof(value));
}

static void put_resource(struct proto *p, const struct head *h)
{
	size_t resource = proto__open(p, RESOURCE_PROFILES_RESOURCE), mark, value;

	for (uint32_t i = 0; i < h->label_cnt; i++) {
		mark = proto__open(p, RESOURCE_ATTRIBUTES);
		put_text(p, KEY_VALUE_KEY, RENAMED(resource_names, h->labels[i].name));
		value = proto__open(p, KEY_VALUE_VALUE);
		put_text(p, ANY_STRING, h->labels[i].value);
		proto__close(p, value);
		proto__close(p, mark);
	}
	proto__close(p, resource);
}

static void put_type(struct otlp *o, struct proto *p, uint32_t field, const struct pprof_type *type)
{
	size_t mark = proto__open(p, field);

	proto__u64(p, 1, string_of(o, type->type));
	proto__u64(p, 2, string_of(o, type->unit));
	proto__close(p, mark);
}

/* Servers name a profile by its period's type: that of sampling is for what sampling measures. Waits have none, which is not the
 * same as leaving it out: Parca refuses that. */
static void put_period(struct otlp *o, struct proto *p, const struct pprof_type *type)
{
	const struct pprof_names *n = &o->r.names;
	const char *name = pprof_names__text(n, type->type);
	bool sampled = n->period && (!strcmp(name, "samples") || type->type == n->period_type.type);
	struct pprof_type none = { 0 };

	put_type(o, p, OTLP_PERIOD_TYPE,
		 sampled			? &n->period_type
		 : strcmp(name, "off_cpu") != 0 ? type
						: &none);
	proto__u64(p, OTLP_PERIOD, sampled ? n->period : 0);
}

static void put_profile(struct otlp *o, struct proto *p, uint32_t type)
{
	const struct sink_window *w = o->w;
	uint64_t id[2] = { htole64(w->id), htole64((uint64_t)o->at.parts << 8 | (type + 1)) };
	size_t mark = proto__open(p, SCOPE_PROFILES_PROFILES);

	put_type(o, p, OTLP_SAMPLE_TYPE, &o->r.names.types[type]);
	proto__raw(p, o->samples[type].data, o->samples[type].len);
	/* a server may take two of a series and a millisecond for one that came twice */
	put_fixed64(p, OTLP_TIME, (uint64_t)w->head->start_ns + o->at.parts * 1000000ull);
	proto__u64(p, OTLP_DURATION, (uint64_t)(w->head->end_ns - w->head->start_ns));
	put_period(o, p, &o->r.names.types[type]);
	proto__bytes(p, OTLP_PROFILE_ID, id, sizeof(id)); /* the same when it is sent again */
	proto__close(p, mark);
}

static int put_request(struct otlp *o, struct proto *p)
{
	size_t resource = proto__open(p, REQUEST_RESOURCE_PROFILES), scopes, mark;
	int err = 0;

	put_resource(p, o->w->head);
	scopes = proto__open(p, RESOURCE_PROFILES_SCOPE_PROFILES);
	mark = proto__open(p, SCOPE_PROFILES_SCOPE);
	put_text(p, SCOPE_NAME, "pyebpf");
	put_text(p, SCOPE_VERSION, PYEBPF_VERSION);
	proto__close(p, mark);
	for (uint32_t i = 0; i < o->r.names.type_cnt; i++) {
		err = err ? err : o->samples[i].err;
		if (o->samples[i].len)
			put_profile(o, p, i);
	}
	proto__close(p, scopes);
	proto__close(p, resource);
	mark = proto__open(p, REQUEST_DICTIONARY);
	for (unsigned int i = TABLE_MAPPING; i < TABLE_CNT; i++) {
		err = err ? err : o->tables[i].err;
		proto__raw(p, o->tables[i].data, o->tables[i].len);
	}
	proto__close(p, mark);
	return err ? err : p->err;
}

static int end_part(struct otlp *o)
{
	auto_fn(proto__done) struct proto p = { 0 };
	struct sink_request *r;
	int err = put_request(o, &p);

	if (err)
		return err;
	r = sink_push__request(o->push, OTLP_PATH);
	if (!r)
		return -ENOMEM;
	o->at.parts++;
	r->then = o->at;
	sink_request__header(r, "Content-Type: application/x-protobuf");
	return sink_request__gzip(r, p.data, p.len);
}

static int add_sample(void *ctx, const struct pprof_sample *s)
{
	struct otlp *o = ctx;
	uint32_t stack, attributes[PPROF_LABELS_MAX];
	int err = 0;

	if (o->at.samples < o->w->from.samples) { /* is there already */
		o->at.samples++;
		return 0;
	}
	if (o->sample_cnt && part_size(o) >= PART_BYTES >> o->w->smaller) {
		err = end_part(o);
		begin_part(o);
	}
	if (s->value_cnt != o->r.names.type_cnt)
		return pprof_reader__malformed(&o->r, "a sample has not a value of each type");
	err = err ? err : find_stack(o, s, &stack);
	for (uint32_t i = 0; i < s->label_cnt && !err; i++)
		err = find_attribute(o, &s->labels[i], &attributes[i]);
	for (uint32_t i = 0; i < s->value_cnt && !err; i++)
		if (s->values[i])
			put_sample(&o->samples[i], stack, attributes, s->label_cnt, s->values[i]);
	o->at.samples++;
	o->sample_cnt++;
	return err;
}

static int put_window(struct otlp *o, struct err *e)
{
	const struct pprof_names *n = &o->r.names;
	int err = source__open(&o->source, o->w->fd, e);

	err = err ? err : pprof_reader__names(&o->r, &o->source, e);
	if (err)
		return err;
	o->functions = calloc(n->function_cnt + 1, sizeof(*o->functions));
	o->locations = calloc(n->location_cnt + 1, sizeof(*o->locations));
	if (!o->functions || !o->locations)
		return -ENOMEM;
	o->at.parts = o->w->from.parts;
	begin_part(o);
	err = pprof_reader__samples(&o->r, add_sample, o);
	/* one that is empty goes, too */
	return err || (!o->sample_cnt && o->at.parts) ? err : end_part(o);
}

static int otlp_add(void *self, struct sink_push *push, const struct sink_window *w, struct err *e)
{
	auto_fn(otlp_done) struct otlp o = { .w = w, .push = push };
	uint32_t before = push->request_cnt;
	int err;

	(void)self;
	if (lseek(w->fd, 0, SEEK_SET))
		return -errno;
	err = put_window(&o, e);
	if (err)
		sink_push__cut(push, before);
	return err;
}

/* An answer that all is well may say that some of it is not, or nothing but a word of advice. */
static enum sink_verdict otlp_judge(void *self, const struct sink_reply *reply, struct err *e)
{
	enum sink_verdict by_http = sink_judge_http(self, reply, e);
	struct wire w = { .at = (const uint8_t *)reply->body,
			  .end = (const uint8_t *)reply->body + reply->len };
	struct wire_field f, in;
	uint64_t rejected = 0;
	char shown[300] = "";

	if (by_http != SINK_OK || !reply->len)
		return by_http;
	while (wire__next(&w, &f)) {
		struct wire partial = wire_inner(&f);

		if (f.number != RESPONSE_PARTIAL_SUCCESS)
			continue;
		while (wire__next(&partial, &in)) {
			if (in.number == PARTIAL_REJECTED && in.type == WIRE_VARINT)
				rejected = in.value;
			if (in.number == PARTIAL_MESSAGE && in.type == WIRE_BYTES)
				text_escape(shown, sizeof(shown), (const char *)in.bytes,
					    in.value < 200 ? in.value : 200);
		}
	}
	if (!rejected)
		return SINK_OK;
	err_set(e, -PYE_EOUTPUT, "the server rejected %" PRIu64 " of its profiles: %s", rejected,
		shown);
	return SINK_DROP;
}

const struct sink_ops sink_otlp = {
	.type = "otlp",
	.windows_max = 1,
	.bytes_max = 1u << 20,
	.parts = true,
	.add = otlp_add,
	.judge = otlp_judge,
};
