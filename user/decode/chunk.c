// SPDX-License-Identifier: Apache-2.0
/* Opening a chunk: its definitions, which are handed out where they are new, and its streams. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "capfile/format.h"
#include "capfile/sum.h"
#include "decode/decode_priv.h"

/* Ids that are remembered as handed out. Past this all are forgotten, and come again if used. */
#define KNOWN_MAX (1u << 20)

/* Threads that have not ended; more than a writer can have. */
#define LIVE_THREADS_MAX (1u << 20)

/* Tables of the chunk that only its own definitions refer to. */
struct tables {
	const char **files;
	uint32_t file_cnt;
	uint32_t *processes; /* ids */
	uint32_t process_cnt;
	struct trace_func *funcs; /* strings borrowed from the chunk */
};

static void tables_done(struct tables *t)
{
	free(t->funcs);
	free(t->files);
	free(t->processes);
}

static uint64_t hash_string(const char *s, uint64_t seed)
{
	return s ? cap_sum(s, strlen(s), seed) : seed;
}

static uint64_t hash_numbers(const uint64_t *numbers, size_t cnt)
{
	uint64_t h = cap_sum(numbers, cnt * sizeof(numbers[0]), 0);

	return h ? h : 1;
}

/* Return: 1 when @id was not handed out with this content, 0 when it was, or -ENOMEM. */
static int is_news(struct known *k, uint32_t id, uint64_t hash)
{
	uint64_t *value;

	if (k->cnt >= KNOWN_MAX)
		known__done(k);
	value = known__add(k, id);
	if (!value)
		return -ENOMEM;
	if (*value == hash)
		return 0;
	*value = hash;
	return 1;
}

static uint32_t get_id(struct cursor *c)
{
	return (uint32_t)cursor_number(c, UINT32_MAX);
}

static uint64_t get_ns(struct cursor *c)
{
	return cursor_number(c, CAP_TS_MAX);
}

static int parse_files(struct cursor *c, struct tables *t)
{
	t->file_cnt = cursor_count(c, 2);
	t->files = calloc(t->file_cnt + 1ul, sizeof(t->files[0]));
	if (!t->files)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->file_cnt; i++)
		t->files[i] = cursor_string(c);
	return 0;
}

static int parse_roots(struct cursor *c, const char ***roots, uint64_t *hash)
{
	uint64_t cnt = cursor_number(c, CAP_ROOTS_MAX + 1);
	const char **list;

	*roots = NULL;
	if (!cnt)
		return 0;
	list = calloc(cnt, sizeof(list[0]));
	if (!list)
		return -ENOMEM;
	for (uint64_t i = 0; i + 1 < cnt; i++) {
		list[i] = cursor_string(c);
		*hash = hash_string(list[i], *hash);
	}
	*roots = list;
	return 0;
}

static int parse_process(struct decoder *d, struct cursor *c, uint32_t *id)
{
	auto_free const char **roots = NULL;
	struct trace_process p;
	uint64_t hash;
	int err;

	*id = p.id = get_id(c);
	p.pid = get_id(c);
	p.start_ns = get_ns(c);
	p.end_ns = get_ns(c);
	p.comm = cursor_string(c);
	p.exe = cursor_string(c);
	p.python = cursor_string(c);
	p.prefix = cursor_string(c);
	hash = hash_string(p.comm, 0);
	hash = hash_string(p.exe, hash);
	hash = hash_string(p.python, hash);
	hash = hash_string(p.prefix, hash);
	err = parse_roots(c, &roots, &hash);
	if (err || c->bad)
		return err;
	p.import_roots = roots;
	hash = hash_numbers((uint64_t[]){ p.pid, p.start_ns, p.end_ns, roots != NULL, hash }, 5);
	err = is_news(&d->processes, p.id, hash);
	if (err <= 0 || !d->consumer->process)
		return err < 0 ? err : 0;
	return d->consumer->process(d->self, &p);
}

static int parse_processes(struct decoder *d, struct cursor *c, struct tables *t)
{
	int err = 0;

	t->process_cnt = cursor_count(c, 9);
	t->processes = calloc(t->process_cnt + 1ul, sizeof(t->processes[0]));
	if (!t->processes)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->process_cnt && !err && !c->bad; i++)
		err = parse_process(d, c, &t->processes[i]);
	return err < 0 ? err : 0;
}

static uint32_t get_process(struct cursor *c, const struct tables *t)
{
	uint64_t i = cursor_varint(c);

	if (i < t->process_cnt)
		return t->processes[i];
	return (uint32_t)cursor_fail(c);
}

static int define_thread(struct decoder *d, struct thread *t, const struct trace_thread *def)
{
	uint64_t hash =
		hash_numbers((uint64_t[]){ def->process, def->tid, def->is_main, def->start_ns,
					   def->end_ns, hash_string(def->name, 0) },
			     6);
	int err;

	if (t->def == hash)
		return 0;
	t->def = hash;
	err = d->consumer->thread ? d->consumer->thread(d->self, def) : 0;
	return err < 0 ? err : 0;
}

/* The threads of a chunk. Their streams are queued when the whole chunk turned out right. */
struct listed {
	struct thread *thread;
	struct segment *segment; /* may be NULL */
	uint64_t len; /* of its bytes */
};

struct listing {
	struct listed *entries;
	uint32_t cnt;
};

static void listing_done(struct listing *l)
{
	free(l->entries);
}

static void parse_segment(struct cursor *c, struct chunk *chunk, struct listed *entry)
{
	struct segment *s = &chunk->segments[chunk->segment_cnt++];

	s->chunk = chunk;
	s->first_ns = get_ns(c);
	s->first_seq = cursor_varint(c);
	s->open_cnt = (uint32_t)cursor_number(c, CAP_DEPTH_MAX);
	entry->segment = s;
	entry->len = cursor_varint(c);
}

static int parse_thread(struct decoder *d, struct cursor *c, const struct tables *tables,
			struct chunk *chunk, struct listed *entry)
{
	struct trace_thread def;
	struct thread *t;
	uint64_t flags;

	def.process = get_process(c, tables);
	def.id = get_id(c);
	def.tid = get_id(c);
	def.start_ns = get_ns(c);
	def.end_ns = get_ns(c);
	def.is_main = cursor_varint(c) != 0;
	def.name = cursor_string(c);
	flags = cursor_varint(c);
	if (flags & CAP_THREAD_DATA)
		parse_segment(c, chunk, entry);
	if (d->threads.cnt >= LIVE_THREADS_MAX)
		cursor_fail(c);
	if (c->bad)
		return 0;
	t = entry->thread = dec_thread_get(d, def.id);
	if (!t)
		return -ENOMEM;
	if (t->listed_in == chunk)
		cursor_fail(c);
	t->listed_in = chunk;
	t->gone |= (flags & CAP_THREAD_GONE) != 0;
	return define_thread(d, t, &def);
}

static int parse_threads(struct decoder *d, struct cursor *c, const struct tables *tables,
			 struct chunk *chunk, struct listing *listing)
{
	uint32_t cnt = cursor_count(c, 8);
	int err = 0;

	if (cnt > CAP_THREADS_MAX)
		cnt = (uint32_t)cursor_fail(c);
	chunk->segments = calloc(cnt + 1ul, sizeof(chunk->segments[0]));
	listing->entries = calloc(cnt + 1ul, sizeof(listing->entries[0]));
	if (!chunk->segments || !listing->entries)
		return -ENOMEM;
	for (; listing->cnt < cnt && !err && !c->bad; listing->cnt++)
		err = parse_thread(d, c, tables, chunk, &listing->entries[listing->cnt]);
	return err;
}

static void parse_func(struct cursor *c, const struct tables *tables, struct trace_func *f)
{
	uint64_t file, suffix;
	size_t len;

	f->process = get_process(c, tables);
	file = cursor_varint(c);
	f->id = get_id(c);
	f->line = get_id(c);
	f->qualname = cursor_string(c);
	len = strlen(f->qualname);
	suffix = cursor_number(c, len + 1);
	f->name = suffix ? f->qualname + (len - (suffix - 1)) : cursor_string(c);
	f->file = file < tables->file_cnt ? tables->files[file] : "";
	if (file >= tables->file_cnt)
		cursor_fail(c);
}

static int define_func(struct decoder *d, const struct trace_func *f)
{
	int err = is_news(
		&d->funcs, f->id,
		hash_numbers((uint64_t[]){ f->process, f->line, f->kind,
					   hash_string(f->qualname, 0), hash_string(f->name, 1),
					   hash_string(f->file, 2) },
			     6));

	if (err <= 0 || !d->consumer->func)
		return err < 0 ? err : 0;
	return d->consumer->func(d->self, f);
}

/* They are handed out when their kinds are known, which come last. */
static int parse_funcs(struct cursor *c, struct tables *t, struct chunk *chunk)
{
	chunk->func_cnt = cursor_count(c, 7);
	chunk->funcs = calloc(chunk->func_cnt + 1ul, sizeof(chunk->funcs[0]));
	t->funcs = calloc(chunk->func_cnt + 1ul, sizeof(t->funcs[0]));
	if (!chunk->funcs || !t->funcs)
		return -ENOMEM;
	for (uint32_t i = 0; i < chunk->func_cnt && !c->bad; i++) {
		parse_func(c, t, &t->funcs[i]);
		chunk->funcs[i] = t->funcs[i].id;
	}
	return 0;
}

/* Since 1.4: of those that are not Python's. */
static void parse_kinds(struct cursor *c, const struct tables *t, const struct chunk *chunk)
{
	uint32_t cnt = cursor_left(c) ? cursor_count(c, 2) : 0;

	while (cnt-- && !c->bad) {
		uint64_t i = cursor_varint(c), kind = cursor_varint(c);

		if (i >= chunk->func_cnt)
			cursor_fail(c);
		else if (kind < FUNC_KIND_CNT)
			t->funcs[i].kind = (uint8_t)kind;
	}
}

static int define_funcs(struct decoder *d, const struct tables *t, const struct chunk *chunk)
{
	int err = 0;

	for (uint32_t i = 0; i < chunk->func_cnt && err >= 0; i++)
		err = define_func(d, &t->funcs[i]);
	return err < 0 ? err : 0;
}

static void parse_gone(struct cursor *c, struct chunk *chunk)
{
	chunk->gone_cnt = cursor_count(c, 1);
	chunk->gone.p = c->p;
	for (uint32_t i = 0; i < chunk->gone_cnt && !c->bad; i++)
		get_id(c);
	chunk->gone.end = c->p;
}

bool dec_parse_counters(struct cursor *c, struct trace_totals *totals)
{
	struct trace_totals t = { .end_ns = totals->end_ns };
	uint32_t cnt;

	t.generated = cursor_varint(c);
	t.written = cursor_varint(c);
	cnt = cursor_count(c, 1);
	for (uint32_t i = 0; i < cnt; i++) /* a reason that this version does not know: */
		t.lost[i < LOSS_CNT ? i : LOSS_USER] += cursor_varint(c);
	if (!c->bad)
		*totals = t;
	return !c->bad;
}

bool dec_parse_totals(struct cursor *c, struct trace_totals *totals)
{
	struct trace_totals t = { .end_ns = get_ns(c) };

	if (!dec_parse_counters(c, &t))
		return false;
	*totals = t;
	return true;
}

/* The streams follow each other in the order of the threads. */
static void place_streams(struct cursor *c, const struct listing *listing, uint64_t min_ns)
{
	for (uint32_t i = 0; i < listing->cnt; i++) {
		struct segment *s = listing->entries[i].segment;

		if (!s)
			continue;
		s->c.p = cursor_skip(c, listing->entries[i].len);
		s->c.end = c->p;
		if (s->first_ns < min_ns)
			cursor_fail(c);
	}
}

/* Return: 0, also when @c turned bad, or an error. */
static int parse_chunk(struct decoder *d, struct cursor *c, struct chunk *chunk,
		       struct listing *listing, uint64_t min_ns)
{
	auto_fn(tables_done) struct tables tables = { 0 };
	struct trace_totals totals;
	int err;

	if (!dec_parse_totals(c, &totals))
		return 0;
	err = parse_files(c, &tables);
	if (!err)
		err = parse_processes(d, c, &tables);
	if (!err)
		err = parse_threads(d, c, &tables, chunk, listing);
	if (!err)
		err = parse_funcs(c, &tables, chunk);
	if (err)
		return err;
	parse_gone(c, chunk);
	place_streams(c, listing, min_ns);
	parse_kinds(c, &tables, chunk);
	if (c->bad)
		return 0;
	d->totals = totals;
	return define_funcs(d, &tables, chunk);
}

static void chunk_freep(struct chunk **chunk)
{
	dec_chunk_free(*chunk);
}

/* Queue the streams, then see to it that each thread has its next event pending. */
static int start_threads(struct decoder *d, struct chunk *chunk, const struct listing *listing)
{
	int err = 0;

	d->open_bytes += chunk->raw.len;
	chunk->todo_cnt = chunk->segment_cnt + 1;
	for (uint32_t i = 0; i < listing->cnt; i++) {
		if (listing->entries[i].segment)
			dec_thread_queue(listing->entries[i].thread, listing->entries[i].segment);
		listing->entries[i].thread->listed_in = NULL;
	}
	dec_chunk_done(d, chunk);
	for (uint32_t i = 0; i < listing->cnt && !err; i++)
		err = dec_thread_start(d, listing->entries[i].thread);
	return err;
}

int dec_chunk_open(struct decoder *d, uint32_t number)
{
	const struct capr_chunk *found = &d->r->chunks[number];
	auto_fn(chunk_freep) struct chunk *chunk = calloc(1, sizeof(*chunk));
	auto_fn(listing_done) struct listing listing = { 0 };
	struct cursor c;
	int err;

	if (!chunk)
		return -ENOMEM;
	err = capr__load(d->r, found, &chunk->raw);
	if (err == -PYE_EFORMAT) {
		dec_note_damage(d, found->offset);
		return 0;
	}
	if (err)
		return err;
	c = (struct cursor){ .p = chunk->raw.data, .end = chunk->raw.data + chunk->raw.len };
	err = parse_chunk(d, &c, chunk, &listing, found->min_ns);
	if (err)
		return err;
	if (c.bad) {
		dec_note_damage(d, found->offset);
		return 0;
	}
	return start_threads(d, take_ptr(chunk), &listing);
}

void dec_chunk_done(struct decoder *d, struct chunk *chunk)
{
	if (--chunk->todo_cnt)
		return;
	for (uint32_t i = 0; i < chunk->gone_cnt; i++)
		known__remove(&d->funcs, get_id(&chunk->gone));
	d->open_bytes -= chunk->raw.len;
	dec_chunk_free(chunk);
}

void dec_chunk_free(struct chunk *chunk)
{
	if (!chunk)
		return;
	bytes_done(&chunk->raw);
	free(chunk->segments);
	free(chunk->funcs);
	free(chunk);
}
