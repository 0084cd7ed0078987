/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the capture file: a recorder of what a decoder hands out, and small builders. */
#ifndef PYEBPF_TESTS_CAPTURE_MAKE_H
#define PYEBPF_TESTS_CAPTURE_MAKE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capfile/writer.h"
#include "decode/decode.h"

enum {
	REC_GAP = 100
};

struct rec {
	uint64_t ts_ns, until_ns, lost;
	uint32_t thread, func, depth; /* func of a gap: its reason */
	uint32_t kind; /* REC_GAP: a gap */
	uint32_t number; /* of the model: in the thread */
};

struct recs {
	struct rec *v;
	size_t cnt, cap;
};

static inline void recs_add(struct recs *r, const struct rec *rec)
{
	if (r->cnt == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 1024;
		r->v = realloc(r->v, r->cap * sizeof(r->v[0]));
		if (!r->v)
			abort();
	}
	r->v[r->cnt++] = *rec;
}

/* What came out, with the rules of a consumer checked on the way. */
struct seen {
	struct recs recs;
	struct trace_totals totals;
	struct trace_info info;
	char engine[64], arguments[64];
	uint32_t begin_cnt, end_cnt, process_cnt, thread_cnt, func_cnt;
	uint64_t last_ns;
	const char *broken; /* the first rule that was */
	uint8_t *known_threads, *known_funcs, *known_processes; /* by id below KNOWN_IDS */
	char last_func[128], last_name[128], last_file[128], last_comm[64], last_root[64];
	size_t last_func_len;
	uint64_t thread_end_ns;
	int fail_after; /* events until the consumer gives up with -ECANCELED; 0: never */
};

enum {
	KNOWN_IDS = 1 << 20
};

static inline void seen_rule(struct seen *s, bool ok, const char *rule)
{
	if (!ok && !s->broken)
		s->broken = rule;
}

static inline void copy_text(char *to, size_t size, const char *from)
{
	size_t len = strlen(from); /* reads it all, for the sanitizer */

	if (len >= size)
		len = size - 1;
	memcpy(to, from, len);
	to[len] = '\0';
}

static inline int seen_begin(void *self, const struct trace_info *info)
{
	struct seen *s = self;

	s->begin_cnt++;
	s->info = *info;
	copy_text(s->engine, sizeof(s->engine), info->engine);
	copy_text(s->arguments, sizeof(s->arguments), info->arguments);
	return 0;
}

static inline int seen_process(void *self, const struct trace_process *p)
{
	struct seen *s = self;

	s->process_cnt++;
	if (p->id < KNOWN_IDS)
		s->known_processes[p->id] = 1;
	copy_text(s->last_comm, sizeof(s->last_comm), p->comm);
	for (uint32_t i = 0; p->import_roots && p->import_roots[i]; i++)
		copy_text(s->last_root, sizeof(s->last_root), p->import_roots[i]);
	return 0;
}

static inline int seen_thread(void *self, const struct trace_thread *t)
{
	struct seen *s = self;

	s->thread_cnt++;
	s->thread_end_ns = t->end_ns;
	if (t->id < KNOWN_IDS)
		s->known_threads[t->id] = 1;
	seen_rule(s, t->process >= KNOWN_IDS || s->known_processes[t->process], "process known");
	return 0;
}

static inline int seen_func(void *self, const struct trace_func *f)
{
	struct seen *s = self;

	s->func_cnt++;
	if (f->id < KNOWN_IDS)
		s->known_funcs[f->id] = 1;
	seen_rule(s, f->process >= KNOWN_IDS || s->known_processes[f->process], "process known");
	s->last_func_len = strlen(f->qualname);
	copy_text(s->last_func, sizeof(s->last_func), f->qualname);
	copy_text(s->last_name, sizeof(s->last_name), f->name);
	copy_text(s->last_file, sizeof(s->last_file), f->file);
	return 0;
}

static inline int seen_event(void *self, const struct trace_event *e)
{
	struct seen *s = self;
	struct rec rec = { .ts_ns = e->ts_ns,
			   .thread = e->thread,
			   .func = e->func,
			   .depth = e->depth,
			   .kind = e->kind };

	seen_rule(s, e->ts_ns >= s->last_ns, "events in time order");
	seen_rule(s, e->thread >= KNOWN_IDS || s->known_threads[e->thread], "thread known");
	seen_rule(s, e->func >= KNOWN_IDS || s->known_funcs[e->func], "function known");
	s->last_ns = e->ts_ns;
	recs_add(&s->recs, &rec);
	return s->fail_after && !--s->fail_after ? -ECANCELED : 0;
}

static inline int seen_gap(void *self, const struct trace_gap *g)
{
	struct seen *s = self;
	struct rec rec = { .ts_ns = g->ts_ns,
			   .until_ns = g->until_ns,
			   .lost = g->lost,
			   .thread = g->thread,
			   .func = g->reason,
			   .kind = REC_GAP };

	seen_rule(s, g->ts_ns >= s->last_ns, "gaps in time order");
	seen_rule(s, g->until_ns >= g->ts_ns, "gap ends after it begins");
	s->last_ns = g->ts_ns;
	recs_add(&s->recs, &rec);
	return 0;
}

static inline int seen_end(void *self, const struct trace_totals *t)
{
	struct seen *s = self;

	s->end_cnt++;
	s->totals = *t;
	return 0;
}

static const struct trace_consumer seen_consumer = { .begin = seen_begin,
						     .process = seen_process,
						     .thread = seen_thread,
						     .func = seen_func,
						     .event = seen_event,
						     .gap = seen_gap,
						     .end = seen_end };

static inline void seen_init(struct seen *s)
{
	memset(s, 0, sizeof(*s));
	s->known_threads = calloc(KNOWN_IDS, 1);
	s->known_funcs = calloc(KNOWN_IDS, 1);
	s->known_processes = calloc(KNOWN_IDS, 1);
}

static inline void seen_done(struct seen *s)
{
	free(s->known_threads);
	free(s->known_funcs);
	free(s->known_processes);
	free(s->recs.v);
}

/* A writer, and beside it what must come out of the file. */
struct maker {
	struct capw *w;
	int fd;
	struct recs want;
	uint32_t number[64]; /* of events, by thread */
	uint32_t depth[64];
	uint32_t stack[64][65536 / 4];
};

static inline void define_process(struct capw *w, uint32_t id, const char *comm)
{
	const char *roots[] = { "/usr/lib/python3/dist-packages", "/usr/lib/python3", NULL };
	struct trace_process p = { .id = id,
				   .pid = 1000 + id,
				   .start_ns = 5,
				   .comm = comm,
				   .exe = "/usr/bin/python3",
				   .python = "3.11",
				   .prefix = "/usr/lib/python3.11",
				   .import_roots = roots };

	if (capw__process(w, &p))
		abort();
}

static inline void define_thread(struct capw *w, uint32_t id, uint32_t process)
{
	struct trace_thread t = { .id = id,
				  .process = process,
				  .tid = 2000 + id,
				  .is_main = id == 1,
				  .start_ns = 7,
				  .name = "worker" };

	if (capw__thread(w, &t))
		abort();
}

static inline int define_func_named(struct capw *w, uint32_t id, uint32_t process,
				    const char *qualname, const char *name)
{
	struct trace_func f = { .id = id,
				.process = process,
				.line = id % 1000,
				.qualname = qualname,
				.name = name,
				.file = id % 2 ? "/srv/app/one.py" : "/srv/app/two.py" };

	return capw__func(w, &f);
}

static inline void define_func(struct capw *w, uint32_t id, uint32_t process)
{
	if (define_func_named(w, id, process, "Class.method", "method"))
		abort();
}

static const struct trace_info some_info = { .start_ns = 5,
					     .start_unix_ns = -7,
					     .engine = "uprobe",
					     .version = "0.1",
					     .hostname = "host",
					     .kernel = "6.1",
					     .cpu = "some cpu",
					     .cpu_cnt = 8,
					     .arguments = "trace -p 1",
					     .cost = { 1, 2, 3, 4 } };

static inline void make_enter(struct maker *m, uint32_t thread, uint64_t ns, enum trace_kind kind,
			      uint32_t func)
{
	struct rec rec = { .ts_ns = ns,
			   .thread = thread,
			   .func = func,
			   .depth = m->depth[thread],
			   .kind = kind,
			   .number = m->number[thread]++ };

	if (capw__enter(m->w, thread, ns, kind, func))
		abort();
	m->stack[thread][m->depth[thread]++] = func;
	recs_add(&m->want, &rec);
}

static inline void make_leave(struct maker *m, uint32_t thread, uint64_t ns, enum trace_kind kind)
{
	struct rec rec = { .ts_ns = ns, .thread = thread, .kind = kind };

	if (capw__leave(m->w, thread, ns, kind))
		abort();
	rec.depth = --m->depth[thread];
	rec.func = m->stack[thread][rec.depth];
	rec.number = m->number[thread]++;
	recs_add(&m->want, &rec);
}

static inline void make_gap(struct maker *m, uint32_t thread, uint64_t ns, uint64_t until_ns,
			    uint64_t lost)
{
	uint32_t reason = (uint32_t)(ns % GAP_CNT);
	struct trace_gap gap = { .ts_ns = ns,
				 .until_ns = until_ns,
				 .lost = lost,
				 .thread = thread,
				 .reason = (uint8_t)reason };
	struct rec rec = { .ts_ns = ns,
			   .until_ns = until_ns,
			   .lost = lost,
			   .thread = thread,
			   .func = reason,
			   .kind = REC_GAP,
			   .number = m->number[thread]++ };

	if (capw__gap(m->w, &gap))
		abort();
	m->depth[thread] = 0;
	recs_add(&m->want, &rec);
}

static inline int by_time(const void *a, const void *b)
{
	const struct rec *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static inline struct maker *maker_new(size_t chunk_bytes)
{
	struct capw_opts opts = { .chunk_bytes = chunk_bytes };
	struct maker *m = calloc(1, sizeof(*m));

	m->fd = memfd_create("capture", 0);
	if (m->fd < 0 || capw__new(&m->w, m->fd, &opts, &some_info))
		abort();
	return m;
}

static inline int maker_finish(struct maker *m)
{
	struct trace_totals totals = { .generated = capw__written(m->w) + capw__lost(m->w) };
	int err = capw__finish(m->w, &totals);

	capw__free(m->w);
	m->w = NULL;
	return err;
}

static inline void maker_free(struct maker *m)
{
	capw__free(m->w);
	close(m->fd);
	free(m->want.v);
	free(m);
}

static inline int decode(int fd, struct seen *s, struct err *e)
{
	if (lseek(fd, 0, SEEK_SET))
		abort();
	return decode_file(fd, &seen_consumer, s, e);
}

#endif
