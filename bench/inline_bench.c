// SPDX-License-Identifier: Apache-2.0
/*
 * From the ring of the inline engine to the capture file: events per second of CPU time that the reading side of
 * `pyebpf trace --engine inline` handles, on one core.
 *
 *	inline_bench [-j] [-n EVENTS] [-t THREADS] [-d DEPTH] [-o FILE]
 *
 * The ring is one of 16 MB, mapped twice in a row as in a target, and is filled with what the stubs write: calls and
 * returns around DEPTH frames deep in 600 functions, some that are new now and then, threads that take turns. Then
 * it is read through cap_inline and the assembler into a capture in FILE (default /dev/null). The clock runs only
 * while it is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/event.h"
#include "assemble/assemble.h"
#include "capfile/writer.h"
#include "capture/cap_inline.h"
#include "cpython/layouts.h"
#include "reading.h"

enum {
	MINOR = 12,
	FUNC_CNT = 600,
	NEW_EVERY = 16384, /* events */
	TURN = 4096, /* events of a thread in a row */
	THREADS_MAX = 64,
	PAIR_NS = 2000000, /* so often the clocks are compared */
};

#define RING_BYTES ((size_t)16 << 20)

struct thread {
	uint32_t depth;
	uint16_t stack[READING_DEPTH_MAX + 2];
};

struct bench {
	struct reading r;
	uint64_t defined;
	struct thread *threads;
	uint8_t *memory; /* as from IL_SHARED on */
	uint64_t head;
	struct clock_pair begun, told;
	uint64_t tsc;
	double ns_per_tick;
	struct interp in;
	struct inline_engine engine;
	struct cap_inline_ids ids;
	struct cap_inline *cap;
	struct assembler *as;
	struct capture_taker records;
	struct capw *w;
};

static void *put(struct bench *b, uint32_t bytes)
{
	void *place = b->memory + IL_SHARED_HEAD + (b->head & (RING_BYTES - 1));

	b->head += bytes;
	return place;
}

static uint32_t put_text(const struct pye_pylayout *l, struct il_str *str, uint8_t *data,
			 const char *text)
{
	uint32_t len = (uint32_t)strlen(text);

	*str = (struct il_str){ .addr = 1,
				.length = len,
				.bytes = len,
				.state = l->str_compact_mask | l->str_ascii_mask |
					 1u << __builtin_ctz(l->str_kind_mask) };
	memcpy(data, text, len);
	return len;
}

/* A code object, in the slot of the function. */
static void define(struct bench *b, uint32_t func)
{
	const struct pye_pylayout *l = &b->in.layout;
	struct {
		struct il_def def;
		uint8_t room[256];
	} d = { .def = { .head = { b->tsc << 16, IL_MORE | (uint64_t)IL_DEF << 48 },
			 .code = 0x7f1000000000 + 64 * b->defined++,
			 .slot = func,
			 .line = func } };
	uint8_t *data = d.def.data;
	char text[64];

	snprintf(text, sizeof(text), "/usr/lib/python3/dist-packages/module%u.py", func / 20);
	data += put_text(l, &d.def.str[PYE_STR_FILE], data, text);
	snprintf(text, sizeof(text), "method_%u", func);
	data += put_text(l, &d.def.str[PYE_STR_NAME], data, text);
	snprintf(text, sizeof(text), "SomeClass%u.method_%u", func / 7, func);
	data += put_text(l, &d.def.str[PYE_STR_QUALNAME], data, text);
	d.def.total = (uint32_t)((uint64_t)(data - (uint8_t *)&d) + 15) & ~15u;
	memcpy(put(b, d.def.total), &d, d.def.total);
}

static void turn_to(struct bench *b, uint32_t thread)
{
	struct il_more_rec *r = put(b, sizeof(*r));

	*r = (struct il_more_rec){ { b->tsc << 16, IL_MORE | (uint64_t)IL_SWITCH << 48 },
				   4096 * (thread + 1ull),
				   thread + 1 };
}

static uint64_t frame_address(uint32_t thread, uint32_t depth)
{
	return depth ? 0x7f0000001000 + ((uint64_t)thread << 24) + 96ull * depth : 0;
}

static void put_event(struct bench *b, uint32_t thread)
{
	struct thread *t = &b->threads[thread];
	struct il_rec *rec = put(b, sizeof(*rec));
	uint32_t r = reading_random();

	b->tsc += 40 + r % 64 + ((r >> 16) % 32 ? 0 : r % 4096);
	if (!t->depth || (t->depth < b->r.depth * 2 && r >> 20 & 1)) {
		uint32_t pick = reading_random() % 8;
		uint16_t func = (uint16_t)(1 + (t->stack[t->depth] * 7 + pick * pick) % FUNC_CNT);

		t->stack[++t->depth] = func;
		rec->what = (uint64_t)func << 48 | frame_address(thread, t->depth) | IL_CALL;
		rec->time = b->tsc << 16 | il_frame_hash(frame_address(thread, t->depth - 1));
	} else {
		rec->what = frame_address(thread, t->depth) | IL_RETURN;
		rec->time = b->tsc << 16;
		t->depth--;
	}
}

/* As pyebpf does while the target writes. */
static void tell_clock(struct bench *b)
{
	uint64_t ns = b->begun.ns + (uint64_t)((double)(b->tsc - b->begun.tsc) * b->ns_per_tick);

	if (ns < b->told.ns + PAIR_NS)
		return;
	b->told = (struct clock_pair){ .tsc = b->tsc, .ns = ns };
	cap_inline__adjust(b->cap, &b->told);
}

/* Fill the ring. */
static void make(struct bench *b)
{
	uint64_t end = b->engine.shared->tail + RING_BYTES - IL_SLACK;

	while (b->head < end && b->r.fed < b->r.events) {
		if (b->r.fed % TURN == 0)
			turn_to(b, (uint32_t)(b->r.fed / TURN % b->r.thread_cnt));
		if (b->r.fed % NEW_EVERY == 0)
			define(b, 1 + reading_random() % FUNC_CNT);
		put_event(b, (uint32_t)(b->r.fed / TURN % b->r.thread_cnt));
		b->r.fed++;
		tell_clock(b);
	}
	__atomic_store_n(&b->engine.shared->head, b->head, __ATOMIC_RELEASE);
}

static int feed(struct bench *b)
{
	uint64_t cpu = reading_now(CLOCK_PROCESS_CPUTIME_ID), wall = reading_now(CLOCK_MONOTONIC);
	struct capture_batch batch;
	int got;

	while ((got = cap_inline_ops.next(b->cap, &batch)) > 0) {
		got = assembler__feed(b->as, &batch);
		if (got)
			break;
	}
	b->r.cpu_ns += reading_now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	b->r.wall_ns += reading_now(CLOCK_MONOTONIC) - wall;
	return got;
}

static int run(struct bench *b)
{
	int err = 0;

	turn_to(b, 0);
	for (uint32_t i = 1; i <= FUNC_CNT; i++)
		define(b, i);
	while (!err && b->r.fed < b->r.events) {
		make(b);
		err = feed(b);
	}
	return err;
}

/* The ring twice in a row. */
static int map_memory(struct bench *b)
{
	int fd = memfd_create("ring", MFD_CLOEXEC);
	uint8_t *at;

	if (fd < 0 || ftruncate(fd, (off_t)(IL_SHARED_HEAD + RING_BYTES)))
		return -errno;
	at = mmap(NULL, IL_SHARED_HEAD + 2 * RING_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		  0);
	if (at == MAP_FAILED ||
	    mmap(at, IL_SHARED_HEAD + RING_BYTES, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED ||
	    mmap(at + IL_SHARED_HEAD + RING_BYTES, RING_BYTES, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, IL_SHARED_HEAD) == MAP_FAILED)
		return -errno;
	close(fd);
	b->memory = at;
	return 0;
}

static int begin(struct bench *b)
{
	const struct assembler_process process = {
		.trace = { .id = 1, .pid = 1, .comm = "python3", .exe = "/usr/bin/python3" },
		.layout = &b->in.layout,
		.proc_pid = getpid()
	};
	struct clock_pair before = clock_pair_read();
	int err = map_memory(b);

	if (err)
		return err;
	b->in.layout = layout_find(MINOR, false)->py;
	b->engine = (struct inline_engine){ .in = &b->in,
					    .shared = (void *)b->memory,
					    .threads = (void *)(b->memory + IL_THREADS - IL_SHARED),
					    .ring = b->memory + IL_SHARED_HEAD,
					    .ring_bytes = RING_BYTES };
	err = cap_inline__new(&b->cap, 1, getpid(), &b->ids, NULL);
	if (err)
		return err;
	cap_inline__use(b->cap, &b->engine);
	b->records = (struct capture_taker){ b->as, assembler__record, assembler__steps };
	cap_inline__hand_to(b->cap, &b->records);
	b->begun = b->told = clock_pair_read();
	b->ns_per_tick = (double)(b->begun.ns - before.ns) / (double)(b->begun.tsc - before.tsc);
	b->tsc = b->begun.tsc;
	return assembler__process(b->as, &process);
}

int main(int argc, char **argv)
{
	static struct bench b = { .r = READING_DEFAULTS };
	const struct trace_info info = { .engine = "bench",
					 .version = "",
					 .hostname = "",
					 .kernel = "",
					 .cpu = "",
					 .arguments = "" };
	struct trace_totals totals;
	int fd, err;

	if (reading_parse(&b.r, THREADS_MAX, argc, argv)) {
		fprintf(stderr, "usage: inline_bench " READING_USAGE "\n");
		return 2;
	}
	fd = open(b.r.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	b.threads = calloc(b.r.thread_cnt, sizeof(*b.threads));
	if (fd < 0 || !b.threads || capw__new(&b.w, fd, NULL, &info) ||
	    assembler__new(&b.as, b.w) || begin(&b))
		return 1;
	err = run(&b);
	assembler__totals(b.as, NULL, &totals);
	capw__finish(b.w, &totals);
	if (!err && (totals.written != b.r.fed || cap_inline__unmatched(b.cap)))
		err = -EPROTO;
	if (err)
		fprintf(stderr, "inline_bench: %s; %llu of %llu events written\n", strerror(-err),
			(unsigned long long)totals.written, (unsigned long long)b.r.fed);
	else
		reading_report(&b.r, capw__bytes(b.w), 16);
	cap_inline__free(b.cap);
	assembler__free(b.as);
	capw__free(b.w);
	free(b.threads);
	close(fd);
	return err ? 1 : 0;
}
