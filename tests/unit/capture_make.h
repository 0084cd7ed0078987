/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the capture file: writes captures, and keeps what must come out of them. */
#ifndef PYEBPF_TESTS_CAPTURE_MAKE_H
#define PYEBPF_TESTS_CAPTURE_MAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capfile/writer.h"

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
	struct trace_totals totals = { .generated = capw__written(m->w) + capw__lost(m->w),
				       .lost = { [LOSS_USER] = capw__lost(m->w) } };
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

#endif
