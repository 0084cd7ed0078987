// SPDX-License-Identifier: Apache-2.0
/*
 * The events of a capture: each goes to its thread's stream, a chain of small blocks from a common
 * pool, so that memory follows what is buffered and not what each thread once needed. A thread joins
 * the chunk being filled with its first event there: its stream then begins with its open frames.
 * The one test on the way of every event, "is there room in the block", is also what finds that a
 * thread has not joined yet, that the chunk is full, and that the thread is hidden.
 */
#include "capfile/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/likely.h"
#include "base/pages.h"
#include "capfile/writer_priv.h"

#define CLOCK_SET_NS 500000000ll
#define STACK_TRIM   256u /* frames that a thread may keep room for */

static struct block *new_block(struct capw *w)
{
	struct block *b = w->free_blocks;

	if (b)
		w->free_blocks = b->next;
	else
		b = malloc(sizeof(*b));
	if (!b)
		return NULL;
	b->next = NULL;
	w->block_cnt++;
	return b;
}

/* Go on in a new block, whatever the size of the chunk. */
int capw_add_block(struct capw *w, struct wthread *t)
{
	struct block *b = new_block(w);

	if (!b)
		return -ENOMEM;
	if (t->last) {
		t->last->len = (uint32_t)(t->at - t->last->data);
		w->stream_bytes += t->last->len;
		t->last->next = b;
	} else {
		t->first = b;
	}
	t->last = b;
	t->at = b->data;
	t->end = b->data + sizeof(b->data);
	return 0;
}

static inline bool has_room(const struct wthread *t, size_t len)
{
	return (size_t)(t->end - t->at) >= len;
}

/* A function with open frames is never forgotten. */
static inline struct wfunc *open_func(const struct capw *w, const struct wthread *t, uint32_t i)
{
	return idtab__known(&w->funcs, t->stack[i]);
}

/* Begin the thread's stream of this chunk. */
static int join(struct capw *w, struct wthread *t, uint64_t ts_ns)
{
	uint32_t len = t->hidden ? 0 : t->len;
	int err = capw_add_block(w, t);
	struct wfunc *f;

	if (err)
		return err;
	capw_defs_use_thread(w, t);
	t->first_ns = t->last_ns = ts_ns;
	t->first_seq = t->seq;
	t->first_len = len;
	for (uint32_t i = 0; i < len; i++) {
		if (!has_room(t, VARINT_MAX)) {
			err = capw_add_block(w, t);
			if (err) {
				t->first_len = i; /* a reader finds that frames are missing */
				return err;
			}
		}
		f = open_func(w, t, i);
		capw_defs_use_func(w, f);
		t->at = varint_put(t->at, f->index);
	}
	return 0;
}

static void join_open(void *record, void *arg)
{
	struct wthread *t = record;
	struct capw *w = arg;

	/* what it did since the flush before the last one may lie in its ring yet */
	if (t->len && !t->at && !t->retired)
		join(w, t, t->last_ns > w->flush_ns[1] ? t->last_ns : w->flush_ns[1]);
}

void capw_join_all(struct capw *w)
{
	idtab__each(&w->threads, join_open, w);
}

static bool chunk_is_full(const struct capw *w)
{
	return w->stream_bytes >= w->chunk_bytes || w->defs_bytes >= CHUNK_DEFS_MAX ||
	       w->block_cnt >= w->block_max;
}

/*
 * Find room for @len bytes of the thread's stream. When there is none afterwards the result says
 * why; when there is, it is 0 or the error of a chunk that had to be dropped.
 */
int capw_make_room(struct capw *w, struct wthread *t, uint64_t ts_ns, size_t len)
{
	int write_err = 0, err = 0;

	if (chunk_is_full(w))
		write_err = capw_chunk_write(w);
	if (!t->at)
		err = join(w, t, ts_ns);
	if (!err && !has_room(t, len))
		err = capw_add_block(w, t);
	return err ? err : write_err;
}

static inline uint64_t head_of(uint64_t ts_ns, uint64_t last_ns, unsigned int kind)
{
	return (ts_ns - last_ns) * CAP_KIND_BITS | kind;
}

static inline void put_head(struct wthread *t, uint64_t ts_ns, unsigned int kind)
{
	t->at = varint_put(t->at, head_of(ts_ns, t->last_ns, kind));
	t->last_ns = ts_ns;
}

static inline void put_entry(struct capw *w, struct wthread *t, uint64_t ts_ns, unsigned int kind,
			     struct wfunc *f)
{
	if (unlikely(f->epoch != w->epoch))
		capw_defs_use_func(w, f);
	put_head(t, ts_ns, kind);
	t->at = varint_put(t->at, f->index);
}

static void put_gap(struct wthread *t, const struct trace_gap *gap)
{
	uint8_t body[3 * VARINT_MAX], *p = body;

	p = varint_put(p, gap->reason);
	p = varint_put(p, gap->until_ns - gap->ts_ns);
	p = varint_put(p, gap->lost);
	put_head(t, gap->ts_ns, CAP_KIND_EXTEND);
	t->at = varint_put(t->at, CAP_EXTEND_GAP);
	t->at = varint_put(t->at, (uint64_t)(p - body));
	memcpy(t->at, body, (size_t)(p - body));
	t->at += p - body;
	t->seq += gap->lost;
}

void capw_stack_clear(struct capw *w, struct wthread *t)
{
	while (t->len)
		open_func(w, t, --t->len)->open_cnt--;
	t->above_cnt = 0;
}

static bool resize_stack(struct capw *w, struct wthread *t, uint32_t cap)
{
	uint32_t *stack = pages_resize(t->stack, t->cap * sizeof(stack[0]), cap * sizeof(stack[0]));

	if (!stack)
		return false;
	w->stacks_memory -= t->cap * sizeof(stack[0]);
	w->stacks_memory += cap * sizeof(stack[0]);
	t->stack = stack;
	t->cap = cap;
	return true;
}

/* A thread that was deep once need not keep the memory for it. */
static void trim_stack(void *record, void *arg)
{
	struct wthread *t = record;

	if (t->cap > STACK_TRIM && t->len < t->cap / 4)
		resize_stack(arg, t, t->len * 2 > STACK_TRIM ? t->len * 2 : STACK_TRIM);
}

RARELY bool grow_stack(struct capw *w, struct wthread *t)
{
	uint32_t cap = t->cap < 16 ? 16 : t->cap < STACK_TRIM ? t->cap * 2 : t->cap / 2 * 3;
	size_t more;

	if (cap > CAP_DEPTH_MAX)
		cap = CAP_DEPTH_MAX;
	more = (cap - t->cap) * sizeof(t->stack[0]);
	if (w->stacks_memory + more > STACKS_MEMORY_MAX && !w->stacks_trimmed) {
		w->stacks_trimmed = true; /* not more often than once a chunk */
		idtab__each(&w->threads, trim_stack, w);
	}
	if (!more || w->stacks_memory + more > STACKS_MEMORY_MAX)
		return false;
	return resize_stack(w, t, cap);
}

/*
 * Too deep to keep: the thread is hidden until the stack has shrunk to half of what is known of it.
 * A gap begins here; what happens meanwhile is counted; a second gap with that number, and the open
 * frames, follow at the end. Half, so that a stack that swings around the limit does not show
 * itself again and again.
 */
RARELY int hide(struct capw *w, struct wthread *t, uint64_t ts_ns)
{
	struct trace_gap gap = { .ts_ns = ts_ns, .until_ns = ts_ns, .reason = GAP_LOSS };
	int err = 0;

	if (!has_room(t, GAP_BYTES_MAX))
		err = capw_make_room(w, t, ts_ns, GAP_BYTES_MAX);
	if (!has_room(t, GAP_BYTES_MAX))
		return err;
	put_gap(t, &gap);
	t->hidden = true;
	t->hidden_ns = ts_ns;
	t->hidden_len = t->len;
	t->hidden_cnt = 0;
	t->above_cnt = 0;
	return err;
}

RARELY int unhide(struct capw *w, struct wthread *t, uint64_t ts_ns)
{
	struct trace_gap gap = {
		.ts_ns = ts_ns, .until_ns = ts_ns, .lost = t->hidden_cnt, .reason = GAP_LOSS
	};
	int err = capw_make_room(w, t, ts_ns, GAP_BYTES_MAX);

	if (!has_room(t, GAP_BYTES_MAX))
		return err;
	put_gap(t, &gap);
	t->hidden = false;
	for (uint32_t i = 0; i < t->len; i++) {
		if (!has_room(t, EVENT_BYTES_MAX) && capw_add_block(w, t))
			return -ENOMEM;
		put_entry(w, t, ts_ns, TRACE_OPEN, open_func(w, t, i));
	}
	return err;
}

static void hidden_enter(struct capw *w, struct wthread *t, uint64_t ts_ns, enum trace_kind kind)
{
	t->hidden_ns = ts_ns;
	t->above_cnt++;
	t->hidden_cnt += kind != TRACE_OPEN;
	w->lost += kind != TRACE_OPEN;
}

static int hidden_leave(struct capw *w, struct wthread *t, uint64_t ts_ns)
{
	if (t->above_cnt)
		t->above_cnt--;
	else if (t->len)
		open_func(w, t, --t->len)->open_cnt--;
	else
		return -EINVAL;
	t->hidden_ns = ts_ns;
	t->hidden_cnt++;
	w->lost++;
	return t->above_cnt || t->len > t->hidden_len / 2 ? 0 : unhide(w, t, ts_ns);
}

int capw__enter(struct capw *w, uint32_t thread, uint64_t ts_ns, enum trace_kind kind,
		uint32_t func)
{
	struct wthread *t = idtab__find(&w->threads, thread);
	struct wfunc *f = idtab__find(&w->funcs, func);
	int err = 0;

	if (unlikely(!t || !f || kind > TRACE_OPEN || ts_ns > CAP_TS_MAX))
		return -EINVAL;
	if (ts_ns < t->last_ns)
		ts_ns = t->last_ns;
	if (unlikely(t->len == t->cap) && !t->hidden && !grow_stack(w, t)) {
		err = hide(w, t, ts_ns);
		if (!t->hidden)
			return err;
	}
	if (unlikely(t->hidden)) {
		hidden_enter(w, t, ts_ns, kind);
		return err;
	}
	if (unlikely(!has_room(t, EVENT_BYTES_MAX))) {
		err = capw_make_room(w, t, ts_ns, EVENT_BYTES_MAX);
		if (!has_room(t, EVENT_BYTES_MAX))
			return err;
	}
	put_entry(w, t, ts_ns, kind, f);
	t->stack[t->len++] = f->id;
	f->open_cnt++;
	t->seq += kind != TRACE_OPEN;
	w->written += kind != TRACE_OPEN;
	return err;
}

int capw__leave(struct capw *w, uint32_t thread, uint64_t ts_ns, enum trace_kind kind)
{
	struct wthread *t = idtab__find(&w->threads, thread);
	int err = 0;

	if (unlikely(!t || !trace_is_leave(kind) || kind >= TRACE_KIND_CNT || ts_ns > CAP_TS_MAX))
		return -EINVAL;
	if (ts_ns < t->last_ns)
		ts_ns = t->last_ns;
	if (unlikely(t->hidden))
		return hidden_leave(w, t, ts_ns);
	if (unlikely(!t->len))
		return -EINVAL;
	if (unlikely(!has_room(t, EVENT_BYTES_MAX))) {
		err = capw_make_room(w, t, ts_ns, EVENT_BYTES_MAX);
		if (!has_room(t, EVENT_BYTES_MAX))
			return err;
	}
	put_head(t, ts_ns, kind);
	open_func(w, t, --t->len)->open_cnt--;
	t->seq++;
	w->written++;
	return err;
}

/*
 * In variables of its own, as far as it can: what is written there cannot be the stream's bytes. Entries and leaves take the same way,
 * for no processor guesses which comes next: a leave has an index, too, which the next event overwrites.
 */
uint32_t capw__steps(struct capw *w, uint32_t thread, const struct trace_step *steps, uint32_t cnt)
{
	struct wthread *t = idtab__find(&w->threads, thread);
	uint32_t i, len, *stack;
	uint64_t last_ns;
	uint8_t *at;

	if (!t || t->hidden || !t->at)
		return 0;
	at = t->at;
	last_ns = t->last_ns;
	stack = t->stack;
	len = t->len;
	for (i = 0; i < cnt && t->end - at >= EVENT_BYTES_MAX; i++) {
		const struct trace_step *s = &steps[i];
		uint64_t ts_ns = s->ts_ns < last_ns ? last_ns : s->ts_ns;
		bool leaves = trace_is_leave(s->kind);
		struct wfunc *f;
		uint8_t *behind;

		if (ts_ns > CAP_TS_MAX)
			break;
		if (leaves ? !len : len == t->cap)
			break;
		f = idtab__find(&w->funcs, leaves ? stack[len - 1] : s->func);
		if (!f || f->epoch != w->epoch)
			break;
		at = varint_put_short(at, head_of(ts_ns, last_ns, s->kind));
		behind = varint_put_short(at, f->index);
		at = leaves ? at : behind;
		stack[len - leaves] = f->id;
		len += 1u - 2u * leaves;
		f->open_cnt += 1u - 2u * leaves;
		last_ns = ts_ns;
	}
	t->at = at;
	t->last_ns = last_ns;
	t->len = len;
	t->seq += i;
	w->written += i;
	return i;
}

/* A thread that is hidden and has no more to show says how much it missed. */
static int end_hidden(struct capw *w, struct wthread *t)
{
	if (!t->hidden)
		return 0;
	capw_stack_clear(w, t);
	return unhide(w, t, t->hidden_ns);
}

static void end_each_hidden(void *thread, void *w)
{
	end_hidden(w, thread); /* a failed write is kept in write_err */
}

void capw__retire_thread(struct capw *w, uint32_t thread)
{
	struct wthread *t = idtab__find(&w->threads, thread);

	if (!t || t->retired)
		return;
	end_hidden(w, t);
	capw_stack_clear(w, t);
	t->retired = true;
	capw_defs_use_thread(w, t);
}

int capw__gap(struct capw *w, const struct trace_gap *gap)
{
	struct wthread *t = idtab__find(&w->threads, gap->thread);
	struct trace_gap g = *gap;
	int err;

	if (!t || g.ts_ns > CAP_TS_MAX || g.until_ns > CAP_TS_MAX)
		return -EINVAL;
	err = end_hidden(w, t);
	if (err)
		return err;
	if (g.ts_ns < t->last_ns)
		g.ts_ns = t->last_ns;
	if (g.until_ns < g.ts_ns)
		g.until_ns = g.ts_ns;
	err = capw_make_room(w, t, g.ts_ns, GAP_BYTES_MAX);
	if (!has_room(t, GAP_BYTES_MAX))
		return err;
	put_gap(t, &g);
	capw_stack_clear(w, t);
	return err;
}

uint32_t capw__depth(const struct capw *w, uint32_t thread)
{
	const struct wthread *t = idtab__find(&w->threads, thread);

	return t ? t->len + (uint32_t)t->above_cnt : 0;
}

uint64_t capw__written(const struct capw *w)
{
	return w->written;
}

uint64_t capw__lost(const struct capw *w)
{
	return w->lost;
}

uint64_t capw__bytes(const struct capw *w)
{
	return w->file_bytes;
}

uint64_t capw__pending(const struct capw *w)
{
	return (uint64_t)w->block_cnt * BLOCK_SIZE + w->defs_bytes;
}

static void set_totals(struct capw *w, const struct trace_totals *totals)
{
	if (!totals)
		return;
	w->totals_changed |= memcmp(&w->totals, totals, sizeof(*totals)) != 0;
	w->totals = *totals;
	w->totals_lost = w->lost;
}

int capw__flush(struct capw *w, const struct trace_totals *totals)
{
	int err;

	set_totals(w, totals);
	err = capw_chunk_write(w);
	if (totals) {
		w->flush_ns[1] = w->flush_ns[0];
		w->flush_ns[0] = totals->end_ns;
	}
	if (w->keep.ns)
		capw_keep_tick(w, w->flush_ns[0]);
	return err;
}

static int end_file(struct capw *w)
{
	int err = capw_chunk_write(w);

	return err ? err : capw_chunk_write_end(w);
}

void capw__set_clock(struct capw *w, uint64_t now_ns, int64_t unix_ns)
{
	int64_t differs = unix_ns - w->start_unix_ns - (int64_t)(now_ns - w->start_ns);

	if (differs > CLOCK_SET_NS || differs < -CLOCK_SET_NS)
		w->start_unix_ns += differs;
}

int capw__next_part(struct capw *w, int fd, const struct trace_totals *totals)
{
	struct trace_before before = { .part = ++w->part };
	struct trace_totals base;
	int err;

	set_totals(w, totals);
	err = end_file(w);
	capw_chunk_totals(w, &base);
	w->fd = fd;
	w->chunk_seq = w->file_bytes = 0;
	err = capw_chunk_write_info(w, totals->end_ns, &base, &before) ?: err;
	capw_join_all(w);
	return err;
}

int capw__finish(struct capw *w, const struct trace_totals *totals)
{
	int err;

	set_totals(w, totals);
	idtab__each(&w->threads, end_each_hidden, w);
	err = w->keep.ns ? capw_chunk_write(w) : end_file(w);
	return w->write_err ? w->write_err : err;
}

int capw__new(struct capw **out, int fd, const struct capw_opts *opts,
	      const struct trace_info *info)
{
	const struct trace_before before = { .part = opts && opts->in_parts };
	const struct trace_totals none = { 0 };
	struct capw *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->fd = fd;
	w->part = before.part;
	w->chunk_bytes = opts && opts->chunk_bytes ? opts->chunk_bytes : CHUNK_BYTES;
	if (w->chunk_bytes > CHUNK_BYTES_MAX)
		w->chunk_bytes = CHUNK_BYTES_MAX;
	w->block_max = (uint32_t)(2 * w->chunk_bytes / BLOCK_SIZE) + 1;
	w->level = opts && opts->level ? opts->level : 1;
	w->zstd = ZSTD_createCCtx();
	list_clear(&w->gone_funcs);
	capw_chunk_begin(w);
	w->flush_ns[0] = w->flush_ns[1] = info->start_ns;
	err = w->zstd ? capw_chunk_set_info(w, info) : -ENOMEM;
	if (!err && opts && opts->keep_ns)
		capw_keep_init(w, opts);
	else if (!err)
		err = capw_chunk_write_info(w, info->start_ns, &none, &before);
	if (err) {
		capw__free(w);
		return err;
	}
	*out = w;
	return 0;
}

void capw__free(struct capw *w)
{
	if (!w)
		return;
	for (struct link *l = w->used_threads.first; l; l = l->next) {
		struct wthread *t = list_entry(l, struct wthread, used);

		if (t->last) {
			t->last->next = w->free_blocks;
			w->free_blocks = t->first;
		}
	}
	for (struct block *b = w->free_blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	capw_defs_done(w);
	capw_keep_done(w);
	bytes_done(&w->info);
	bytes_done(&w->scratch);
	bytes_done(&w->body);
	bytes_done(&w->raw);
	free(w->out);
	ZSTD_freeCCtx(w->zstd);
	free(w);
}
