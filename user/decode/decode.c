// SPDX-License-Identifier: Apache-2.0
/*
 * Merging: the threads that have something to show lie in a heap, ordered by the time of their next
 * event and then by id. Times of consecutive chunks overlap, since threads reach the writer through
 * different rings, so a chunk is opened as soon as it, or one behind it, may hold something earlier
 * than the next event. Within one thread the order is that of the file.
 */
#include "decode/decode.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "capfile/format.h"
#include "decode/decode_priv.h"

/* Uncompressed chunks that may be open at a time; past this what reaches back is shown late. */
#define OPEN_BYTES_MAX (128u << 20)

void dec_note_damage(struct decoder *d, uint64_t offset)
{
	if (!d->damaged)
		d->damaged_offset = offset;
	d->damaged = true;
}

static bool is_before(const struct heap_item *a, const struct heap_item *b)
{
	return a->ns != b->ns ? a->ns < b->ns : a->id < b->id;
}

static void sift_down(struct decoder *d)
{
	struct heap_item item = d->heap[0];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < d->heap_cnt) {
		if (child + 1 < d->heap_cnt && is_before(&d->heap[child + 1], &d->heap[child]))
			child++;
		if (!is_before(&d->heap[child], &item))
			break;
		d->heap[i] = d->heap[child];
		i = child;
	}
	d->heap[i] = item;
}

static int push(struct decoder *d, struct thread *t)
{
	struct heap_item item = { .ns = t->next_ns, .id = t->id, .thread = t };
	uint32_t i = d->heap_cnt, cap = d->heap_cap ? d->heap_cap * 2 : 64;
	struct heap_item *heap;

	if (d->heap_cnt == d->heap_cap) {
		heap = reallocarray(d->heap, cap, sizeof(heap[0]));
		if (!heap)
			return -ENOMEM;
		d->heap = heap;
		d->heap_cap = cap;
	}
	d->heap_cnt++;
	for (; i && is_before(&item, &d->heap[(i - 1) / 2]); i = (i - 1) / 2)
		d->heap[i] = d->heap[(i - 1) / 2];
	d->heap[i] = item;
	t->in_heap = true;
	return 0;
}

/* A thread has nothing pending. */
static void rest(struct decoder *d, struct thread *t)
{
	t->in_heap = false;
	if (!t->gone)
		return;
	known__remove(&d->threads, t->id);
	dec_thread_free(d, t);
}

int dec_thread_start(struct decoder *d, struct thread *t)
{
	int err;

	if (t->in_heap)
		return 0;
	err = dec_thread_fetch(d, t);
	if (err)
		return err;
	if (t->pending)
		return push(d, t);
	rest(d, t);
	return 0;
}

/* Does a chunk that is not open yet reach back to what comes next? */
static bool must_open(const struct decoder *d)
{
	if (d->next == d->r->cnt)
		return false;
	if (!d->heap_cnt)
		return true;
	return d->floors[d->next] <= d->heap[0].ns && d->open_bytes < OPEN_BYTES_MAX;
}

/* Hand out events of the thread at the top until another thread or a chunk comes first. */
static int run_top(struct decoder *d)
{
	struct heap_item limit = { .ns = UINT64_MAX, .id = UINT32_MAX };
	struct thread *t = d->heap[0].thread;
	struct heap_item at = d->heap[0];
	int err;

	for (uint32_t i = 1; i <= 2 && i < d->heap_cnt; i++) {
		if (is_before(&d->heap[i], &limit))
			limit = d->heap[i];
	}
	if (d->next < d->r->cnt && d->floors[d->next] <= limit.ns && d->open_bytes < OPEN_BYTES_MAX)
		limit = (struct heap_item){ .ns = d->floors[d->next] };
	do {
		err = dec_thread_step(d, t);
		if (err)
			return err;
		at.ns = t->next_ns;
	} while (t->pending && is_before(&at, &limit));
	if (t->pending) {
		d->heap[0].ns = t->next_ns;
	} else {
		d->heap[0] = d->heap[--d->heap_cnt];
		rest(d, t);
	}
	sift_down(d);
	return 0;
}

static int merge(struct decoder *d)
{
	int err = 0;

	while (!err) {
		if (must_open(d)) {
			if (d->r->chunks[d->next].type == CAP_CHUNK_DATA)
				err = dec_chunk_open(d, d->next);
			d->next++;
		} else if (d->heap_cnt) {
			err = run_top(d);
		} else {
			break;
		}
	}
	return err;
}

static int find_floors(struct decoder *d)
{
	uint64_t floor = UINT64_MAX;

	d->floors = calloc(d->r->cnt + 1ul, sizeof(d->floors[0]));
	if (!d->floors)
		return -ENOMEM;
	for (uint32_t i = d->r->cnt; i-- > 0;) {
		const struct capr_chunk *c = &d->r->chunks[i];

		if (c->type == CAP_CHUNK_DATA && c->min_ns < floor)
			floor = c->min_ns;
		d->floors[i] = floor;
	}
	return 0;
}

/* Return: the payload of chunk @number, if it is whole and of that type, else an empty one. */
static int load(struct decoder *d, uint32_t number, enum cap_chunk_type type, struct bytes *raw,
		struct cursor *c)
{
	const struct capr_chunk *chunk = &d->r->chunks[number];
	int err = chunk->type == type ? capr__load(d->r, chunk, raw) : -PYE_EFORMAT;

	*c = (struct cursor){ 0 };
	if (err == -PYE_EFORMAT) {
		dec_note_damage(d, chunk->offset);
		c->bad = true;
		return 0;
	}
	*c = (struct cursor){ .p = raw->data, .end = raw->data + raw->len };
	return err;
}

/* What came before, since format 1.1. */
static void read_before(struct decoder *d, struct cursor *c, struct trace_before *before)
{
	before->part = (uint32_t)cursor_number(c, UINT32_MAX);
	before->keep_ns = cursor_varint(c);
	before->start_ns = cursor_number(c, CAP_TS_MAX);
	before->chunks = cursor_varint(c);
	if (!dec_parse_counters(c, &d->base))
		return;
	before->events = d->base.generated;
	d->in_run = before->part || before->chunks;
}

static int give_begin(struct decoder *d)
{
	auto_fn(bytes_done) struct bytes raw = { 0 };
	struct trace_info info = { 0 };
	struct cursor c;
	int err = load(d, 0, CAP_CHUNK_INFO, &raw, &c);

	if (err)
		return err;
	info.start_ns = cursor_number(&c, CAP_TS_MAX);
	info.start_unix_ns = (int64_t)cursor_varint(&c);
	info.cpu_cnt = (uint32_t)cursor_number(&c, UINT32_MAX);
	info.cost.entry_after_ns = (uint32_t)cursor_number(&c, UINT32_MAX);
	info.cost.exit_after_ns = (uint32_t)cursor_number(&c, UINT32_MAX);
	info.cost.entry_before_ns = (uint32_t)cursor_number(&c, UINT32_MAX);
	info.cost.exit_before_ns = (uint32_t)cursor_number(&c, UINT32_MAX);
	info.engine = cursor_string(&c);
	info.version = cursor_string(&c);
	info.hostname = cursor_string(&c);
	info.kernel = cursor_string(&c);
	info.cpu = cursor_string(&c);
	info.arguments = cursor_string(&c);
	if (cursor_left(&c))
		read_before(d, &c, &info.before);
	if (cursor_left(&c)) /* 1.2 */
		info.sample_ns = cursor_varint(&c);
	if (c.bad)
		dec_note_damage(d, d->r->chunks[0].offset);
	d->now_ns = info.start_ns;
	/* the file before has the time before of what was open then */
	if (!d->in_run && d->floors[0] < d->now_ns)
		d->now_ns = d->floors[0];
	d->totals.end_ns = info.start_ns;
	err = d->consumer->begin ? d->consumer->begin(d->self, &info) : 0;
	return err < 0 ? err : 0;
}

static uint64_t without(uint64_t all, uint64_t before)
{
	return all > before ? all - before : 0;
}

/* The counters of a run go on through its captures. */
static void take_off_base(struct decoder *d)
{
	struct trace_totals *t = &d->totals;

	t->generated = without(t->generated, d->base.generated);
	t->written = without(t->written, d->base.written);
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		t->lost[i] = without(t->lost[i], d->base.lost[i]);
}

/*
 * What the file says at its end, or at its last chunk when it has no end: then what had been
 * generated by that time, but is not in the file, was lost with the writer.
 */
static int give_end(struct decoder *d)
{
	struct trace_totals *t = &d->totals;
	uint64_t sum;
	int err;

	take_off_base(d);
	if (t->written != d->written)
		dec_note_damage(d, 0);
	t->complete = d->r->complete && !d->damaged;
	if (t->written > d->written)
		t->lost[LOSS_USER] += t->written - d->written;
	t->written = d->written;
	sum = t->written;
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		sum += t->lost[i];
	if (!t->complete && t->generated > sum)
		t->lost[LOSS_USER] += t->generated - sum;
	if (!t->complete && t->generated < sum)
		t->generated = sum;
	if (t->end_ns < d->now_ns)
		t->end_ns = d->now_ns;
	err = d->consumer->end ? d->consumer->end(d->self, t) : 0;
	return err < 0 ? err : 0;
}

static int read_end(struct decoder *d)
{
	auto_fn(bytes_done) struct bytes raw = { 0 };
	struct cursor c;
	int err;

	if (d->r->chunks[d->r->cnt - 1].type != CAP_CHUNK_END)
		return 0;
	err = load(d, d->r->cnt - 1, CAP_CHUNK_END, &raw, &c);
	if (err)
		return err;
	if (!dec_parse_totals(&c, &d->totals))
		dec_note_damage(d, d->r->chunks[d->r->cnt - 1].offset);
	return 0;
}

static void say_damage(const struct decoder *d, struct err *e)
{
	if (!d->r->complete)
		err_set(e, 0, "the capture is %s at byte %llu of %llu; what is whole was read",
			d->r->bad_offset >= d->r->size ? "cut" : "damaged",
			(unsigned long long)d->r->bad_offset, (unsigned long long)d->r->size);
	else if (d->damaged)
		err_set(e, 0, "the capture holds something wrong in the chunk at byte %llu",
			(unsigned long long)d->damaged_offset);
}

static void decoder_done(struct decoder *d)
{
	for (uint32_t i = 0; i < d->threads.cap; i++) {
		if (d->threads.slots[i].used)
			dec_thread_free(d, (struct thread *)(uintptr_t)d->threads.slots[i].value);
	}
	known__done(&d->threads);
	known__done(&d->processes);
	known__done(&d->funcs);
	free(d->heap);
	free(d->floors);
	capr__close(d->r);
}

bool decode_is_capture(int fd)
{
	return capr_is_capture(fd);
}

int decode_file(int fd, const struct trace_consumer *consumer, void *self, struct err *e)
{
	auto_fn(decoder_done) struct decoder d = { .consumer = consumer, .self = self };
	int err;

	if (e)
		e->what[0] = '\0';
	err = capr__open(&d.r, fd, e);
	if (err)
		return err;
	err = find_floors(&d);
	if (!err)
		err = give_begin(&d);
	if (!err)
		err = merge(&d);
	if (!err)
		err = read_end(&d);
	if (!err)
		err = give_end(&d);
	if (!err)
		say_damage(&d, e);
	return err;
}
