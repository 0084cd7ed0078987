/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the writer share: events in writer.c, definitions in defs.c, chunks in
 * chunk.c. Everything that lives has one record, found by id. A record that the chunk being filled
 * uses carries the chunk's epoch and its index there, and hangs in one of the chunk's lists; going
 * to the next chunk means counting up the epoch and emptying the lists.
 */
#ifndef PYEBPF_CAPFILE_WRITER_PRIV_H
#define PYEBPF_CAPFILE_WRITER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "capfile/format.h"
#include "capfile/idtab.h"
#include "capfile/keep.h"
#include "capfile/varint.h"
#include "capfile/writer.h"

#define BLOCK_SIZE	   512u
#define CHUNK_BYTES	   (2u << 20) /* default */
#define CHUNK_BYTES_MAX	   (8u << 20) /* keeps any payload below CAP_RAW_MAX */
#define CHUNK_DEFS_MAX	   (4u << 20) /* bytes of definitions that end a chunk */
#define DEFS_MEMORY_MAX	   (24u << 20) /* of all definitions that live */
#define STACKS_MEMORY_MAX  (8u << 20) /* of the open frames of all threads */
#define SAMPLES_MEMORY_MAX (16u << 20) /* of the samples that the next ones are compared with */
#define EVENT_BYTES_MAX	   (VARINT_MAX + 5)
#define GAP_BYTES_MAX	   (VARINT_MAX + 3 + 3 * VARINT_MAX)

/* A link of the lists of a chunk, in order of the index in it. */
struct link {
	struct link *next;
};

struct list {
	struct link *first, **end;
	uint32_t cnt;
};

/* The file names of functions, each kept once. */
struct wstring {
	struct link used; /* by the chunk, where epoch says so */
	struct wstring *next;
	uint32_t epoch, index;
	uint32_t hash, ref_cnt;
	uint32_t len;
	char text[];
};

struct strtab {
	struct wstring **buckets;
	uint32_t bucket_cnt, cnt; /* bucket_cnt is a power of two, or 0 */
};

/* The bodies are the definitions as the chunk holds them, without the indexes. */
struct wprocess {
	struct link used;
	uint32_t epoch, index;
	uint32_t id;
	uint32_t ref_cnt; /* threads and functions */
	bool ended;
	struct bytes body;
};

struct wfunc {
	struct link used, gone;
	uint32_t epoch, index;
	uint32_t id;
	uint32_t open_cnt; /* frames */
	bool retired, written;
	uint8_t kind; /* enum trace_func_kind */
	struct wprocess *process;
	struct wstring *file;
	struct bytes body;
};

/* A piece of a thread's stream. */
struct block {
	struct block *next;
	uint32_t len;
	uint8_t data[BLOCK_SIZE - sizeof(void *) - sizeof(uint32_t) * 2];
};

/* A frame of the last sample. */
struct wframe {
	struct wfunc *func;
	uint32_t line;
};

struct wthread {
	uint8_t *at, *end; /* room in the last block; NULL: has no stream in this chunk */
	uint64_t last_ns;
	uint64_t seq; /* events so far, with the lost ones */
	uint32_t *stack; /* ids of the functions of open frames, which stay in their table: half a pointer each */
	uint32_t len, cap;

	/* what could not be kept for want of memory: see hide() in writer.c */
	bool hidden;
	uint32_t hidden_len; /* of the stack when it began */
	uint64_t hidden_ns, hidden_cnt, above_cnt;

	struct link used;
	uint32_t epoch;
	uint32_t id;
	bool retired;
	struct wprocess *process;
	struct bytes body;

	/* the last sample of this stream, which the next one is compared with */
	struct wframe *sample;
	uint32_t sample_len, sample_cap, sample_epoch;

	struct block *first, *last;
	uint64_t first_ns, first_seq; /* of the stream */
	uint32_t first_len; /* open frames at its beginning */
};

struct capw {
	int fd;
	size_t chunk_bytes;
	ZSTD_CCtx *zstd;
	int level;

	struct idtab processes, threads, funcs;
	struct strtab files;
	size_t defs_memory, stacks_memory, samples_memory;

	/* the chunk being filled */
	uint32_t epoch;
	struct list used_files, used_processes, used_threads, used_funcs;
	struct list gone_funcs; /* retired: forgotten when they are closed */
	size_t stream_bytes; /* in full blocks */
	size_t defs_bytes;
	uint32_t block_cnt, block_max;
	bool stacks_trimmed;
	uint64_t written_before; /* of `written`, when the chunk began */
	bool totals_changed;

	struct block *free_blocks;
	struct bytes scratch; /* a definition */
	struct bytes body; /* a sample */
	uint64_t sample_ns; /* of struct trace_info */
	struct bytes raw; /* a payload */
	uint8_t *out; /* header and stored payload */
	size_t out_cap;

	struct trace_totals totals;
	uint64_t totals_lost; /* `lost` that totals include */
	uint64_t written, lost;
	uint64_t chunk_seq;
	uint64_t file_bytes;
	uint64_t last_ns; /* latest time stamp in any chunk */
	int write_err; /* the first one */

	/* what every file of this run begins with */
	uint64_t start_ns;
	int64_t start_unix_ns;
	struct bytes info; /* the rest of INFO */
	uint32_t part; /* 0: there is one file only */
	uint64_t flush_ns[2]; /* times of the last flush and the one before */
	struct keep keep;
};

/* list_add - append; the caller keeps the index @l->cnt had before. */
static inline void list_clear(struct list *l)
{
	*l = (struct list){ 0 };
	l->end = &l->first;
}

static inline void list_add(struct list *l, struct link *link)
{
	link->next = NULL;
	*l->end = link;
	l->end = &link->next;
	l->cnt++;
}

#define list_entry(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

/* strtab__get - the one record of a string, its count raised. Return: NULL without memory. */
struct wstring *strtab__get(struct strtab *t, const char *text, size_t *memory);

/* strtab__put - give it back; it goes with the last one. */
void strtab__put(struct strtab *t, struct wstring *s, size_t *memory);
void strtab__done(struct strtab *t);

/* capw_defs_use_func, capw_defs_use_thread - put it into the chunk being filled. */
void capw_defs_use_func(struct capw *w, struct wfunc *f);
void capw_defs_use_thread(struct capw *w, struct wthread *t);

/* capw_defs_forget - free what the chunk just written was the last to use. */
void capw_defs_forget(struct capw *w);

void capw_defs_done(struct capw *w);

/* capw_chunk_begin - make the lists of the next chunk empty. */
void capw_chunk_begin(struct capw *w);

/**
 * capw_chunk_write - write the chunk being filled, and begin the next
 *
 * Return: 0, -ENOMEM, or the error of write(): then the chunk is dropped and counted.
 */
int capw_chunk_write(struct capw *w);

/* capw_chunk_set_info - what the files begin with. 0 or -ENOMEM. */
int capw_chunk_set_info(struct capw *w, const struct trace_info *info);

/**
 * capw_chunk_write_info, capw_chunk_write_end - the first chunk of a file, with its header, and the last
 * @start_ns: of the file
 * @base:     the counters before its first event
 * @before:   @part, @keep_ns and @chunks of it are used
 */
int capw_chunk_write_info(struct capw *w, uint64_t start_ns, const struct trace_totals *base,
			  const struct trace_before *before);
int capw_chunk_write_end(struct capw *w);

/* capw_chunk_totals - the counters as they are now; their sum is right by construction. */
void capw_chunk_totals(const struct capw *w, struct trace_totals *out);

/* capw_chunk_write_all - append to the file. 0 or the error of write(). */
int capw_chunk_write_all(struct capw *w, const uint8_t *data, size_t len);

/* capw_chunk_number - give a chunk (header and payload) its number in the file. */
void capw_chunk_number(uint8_t *chunk, uint64_t seq);

/* capw_join_all - begin the streams of all threads that have open frames, so that the chunk being
 * filled shows them. What finds no memory is missing. */
void capw_join_all(struct capw *w);

/* capw_make_room - as writer.c says; capw_add_block - go on in a new block. */
int capw_make_room(struct capw *w, struct wthread *t, uint64_t ts_ns, size_t len);
int capw_add_block(struct capw *w, struct wthread *t);

/* capw_sample_forget - give back what is kept of a thread's last sample. */
void capw_sample_forget(struct capw *w, struct wthread *t);

/* capw_stack_clear - close all open frames of a thread. */
void capw_stack_clear(struct capw *w, struct wthread *t);

#endif
