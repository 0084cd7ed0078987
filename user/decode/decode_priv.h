/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the decoder share: chunk.c opens chunks and hands out definitions, stream.c
 * follows the streams of a thread, decode.c merges the threads by time.
 */
#ifndef PYEBPF_DECODE_DECODE_PRIV_H
#define PYEBPF_DECODE_DECODE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capfile/reader.h"
#include "capfile/varint.h"
#include "decode/known.h"
#include "profile/trace.h"

struct chunk;

/* The events of one thread in one chunk. */
struct segment {
	struct segment *next; /* of the thread, in a later chunk */
	struct chunk *chunk;
	struct cursor c;
	uint64_t first_ns, first_seq;
	uint32_t open_cnt;
	bool begun;
};

/* A chunk that is open: freed when its last segment is done. */
struct chunk {
	struct bytes raw;
	struct segment *segments;
	uint32_t segment_cnt, todo_cnt;
	uint32_t *funcs, func_cnt; /* local index to id */
	struct cursor gone; /* ids of functions that no later chunk has */
	uint32_t gone_cnt;
};

enum pending {
	PENDING_NONE,
	PENDING_EVENT,
	PENDING_OPEN
};

struct thread {
	uint32_t id;
	bool gone, in_heap;
	bool begun; /* its first stream here */
	enum pending pending;
	unsigned int kind; /* of the pending event */
	uint64_t next_ns; /* its time */
	struct segment *first; /* being read */
	struct segment **end;
	uint64_t seq; /* events so far, with the lost ones */
	uint64_t def; /* hash of the definition, 0: none yet */
	const struct chunk *listed_in; /* being opened */
	uint32_t *stack, len, cap;
	uint32_t reopened; /* PENDING_OPEN: frames shown already */
	struct trace_frame *sample; /* the last one of the segment */
	uint32_t sample_len, sample_cap;
	uint8_t lock_type; /* of the sample that comes next */
};

struct heap_item {
	uint64_t ns;
	uint32_t id;
	struct thread *thread;
};

struct decoder {
	const struct trace_consumer *consumer;
	void *self;
	struct capr *r;
	uint32_t next; /* chunk to open */
	uint64_t *floors; /* earliest time stamp in a chunk and all after it */

	struct known processes, funcs; /* values: hash of the definition handed out last */
	struct known threads; /* values: pointers */
	size_t open_bytes; /* of the chunks that are open */
	uint32_t frames_cap; /* of all stacks */
	uint32_t trimmed_at; /* `next` when they were last trimmed */

	struct heap_item *heap;
	uint32_t heap_cnt, heap_cap;

	uint64_t now_ns; /* of what was handed out last */
	uint64_t written;
	struct trace_totals totals; /* as of the last chunk */
	bool in_run; /* the capture begins in the middle of a run */
	struct trace_totals base; /* counters before it */
	bool damaged;
	uint64_t damaged_offset; /* of the chunk with the first damage */
};

/* dec_note_damage - the capture is not whole; @offset of the chunk. */
void dec_note_damage(struct decoder *d, uint64_t offset);

/**
 * dec_chunk_open - hand out the definitions of a chunk and queue its streams with their threads
 * @number: of the chunk
 *
 * One whose content makes no sense is left out and noted.
 *
 * Return: 0, -ENOMEM, what read() or the consumer returned.
 */
int dec_chunk_open(struct decoder *d, uint32_t number);

/* dec_chunk_done - one segment less to do; with the last one the chunk is freed. */
void dec_chunk_done(struct decoder *d, struct chunk *chunk);

/* dec_chunk_free - NULL is fine. */
void dec_chunk_free(struct chunk *chunk);

/* dec_parse_counters - what was generated, written and lost. dec_parse_totals - the counters at the
 * beginning of a payload. Return: false when @c is bad. */
bool dec_parse_counters(struct cursor *c, struct trace_totals *totals);
bool dec_parse_totals(struct cursor *c, struct trace_totals *totals);

/* dec_thread_get - the record of a thread, a new one if needed; NULL without memory. */
struct thread *dec_thread_get(struct decoder *d, uint32_t id);

/* dec_thread_queue - add a segment, which must come after those queued already. */
void dec_thread_queue(struct thread *t, struct segment *s);

/* dec_thread_fetch - make the next event of a thread pending, if there is one. Return: 0 or an error. */
int dec_thread_fetch(struct decoder *d, struct thread *t);

/* dec_thread_step - hand out the pending event and fetch the next. Return: 0 or an error. */
int dec_thread_step(struct decoder *d, struct thread *t);

/* dec_sample - hand out a sample of the segment being read; @c: its body, bad if it made no sense.
 * Return: 0 or an error. */
int dec_sample(struct decoder *d, struct thread *t, struct cursor *c);

/* dec_sample_forget - the next segment shows its first sample whole. */
void dec_sample_forget(struct thread *t);

/* dec_thread_free - free what remains of a thread; the caller takes it from the table. */
void dec_thread_free(struct decoder *d, struct thread *t);

/* dec_thread_start - let a thread take part in the merging that has something new, or end it for good.
 * Return: 0 or an error. */
int dec_thread_start(struct decoder *d, struct thread *t);

#endif
