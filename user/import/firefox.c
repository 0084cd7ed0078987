// SPDX-License-Identifier: Apache-2.0
/*
 * The Firefox Profiler's processed format. Tables are columns of equal length; those of names, frames
 * and stacks belong to each thread or, in newer versions, to all. They may come after the samples
 * that use them, so columns are kept until the end.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "import/gather.h"
#include "import/json.h"

#define NONE UINT32_MAX

enum table_column {
	STACK_FRAME,
	STACK_PREFIX,
	STACK_OFFSET, /* newer: how far before it its prefix is, 0: none */
	FRAME_FUNC,
	FRAME_LINE,
	FUNC_NAME,
	FUNC_FILE,
	FUNC_SOURCE, /* newer: in place of the file */
	FUNC_LINE,
	SOURCE_FILE,
	STRINGS, /* texts of the sink */
	TABLE_COLUMNS
};

static const char *const table_names[TABLE_COLUMNS] = {
	[STACK_FRAME] = "stackTable.frame",
	[STACK_PREFIX] = "stackTable.prefix",
	[STACK_OFFSET] = "stackTable.prefixOffset",
	[FRAME_FUNC] = "frameTable.func",
	[FRAME_LINE] = "frameTable.line",
	[FUNC_NAME] = "funcTable.name",
	[FUNC_FILE] = "funcTable.fileName",
	[FUNC_SOURCE] = "funcTable.source",
	[FUNC_LINE] = "funcTable.lineNumber",
	[SOURCE_FILE] = "sources.filename",
	[STRINGS] = "stringArray",
};

/* Indexes; NONE for null and what is none. */
struct column {
	uint32_t *values;
	uint32_t cnt, cap;
};

enum sample_column {
	SAMPLE_TIME,
	SAMPLE_DELTA,
	SAMPLE_WEIGHT,
	SAMPLE_COLUMNS
};

static const char *const sample_names[SAMPLE_COLUMNS] = {
	[SAMPLE_TIME] = "samples.time",
	[SAMPLE_DELTA] = "samples.timeDeltas",
	[SAMPLE_WEIGHT] = "samples.weight",
};

/* ms, or counts. */
struct numbers {
	double *values;
	uint32_t cnt, cap;
};

enum weight_type {
	WEIGHT_SAMPLES,
	WEIGHT_TRACING,
	WEIGHT_BYTES
};

struct thread {
	struct column table[TABLE_COLUMNS], stacks;
	struct numbers samples[SAMPLE_COLUMNS];
	uint32_t pid, tid, name, comm;
	enum weight_type weights;
};

struct firefox {
	struct json_reader r;
	struct sink *k;
	struct gather g;
	struct column shared[TABLE_COLUMNS];
	uint32_t *shared_nodes;
	struct thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct column *column; /* that a list goes to */
	bool is_strings;
	struct numbers *numbers;
	double interval_ms, start_ms;
	bool is_processed, is_sampled; /* is_sampled: by us, though weights are times */
	uint32_t product; /* text */
};

static int malformed(struct firefox *ff, const char *what)
{
	return err_set(ff->k->e, -PYE_EFORMAT, "the firefox profile is malformed: %s", what);
}

static int grow(void *array, uint32_t *cap, uint32_t cnt, size_t size)
{
	uint32_t more = *cap ? *cap * 2 : 64;
	void *grown;

	if (cnt < *cap)
		return 0;
	if (cnt >= GATHER_ROWS_MAX)
		return -EOVERFLOW;
	grown = reallocarray(*(void **)array, more, size);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*cap = more;
	return 0;
}

static int add_index(struct firefox *ff, const struct json_value *v)
{
	struct column *c = ff->column;
	uint32_t value = NONE;
	int err = grow(&c->values, &c->cap, c->cnt, sizeof(*c->values));

	if (!err && ff->is_strings && v->type == JSON_STRING)
		err = sink__text(ff->k, v->s, v->len, &value);
	else if (!ff->is_strings && v->type == JSON_NUMBER && v->number >= 0 &&
		 v->number < (double)NONE)
		value = (uint32_t)v->number;
	if (!err)
		c->values[c->cnt++] = value;
	return err;
}

static int add_number(struct firefox *ff, const struct json_value *v)
{
	struct numbers *n = ff->numbers;
	int err = grow(&n->values, &n->cap, n->cnt, sizeof(*n->values));

	if (!err)
		n->values[n->cnt++] = v->type == JSON_NUMBER ? v->number : 0;
	return err;
}

static int open_thread(struct firefox *ff)
{
	int err = grow(&ff->threads, &ff->thread_cap, ff->thread_cnt, sizeof(*ff->threads));

	if (!err)
		ff->threads[ff->thread_cnt++] =
			(struct thread){ .weights = WEIGHT_SAMPLES, .comm = ff->product };
	return err;
}

/* Where the values of a list go, by its path behind "shared." or "threads[].". */
static void choose_column(struct firefox *ff, const char *name, struct column *table,
			  struct thread *thread)
{
	for (int i = 0; i < TABLE_COLUMNS; i++) {
		if (strcmp(name, table_names[i]) != 0 &&
		    !(i == STRINGS && !strcmp(name, "stringTable")))
			continue;
		ff->column = &table[i];
		ff->is_strings = i == STRINGS;
		return;
	}
	if (!thread)
		return;
	if (!strcmp(name, "samples.stack")) {
		ff->column = &thread->stacks;
		ff->is_strings = false;
	}
	for (int i = 0; i < SAMPLE_COLUMNS; i++) {
		if (!strcmp(name, sample_names[i]))
			ff->numbers = &thread->samples[i];
	}
}

static int on_open(void *ctx, bool is_list)
{
	struct firefox *ff = ctx;
	const char *path = ff->r.path;

	ff->column = NULL; /* lists in a column have no place in the format */
	ff->numbers = NULL;
	if (!is_list)
		return strcmp(path, "threads[]") ? 0 : open_thread(ff);
	if (!strncmp(path, "shared.", 7))
		choose_column(ff, path + 7, ff->shared, NULL);
	else if (!strncmp(path, "threads[].", 10) && ff->thread_cnt)
		choose_column(ff, path + 10, ff->threads[ff->thread_cnt - 1].table,
			      &ff->threads[ff->thread_cnt - 1]);
	return 0;
}

static int on_close(void *ctx, bool is_list)
{
	struct firefox *ff = ctx;

	(void)is_list;
	ff->column = NULL;
	ff->numbers = NULL;
	return 0;
}

/* Ids are numbers, or texts that begin with one. */
static uint32_t id_of(const struct json_value *v)
{
	uint64_t id = 0;

	if (v->type != JSON_NUMBER && v->type != JSON_STRING)
		return 0;
	for (size_t i = 0; i < v->len && v->s[i] >= '0' && v->s[i] <= '9' && id < UINT32_MAX; i++)
		id = id * 10 + (uint64_t)(v->s[i] - '0');
	return id < UINT32_MAX ? (uint32_t)id : 0;
}

static int on_thread_value(struct firefox *ff, const char *member, const struct json_value *v)
{
	struct thread *t = &ff->threads[ff->thread_cnt - 1];

	if (!strcmp(member, "pid"))
		t->pid = id_of(v);
	else if (!strcmp(member, "tid"))
		t->tid = id_of(v);
	else if (!strcmp(member, "name") && v->type == JSON_STRING)
		return sink__text(ff->k, v->s, v->len, &t->name);
	else if (!strcmp(member, "processName") && v->type == JSON_STRING)
		return sink__text(ff->k, v->s, v->len, &t->comm);
	else if (!strcmp(member, "samples.weightType") && v->type == JSON_STRING)
		t->weights = v->len >= 7 && !memcmp(v->s, "tracing", 7) ? WEIGHT_TRACING
			     : v->len == 5 && !memcmp(v->s, "bytes", 5) ? WEIGHT_BYTES
									: WEIGHT_SAMPLES;
	return 0;
}

static int on_value(void *ctx, const struct json_value *v)
{
	struct firefox *ff = ctx;
	const char *path = ff->r.path;

	if (ff->column)
		return add_index(ff, v);
	if (ff->numbers)
		return add_number(ff, v);
	if (!strncmp(path, "threads[].", 10) && ff->thread_cnt)
		return on_thread_value(ff, path + 10, v);
	if (!strcmp(path, "meta.interval"))
		ff->interval_ms = v->number;
	else if (!strcmp(path, "meta.startTime"))
		ff->start_ms = v->number;
	else if (!strcmp(path, "meta.preprocessedProfileVersion"))
		ff->is_processed = true;
	else if (!strcmp(path, "meta.product") && v->type == JSON_STRING) {
		ff->is_sampled = v->len == 13 && !memcmp(v->s, "pyebpf record", 13);
		return sink__text(ff->k, v->s, v->len, &ff->product);
	}
	return 0;
}

static uint32_t at(const struct column *c, uint32_t i)
{
	return i < c->cnt ? c->values[i] : NONE;
}

static uint32_t text_at(const struct column *t, uint32_t string)
{
	uint32_t text = at(&t[STRINGS], string);

	return text == NONE ? 0 : text;
}

/* The frames of a set of tables follow those of the sets before. */
static int add_frames(struct firefox *ff, const struct column *t)
{
	int err = 0;

	for (uint32_t i = 0; i < t[FRAME_FUNC].cnt && !err; i++) {
		uint32_t func = at(&t[FRAME_FUNC], i), source = at(&t[FUNC_SOURCE], func);
		uint32_t file = source == NONE ? at(&t[FUNC_FILE], func)
					       : at(&t[SOURCE_FILE], source);
		uint32_t line = at(&t[FRAME_LINE], i), first = at(&t[FUNC_LINE], func);
		struct gather_frame frame = { .name = text_at(t, at(&t[FUNC_NAME], func)),
					      .file = text_at(t, file),
					      .line = line == NONE ? 0 : line,
					      .first_line = first == NONE ? 0 : first };

		err = gather__frame(&ff->g, &frame);
	}
	return err;
}

/* Nodes of a set of tables by the number of the stack. */
static int make_nodes(struct firefox *ff, const struct column *t, uint32_t **out)
{
	uint32_t first = ff->g.frame_cnt, cnt = t[STACK_FRAME].cnt;
	auto_free uint32_t *nodes = malloc((cnt + 1ull) * sizeof(*nodes));
	int err = nodes ? add_frames(ff, t) : -ENOMEM;

	for (uint32_t i = 0; i < cnt && !err; i++) {
		uint32_t frame = t[STACK_FRAME].values[i], prefix = at(&t[STACK_PREFIX], i);
		uint32_t back = at(&t[STACK_OFFSET], i);

		if (t[STACK_OFFSET].cnt)
			prefix = back && back != NONE ? i - back : NONE;
		if (frame >= t[FRAME_FUNC].cnt)
			return malformed(ff, "a stack has a frame that there is not");
		if (prefix != NONE && prefix >= i)
			return malformed(ff, "a stack comes before its prefix");
		err = gather__node(&ff->g, prefix == NONE ? 0 : nodes[prefix], first + frame,
				   &nodes[i]);
	}
	if (!err)
		*out = take_ptr(nodes);
	return err;
}

static uint64_t ms_to_ns(double ms)
{
	return ms > 0 && ms < (double)SINK_TIME_MAX / 1e6 ? (uint64_t)(ms * 1e6 + 0.5) : 0;
}

/* A change of the stack; where the weight of one ends before the next begins there is no stack. */
static int add_step(struct firefox *ff, struct gather_row *row, uint64_t next_ns,
		    uint64_t weight_ns)
{
	int err;

	row->is_step = true;
	err = gather__row(&ff->g, row);
	if (err || !row->node || row->ts_ns + weight_ns >= next_ns)
		return err;
	row->ts_ns += weight_ns;
	row->node = 0;
	return gather__row(&ff->g, row);
}

static int add_sample(struct firefox *ff, struct gather_row *row, double weight, bool is_time)
{
	row->count = 1;
	row->is_step = false;
	if (is_time) {
		row->weight_ns = ms_to_ns(weight);
		row->ts_ns += row->weight_ns;
	} else {
		row->count = weight > 0 && weight < 1e9 ? (uint32_t)weight : 0;
		row->weight_ns = ms_to_ns(weight * ff->interval_ms);
	}
	return row->node ? gather__row(&ff->g, row) : 0;
}

static int add_samples(struct firefox *ff, const struct thread *t, const uint32_t *nodes,
		       uint32_t node_cnt, uint32_t thread)
{
	const struct numbers *times = &t->samples[SAMPLE_TIME], *weights;
	const struct numbers *deltas = &t->samples[SAMPLE_DELTA];
	struct gather_row row = { .thread = thread };
	bool has_times = times->cnt > 0;
	uint64_t ns = 0;
	int err = 0;

	weights = &t->samples[SAMPLE_WEIGHT];
	for (uint32_t i = 0; i < t->stacks.cnt && !err; i++) {
		uint32_t stack = t->stacks.values[i], next = i + 1 < t->stacks.cnt ? i + 1 : i;
		double weight = i < weights->cnt ? weights->values[i] : 1;
		uint64_t next_ns;

		if (i >= (has_times ? times : deltas)->cnt)
			return malformed(ff, "there are fewer times than samples");
		if (stack != NONE && stack >= node_cnt)
			return malformed(ff, "a sample has a stack that there is not");
		ns = has_times ? ms_to_ns(times->values[i]) : ns + ms_to_ns(deltas->values[i]);
		if (ns > SINK_TIME_MAX)
			return malformed(ff, "a time is none");
		if (next != i && next >= (has_times ? times : deltas)->cnt)
			return malformed(ff, "there are fewer times than samples");
		next_ns = next == i   ? UINT64_MAX
			  : has_times ? ms_to_ns(times->values[next])
				      : ns + ms_to_ns(deltas->values[next]);
		row.ts_ns = ns;
		row.node = stack == NONE ? 0 : nodes[stack];
		if (t->weights == WEIGHT_TRACING && !ff->is_sampled)
			err = add_step(ff, &row, next_ns, ms_to_ns(weight));
		else
			err = add_sample(ff, &row, weight, t->weights == WEIGHT_TRACING);
	}
	return err;
}

static int add_thread(struct firefox *ff, struct thread *t)
{
	struct gather_thread thread = {
		.pid = t->pid, .tid = t->tid, .comm = t->comm, .name = t->name
	};
	const uint32_t *nodes = ff->shared_nodes;
	auto_free uint32_t *own = NULL;
	uint32_t node_cnt = ff->shared[STACK_FRAME].cnt, index;
	int err = 0;

	if (t->weights == WEIGHT_BYTES)
		return err_set(ff->k->e, -PYE_EFORMAT, "the profile measures bytes, and not time");
	if (t->table[STACK_FRAME].cnt) {
		err = make_nodes(ff, t->table, &own);
		nodes = own;
		node_cnt = t->table[STACK_FRAME].cnt;
	}
	err = err ? err : gather__thread(&ff->g, &thread, &index);
	return err ? err : add_samples(ff, t, nodes, node_cnt, index);
}

static bool has_steps(const struct firefox *ff)
{
	for (uint32_t i = 0; i < ff->thread_cnt; i++) {
		if (ff->threads[i].weights == WEIGHT_TRACING && ff->threads[i].stacks.cnt)
			return !ff->is_sampled;
	}
	return false;
}

static int push_all(struct firefox *ff)
{
	struct trace_info info = { .engine = "firefox" };
	int err;

	if (!ff->is_processed)
		return err_set(
			ff->k->e, -PYE_EFORMAT,
			"this is a raw Gecko profile: open it in profiler.firefox.com and save "
			"it, then pyebpf can read it");
	if (!(ff->interval_ms > 0) || ff->interval_ms > 1e9)
		ff->interval_ms = 1;
	if (ff->start_ms > 0 && ff->start_ms < 9e12)
		info.start_unix_ns = (int64_t)(ff->start_ms * 1e6);
	info.sample_ns = has_steps(ff) ? 0 : ms_to_ns(ff->interval_ms);
	err = sink__begin(ff->k, &info);
	err = err ? err : make_nodes(ff, ff->shared, &ff->shared_nodes);
	for (uint32_t i = 0; i < ff->thread_cnt && !err; i++)
		err = add_thread(ff, &ff->threads[i]);
	err = err ? err : gather__push(&ff->g);
	return err ? err : sink__end(ff->k, 0);
}

static void free_table(struct column *t)
{
	for (int i = 0; i < TABLE_COLUMNS; i++)
		free(t[i].values);
}

static void done(struct firefox *ff)
{
	for (uint32_t i = 0; i < ff->thread_cnt; i++) {
		free_table(ff->threads[i].table);
		free(ff->threads[i].stacks.values);
		for (int c = 0; c < SAMPLE_COLUMNS; c++)
			free(ff->threads[i].samples[c].values);
	}
	free(ff->threads);
	free(ff->shared_nodes);
	free_table(ff->shared);
	gather__done(&ff->g);
}

static int run(struct source *s, struct sink *k)
{
	struct firefox ff = { .r = { .open = on_open, .close = on_close, .value = on_value },
			      .k = k };
	int err = gather__init(&ff.g, k);

	ff.r.ctx = &ff;
	err = err ? err : sink__text(k, "firefox", strlen("firefox"), &ff.product);
	err = err ? err : json_read(s, &ff.r);
	err = err ? err : push_all(&ff);
	done(&ff);
	return err;
}

const struct importer import_firefox = { .name = "firefox", .run = run };
