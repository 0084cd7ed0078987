// SPDX-License-Identifier: Apache-2.0
/* pprof: what its values mean as a trace. The reading itself is in pprof_read.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "base/wire.h"
#include "import/importers.h"
#include "import/pprof_read.h"

struct pprof {
	struct pprof_reader r;
	struct sink *k;
	uint32_t comm; /* of the sink */
	struct trace_frame *frames; /* innermost first, while reading */
	uint32_t frame_cnt, frame_cap;
	struct idmap func_ids; /* process and function -> id of the sink */
	uint32_t default_thread, default_process;
	/* of sample_type: which values are what; -1: none */
	int count_at, time_at, off_at;
	uint64_t time_unit_ns, off_unit_ns;
};

static bool is_called(const struct pprof *p, uint64_t string, const char *name)
{
	return !strcmp(pprof_names__text(&p->r.names, string), name);
}

/* ns of a unit of time; 0: it is none. */
static uint64_t unit_ns(const struct pprof *p, uint64_t unit)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "nanoseconds", 1 }, { "nanosecond", 1 },
		      { "ns", 1 },	    { "microseconds", 1000 },
		      { "us", 1000 },	    { "milliseconds", 1000000 },
		      { "ms", 1000000 },    { "seconds", 1000000000 },
		      { "s", 1000000000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (is_called(p, unit, units[i].name))
			return units[i].ns;
	}
	return 0;
}

static int no_times(const struct pprof *p)
{
	return err_set(
		p->k->e, -PYE_EFORMAT,
		"the profile measures %.100s in %.100s, and not time: it has no times to show",
		p->r.names.type_cnt
			? pprof_names__text(&p->r.names,
					    p->r.names.types[p->r.names.type_cnt - 1].type)
			: "nothing",
		p->r.names.type_cnt
			? pprof_names__text(&p->r.names,
					    p->r.names.types[p->r.names.type_cnt - 1].unit)
			: "no unit");
}

/* The last type that is a time, but the one asked for where it is one; counts times the period else. */
static int choose_values(struct pprof *p)
{
	uint64_t period_ns = unit_ns(p, p->r.names.period_type.unit);

	p->count_at = p->time_at = p->off_at = -1;
	for (int i = 0; i < (int)p->r.names.type_cnt; i++) {
		const struct pprof_type *t = &p->r.names.types[i];

		if (is_called(p, t->unit, "count") && p->count_at < 0)
			p->count_at = i;
		if (!unit_ns(p, t->unit))
			continue;
		if (is_called(p, t->type, "off_cpu")) {
			p->off_at = i;
			p->off_unit_ns = unit_ns(p, t->unit);
		} else if (p->time_at < 0 || !p->r.names.default_type ||
			   p->r.names.types[p->time_at].type != p->r.names.default_type) {
			p->time_at = i;
			p->time_unit_ns = unit_ns(p, t->unit);
		}
	}
	/* our own: wall = cpu + off_cpu */
	for (int i = 0; p->off_at >= 0 && i < (int)p->r.names.type_cnt; i++) {
		if (is_called(p, p->r.names.types[i].type, "cpu") &&
		    unit_ns(p, p->r.names.types[i].unit))
			p->time_at = i;
	}
	if (p->time_at < 0 && p->count_at >= 0 && period_ns && p->r.names.period) {
		p->time_at = p->count_at;
		return sink__times(p->k, p->r.names.period, period_ns, &p->time_unit_ns);
	}
	return p->time_at < 0 ? no_times(p) : 0;
}

static int begin(struct pprof *p)
{
	uint64_t period_ns = unit_ns(p, p->r.names.period_type.unit);
	struct trace_info info = { .engine = "pprof", .start_unix_ns = p->r.names.time_ns };
	const char *path = pprof_names__text(&p->r.names, p->r.names.mapping),
		   *slash = strrchr(path, '/');
	uint32_t name;
	int err = choose_values(p);

	/* of calls a period says nothing */
	if (!err && p->count_at >= 0 && is_called(p, p->r.names.types[p->count_at].type, "calls"))
		period_ns = 0;
	if (!err && period_ns && p->r.names.period)
		err = sink__times(p->k, p->r.names.period, period_ns, &info.sample_ns);
	if (!err && !info.sample_ns && p->count_at >= 0 &&
	    is_called(p, p->r.names.types[p->count_at].type, "samples"))
		info.sample_ns = p->k->count_ns;
	err = err ? err : sink__begin(p->k, &info);
	path = slash && slash[1] ? slash + 1 : path;
	err = err ? err : sink__text(p->k, *path ? path : "all", *path ? strlen(path) : 3, &name);
	if (err)
		return err;
	p->comm = name;
	p->default_process = p->default_thread = UINT32_MAX;
	return 0;
}

/* What labels say of where a sample was; strings by number. */
struct labels {
	uint64_t pid, tid, process, thread;
};

static void take_label(const struct pprof *p, const struct pprof_label *in, struct labels *l)
{
	const char *key = pprof_names__text(&p->r.names, in->key);

	if (!strcmp(key, "pid") || !strcmp(key, "process_id"))
		l->pid = in->number;
	else if (!strcmp(key, "tid") || !strcmp(key, "thread_id"))
		l->tid = in->number;
	else if (!strcmp(key, "process") || !strcmp(key, "comm"))
		l->process = in->text;
	else if (!strcmp(key, "thread") || !strcmp(key, "thread_name"))
		l->thread = in->text;
}

static int text_of(struct pprof *p, uint64_t string, uint32_t fallback, uint32_t *id)
{
	const char *text = pprof_names__text(&p->r.names, string);

	*id = fallback;
	return *text ? sink__text(p->k, text, strlen(text), id) : 0;
}

static int place(struct pprof *p, const struct labels *l, uint32_t *process, uint32_t *thread)
{
	bool plain = !(l->pid | l->tid | l->process | l->thread);
	uint32_t comm, name;
	int err;

	*process = p->default_process;
	*thread = p->default_thread;
	if (plain && *thread != UINT32_MAX)
		return 0;
	err = text_of(p, l->process, p->comm, &comm);
	err = err ? err : sink__process(p->k, (uint32_t)l->pid, comm, process);
	err = err ? err : text_of(p, l->thread, comm, &name);
	err = err ? err : sink__thread(p->k, *process, (uint32_t)l->tid, name, thread);
	if (!err && plain) {
		p->default_process = *process;
		p->default_thread = *thread;
	}
	return err;
}

static int func_of(struct pprof *p, uint32_t process, uint32_t index, uint32_t *id)
{
	uint64_t key = (uint64_t)process << 32 | index;
	uint32_t name, file;
	int err;

	*id = idmap__find(&p->func_ids, key);
	if (*id != IDMAP_NONE)
		return 0;
	err = pprof_names__describe(&p->r.names, p->k, index, &name, &file);
	err = err ? err
		  : sink__func(p->k, process, name, file,
			       (uint32_t)p->r.names.functions[index].line, id);
	/* the table would be as large as all that has no name */
	return err || sink__is_other(p->k, *id) ? err : idmap__set(&p->func_ids, key, *id);
}

static int add_frames(struct pprof *p, uint32_t process, const struct pprof_sample *sample)
{
	int err = 0;

	p->frame_cnt = 0;
	for (uint32_t i = 0; i < sample->location_cnt && !err; i++) {
		struct pprof_location *at;

		err = pprof_names__find(&p->r.names, sample->locations[i], &at);
		for (uint32_t k = 0; !err && k < at->line_cnt; k++) {
			const struct pprof_line *line = &p->r.names.lines[at->first_line + k];
			struct trace_frame *f;

			if (p->frame_cnt == p->frame_cap) {
				uint32_t cap = p->frame_cap ? p->frame_cap * 2 : 256;
				struct trace_frame *grown =
					reallocarray(p->frames, cap, sizeof(*grown));

				if (cap > 4 * PPROF_FRAMES_MAX)
					return pprof_reader__malformed(
						&p->r, "a sample has too many frames");
				if (!grown)
					return -ENOMEM;
				p->frames = grown;
				p->frame_cap = cap;
			}
			f = &p->frames[p->frame_cnt++];
			f->line = line->line;
			err = func_of(p, process, line->function, &f->func);
		}
	}
	for (uint32_t i = 0; i < p->frame_cnt / 2; i++) {
		struct trace_frame swap = p->frames[i];

		p->frames[i] = p->frames[p->frame_cnt - 1 - i];
		p->frames[p->frame_cnt - 1 - i] = swap;
	}
	return err;
}

static uint64_t value_at(const uint64_t *values, uint32_t cnt, int at)
{
	/* below 0: of a profile that is the difference of two */
	return at >= 0 && (uint32_t)at < cnt && (int64_t)values[at] > 0 ? values[at] : 0;
}

static int push(void *ctx, const struct pprof_sample *in)
{
	struct pprof *p = ctx;
	struct trace_sample s = { 0 };
	uint64_t off = value_at(in->values, in->value_cnt, p->off_at);
	struct labels labels = { 0 };
	uint32_t process;
	int err;

	for (uint32_t i = 0; i < in->label_cnt; i++)
		take_label(p, &in->labels[i], &labels);
	err = place(p, &labels, &process, &s.thread);
	err = err ? err : add_frames(p, process, in);
	if (err)
		return err;
	s.frames = p->frames;
	s.frame_cnt = p->frame_cnt;
	s.count = value_at(in->values, in->value_cnt, p->count_at);
	err = sink__times(p->k, value_at(in->values, in->value_cnt, p->time_at), p->time_unit_ns,
			  &s.weight_ns);
	if (!err && (s.weight_ns || !off)) {
		err = sink__sum(p->k, &s);
		s.count = 0;
	}
	if (err || !off)
		return err;
	s.off_cpu = true;
	s.reason = REASON_OTHER;
	err = sink__times(p->k, off, p->off_unit_ns, &s.weight_ns);
	return err ? err : sink__sum(p->k, &s);
}

static int read_all(struct pprof *p, struct source *s)
{
	int err = pprof_reader__names(&p->r, s, p->k->e);

	err = err ? err : begin(p);
	err = err ? err : pprof_reader__samples(&p->r, push, p);
	return err ? err : sink__end(p->k, p->r.names.duration_ns);
}

static int run(struct source *s, struct sink *k)
{
	struct pprof p = { .k = k };
	int err = read_all(&p, s);

	pprof_reader__done(&p.r);
	idmap__done(&p.func_ids);
	free(p.frames);
	return err;
}

/* The first field is one that a profile has, and what has no control characters is a text. */
static bool is_pprof(const uint8_t *head, size_t len)
{
	uint32_t number = head[0] >> 3, type = head[0] & 7;
	bool binary = false;

	for (size_t i = 0; i < len && !binary; i++)
		binary = head[i] < ' ' && !strchr("\t\r\n\f\033", head[i]);
	if (!binary && len > 1 && head[0] == '\n') /* a first type of 4 to 31 bytes, then text */
		binary = head[1] < ' ' && head[1] != '\n' && len > 2 && head[2] == 0x08;
	return binary && number >= PROFILE_SAMPLE_TYPE && number <= 63 &&
	       (type == WIRE_BYTES || (type == WIRE_VARINT && number >= 7));
}

const struct importer import_pprof = { .name = "pprof", .is = is_pprof, .run = run };
