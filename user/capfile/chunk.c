// SPDX-License-Identifier: Apache-2.0
/* From the lists and streams of the chunk being filled to bytes in the file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "capfile/le.h"
#include "capfile/sum.h"
#include "capfile/writer_priv.h"

#define for_each(pos, list, type, member)                                                        \
	for (struct link *l_ = (list).first; l_ && ((pos) = list_entry(l_, type, member), true); \
	     l_ = l_->next)

void capw_chunk_begin(struct capw *w)
{
	w->epoch++;
	list_clear(&w->used_files);
	list_clear(&w->used_processes);
	list_clear(&w->used_threads);
	list_clear(&w->used_funcs);
	w->stream_bytes = 0;
	w->defs_bytes = 0;
	w->block_cnt = 0;
	w->written_before = w->written;
	w->totals_changed = false;
	w->stacks_trimmed = false;
}

void capw_chunk_totals(const struct capw *w, struct trace_totals *out)
{
	*out = w->totals;
	out->written = out->generated = w->written;
	out->lost[LOSS_USER] += w->lost - w->totals_lost;
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		out->generated += out->lost[i];
}

static void put_counters(struct bytes *b, const struct trace_totals *t)
{
	bytes_varint(b, t->generated);
	bytes_varint(b, t->written);
	bytes_varint(b, LOSS_CNT);
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		bytes_varint(b, t->lost[i]);
}

static void put_totals(struct capw *w)
{
	struct trace_totals t;

	capw_chunk_totals(w, &t);
	t.generated = w->totals.generated;
	bytes_varint(&w->raw, t.end_ns);
	put_counters(&w->raw, &t);
}

static void put_threads(struct capw *w)
{
	struct bytes *b = &w->raw;
	struct wthread *t;

	bytes_varint(b, w->used_threads.cnt);
	for_each(t, w->used_threads, struct wthread, used)
	{
		uint64_t len = 0;

		bytes_varint(b, t->process->index);
		bytes_add(b, t->body.data, t->body.len);
		bytes_varint(b, (t->at ? CAP_THREAD_DATA : 0) | (t->retired ? CAP_THREAD_GONE : 0));
		if (!t->at)
			continue;
		t->last->len = (uint32_t)(t->at - t->last->data);
		for (struct block *block = t->first; block; block = block->next)
			len += block->len;
		bytes_varint(b, t->first_ns);
		bytes_varint(b, t->first_seq);
		bytes_varint(b, t->first_len);
		bytes_varint(b, len);
	}
}

static void put_defs(struct capw *w)
{
	struct bytes *b = &w->raw;
	struct wprocess *p;
	struct wstring *s;
	struct wfunc *f;

	bytes_varint(b, w->used_files.cnt);
	for_each(s, w->used_files, struct wstring, used) bytes_string(b, s->text);
	bytes_varint(b, w->used_processes.cnt);
	for_each(p, w->used_processes, struct wprocess, used)
		bytes_add(b, p->body.data, p->body.len);
	put_threads(w);
	bytes_varint(b, w->used_funcs.cnt);
	for_each(f, w->used_funcs, struct wfunc, used)
	{
		bytes_varint(b, f->process->index);
		bytes_varint(b, f->file->index);
		bytes_add(b, f->body.data, f->body.len);
	}
}

/* Functions that no later chunk uses. */
static void put_gone(struct capw *w)
{
	struct wfunc *f;
	uint32_t cnt = 0;

	for_each(f, w->gone_funcs, struct wfunc, gone) cnt += !f->open_cnt;
	bytes_varint(&w->raw, cnt);
	for_each(f, w->gone_funcs, struct wfunc, gone)
	{
		if (!f->open_cnt)
			bytes_varint(&w->raw, f->id);
	}
}

/* Since 1.4, and only where there are some: functions that are not Python's. */
static void put_kinds(struct capw *w)
{
	struct wfunc *f;
	uint32_t cnt = 0;

	for_each(f, w->used_funcs, struct wfunc, used) cnt += f->kind != FUNC_PYTHON;
	if (!cnt)
		return;
	bytes_varint(&w->raw, cnt);
	for_each(f, w->used_funcs, struct wfunc, used)
	{
		if (f->kind == FUNC_PYTHON)
			continue;
		bytes_varint(&w->raw, f->index);
		bytes_varint(&w->raw, f->kind);
	}
}

/* Append the threads' streams, give their blocks back, and find the range of time stamps. */
static void put_streams(struct capw *w, uint64_t *min_ns, uint64_t *max_ns)
{
	struct wthread *t;

	*min_ns = UINT64_MAX;
	*max_ns = 0;
	for_each(t, w->used_threads, struct wthread, used)
	{
		if (!t->at)
			continue;
		if (t->first_ns < *min_ns)
			*min_ns = t->first_ns;
		if (t->last_ns > *max_ns)
			*max_ns = t->last_ns;
		for (struct block *block = t->first; block; block = block->next)
			bytes_add(&w->raw, block->data, block->len);
		t->last->next = w->free_blocks;
		w->free_blocks = t->first;
		t->first = t->last = NULL;
		t->at = t->end = NULL;
	}
	if (*max_ns > w->last_ns)
		w->last_ns = *max_ns;
	if (*min_ns > *max_ns)
		*min_ns = *max_ns = w->last_ns;
}

/* Drop a torn piece at the end where the file can seek, so that what follows can be read. */
static void take_back(struct capw *w)
{
	if (lseek(w->fd, (off_t)w->file_bytes, SEEK_SET) < 0)
		return;
	if (ftruncate(w->fd, (off_t)w->file_bytes))
		return; /* the next chunk overwrites it */
}

int capw_chunk_write_all(struct capw *w, const uint8_t *data, size_t len)
{
	size_t done = 0;
	ssize_t n = 0;
	int err;

	while (done < len) {
		n = write(w->fd, data + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (done == len) {
		w->file_bytes += len;
		return 0;
	}
	err = n < 0 ? -errno : -EIO;
	if (!w->write_err)
		w->write_err = err;
	if (done)
		take_back(w);
	return err;
}

static void put_header(struct capw *w, enum cap_chunk_type type, size_t stored, uint64_t min_ns,
		       uint64_t max_ns)
{
	uint8_t *h = w->out;

	le32_put(h + CAP_CHUNK_AT_MAGIC, CAP_CHUNK_MAGIC);
	le16_put(h + CAP_CHUNK_AT_TYPE, (uint16_t)type);
	le16_put(h + CAP_CHUNK_AT_FLAGS, CAP_FLAG_ZSTD);
	le32_put(h + CAP_CHUNK_AT_STORED, (uint32_t)stored);
	le32_put(h + CAP_CHUNK_AT_RAW, (uint32_t)w->raw.len);
	le64_put(h + CAP_CHUNK_AT_SEQ, w->chunk_seq);
	le64_put(h + CAP_CHUNK_AT_MIN_TS, min_ns);
	le64_put(h + CAP_CHUNK_AT_MAX_TS, max_ns);
	le64_put(h + CAP_CHUNK_AT_PAYLOAD, cap_sum(h + CAP_CHUNK_HEADER_SIZE, stored, 0));
	le64_put(h + CAP_CHUNK_AT_SUM, cap_sum(h, CAP_CHUNK_AT_SUM, 0));
}

void capw_chunk_number(uint8_t *chunk, uint64_t seq)
{
	le64_put(chunk + CAP_CHUNK_AT_SEQ, seq);
	le64_put(chunk + CAP_CHUNK_AT_SUM, cap_sum(chunk, CAP_CHUNK_AT_SUM, 0));
}

/* Compress w->raw and write it as one chunk. */
static int write_payload(struct capw *w, enum cap_chunk_type type, uint64_t min_ns, uint64_t max_ns)
{
	size_t need = CAP_CHUNK_HEADER_SIZE + ZSTD_compressBound(w->raw.len);
	size_t stored;
	int err;

	if (w->raw.failed || w->raw.len > CAP_RAW_MAX)
		return -ENOMEM;
	if (need > w->out_cap) {
		free(w->out);
		w->out = malloc(need);
		w->out_cap = w->out ? need : 0;
		if (!w->out)
			return -ENOMEM;
	}
	stored = ZSTD_compressCCtx(w->zstd, w->out + CAP_CHUNK_HEADER_SIZE,
				   w->out_cap - CAP_CHUNK_HEADER_SIZE, w->raw.data, w->raw.len,
				   w->level);
	if (ZSTD_isError(stored))
		return -ENOMEM;
	put_header(w, type, stored, min_ns, max_ns);
	if (w->keep.ns && type == CAP_CHUNK_DATA)
		return capw_keep_add(w, w->out, CAP_CHUNK_HEADER_SIZE + stored, min_ns);
	err = capw_chunk_write_all(w, w->out, CAP_CHUNK_HEADER_SIZE + stored);
	if (!err)
		w->chunk_seq++;
	return err;
}

/* A chunk that was much larger than usual must not keep its memory. */
static void shrink(struct capw *w)
{
	if (w->raw.cap > 2 * w->chunk_bytes)
		bytes_done(&w->raw);
	if (w->out_cap > 2 * w->chunk_bytes) {
		free(w->out);
		w->out = NULL;
		w->out_cap = 0;
	}
}

int capw_chunk_write(struct capw *w)
{
	uint64_t min_ns, max_ns, dropped;
	int err;

	if (!w->used_threads.cnt && !w->used_processes.cnt && !w->totals_changed)
		return 0;
	bytes_clear(&w->raw);
	put_totals(w);
	put_defs(w);
	put_gone(w);
	put_streams(w, &min_ns, &max_ns);
	put_kinds(w);
	err = write_payload(w, CAP_CHUNK_DATA, min_ns, max_ns);
	if (err) {
		dropped = w->written - w->written_before;
		w->lost += dropped;
		w->written -= dropped;
	}
	shrink(w);
	capw_defs_forget(w);
	capw_chunk_begin(w);
	if (w->keep.ns)
		capw_keep_tick(w, w->last_ns);
	return err;
}

static int write_file_header(struct capw *w)
{
	uint8_t h[CAP_HEADER_SIZE];

	memcpy(h, CAP_MAGIC, CAP_AT_MAJOR);
	le16_put(h + CAP_AT_MAJOR, CAP_MAJOR);
	le16_put(h + CAP_AT_MINOR, CAP_MINOR);
	le32_put(h + CAP_AT_SUM, (uint32_t)cap_sum(h, CAP_AT_SUM, 0));
	return capw_chunk_write_all(w, h, sizeof(h));
}

int capw_chunk_set_info(struct capw *w, const struct trace_info *info)
{
	struct bytes *b = &w->info;

	w->start_ns = w->last_ns = info->start_ns;
	w->start_unix_ns = info->start_unix_ns;
	bytes_varint(b, info->cpu_cnt);
	bytes_varint(b, info->cost.entry_after_ns);
	bytes_varint(b, info->cost.exit_after_ns);
	bytes_varint(b, info->cost.entry_before_ns);
	bytes_varint(b, info->cost.exit_before_ns);
	bytes_string(b, info->engine);
	bytes_string(b, info->version);
	bytes_string(b, info->hostname);
	bytes_string(b, info->kernel);
	bytes_string(b, info->cpu);
	bytes_string(b, info->arguments);
	w->sample_ns = info->sample_ns;
	return b->failed ? -ENOMEM : 0;
}

int capw_chunk_write_info(struct capw *w, uint64_t start_ns, const struct trace_totals *base,
			  const struct trace_before *before)
{
	struct bytes *b = &w->raw;
	int err = write_file_header(w);

	if (err)
		return err;
	bytes_clear(b);
	bytes_varint(b, start_ns);
	bytes_varint(b, (uint64_t)w->start_unix_ns + (start_ns - w->start_ns));
	bytes_add(b, w->info.data, w->info.len);
	bytes_varint(b, before->part);
	bytes_varint(b, before->keep_ns);
	bytes_varint(b, w->start_ns);
	bytes_varint(b, before->chunks);
	put_counters(b, base);
	bytes_varint(b, w->sample_ns);
	return write_payload(w, CAP_CHUNK_INFO, start_ns, start_ns);
}

int capw_chunk_write_end(struct capw *w)
{
	bytes_clear(&w->raw);
	put_totals(w);
	return write_payload(w, CAP_CHUNK_END, w->last_ns, w->last_ns);
}
