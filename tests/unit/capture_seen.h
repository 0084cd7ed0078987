/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the capture file: keeps what a decoder hands out, and checks its rules. */
#ifndef PYEBPF_TESTS_CAPTURE_SEEN_H
#define PYEBPF_TESTS_CAPTURE_SEEN_H

#include <errno.h>

#include "capture_make.h"
#include "decode/decode.h"

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
	bool count_only; /* keep no records */
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
	if (!s->count_only)
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

static inline int decode(int fd, struct seen *s, struct err *e)
{
	if (lseek(fd, 0, SEEK_SET))
		abort();
	return decode_file(fd, &seen_consumer, s, e);
}

#endif
