// SPDX-License-Identifier: Apache-2.0
/*
 * speedscope's own format: a profile per thread, with events or with samples. Its members come in any
 * order, so frames are numbers until the end.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/gather.h"
#include "import/json.h"

struct profile {
	uint32_t name; /* text */
	char unit[16];
	double start, end;
	bool is_evented;
	uint32_t at; /* node of the events, or of the sample at hand */
};

/* One event or sample, before its profile's unit is known. */
struct raw {
	double value; /* at, or weight */
	uint32_t node;
};

struct speedscope {
	struct json_reader r;
	struct sink *k;
	struct gather g;
	struct gather_frame frame;
	struct profile p;
	struct raw *raws;
	uint32_t raw_cnt, raw_cap, weight_cnt;
	/* an event */
	double event_at;
	uint32_t event_frame;
	bool event_opens;
	uint32_t name; /* of the file, a text */
	double origin; /* of all times; NAN: not known so far */
	uint64_t end_ns, sample_ns;
	bool any_evented, any_counted;
	bool is_own; /* its samples are sums */
};

static bool path_is(const struct speedscope *sp, const char *path)
{
	return !strcmp(sp->r.path, path);
}

static int malformed(struct speedscope *sp, const char *what)
{
	return err_set(sp->k->e, -PYE_EFORMAT, "the speedscope profile is malformed: %s", what);
}

static bool is_text(const struct json_value *v, const char *s)
{
	return v->type == JSON_STRING && v->len == strlen(s) && !memcmp(v->s, s, v->len);
}

static int index_of(struct speedscope *sp, const struct json_value *v, uint32_t *out)
{
	if (v->type != JSON_NUMBER || v->number < 0 || v->number >= GATHER_NODES_MAX ||
	    v->number != floor(v->number))
		return malformed(sp, "the number of a frame is none");
	*out = (uint32_t)v->number;
	return 0;
}

static int add_raw(struct speedscope *sp, double value)
{
	if (sp->raw_cnt == sp->raw_cap) {
		uint32_t cap = sp->raw_cap ? sp->raw_cap * 2 : 256;
		struct raw *grown = reallocarray(sp->raws, cap, sizeof(*grown));

		if (sp->raw_cnt >= GATHER_ROWS_MAX)
			return malformed(sp, "more than a billion events");
		if (!grown)
			return -ENOMEM;
		sp->raws = grown;
		sp->raw_cap = cap;
	}
	sp->raws[sp->raw_cnt++] = (struct raw){ .value = value, .node = sp->p.at };
	return 0;
}

static int end_event(struct speedscope *sp)
{
	const struct gather_node *at = &sp->g.nodes[sp->p.at];
	int err = 0;

	if (sp->event_frame == UINT32_MAX || isnan(sp->event_at))
		return malformed(sp, "an event without a frame or a time");
	if (sp->event_opens)
		err = gather__node(&sp->g, sp->p.at, sp->event_frame, &sp->p.at);
	else if (!sp->p.at || at->frame != sp->event_frame)
		return malformed(sp, "an event closes a frame that is not the innermost one");
	else
		sp->p.at = at->parent;
	return err ? err : add_raw(sp, sp->event_at);
}

static uint64_t unit_ns(const struct profile *p)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "nanoseconds", 1 },
		      { "microseconds", 1000 },
		      { "milliseconds", 1000000 },
		      { "seconds", 1000000000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (!strcmp(p->unit, units[i].name))
			return units[i].ns;
	}
	return 0;
}

static uint64_t to_ns(double value, uint64_t unit)
{
	double ns = value * (double)unit;

	return ns > 0 && ns < (double)SINK_TIME_MAX ? (uint64_t)(ns + 0.5)
	       : ns > 0				    ? SINK_TIME_MAX + 1
						    : 0;
}

/* "comm pid / thread tid" of our own, else the name of a thread in a process called like the file. */
static int add_thread(struct speedscope *sp, uint32_t *index)
{
	const char *name = strpool__get(&sp->k->strings, sp->p.name), *slash = strstr(name, " / ");
	const char *pid = slash ? memrchr(name, ' ', (size_t)(slash - name)) : NULL;
	const char *tid = slash ? strrchr(slash + 3, ' ') : NULL;
	struct gather_thread t = { .comm = sp->name, .name = sp->p.name };
	int err = 0;

	if (pid && tid && pid[1] >= '0' && pid[1] <= '9' && tid[1] >= '0' && tid[1] <= '9') {
		t.pid = (uint32_t)strtoul(pid + 1, NULL, 10);
		t.tid = (uint32_t)strtoul(tid + 1, NULL, 10);
		err = sink__text(sp->k, name, (size_t)(pid - name), &t.comm);
		err = err ? err : sink__text(sp->k, slash + 3, (size_t)(tid - slash - 3), &t.name);
	}
	return err ? err : gather__thread(&sp->g, &t, index);
}

static int add_events(struct speedscope *sp, uint32_t thread, uint64_t unit)
{
	struct gather_row row = { .thread = thread, .is_step = true };
	uint64_t last_ns = 0;
	int err = 0;

	for (uint32_t i = 0; i < sp->raw_cnt && !err; i++) {
		row.ts_ns = to_ns(sp->raws[i].value - sp->origin, unit);
		if (row.ts_ns < last_ns)
			return malformed(sp, "events are not in the order of their times");
		last_ns = row.ts_ns;
		row.node = sp->raws[i].node;
		err = gather__row(&sp->g, &row);
	}
	if (err || !sp->p.at)
		return err;
	/* what is still open ends with its profile */
	row.ts_ns = to_ns(sp->p.end - sp->origin, unit);
	row.ts_ns = row.ts_ns < last_ns ? last_ns : row.ts_ns;
	row.node = 0;
	return gather__row(&sp->g, &row);
}

static int add_samples(struct speedscope *sp, uint32_t thread, uint64_t unit)
{
	struct gather_row row = { .thread = thread,
				  .ts_ns = to_ns(sp->p.start - sp->origin, unit ? unit : 1) };
	int err = 0;

	if (sp->weight_cnt != sp->raw_cnt)
		return malformed(sp, "there are not as many weights as samples");
	sp->any_counted = sp->any_counted || !unit;
	for (uint32_t i = 0; i < sp->raw_cnt && !err; i++) {
		row.node = sp->raws[i].node;
		row.count = !sp->is_own;
		if (!unit && sp->raws[i].value > 0 && sp->raws[i].value < UINT32_MAX)
			row.count = (uint32_t)sp->raws[i].value;
		row.weight_ns = unit ? to_ns(sp->raws[i].value, unit) : row.count * sp->k->count_ns;
		row.ts_ns += row.weight_ns;
		if (row.ts_ns > SINK_TIME_MAX)
			return malformed(sp, "the times add up to more than 36 years");
		if (!sp->sample_ns)
			sp->sample_ns = row.weight_ns;
		err = gather__row(&sp->g, &row);
	}
	return err;
}

static int end_profile(struct speedscope *sp)
{
	uint64_t unit = unit_ns(&sp->p), end_ns;
	uint32_t thread;
	int err;

	if (!unit && strcmp(sp->p.unit, "none") != 0)
		return err_set(sp->k->e, -PYE_EFORMAT, "the profile measures %s, and not time",
			       sp->p.unit[0] ? sp->p.unit : "what it does not say");
	if (sp->p.is_evented && !unit)
		return malformed(sp, "events without a unit of time");
	if (isnan(sp->origin))
		sp->origin = sp->p.start;
	end_ns = to_ns(sp->p.end - sp->origin, unit);
	if (unit && end_ns > sp->end_ns)
		sp->end_ns = end_ns;
	sp->any_evented = sp->any_evented || sp->p.is_evented;
	err = add_thread(sp, &thread);
	if (err)
		return err;
	return sp->p.is_evented ? add_events(sp, thread, unit) : add_samples(sp, thread, unit);
}

static int on_open(void *ctx, bool is_list)
{
	struct speedscope *sp = ctx;

	if (!is_list && path_is(sp, "profiles[]")) {
		sp->p = (struct profile){ 0 };
		sp->raw_cnt = sp->weight_cnt = 0;
	} else if (!is_list && path_is(sp, "profiles[].events[]")) {
		sp->event_frame = UINT32_MAX;
		sp->event_at = NAN;
		sp->event_opens = false;
	} else if (is_list && path_is(sp, "profiles[].samples[]")) {
		sp->p.at = 0;
	} else if (!is_list && path_is(sp, "shared.frames[]")) {
		sp->frame = (struct gather_frame){ 0 };
	}
	return 0;
}

static int on_close(void *ctx, bool is_list)
{
	struct speedscope *sp = ctx;

	if (!is_list && path_is(sp, "profiles[]"))
		return end_profile(sp);
	if (!is_list && path_is(sp, "profiles[].events[]"))
		return end_event(sp);
	if (is_list && path_is(sp, "profiles[].samples[]"))
		return add_raw(sp, 0);
	if (!is_list && path_is(sp, "shared.frames[]"))
		return gather__frame(&sp->g, &sp->frame);
	return 0;
}

static int on_event_value(struct speedscope *sp, const char *member, const struct json_value *v)
{
	if (!strcmp(member, "at"))
		sp->event_at = v->type == JSON_NUMBER ? v->number : NAN;
	else if (!strcmp(member, "frame"))
		return index_of(sp, v, &sp->event_frame);
	else if (!strcmp(member, "type"))
		sp->event_opens = is_text(v, "O");
	return 0;
}

static int on_weight(struct speedscope *sp, const struct json_value *v)
{
	if (v->type != JSON_NUMBER || sp->weight_cnt >= sp->raw_cnt)
		return malformed(sp, "weights do not follow the samples");
	sp->raws[sp->weight_cnt++].value = v->number;
	return 0;
}

static int on_profile_value(struct speedscope *sp, const char *member, const struct json_value *v)
{
	if (!strncmp(member, "events[].", 9))
		return on_event_value(sp, member + 9, v);
	if (!strcmp(member, "samples[][]")) {
		uint32_t frame = 0;
		int err = index_of(sp, v, &frame);

		return err ? err : gather__node(&sp->g, sp->p.at, frame, &sp->p.at);
	}
	if (!strcmp(member, "weights[]"))
		return on_weight(sp, v);
	if (!strcmp(member, "type"))
		sp->p.is_evented = is_text(v, "evented");
	else if (!strcmp(member, "name") && v->type == JSON_STRING)
		return sink__text(sp->k, v->s, v->len, &sp->p.name);
	else if (!strcmp(member, "unit") && v->type == JSON_STRING && v->len < sizeof(sp->p.unit))
		memcpy(sp->p.unit, v->s, v->len); /* zeroed before */
	else if (!strcmp(member, "startValue"))
		sp->p.start = v->number;
	else if (!strcmp(member, "endValue"))
		sp->p.end = v->number;
	return 0;
}

static int on_value(void *ctx, const struct json_value *v)
{
	struct speedscope *sp = ctx;
	const char *path = sp->r.path;

	if (!strcmp(path, "exporter"))
		sp->is_own = v->len > 7 && !memcmp(v->s, "pyebpf ", 7);
	if (!strncmp(path, "profiles[].", 11))
		return on_profile_value(sp, path + 11, v);
	if (!strcmp(path, "shared.frames[].name") && v->type == JSON_STRING)
		return sink__text(sp->k, v->s, v->len, &sp->frame.name);
	if (!strcmp(path, "shared.frames[].file") && v->type == JSON_STRING)
		return sink__text(sp->k, v->s, v->len, &sp->frame.file);
	if (!strcmp(path, "shared.frames[].line") && v->type == JSON_NUMBER && v->number > 0 &&
	    v->number < INT32_MAX)
		sp->frame.line = (uint32_t)v->number;
	return 0;
}

/* Of events a frame's line is taken for the function's first one, of samples for where it was. */
static void place_lines(struct speedscope *sp)
{
	for (uint32_t i = 0; sp->any_evented && i < sp->g.frame_cnt; i++)
		sp->g.frames[i].first_line = sp->g.frames[i].line;
}

static int read_all(struct speedscope *sp, struct source *s)
{
	struct trace_info info = { .engine = "speedscope" };
	int err = gather__init(&sp->g, sp->k);

	err = err ? err : sink__text(sp->k, "speedscope", strlen("speedscope"), &sp->name);
	err = err ? err : json_read(s, &sp->r);
	if (err)
		return err;
	if (!sp->g.thread_cnt)
		return malformed(sp, "there is no profile in it");
	place_lines(sp);
	if (!sp->any_evented && !sp->is_own)
		info.sample_ns = sp->sample_ns;
	err = sink__begin(sp->k, &info);
	err = err ? err : gather__push(&sp->g);
	return err ? err : sink__end(sp->k, sp->end_ns);
}

static int run(struct source *s, struct sink *k)
{
	struct speedscope sp = { .r = { .open = on_open, .close = on_close, .value = on_value },
				 .k = k,
				 .origin = NAN };
	int err;

	sp.r.ctx = &sp;
	err = read_all(&sp, s);
	gather__done(&sp.g);
	free(sp.raws);
	if (!err && sp.any_counted)
		import_note_counts(k);
	return err;
}

const struct importer import_speedscope = { .name = "speedscope", .run = run };
