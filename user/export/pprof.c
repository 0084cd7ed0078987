// SPDX-License-Identifier: Apache-2.0
/*
 * pprof's profile.proto, gzip. A sample per distinct stack and thread: calls of the frame on top
 * and its self time. pprof adds up totals itself and counts recursion once. A trace knows the first
 * line of a function and not the line of a call, so it has a location per function; samples know the
 * line that each frame was at. The same function of two processes is one. Labels tell process and thread; comments tell what was lost.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/pprof_fields.h"
#include "base/text.h"
#include "export/folding.h"
#include "export/gzip.h"
#include "export/pprof_places.h"
#include "export/proto.h"
#include "export/summary.h"

enum {
	BUFFER_BYTES = 256 << 10,
	MAX_FRAMES = 512,
	OWN_MAPPING = 1,
	MANY_STACKS =
		1
		<< 19 /* from there on a file a fifth larger is better than one that takes twice as long */
};

/* The labels of a thread's samples, as they are written. */
struct labels {
	uint8_t *data;
	size_t len;
};

struct pprof {
	struct folding folding; /* first */
	struct gzip *gzip;
	struct outbuf out;
	struct proto proto;
	struct strpool strings; /* of the profile, by id */
	struct strpool mappings; /* files of native code; the id is the mapping's less OWN_MAPPING */
	struct pprof_places places;
	uint32_t at[MAX_FRAMES]; /* locations of the stack at hand, innermost first */
	struct labels *labels; /* by index of a thread; NULL: not used so far */
	uint32_t thread_cnt;
	uint32_t cut_function; /* of [truncated] */
	uint32_t pid, tid, process, thread; /* strings */
	const struct export_out *to;
	const char *const *comments; /* of the options; borrowed, may be NULL */
};

static void pprof__done(void *self)
{
	struct pprof *p = self;

	folding__done(&p->folding);
	gzip__free(p->gzip);
	outbuf__done(&p->out);
	proto__done(&p->proto);
	strpool__done(&p->strings);
	strpool__done(&p->mappings);
	pprof_places__done(&p->places);
	for (uint32_t i = 0; i < p->thread_cnt; i++)
		free(p->labels[i].data);
	free(p->labels);
}

static int pprof__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	struct pprof *p = self;
	int err;

	p->to = out;
	p->comments = opts->comments;
	err = folding__init(&p->folding, opts, FOLDING_LINES | FOLDING_STACKS);
	err = err ? err : strpool__init(&p->strings);
	err = err ? err : strpool__init(&p->mappings);
	return err;
}

/*
 * Id of a string in the profile, escaped: the format wants UTF-8, and pprof prints names to the
 * terminal as they are.
 */
static uint32_t string_id(struct pprof *p, const char *s)
{
	size_t len = strlen(s), size = len * 6 + 1;
	auto_free char *text = malloc(size);
	uint32_t id = 0;

	if (!text) {
		p->proto.err = -ENOMEM;
		return 0;
	}
	text_escape(text, size, s, len);
	if (strpool__add(&p->strings, text, strlen(text), &id))
		p->proto.err = -ENOMEM;
	return id;
}

static void put_value_type(struct pprof *p, uint32_t field, const char *type, const char *unit)
{
	size_t mark = proto__open(&p->proto, field);

	proto__u64(&p->proto, VALUE_TYPE_TYPE, string_id(p, type));
	proto__u64(&p->proto, VALUE_TYPE_UNIT, string_id(p, unit));
	proto__close(&p->proto, mark);
}

/* One that has everything keeps pprof from looking for symbols. */
static void put_mapping(struct pprof *p, uint32_t id, const char *file)
{
	struct proto *proto = &p->proto;
	size_t mark = proto__open(proto, PROFILE_MAPPING);

	proto__u64(proto, MAPPING_ID, id);
	if (file)
		proto__u64(proto, MAPPING_FILENAME, string_id(p, file));
	proto__u64(proto, MAPPING_HAS_FUNCTIONS, 1);
	proto__u64(proto, MAPPING_HAS_FILENAMES, 1);
	proto__u64(proto, MAPPING_HAS_LINE_NUMBERS, 1);
	proto__close(proto, mark);
}

/* Python's files have one together, each file of native code its own. */
static uint32_t mapping_id(struct pprof *p, const struct agg_result *r, const struct agg_func *f)
{
	const char *file = strpool__get(&r->strings, f->file);
	uint32_t before = p->mappings.cnt, id = 0;

	if (f->kind == FUNC_PYTHON || !*file)
		return OWN_MAPPING;
	if (strpool__add(&p->mappings, file, strlen(file), &id))
		p->proto.err = -ENOMEM;
	if (id >= before)
		put_mapping(p, OWN_MAPPING + id, file);
	return OWN_MAPPING + id;
}

static void put_head(struct pprof *p, const struct agg_result *r)
{
	struct proto *proto = &p->proto;
	uint64_t end_ns = r->totals.end_ns;

	put_value_type(p, PROFILE_SAMPLE_TYPE, r->sample_ns ? "samples" : "calls", "count");
	put_value_type(p, PROFILE_SAMPLE_TYPE, "wall", "nanoseconds");
	if (r->sample_ns) {
		put_value_type(p, PROFILE_SAMPLE_TYPE, "cpu", "nanoseconds");
		put_value_type(p, PROFILE_SAMPLE_TYPE, "off_cpu", "nanoseconds");
	}
	proto__u64(proto, PROFILE_DEFAULT_SAMPLE_TYPE,
		   string_id(p, r->sample_ns && !r->off_ns ? "cpu"
				: r->self_ns		   ? "wall"
							   : "calls"));
	proto__i64(proto, PROFILE_TIME_NANOS, r->start_unix_ns);
	proto__u64(proto, PROFILE_DURATION_NANOS, end_ns > r->start_ns ? end_ns - r->start_ns : 0);
	put_value_type(p, PROFILE_PERIOD_TYPE, r->sample_ns ? "cpu" : "wall", "nanoseconds");
	proto__u64(proto, PROFILE_PERIOD, r->sample_ns ? r->sample_ns : 1);
	put_mapping(p, OWN_MAPPING,
		    r->process_cnt ? strpool__get(&r->strings, r->processes[0].exe) : NULL);
}

static void __attribute__((format(printf, 2, 3))) comment(struct pprof *p, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	proto__u64(&p->proto, PROFILE_COMMENT, string_id(p, text));
}

static void put_comments(struct pprof *p, const struct agg_result *r)
{
	const struct trace_totals *t = &r->totals;

	for (size_t i = 0; p->comments && p->comments[i]; i++)
		proto__u64(&p->proto, PROFILE_COMMENT, string_id(p, p->comments[i]));
	comment(p, "pyebpf %s, engine %s", strpool__get(&r->strings, r->version),
		strpool__get(&r->strings, r->engine));
	comment(p, "command: %s", strpool__get(&r->strings, r->arguments));
	comment(p, "events generated: %llu, written: %llu", (unsigned long long)t->generated,
		(unsigned long long)t->written);
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		comment(p, "events lost (%s): %llu", trace_loss_name(i),
			(unsigned long long)t->lost[i]);
	if (r->before.part || r->before.keep_ns)
		comment(p, "earlier events that are not here: %llu",
			(unsigned long long)r->before.events);
	comment(p, "gaps: %llu", (unsigned long long)r->gap_cnt);
	comment(p, "cost of the profiler: %llu ns, %s", (unsigned long long)r->own_ns,
		summary_own(r));
	if (r->cut_cnt)
		comment(p, "calls whose callers are [truncated]: %llu",
			(unsigned long long)r->cut_cnt);
	if (!t->complete)
		comment(p, "the capture ends before its proper end");
}

static void put_function(struct pprof *p, uint64_t id, uint32_t name, uint32_t system_name,
			 uint32_t file, uint32_t line)
{
	struct proto *proto = &p->proto;
	size_t mark = proto__open(proto, PROFILE_FUNCTION);

	proto__u64(proto, FUNCTION_ID, id);
	proto__u64(proto, FUNCTION_NAME, name);
	proto__u64(proto, FUNCTION_SYSTEM_NAME, system_name);
	proto__u64(proto, FUNCTION_FILENAME, file);
	proto__u64(proto, FUNCTION_START_LINE, line);
	proto__close(proto, mark);
}

static void put_location(struct pprof *p, uint64_t id, uint32_t mapping, uint32_t function,
			 uint32_t line)
{
	struct proto *proto = &p->proto;
	size_t mark = proto__open(proto, PROFILE_LOCATION), inner;

	proto__u64(proto, LOCATION_ID, id);
	proto__u64(proto, LOCATION_MAPPING_ID, mapping);
	inner = proto__open(proto, LOCATION_LINE);
	proto__u64(proto, LINE_FUNCTION_ID, function);
	proto__u64(proto, LINE_LINE, line);
	proto__close(proto, inner);
	proto__close(proto, mark);
}

/*
 * Of Python there is no name but one. pprof takes one that equals the system name for C++ and strips what
 * is in <>; of native code that is right, and its mapping tells the file.
 */
static int put_functions(struct pprof *p, const struct agg_result *r)
{
	int err = 0;

	for (uint32_t i = 0; i < p->places.function_cnt && !err; i++) {
		const struct agg_func *f = &r->funcs[p->places.functions[i].func];
		uint32_t name = string_id(p, strpool__get(&r->strings, f->qualname));

		if (f->kind == FUNC_PYTHON)
			put_function(p, i + 1ull, name, 0,
				     string_id(p, strpool__get(&r->strings, f->file)), f->line);
		else
			put_function(p, i + 1ull, name, name, 0, 0);
		err = proto__flush(&p->proto, &p->out);
	}
	return err;
}

static int put_locations(struct pprof *p, const struct agg_result *r)
{
	int err = 0;

	for (uint32_t i = 0; i < p->places.location_cnt && !err; i++) {
		const struct pprof_location *l = &p->places.locations[i];
		uint32_t func = p->places.functions[l->function - 1].func;

		put_location(p, i + 1ull, mapping_id(p, r, &r->funcs[func]), l->function, l->line);
		err = proto__flush(&p->proto, &p->out);
	}
	return err;
}

static uint32_t cut_function(struct pprof *p)
{
	if (!p->cut_function) {
		p->cut_function = p->places.function_cnt + 1;
		put_function(p, p->cut_function, string_id(p, "[truncated]"), 0, 0, 0);
	}
	return p->cut_function;
}

/* Location of a frame of a stack that was cut: the function's own. One that is new is written at once. */
static uint32_t locate(struct pprof *p, const struct agg_result *r, uint32_t func)
{
	uint32_t before = p->places.location_cnt, mapping = OWN_MAPPING, function, id;
	uint32_t line = func == FOLDING_CUT ? 0 : r->funcs[func].line;

	function = func == FOLDING_CUT ? cut_function(p) : p->places.function_of[func];
	id = pprof_places__location(&p->places, function, line);
	if (!id)
		p->proto.err = -ENOMEM;
	if (id <= before)
		return id;
	if (func != FOLDING_CUT)
		mapping = mapping_id(p, r, &r->funcs[func]);
	put_location(p, id, mapping, function, line);
	return id;
}

static void put_label(struct proto *proto, uint32_t key, uint32_t str, uint64_t num)
{
	size_t mark = proto__open(proto, SAMPLE_LABEL);

	proto__u64(proto, LABEL_KEY, key);
	proto__u64(proto, LABEL_STR, str);
	proto__u64(proto, LABEL_NUM, num);
	proto__close(proto, mark);
}

/* The process and the thread; the same for all samples of a thread. */
static void put_labels(struct pprof *p, const struct agg_result *r, uint32_t index)
{
	const struct agg_thread *thread = &r->threads[index];
	const struct agg_process *process = &r->processes[thread->process];
	struct labels *labels = &p->labels[index];

	if (!labels->data) {
		struct proto made = { 0 };

		put_label(&made, p->pid, 0, process->pid);
		put_label(&made, p->tid, 0, thread->tid);
		put_label(&made, p->process, string_id(p, strpool__get(&r->strings, process->comm)),
			  0);
		put_label(&made, p->thread, string_id(p, strpool__get(&r->strings, thread->name)),
			  0);
		if (made.err)
			p->proto.err = made.err;
		*labels = (struct labels){ .data = made.data, .len = made.len };
	}
	proto__raw(&p->proto, labels->data, labels->len);
}

static int put_sample(void *ctx, const struct folded_stack *stack)
{
	struct pprof *p = ctx;
	const struct agg_result *r = aggregate__result(p->folding.agg);
	struct proto *proto = &p->proto;
	size_t mark, inner;

	for (uint32_t i = 0; i < stack->func_cnt; i++)
		p->at[stack->func_cnt - 1 - i] = stack->stacks
							 ? p->places.location_of[stack->stacks[i]]
							 : locate(p, r, stack->funcs[i]);
	mark = proto__open(proto, PROFILE_SAMPLE);
	inner = proto__open(proto, SAMPLE_LOCATION_ID);
	proto__varints(proto, p->at, stack->func_cnt);
	proto__close(proto, inner);
	inner = proto__open(proto, SAMPLE_VALUE);
	proto__varint(proto, stack->calls);
	proto__varint(proto, stack->self_ns);
	if (r->sample_ns) {
		proto__varint(proto, stack->self_ns - stack->off_ns);
		proto__varint(proto, stack->off_ns);
	}
	proto__close(proto, inner);
	put_labels(p, r, stack->thread);
	proto__close(proto, mark);
	return proto__flush(proto, &p->out);
}

static int put_strings(struct pprof *p)
{
	int err = 0;

	for (uint32_t id = 0; id < p->strings.cnt && !err; id++) {
		proto__bytes(&p->proto, PROFILE_STRING_TABLE, p->strings.strs[id].s,
			     p->strings.strs[id].len);
		err = proto__flush(&p->proto, &p->out);
	}
	return err;
}

static int open_out(struct pprof *p, const struct agg_result *r)
{
	int level = r->stack_cnt < MANY_STACKS ? GZIP_DEFAULT : GZIP_FASTEST;
	int err = gzip__new(&p->gzip, level, p->to->write, p->to->ctx);

	return err ? err : outbuf__init(&p->out, BUFFER_BYTES, gzip__write, p->gzip);
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct pprof *p = self;
	const struct agg_result *r = aggregate__result(p->folding.agg);
	int err = folding_end(self, totals);

	err = err ? err : open_out(p, r);
	if (err)
		return err;
	err = pprof_places__gather(&p->places, r);
	if (err)
		return err;
	p->labels = calloc(r->thread_cnt + 1ull, sizeof(*p->labels));
	if (!p->labels)
		return -ENOMEM;
	p->thread_cnt = r->thread_cnt;
	p->pid = string_id(p, "pid");
	p->tid = string_id(p, "tid");
	p->process = string_id(p, "process");
	p->thread = string_id(p, "thread");
	put_head(p, r);
	put_comments(p, r);
	err = put_functions(p, r);
	err = err ? err : put_locations(p, r);
	err = err ? err : folding_each(r, MAX_FRAMES, put_sample, p);
	err = err ? err : proto__flush(&p->proto, &p->out);
	err = err ? err : put_strings(p);
	return err ? err : gzip_front_end(p->gzip, &p->out);
}

const struct exporter export_pprof = {
	.name = "pprof",
	.aliases = NULL,
	.extensions = (const char *const[]){ ".pb.gz", NULL },
	.help = "for go tool pprof and what else reads profile.proto",
	.folds = true,
	.lines = true,
	.hint = "go tool pprof -top @",
	.size = sizeof(struct pprof),
	.init = pprof__init,
	.consumer = {
		FORWARD_TO_THE_END,
		.end = on_end,
	},
	.done = pprof__done,
};
