// SPDX-License-Identifier: Apache-2.0
/*
 * From the ring to the capture file: events per second of CPU time that the reading side of
 * `pyebpf trace` handles, on one core.
 *
 *	ring_bench [-j] [-n EVENTS] [-t THREADS] [-d DEPTH] [-o FILE]
 *
 * Batches of 256 kB with the records of bpf/abi/event.h are made up front, with the header of the
 * kernel's ring before each record, and go through assembler__feed() into a capture in FILE (default
 * /dev/null). The clock runs only while they are fed. 600 code objects call each other around DEPTH
 * frames deep, with time stamps that jitter as those of a traced program do.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/event.h"
#include "assemble/assemble.h"
#include "capfile/writer.h"
#include "capture/capture.h"
#include "reading.h"

enum {
	FUNC_CNT = 600,
	BATCH_BYTES = 256 << 10,
	BATCHES = 128, /* made at a time: 32 MB, more than caches hold, as a ring's */
	STR_STATE_ASCII = 0x64 /* compact, ASCII, one byte each, in the layout below */
};

struct thread {
	uint64_t clock;
	uint32_t seq, depth;
	uint16_t stack[READING_DEPTH_MAX + 2];
};

struct bench {
	struct reading r;
	uint8_t *data;
	size_t batch_len[BATCHES];
	struct thread *threads;
	struct assembler *as;
	struct capw *w;
};

/* A record in the ring: its length, then itself, padded to 8 bytes. */
static void *put(uint8_t *batch, size_t *at, size_t len)
{
	uint32_t header[2] = { (uint32_t)len, 0 };
	void *rec = batch + *at + CAPTURE_HEADER_BYTES;

	memcpy(batch + *at, header, sizeof(header));
	memset(rec, 0, (len + 7) & ~(size_t)7);
	*at += CAPTURE_HEADER_BYTES + ((len + 7) & ~(size_t)7);
	return rec;
}

static void put_string(uint8_t *batch, size_t *at, uint32_t code, enum pye_str_which which,
		       const char *text)
{
	size_t len = strlen(text);
	struct pye_str_rec *rec = put(batch, at, sizeof(*rec) + 64);

	rec->head.kind = PYE_REC_STR;
	rec->head.sub = which;
	rec->code = code;
	rec->status = PYE_STR_OK;
	rec->str = (struct pye_str){
		.addr = 1, .length = len, .state = STR_STATE_ASCII, .bytes = (uint32_t)len
	};
	rec->data_len = (uint32_t)len;
	rec->room = 64;
	memcpy(rec->data, text, len);
}

static int define(struct bench *b)
{
	const struct pye_pylayout layout = { .minor = 12,
					     .str_length = 16,
					     .str_state = 32,
					     .str_ascii_data = 40,
					     .str_data = 56,
					     .str_kind_mask = 0x1c,
					     .str_compact_mask = 0x20,
					     .str_ascii_mask = 0x40 };
	const struct assembler_process process = {
		.trace = { .id = 1, .pid = 1, .comm = "python3", .exe = "/usr/bin/python3" },
		.layout = &layout,
		.proc_pid = getpid()
	};
	struct capture_batch batch = { .data = b->data };
	int err = assembler__process(b->as, &process);

	for (uint32_t i = 1; !err && i <= b->r.thread_cnt; i++) {
		struct pye_thread_rec *rec = put(b->data, &batch.len, sizeof(*rec));

		rec->head.kind = PYE_REC_THREAD;
		rec->head.tix = i;
		rec->pix = rec->pid = 1;
		rec->tid = i;
	}
	for (uint32_t i = 1; !err && i <= FUNC_CNT; i++) {
		struct pye_def_rec *rec = put(b->data, &batch.len, sizeof(*rec));
		char text[64];

		rec->head.kind = PYE_REC_DEF;
		rec->head.sub = PYE_STR_CNT;
		rec->code = i;
		rec->pix = 1;
		rec->line = i;
		snprintf(text, sizeof(text), "/usr/lib/python3/dist-packages/module%u.py", i / 20);
		put_string(b->data, &batch.len, i, PYE_STR_FILE, text);
		snprintf(text, sizeof(text), "method_%u", i);
		put_string(b->data, &batch.len, i, PYE_STR_NAME, text);
		snprintf(text, sizeof(text), "SomeClass%u.method_%u", i / 7, i);
		put_string(b->data, &batch.len, i, PYE_STR_QUALNAME, text);
	}
	return err ? err : assembler__feed(b->as, &batch);
}

static uint64_t frame_address(uint32_t depth)
{
	return 0x7f0000001000 + 96ull * depth;
}

static void put_event(struct bench *b, struct thread *t, uint32_t tix, uint8_t *batch, size_t *at)
{
	uint32_t r = reading_random();

	t->clock += 700 + r % 256 + (r >> 8) % 256 + ((r >> 16) % 32 ? 0 : r % 20000);
	if (!t->depth || (t->depth < b->r.depth * 2 && r >> 20 & 1)) {
		struct pye_entry_rec *rec = put(batch, at, sizeof(*rec));
		uint32_t pick = reading_random() % 8;
		uint16_t func = (uint16_t)(1 + (t->stack[t->depth] * 7 + pick * pick) % FUNC_CNT);

		t->stack[++t->depth] = func;
		rec->head = (struct pye_head){ .ts_ns = t->clock,
					       .kind = PYE_REC_ENTRY,
					       .tix = tix,
					       .seq = t->seq++,
					       .frame = frame_address(t->depth) };
		rec->code = func;
		rec->caller = (uint32_t)(frame_address(t->depth - 1) >> 3);
	} else {
		struct pye_exit_rec *rec = put(batch, at, sizeof(*rec));

		rec->head = (struct pye_head){ .ts_ns = t->clock,
					       .kind = PYE_REC_EXIT,
					       .tix = tix,
					       .seq = t->seq++,
					       .frame = frame_address(t->depth) };
		t->depth--;
	}
}

/* Fill the batches, each with one thread's events; the number of events. */
static uint64_t make(struct bench *b, uint64_t most)
{
	uint64_t made = 0;

	memset(b->batch_len, 0, sizeof(b->batch_len));
	for (uint32_t i = 0; i < BATCHES && made < most; i++) {
		uint8_t *batch = b->data + (size_t)i * BATCH_BYTES;
		uint32_t tix = i % b->r.thread_cnt;

		while (b->batch_len[i] + 64 <= BATCH_BYTES && made < most) {
			put_event(b, &b->threads[tix], tix + 1, batch, &b->batch_len[i]);
			made++;
		}
	}
	return made;
}

static int feed(struct bench *b)
{
	uint64_t cpu = reading_now(CLOCK_PROCESS_CPUTIME_ID), wall = reading_now(CLOCK_MONOTONIC);
	int err = 0;

	for (uint32_t i = 0; !err && i < BATCHES && b->batch_len[i]; i++) {
		struct capture_batch batch = { .data = b->data + (size_t)i * BATCH_BYTES,
					       .len = b->batch_len[i] };

		err = assembler__feed(b->as, &batch);
	}
	b->r.cpu_ns += reading_now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	b->r.wall_ns += reading_now(CLOCK_MONOTONIC) - wall;
	return err;
}

static int run(struct bench *b)
{
	int err = define(b);

	while (!err && b->r.fed < b->r.events) {
		b->r.fed += make(b, b->r.events - b->r.fed);
		err = feed(b);
	}
	return err;
}

int main(int argc, char **argv)
{
	struct bench b = { .r = READING_DEFAULTS };
	const struct trace_info info = { .engine = "bench",
					 .version = "",
					 .hostname = "",
					 .kernel = "",
					 .cpu = "",
					 .arguments = "" };
	struct trace_totals totals;
	int fd, err;

	if (reading_parse(&b.r, UINT32_MAX, argc, argv)) {
		fprintf(stderr, "usage: ring_bench " READING_USAGE "\n");
		return 2;
	}
	fd = open(b.r.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	b.data = malloc((size_t)BATCHES * BATCH_BYTES);
	b.threads = calloc(b.r.thread_cnt, sizeof(*b.threads));
	if (fd < 0 || !b.data || !b.threads || capw__new(&b.w, fd, NULL, &info) ||
	    assembler__new(&b.as, b.w))
		return 1;
	err = run(&b);
	assembler__totals(b.as, NULL, &totals);
	capw__finish(b.w, &totals);
	if (!err && totals.written != b.r.fed)
		err = -EPROTO;
	if (err)
		fprintf(stderr, "ring_bench: %s; %llu of %llu events written\n", strerror(-err),
			(unsigned long long)totals.written, (unsigned long long)b.r.fed);
	else
		reading_report(&b.r, capw__bytes(b.w), 32);
	assembler__free(b.as);
	capw__free(b.w);
	free(b.threads);
	free(b.data);
	close(fd);
	return err ? 1 : 0;
}
