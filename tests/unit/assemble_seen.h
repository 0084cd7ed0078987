/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the assembler: an assembler that writes into a capture in memory, and what a decoder
 * makes of that, as text. Include after cmocka.h.
 */
#ifndef PYEBPF_TESTS_ASSEMBLE_SEEN_H
#define PYEBPF_TESTS_ASSEMBLE_SEEN_H

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "assemble/assemble.h"
#include "capfile/writer.h"
#include "decode/decode.h"
#include "record_make.h"

enum {
	SEEN_THREADS = 2048,
	SEEN_FUNCS = 4096,
	SEEN_TEXT = 4096, /* no more is kept */
	SEEN_DEPTH = 1 << 15
};

struct seen_thread {
	char text[SEEN_TEXT]; /* "call a, call b, return b, gap lost 2" */
	size_t len;
	uint32_t *stack, depth;
	uint64_t last_ns, lost, events, gap_ns; /* gap_ns: how long the last one was */
	struct trace_thread def;
	char name[32];
};

struct assembly {
	struct capw *w;
	struct assembler *a;
	struct batch_make b;
	int fd;
	uint32_t round;
	struct trace_totals totals;
	struct seen_thread threads[SEEN_THREADS];
	char funcs[SEEN_FUNCS][64];
	struct trace_process processes[SEEN_THREADS];
	uint64_t events; /* decoded, without those found open */
};

static inline void append(struct seen_thread *t, const char *what)
{
	size_t len = strlen(what);

	if (t->len + len >= SEEN_TEXT)
		return;
	memcpy(t->text + t->len, what, len + 1);
	t->len += len;
}

static inline void say(struct seen_thread *t, const char *what, const char *name)
{
	append(t, t->len ? ", " : "");
	append(t, what);
	append(t, *name ? " " : "");
	append(t, name);
}

static inline int on_process(void *self, const struct trace_process *p)
{
	struct assembly *as = self;

	as->processes[p->id % SEEN_THREADS] = *p;
	return 0;
}

static inline int on_thread(void *self, const struct trace_thread *def)
{
	struct seen_thread *t = &((struct assembly *)self)->threads[def->id % SEEN_THREADS];

	t->def = *def;
	snprintf(t->name, sizeof(t->name), "%s", def->name);
	return 0;
}

static inline int on_func(void *self, const struct trace_func *f)
{
	struct assembly *as = self;

	snprintf(as->funcs[f->id % SEEN_FUNCS], sizeof(as->funcs[0]), "%s", f->qualname);
	return 0;
}

/* Frames nest: what is left is what was entered last. */
static inline int on_event(void *self, const struct trace_event *e)
{
	static const char *const kinds[] = { "call",   "resume", "throw", "open",
					     "return", "yield",	 "unwind" };
	struct assembly *as = self;
	struct seen_thread *t = &as->threads[e->thread % SEEN_THREADS];

	assert_true(e->ts_ns >= t->last_ns);
	t->last_ns = e->ts_ns;
	if (trace_is_leave(e->kind)) {
		assert_true(t->depth > 0);
		t->depth--;
		assert_int_equal(t->stack[t->depth], e->func);
	} else {
		assert_true(t->depth < SEEN_DEPTH);
		if (!t->stack)
			t->stack = calloc(SEEN_DEPTH, sizeof(*t->stack));
		t->stack[t->depth] = e->func;
	}
	assert_int_equal(t->depth, e->depth);
	t->depth += !trace_is_leave(e->kind);
	as->events += e->kind != TRACE_OPEN;
	t->events += e->kind != TRACE_OPEN;
	say(t, kinds[e->kind], as->funcs[e->func % SEEN_FUNCS]);
	return 0;
}

static inline int on_gap(void *self, const struct trace_gap *g)
{
	struct seen_thread *t = &((struct assembly *)self)->threads[g->thread % SEEN_THREADS];
	char text[48];

	snprintf(text, sizeof(text), "%s %llu", trace_gap_name(g->reason),
		 (unsigned long long)g->lost);
	say(t, "gap", text);
	t->depth = 0;
	t->gap_ns = g->until_ns - g->ts_ns;
	t->lost += g->lost;
	return 0;
}

static const struct trace_consumer assembly_consumer = { .process = on_process,
							 .thread = on_thread,
							 .func = on_func,
							 .event = on_event,
							 .gap = on_gap };

static inline void add_process(struct assembly *as, uint32_t pix, uint16_t flags)
{
	struct pye_pylayout layout = make_layout;
	const struct assembler_process p = { .trace = { .id = pix,
							.pid = 100 + pix,
							.comm = "python3",
							.exe = "/usr/bin/python3" },
					     .layout = &layout,
					     .proc_pid = getpid() };

	layout.flags = flags;
	assert_int_equal(assembler__process(as->a, &p), 0);
}

static inline struct assembly *assembly_new_on(int fd, uint16_t flags)
{
	const struct trace_info info = { .engine = "uprobe",
					 .version = "",
					 .hostname = "",
					 .kernel = "",
					 .cpu = "",
					 .arguments = "" };
	struct assembly *as = calloc(1, sizeof(*as));

	assert_non_null(as);
	as->fd = fd;
	assert_true(as->fd >= 0);
	assert_int_equal(capw__new(&as->w, as->fd, NULL, &info), 0);
	assert_int_equal(assembler__new(&as->a, as->w), 0);
	make_init(&as->b);
	add_process(as, 1, flags);
	return as;
}

static inline struct assembly *assembly_new(uint16_t flags)
{
	return assembly_new_on(memfd_create("capture", MFD_CLOEXEC), flags);
}

/* A process, and a thread of it with the functions a (1), b (2), c (3) and d (4). */
static inline struct assembly *assembly_usual(uint16_t flags)
{
	struct assembly *as = assembly_new(flags);

	make_code(&as->b, 1, 1, "a");
	make_code(&as->b, 1, 2, "b");
	make_code(&as->b, 1, 3, "c");
	make_code(&as->b, 1, 4, "d");
	make_thread(&as->b, 1, 1, 101, 0);
	return as;
}

/* What was made since the last time goes in, as a batch of its own. */
static inline int assembly_feed(struct assembly *as)
{
	/* a copy of its size, so that a sanitizer sees what lies behind it */
	uint8_t *copy = malloc(as->b.len ? as->b.len : 1);
	struct capture_batch batch = { .data = copy, .len = as->b.len, .round = as->round };
	int err;

	assert_non_null(copy);
	memcpy(copy, as->b.data, as->b.len);
	err = assembler__feed(as->a, &batch);
	free(copy);
	as->b.len = 0;
	return err;
}

static inline uint64_t lost_sum(const struct trace_totals *t)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < LOSS_CNT; i++)
		sum += t->lost[i];
	return sum;
}

/* The end of a trace; what came out is then in the threads. */
static inline void assembly_finish(struct assembly *as)
{
	struct err e = { 0 };

	assembly_feed(as);
	assembler__finish(as->a);
	assembler__totals(as->a, NULL, &as->totals);
	as->totals.complete = true;
	capw__finish(as->w, &as->totals);
	assembler__totals(as->a, NULL, &as->totals);
	assert_int_equal(as->totals.generated, as->totals.written + lost_sum(&as->totals));
	assert_int_equal(lseek(as->fd, 0, SEEK_SET), 0);
	assert_int_equal(decode_file(as->fd, &assembly_consumer, as, &e), 0);
	assert_string_equal(e.what, "");
	assert_int_equal(as->events, as->totals.written);
}

static inline void assembly_free(struct assembly *as)
{
	for (uint32_t i = 0; i < SEEN_THREADS; i++)
		free(as->threads[i].stack);
	assembler__free(as->a);
	capw__free(as->w);
	free(as->b.data);
	close(as->fd);
	free(as);
}

/* The usual end of a test with one thread. */
static inline void assembly_expect(struct assembly *as, uint64_t generated, const char *text)
{
	assembly_finish(as);
	assert_string_equal(as->threads[1].text, text);
	assert_int_equal(as->totals.generated, generated);
	assembly_free(as);
}

#endif
