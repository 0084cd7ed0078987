// SPDX-License-Identifier: Apache-2.0
/*
 * speedscope's own file format: an evented profile per thread, each call and each gap in its place
 * in time. Its events lie together per thread, so they are kept until the end, some 4 bytes each.
 *
 * A viewer in a browser does not open any number of them. Past a limit the events are dropped and
 * the file holds what is collected beside them all the while: a sampled profile per thread, a
 * sample for each distinct stack, weighted with its self time. The file and a note say so.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "export/folding.h"
#include "export/fragments.h"
#include "export/gzip.h"
#include "export/json.h"
#include "export/speedscope_stacks.h"
#include "export/timeline.h"

enum {
	BUFFER_BYTES = 256 << 10,
	DEFAULT_MAX_EVENTS = 4000000,
	NO_FRAME = UINT32_MAX
};

/* Events of a thread: varint(ns since the one before << 1 | open), and varint(frame) if it opens. */
struct events {
	unsigned char *data;
	size_t len, cap;
	uint64_t first_ns, last_ns; /* last_ns: also what the next event counts from */
	uint64_t cnt;
};

struct speedscope {
	struct timeline timeline;
	struct folding folding;
	struct gzip *gzip; /* NULL: plain */
	struct outbuf out;
	const struct export_out *to;
	struct fragments frames; /* id - 1 is the frame; JSON objects */
	uint32_t *frame_of; /* by index of a function */
	uint32_t frame_cap;
	struct events *events; /* by index of a thread; NULL once there were too many */
	uint32_t events_cap;
	uint64_t event_cnt, max_events;
	bool aggregated;
	uint32_t version; /* of the timeline's strings */
};

static void drop_events(struct speedscope *s)
{
	for (uint32_t i = 0; i < s->events_cap; i++)
		free(s->events[i].data);
	free(s->events);
	s->events = NULL;
	s->events_cap = 0;
}

static void speedscope__done(void *self)
{
	struct speedscope *s = self;

	drop_events(s);
	timeline__done(&s->timeline);
	folding__done(&s->folding);
	gzip__free(s->gzip);
	outbuf__done(&s->out);
	fragments__done(&s->frames);
	free(s->frame_of);
}

/* The index of a frame, added when it is new. */
static int frame_id(struct speedscope *s, const char *name, const char *file, uint32_t line,
		    uint32_t *frame)
{
	struct outbuf b;
	uint32_t id = 0;
	int err = fragment_begin(&s->frames, &b);

	if (err)
		return err;
	outbuf__puts(&b, "{\"name\":");
	json_shown(&b, name);
	if (*file) {
		outbuf__puts(&b, ",\"file\":");
		json_shown(&b, file);
	}
	if (line) {
		outbuf__puts(&b, ",\"line\":");
		json_u64(&b, line);
	}
	outbuf__putc(&b, '}');
	err = fragment_end(&s->frames, &b, &id);
	*frame = id - 1;
	return err;
}

static int on_func_defined(void *ctx, uint32_t func, const struct trace_func *def)
{
	struct speedscope *s = ctx;

	if (GROW(s->frame_of, s->frame_cap, func))
		return -ENOMEM;
	return frame_id(s, def->qualname, def->file, def->line, &s->frame_of[func]);
}

static unsigned char *put_varint(unsigned char *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (unsigned char)(value | 0x80);
	*at++ = (unsigned char)value;
	return at;
}

/* @frame: NO_FRAME closes. */
static int add_event(struct speedscope *s, uint32_t thread, uint64_t ns, uint32_t frame)
{
	struct events *e;
	unsigned char *at;

	if (++s->event_cnt > s->max_events) {
		s->aggregated = true;
		drop_events(s);
		return 0;
	}
	if (GROW(s->events, s->events_cap, thread))
		return -ENOMEM;
	e = &s->events[thread];
	if (e->cap - e->len < 16) {
		size_t cap = e->cap ? e->cap + e->cap / 2 : 256;
		unsigned char *grown = realloc(e->data, cap);

		if (!grown)
			return -ENOMEM;
		e->data = grown;
		e->cap = cap;
	}
	if (!e->cnt)
		e->first_ns = e->last_ns = ns;
	at = put_varint(e->data + e->len, (ns - e->last_ns) << 1 | (frame != NO_FRAME));
	if (frame != NO_FRAME)
		at = put_varint(at, frame);
	e->len = (size_t)(at - e->data);
	e->last_ns = ns;
	e->cnt++;
	return 0;
}

static int on_open(void *ctx, uint32_t thread, uint64_t ns, uint32_t func)
{
	struct speedscope *s = ctx;

	return add_event(s, thread, ns, s->frame_of[func]);
}

static int on_close(void *ctx, uint32_t thread, uint64_t ns, uint32_t func)
{
	(void)func;
	return add_event(ctx, thread, ns, NO_FRAME);
}

static int on_gap_opened(void *ctx, uint32_t thread, uint64_t ns, const struct trace_gap *gap)
{
	struct speedscope *s = ctx;
	uint32_t frame = 0;
	char name[64];
	int err = 0;

	if (!s->aggregated)
		err = frame_id(s, timeline_gap_name(name, sizeof(name), gap), "", 0, &frame);
	return err ? err : add_event(s, thread, ns, frame);
}

static const struct timeline_ops timeline_ops = {
	.func = on_func_defined,
	.open = on_open,
	.gap = on_gap_opened,
	.close = on_close,
};

static int speedscope__init(void *self, const struct export_opts *opts,
			    const struct export_out *out)
{
	struct speedscope *s = self;
	int err;

	s->to = out;
	s->max_events = opts->max_events ? opts->max_events : DEFAULT_MAX_EVENTS;
	err = timeline__init(&s->timeline, &timeline_ops, s);
	err = err ? err : folding__init(&s->folding, opts, 0);
	err = err ? err : fragments__init(&s->frames);
	return err ? err
		   : gzip_front(&s->gzip, opts->plain, &s->out, BUFFER_BYTES, out->write, out->ctx);
}

/* Each part of the trace goes to the timeline and to the aggregate. */
#define BOTH(member, type)                                              \
	static int on_##member(void *self, const struct type *what)     \
	{                                                               \
		struct speedscope *s = self;                            \
		int err = timeline_##member(&s->timeline, what);        \
                                                                        \
		return err ? err : forward_##member(&s->folding, what); \
	}

BOTH(process, trace_process)
BOTH(thread, trace_thread)
BOTH(func, trace_func)
BOTH(event, trace_event)
BOTH(sample, trace_sample)
BOTH(gap, trace_gap)

static int on_begin(void *self, const struct trace_info *info)
{
	struct speedscope *s = self;
	int err = timeline_begin(&s->timeline, info);

	err = err ? err
		  : strpool__add(&s->timeline.strings, info->version, strlen(info->version),
				 &s->version);
	return err ? err : forward_begin(&s->folding, info);
}

static const unsigned char *get_varint(const unsigned char *at, uint64_t *value)
{
	unsigned int shift = 0;

	*value = 0;
	do {
		*value |= (uint64_t)(*at & 0x7f) << shift;
		shift += 7;
	} while (*at++ & 0x80);
	return at;
}

/* The format wants the frame in the event that closes it, too. */
static int put_events(struct outbuf *b, const struct events *e)
{
	static const char open[] = "{\"type\":\"O\",\"frame\":",
			  close[] = "{\"type\":\"C\",\"frame\":";
	const unsigned char *at = e->data, *end = e->data + e->len;
	uint32_t *stack = NULL, depth = 0, cap = 0;
	uint64_t ns = e->first_ns, step = 0, frame = 0;
	int err = 0;

	while (at < end) {
		char *text = outbuf__room(b, sizeof(open) + 2 * (size_t)JSON_U64_MAX + 16);

		at = get_varint(at, &step);
		if (step & 1) {
			at = get_varint(at, &frame);
			err = GROW(stack, cap, depth);
			if (err)
				break;
			stack[depth++] = (uint32_t)frame;
		} else {
			frame = depth ? stack[--depth] : 0; /* never: each was opened */
		}
		ns += step >> 1;
		memcpy(text, step & 1 ? open : close, sizeof(open) - 1);
		text = json_fmt_u64(text + sizeof(open) - 1, frame);
		memcpy(text, ",\"at\":", 6);
		text = json_fmt_u64(text + 6, ns);
		*text++ = '}';
		if (at < end)
			*text++ = ',';
		outbuf__used(b, text);
	}
	free(stack);
	return err ? err : b->err;
}

static void put_head(struct speedscope *s, uint32_t active)
{
	const struct timeline *t = &s->timeline;
	struct outbuf *b = &s->out;

	outbuf__puts(b, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
			"\"exporter\":\"pyebpf ");
	json_shown_body(b, strpool__get(&t->strings, s->version));
	outbuf__puts(b, "\",\"name\":\"pyebpf");
	if (t->process_cnt) {
		outbuf__puts(b, ": ");
		json_shown_body(b, strpool__get(&t->strings, t->processes[0].comm));
		outbuf__putc(b, ' ');
		json_u64(b, t->processes[0].pid);
	}
	if (t->process_cnt > 1) {
		outbuf__puts(b, " and ");
		json_u64(b, t->process_cnt - 1);
		outbuf__puts(b, " more");
	}
	outbuf__puts(b, "\",\"activeProfileIndex\":");
	json_u64(b, active);
	outbuf__puts(b, ",\"shared\":{\"frames\":[");
	for (uint32_t id = 1; id < s->frames.pool.cnt; id++) {
		if (id > 1)
			outbuf__putc(b, ',');
		put_fragment(b, &s->frames, id);
	}
	outbuf__puts(b, "]},\"profiles\":[");
}

static void put_profile(struct outbuf *b, uint64_t start, uint64_t end)
{
	outbuf__puts(b, "\",\"unit\":\"nanoseconds\",\"startValue\":");
	json_u64(b, start);
	outbuf__puts(b, ",\"endValue\":");
	json_u64(b, end);
}

/* All profiles span the whole trace, so that the same moment is at the same place in each. */
static int put_evented(struct speedscope *s)
{
	const struct timeline *t = &s->timeline;
	uint32_t active = 0, shown = 0;
	uint64_t most = 0;
	int err = 0;

	for (uint32_t i = 0; i < s->events_cap; i++) {
		if (s->events[i].cnt > most) {
			most = s->events[i].cnt;
			active = shown;
		}
		shown += s->events[i].cnt > 0;
	}
	put_head(s, active);
	shown = 0;
	for (uint32_t i = 0; i < s->events_cap && !err; i++) {
		if (!s->events[i].cnt)
			continue;
		outbuf__puts(&s->out, shown++ ? ",\n" : "\n");
		outbuf__puts(&s->out, "{\"type\":\"evented\",\"name\":\"");
		timeline_put_thread(t, i, &s->out);
		put_profile(&s->out, 0, t->newest_ns - t->start_ns);
		outbuf__puts(&s->out, ",\"events\":[");
		err = put_events(&s->out, &s->events[i]);
		outbuf__puts(&s->out, "]}");
	}
	if (shown)
		return err;
	outbuf__puts(&s->out, "{\"type\":\"evented\",\"name\":\"no Python function was on a stack");
	put_profile(&s->out, 0, t->newest_ns - t->start_ns);
	outbuf__puts(&s->out, ",\"events\":[]}");
	return err;
}

static int gap_frames(struct speedscope *s, const struct agg_result *r, uint32_t *of_gap)
{
	int err = 0;

	for (uint32_t i = 0; i < r->thread_cnt && !err; i++) {
		char name[64] = "[unknown]";

		if (r->threads[i].lost)
			snprintf(name, sizeof(name), "[lost %" PRIu64 "]", r->threads[i].lost);
		err = frame_id(s, name, "", 0, &of_gap[i]);
	}
	return err;
}

static int func_frames(struct speedscope *s, const struct agg_result *r, uint32_t *of_func)
{
	int err = 0;

	for (uint32_t i = 0; i < r->func_cnt && !err; i++) {
		const struct agg_func *f = &r->funcs[i];

		err = frame_id(s, strpool__get(&r->strings, f->qualname),
			       strpool__get(&r->strings, f->file), f->line, &of_func[i]);
	}
	return err;
}

/* Threads have the same index in the aggregate as in the timeline: both count first definitions. */
static void put_threads(struct speedscope *s, const struct ss_stacks *stacks,
			const struct ss_frames *frames)
{
	struct outbuf *b = &s->out;
	uint32_t active = 0, shown = 0;
	uint64_t most = 0;

	for (uint32_t i = 0; i < s->timeline.thread_cnt; i++) {
		if (ss_stacks__total(stacks, i) > most) {
			most = ss_stacks__total(stacks, i);
			active = shown;
		}
		shown += ss_stacks__total(stacks, i) > 0;
	}
	put_head(s, active);
	shown = 0;
	for (uint32_t i = 0; i < s->timeline.thread_cnt; i++) {
		if (!ss_stacks__total(stacks, i))
			continue;
		outbuf__puts(b, shown++ ? ",\n" : "\n");
		outbuf__puts(b, "{\"type\":\"sampled\",\"name\":\"");
		timeline_put_thread(&s->timeline, i, b);
		outbuf__puts(b, " (aggregated: not in order of time, ");
		json_u64(b, s->event_cnt);
		outbuf__puts(b, " events are too many)");
		put_profile(b, 0, ss_stacks__total(stacks, i));
		ss_stacks__put(stacks, i, frames, b);
		outbuf__putc(b, '}');
	}
}

static int put_aggregated(struct speedscope *s)
{
	const struct agg_result *r = aggregate__result(s->folding.agg);
	auto_free uint32_t *of_func = calloc(r->func_cnt + 1ull, sizeof(*of_func));
	auto_free uint32_t *of_gap = calloc(r->thread_cnt + 1ull, sizeof(*of_gap));
	auto_fn(ss_stacks__freep) struct ss_stacks *stacks = NULL;
	struct ss_frames frames = { .of_func = of_func, .of_gap = of_gap };
	char note[256];
	int err;

	if (!of_func || !of_gap)
		return -ENOMEM;
	err = ss_stacks__new(&stacks, r);
	err = err ? err : func_frames(s, r, of_func);
	err = err ? err : gap_frames(s, r, of_gap);
	err = err ? err : frame_id(s, "[truncated]", "", 0, &frames.cut);
	err = err ? err : frame_id(s, "[other stacks]", "", 0, &frames.other);
	if (err)
		return err;
	put_threads(s, stacks, &frames);
	snprintf(note, sizeof(note),
		 "%" PRIu64 " events are too many for speedscope (%" PRIu64
		 "): the file has the sums of each stack, not the order of time; for that take the "
		 "format firefox",
		 s->event_cnt, s->max_events);
	if (s->to->note)
		s->to->note(s->to->ctx, note);
	return 0;
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct speedscope *s = self;
	int err = timeline_end(&s->timeline, totals);

	err = err ? err : folding_end(&s->folding, totals);
	if (err)
		return err;
	err = s->aggregated ? put_aggregated(s) : put_evented(s);
	outbuf__puts(&s->out, "]}\n");
	return err ? err : gzip_front_end(s->gzip, &s->out);
}

const struct exporter export_speedscope = {
	.name = "speedscope",
	.aliases = NULL,
	.extensions = (const char *const[]){ ".speedscope.json.gz", ".speedscope.json", NULL },
	.help = "speedscope: every call in its place in time, up to 4 million events",
	.hint = "open https://www.speedscope.app and drop @ onto it",
	.size = sizeof(struct speedscope),
	.init = speedscope__init,
	.consumer = {
		.begin = on_begin,
		.process = on_process,
		.thread = on_thread,
		.func = on_func,
		.event = on_event,
		.sample = on_sample,
		.gap = on_gap,
		.end = on_end,
	},
	.done = speedscope__done,
};
