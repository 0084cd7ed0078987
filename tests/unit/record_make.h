/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the assembler: records as the BPF programs write them, in batches as a ring has them. */
#ifndef PYEBPF_TESTS_RECORD_MAKE_H
#define PYEBPF_TESTS_RECORD_MAKE_H

#include <stdlib.h>
#include <string.h>

#include "abi/event.h"
#include "abi/pylayout.h"
#include "capture/capture.h"

enum {
	MAKE_BYTES = 4 << 20,
	MAKE_ASCII = 0x64 /* state of a str in make_layout: compact, ASCII, one byte each */
};

struct batch_make {
	uint8_t *data;
	size_t len;
	uint64_t now; /* time stamp of the record before */
};

static const struct pye_pylayout make_layout = { .minor = 12,
						 .str_length = 16,
						 .str_state = 32,
						 .str_ascii_data = 40,
						 .str_data = 56,
						 .str_kind_mask = 0x1c,
						 .str_compact_mask = 0x20,
						 .str_ascii_mask = 0x40 };

static inline void make_init(struct batch_make *b)
{
	b->data = calloc(1, MAKE_BYTES);
	b->len = 0;
	b->now = 1000;
	if (!b->data)
		abort();
}

/* A record of zeros but for its head, 10 ns after the one before. */
static inline void *make_rec(struct batch_make *b, unsigned int kind, unsigned int sub,
			     uint32_t tix, uint32_t seq, uint64_t frame, size_t len)
{
	size_t padded = (len + 7) & ~(size_t)7;
	uint32_t header[2] = { (uint32_t)len, 0 };
	struct pye_head *head;

	if (b->len + CAPTURE_HEADER_BYTES + padded > MAKE_BYTES)
		abort();
	memcpy(b->data + b->len, header, sizeof(header));
	head = (struct pye_head *)(void *)(b->data + b->len + CAPTURE_HEADER_BYTES);
	memset(head, 0, padded);
	head->ts_ns = b->now += 10;
	head->frame = frame;
	head->kind = kind & 0xff;
	head->sub = sub & 0xff;
	head->tix = tix;
	head->seq = seq;
	b->len += CAPTURE_HEADER_BYTES + padded;
	return head;
}

static inline void make_entry(struct batch_make *b, uint32_t tix, uint32_t seq, uint64_t frame,
			      uint32_t code, enum pye_entry sub)
{
	struct pye_entry_rec *rec = make_rec(b, PYE_REC_ENTRY, sub, tix, seq, frame, sizeof(*rec));

	rec->code = code;
}

static inline void make_exit(struct batch_make *b, uint32_t tix, uint32_t seq, uint64_t frame,
			     enum pye_exit sub)
{
	make_rec(b, PYE_REC_EXIT, sub, tix, seq, frame, sizeof(struct pye_exit_rec));
}

/* A code object's numbers; make_str() must follow @strings times. */
static inline void make_def(struct batch_make *b, uint32_t pix, uint32_t code, unsigned int strings)
{
	struct pye_def_rec *rec =
		make_rec(b, PYE_REC_DEF, strings, 0, 0, 0x7000 + code, sizeof(*rec));

	rec->code = code;
	rec->pix = pix;
	rec->line = code;
}

static inline struct pye_str_rec *make_str(struct batch_make *b, uint32_t code,
					   enum pye_str_which which, const char *text)
{
	size_t len = strlen(text);
	uint32_t room = len <= 64 ? 64 : len <= 512 ? 512 : PYE_STR_BYTES;
	struct pye_str_rec *rec = make_rec(b, PYE_REC_STR, which, 0, 0, 0, sizeof(*rec) + room);

	rec->code = code;
	rec->str = (struct pye_str){
		.addr = 8, .length = len, .state = MAKE_ASCII, .bytes = (uint32_t)len
	};
	rec->data_len = (uint32_t)len;
	rec->room = room;
	memcpy(rec->data, text, len);
	return rec;
}

/* A whole definition. */
static inline void make_code(struct batch_make *b, uint32_t pix, uint32_t code, const char *name)
{
	make_def(b, pix, code, PYE_STR_CNT);
	make_str(b, code, PYE_STR_FILE, "/srv/app.py");
	make_str(b, code, PYE_STR_NAME, name);
	make_str(b, code, PYE_STR_QUALNAME, name);
}

static inline void make_thread(struct batch_make *b, uint32_t tix, uint32_t pix, uint32_t tid,
			       uint32_t seq)
{
	struct pye_thread_rec *rec = make_rec(b, PYE_REC_THREAD, 0, tix, seq, 0, sizeof(*rec));

	rec->pix = pix;
	rec->pid = 100 + pix;
	rec->tid = tid;
	memcpy(rec->comm, "worker", 7);
}

static inline void make_thread_end(struct batch_make *b, uint32_t tix, uint32_t pix, uint32_t seq)
{
	struct pye_thread_end_rec *rec =
		make_rec(b, PYE_REC_THREAD_END, 0, tix, seq, 0, sizeof(*rec));

	rec->pix = pix;
	memcpy(rec->comm, "ended", 6);
}

static inline void make_retire(struct batch_make *b, uint32_t tix, uint32_t seq, uint32_t pix,
			       uint32_t code)
{
	struct pye_retire_rec *rec =
		make_rec(b, PYE_REC_RETIRE, 0, tix, seq, 0x7000 + code, sizeof(*rec));

	rec->code = code;
	rec->pix = pix;
}

/*
 * A walk of @cnt frames from the top down, in as many records as it takes.
 * @last: flags of the last record: PYE_WALK_ROOT, or PYE_WALK_ANCHORED with @anchor; 0: it was cut off
 */
static inline void make_walk(struct batch_make *b, uint32_t tix, uint32_t seq,
			     const struct pye_walk_frame *frames, uint32_t cnt,
			     enum pye_walk_reason reason, unsigned int last, uint64_t anchor)
{
	unsigned int first = PYE_WALK_FIRST;

	for (;;) {
		uint32_t n = cnt < PYE_WALK_FRAMES ? cnt : PYE_WALK_FRAMES;
		struct pye_walk_rec *rec = make_rec(b, PYE_REC_WALK, first | (n == cnt ? last : 0),
						    tix, seq, anchor, sizeof(*rec));

		rec->cnt = n;
		rec->reason = reason;
		if (n)
			memcpy(rec->frames, frames, n * sizeof(*frames));
		frames += n;
		if (n == cnt)
			return;
		cnt -= n;
		first = 0;
	}
}

#endif
