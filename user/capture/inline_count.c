// SPDX-License-Identifier: Apache-2.0
#include "capture/inline_count.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "base/idmap.h"
#include "capture/inline_count_dead.h"
#include "capture/inline_priv.h"
#include "cpython/interp.h"
#include "cpython/pystr.h"

#define MEASURE_NS 20000000u /* and more */
#define FUNCS_MAX  (1u << 20) /* of different names; what comes then is one more */
#define DEAD_MAX   (1u << 16) /* numbers of code objects that are kept after their end */
#define LONG_US \
	100 /* a call that ends while a snapshot is made has its time in it once from here on */
#define TORN_TRIES  40 /* a millisecond each */
#define SPANS_BYTES (8ull * IL_SPAN_BUCKETS * IL_SPAN_CNT)

struct inline_count {
	struct inline_engine *e;
	struct clock_pair begun;
	uint64_t tail;
	struct strpool strings, keys;
	struct inline_count_func *funcs; /* beside keys, from its number 1 on */
	uint32_t func_cnt, func_cap;
	struct idmap ids; /* il_func.id -> func */
	uint32_t dead; /* of these, that were freed since the map was made anew */
	uint32_t ids_of[IL_FUNC_CNT]; /* func + 1 of the code object in each slot; 0: none */
	uint32_t last_id[IL_FUNC_CNT]; /* il_func.id of it: of the last definition that was read */
	bool left; /* some are freed for which the ring had no room */
	struct il_func *slots; /* copies for a snapshot, and of their durations with --time */
	uint64_t *spans;
	struct inline_count_func *shown; /* of the snapshot */
	struct count_dead gone; /* with --time: what the freed ones had */
	struct inline_count_node *nodes;
	/* with --time, copies for a snapshot: the target goes on meanwhile */
	struct il_node *nodes_then;
	struct il_active *active_then;
	uint32_t *running; /* which of these were in use */
	struct il_node *nodes_of; /* theirs, read at once behind them */
	uint32_t running_cnt;
	uint64_t then; /* of these */
	uint64_t *inner; /* beside them */
};

static struct il_func *table(const struct inline_count *c)
{
	return (void *)((uint8_t *)c->e->shared + (IL_FUNCS - IL_SHARED));
}

static struct il_node *node_table(const struct inline_count *c)
{
	return (void *)((uint8_t *)c->e->shared + (IL_NODES - IL_SHARED));
}

static const struct il_active *active_table(const struct inline_count *c)
{
	return (const void *)((uint8_t *)c->e->shared + (IL_ACTIVE - IL_SHARED));
}

/* All durations; NULL: there are none. */
static uint64_t *span_table(const struct inline_count *c)
{
	return c->e->timed ? (void *)((uint8_t *)c->e->shared + (IL_SPANS - IL_SHARED)) : NULL;
}

/* Those of a slot; NULL: it has none. */
static uint64_t *spans_of(uint64_t *all, uint32_t span)
{
	return all && span && span <= IL_SPAN_CNT ? all + (uint64_t)IL_SPAN_BUCKETS * (span - 1)
						  : NULL;
}

int inline_count__new(struct inline_count **out, struct inline_engine *e)
{
	struct inline_count *c = calloc(1, sizeof(*c));
	int err = c ? strpool__init(&c->strings) : -ENOMEM;

	if (!err)
		err = strpool__init(&c->keys);
	if (!err)
		err = count_dead__init(&c->gone);
	if (err) {
		inline_count__free(c);
		return err;
	}
	c->e = e;
	c->begun = clock_pair_read();
	*out = c;
	return 0;
}

static void free_spans(struct inline_count_func *funcs, uint32_t cnt)
{
	for (uint32_t i = 0; funcs && i < cnt; i++)
		free(funcs[i].spans);
	free(funcs);
}

void inline_count__free(struct inline_count *c)
{
	if (!c)
		return;
	strpool__done(&c->strings);
	strpool__done(&c->keys);
	idmap__done(&c->ids);
	count_dead__done(&c->gone);
	free_spans(c->shown, c->func_cnt);
	free_spans(c->funcs, c->func_cnt);
	free(c->nodes);
	free(c->nodes_then);
	free(c->active_then);
	free(c->running);
	free(c->nodes_of);
	free(c->inner);
	free(c->slots);
	free(c->spans);
	free(c);
}

static int add_func(struct inline_count *c, const struct inline_count_func *f, uint32_t *index)
{
	const uint32_t key[4] = { f->file, f->name, f->qualname, f->line };
	uint32_t id = 0;
	int err = GROW(c->funcs, c->func_cap, c->func_cnt); /* first: each key has a row */

	err = err ? err : strpool__add(&c->keys, (const char *)key, sizeof(key), &id);
	if (err)
		return err;
	*index = id - 1;
	if (*index < c->func_cnt)
		return 0;
	/* those shown go with the number of them */
	free_spans(c->shown, c->func_cnt);
	c->shown = NULL;
	c->funcs[c->func_cnt++] = *f;
	return 0;
}

static bool is_full(const struct inline_count *c)
{
	return c->func_cnt >= FUNCS_MAX;
}

/* -ENOENT: no function that is known has it, and no more are taken */
static int add_text(struct inline_count *c, const struct il_str *str, const uint8_t *data,
		    uint32_t *id)
{
	char text[PYSTR_SIZE];
	size_t len = pystr_decode(&c->e->in->layout, str->state, str->length, data, str->bytes,
				  text, sizeof(text));

	if (is_full(c))
		return strpool__find(&c->strings, text, len, id) ? 0 : -ENOENT;
	return strpool__add(&c->strings, text, len, id);
}

static bool is_known(const struct inline_count *c, const struct inline_count_func *f)
{
	const uint32_t key[4] = { f->file, f->name, f->qualname, f->line };
	uint32_t id;

	return strpool__find(&c->keys, (const char *)key, sizeof(key), &id);
}

/* All for which there is no row. */
static int add_more(struct inline_count *c, uint32_t *index)
{
	struct inline_count_func f = { 0 };
	int err = strpool__add(&c->strings, INLINE_COUNT_MORE, strlen(INLINE_COUNT_MORE), &f.name);

	f.qualname = f.name;
	return err ? err : add_func(c, &f, index);
}

static int name_func(struct inline_count *c, const struct il_def *d, uint32_t *index)
{
	struct inline_count_func f = { .line = d->line };
	const uint8_t *data = d->data;
	uint32_t ids[PYE_STR_CNT] = { 0 };
	int err = 0;

	for (uint32_t i = 0; !err && i < PYE_STR_CNT; i++) {
		if (!d->str[i].addr)
			continue; /* to 3.10 there are no qualified names */
		err = add_text(c, &d->str[i], data, &ids[i]);
		data += d->str[i].bytes;
	}
	f.file = ids[PYE_STR_FILE];
	f.name = ids[PYE_STR_NAME];
	f.qualname = ids[PYE_STR_QUALNAME] ? ids[PYE_STR_QUALNAME] : f.name;
	if (err == -ENOENT || (!err && is_full(c) && !is_known(c, &f)))
		return add_more(c, index);
	return err ? err : add_func(c, &f, index);
}

/* Its size, or an error. */
static int on_definition(struct inline_count *c, const struct il_def *in, uint64_t room)
{
	struct inline_def_copy copy;
	const struct il_def *d = inline_def_copy(in, room, &copy);
	uint32_t index = 0;
	int err;

	if (!d)
		return -EILSEQ;
	err = name_func(c, d, &index);
	if (!err && c->e->timed)
		err = idmap__set(&c->ids, (uint32_t)d->head.time, index);
	if (err)
		return err;
	c->dead += c->ids_of[d->slot] !=
		   0; /* its end was not told: only a target that lies does that */
	c->ids_of[d->slot] = index + 1;
	c->last_id[d->slot] = (uint32_t)d->head.time;
	return (int)d->total;
}

static int add_spans(const uint64_t *spans, struct inline_count_func *to)
{
	if (!spans)
		return 0;
	if (!to->spans)
		to->spans = calloc(IL_SPAN_BUCKETS, sizeof(*to->spans));
	if (!to->spans)
		return -ENOMEM;
	for (uint32_t i = 0; i < IL_SPAN_BUCKETS; i++)
		to->spans[i] += spans[i];
	return 0;
}

/* All of its life has been read. */
static int forget(struct inline_count *c, uint32_t slot)
{
	c->ids_of[slot] = 0;
	c->dead++;
	return c->e->timed ? count_dead__add(&c->gone, c->last_id[slot]) : 0;
}

/* What a code object that was freed had; its size. */
static int on_retired(struct inline_count *c, const struct il_retired *r, uint64_t room)
{
	uint32_t slot = __atomic_load_n(&r->slot, __ATOMIC_RELAXED);
	uint32_t total = __atomic_load_n(&r->total, __ATOMIC_RELAXED), func;
	struct inline_count_func *to;
	int err;

	if (room < sizeof(*r) || total < sizeof(*r) || total > room || total % 16 ||
	    slot >= IL_FUNC_CNT)
		return -EILSEQ;
	func = c->ids_of[slot];
	if (!func)
		return -EILSEQ;
	to = &c->funcs[func - 1];
	to->calls += r->calls;
	to->resumes += r->resumes;
	err = forget(c, slot);
	if (!err && total >= sizeof(*r) + IL_SPAN_BUCKETS * sizeof(uint64_t))
		err = add_spans(r->spans, to);
	else
		to->roomless |= c->e->timed;
	return err ? err : (int)total;
}

/* The same of one for which the ring had no room: the slot is free then. What came into the slot after the last record
 * that was read has to wait: the ring still holds its name, and the end of the one before it. */
static int harvest(struct inline_count *c, uint32_t slot)
{
	struct il_func *f = &table(c)[slot];
	uint32_t func = c->ids_of[slot];
	uint64_t *spans;
	int err;

	if (__atomic_load_n(&f->code, __ATOMIC_ACQUIRE) != IL_FREED)
		return 0;
	if (!func || f->id != c->last_id[slot]) {
		c->left = true;
		return 0;
	}
	spans = spans_of(span_table(c), f->span);
	c->funcs[func - 1].calls += f->calls;
	c->funcs[func - 1].resumes += f->resumes;
	c->funcs[func - 1].roomless |= c->e->timed && !spans;
	err = add_spans(spans, &c->funcs[func - 1]);
	f->calls = f->resumes = 0;
	if (spans)
		memset(spans, 0, IL_SPAN_BUCKETS * sizeof(*spans));
	err = err ? err : forget(c, slot);
	__atomic_store_n(&f->code, 0, __ATOMIC_RELEASE);
	return err;
}

/* Code objects that are freed again and again: keep the numbers that a node has, or a live one. */
static int forget_dead(struct inline_count *c)
{
	struct idmap kept = { 0 };
	int err = 0;

	c->dead = 0;
	for (uint32_t i = 0; !err && i < IL_NODE_CNT; i++) {
		uint32_t id = (uint32_t)node_table(c)[i].key, func = idmap__find(&c->ids, id);

		if (func != IDMAP_NONE)
			err = idmap__set(&kept, id, func);
	}
	for (uint32_t i = 0; !err && i < IL_FUNC_CNT; i++)
		if (c->ids_of[i])
			err = idmap__set(&kept, c->last_id[i], c->ids_of[i] - 1);
	idmap__done(err ? &kept : &c->ids);
	c->ids = err ? c->ids : kept;
	return err;
}

static int on_record(struct inline_count *c, const struct il_more_rec *r, uint64_t room)
{
	uint64_t what = r->head.what;

	if (room < sizeof(*r) || (what & 7) != IL_MORE)
		return -EILSEQ;
	if (what >> 48 == IL_DEF)
		return on_definition(c, (const void *)r, room);
	return what >> 48 == IL_RETIRE ? on_retired(c, (const void *)r, room) : -EILSEQ;
}

int inline_count__read(struct inline_count *c)
{
	struct il_shared *h = c->e->shared;
	uint64_t head = __atomic_load_n(&h->head, __ATOMIC_ACQUIRE), begun = c->tail;
	bool left = c->left;
	int err = 0;

	if (head - c->tail > c->e->ring_bytes || head % 16)
		return -EILSEQ;
	if (__atomic_exchange_n(&h->retire_lost, 0, __ATOMIC_ACQ_REL))
		left = true;
	c->left = false;
	while (c->tail < head) {
		int size = on_record(
			c, (const void *)(c->e->ring + (c->tail & (c->e->ring_bytes - 1))),
			head - c->tail);

		if (size < 0)
			return size;
		c->tail += (uint64_t)size;
	}
	__atomic_store_n(&h->tail, c->tail, __ATOMIC_RELEASE);
	for (uint32_t i = 0; !err && left && i < IL_FUNC_CNT; i++)
		err = harvest(c, i);
	if (!err && c->e->timed)
		err = count_dead__take(&c->gone, node_table(c), active_table(c), &c->ids);
	if (!err && c->dead > DEAD_MAX)
		err = forget_dead(c);
	return err ? err : c->tail != begun;
}

/* The rate that was measured at the attach is one of 2 ms, of which a busy machine can take a part away. */
static void measure_rate(struct inline_count *c)
{
	struct clock_pair now = clock_pair_read();
	uint64_t ns = now.ns - c->begun.ns;

	/* of counts alone that counter is the clock, whatever it does: not to be measured then */
	if (c->e->remote.pid && !c->e->clock && tsc_is_steady() && ns >= MEASURE_NS)
		__atomic_store_n(&c->e->hz,
				 (uint64_t)((double)(now.tsc - c->begun.tsc) * 1e9 / (double)ns),
				 __ATOMIC_RELAXED);
}

static uint64_t ns_of(const struct inline_count *c, uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * 1000000000u / c->e->hz);
}

/* Before the ring is read: what has left its slot by then is found there, and what leaves it until then is left aside here. So
 * nothing is missing that a snapshot before had. */
static int copy_slots(struct inline_count *c)
{
	if (!c->slots)
		c->slots = calloc(IL_FUNC_CNT, sizeof(*c->slots));
	if (c->e->timed && !c->spans)
		c->spans = malloc(SPANS_BYTES);
	if (!c->slots || (c->e->timed && !c->spans))
		return -ENOMEM;
	for (uint32_t i = 0; i < IL_FUNC_CNT; i++) {
		const struct il_func *f = &table(c)[i];
		struct il_func *to = &c->slots[i];
		const uint64_t *spans;

		to->id = __atomic_load_n(&f->id, __ATOMIC_ACQUIRE);
		to->calls = __atomic_load_n(&f->calls, __ATOMIC_ACQUIRE);
		to->resumes = __atomic_load_n(&f->resumes, __ATOMIC_ACQUIRE);
		to->span = f->span;
		spans = spans_of(span_table(c), to->span);
		if (spans)
			memcpy(spans_of(c->spans, to->span), spans,
			       IL_SPAN_BUCKETS * sizeof(*spans));
	}
	return 0;
}

static int show_funcs(struct inline_count *c)
{
	free_spans(c->shown, c->func_cnt);
	c->shown = calloc(c->func_cnt + 1ul, sizeof(*c->shown));
	if (!c->shown)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->func_cnt; i++) {
		c->shown[i] = c->funcs[i];
		c->shown[i].spans = NULL;
		if (!c->funcs[i].spans)
			continue;
		c->shown[i].spans = malloc(IL_SPAN_BUCKETS * sizeof(uint64_t));
		if (!c->shown[i].spans)
			return -ENOMEM;
		memcpy(c->shown[i].spans, c->funcs[i].spans, IL_SPAN_BUCKETS * sizeof(uint64_t));
	}
	for (uint32_t i = 0; i < IL_FUNC_CNT; i++) {
		const struct il_func *f = &c->slots[i];
		struct inline_count_func *to;
		const uint64_t *spans;

		if (!c->ids_of[i] || f->id != c->last_id[i])
			continue; /* or of one whose name is not here yet, or was not there */
		to = &c->shown[c->ids_of[i] - 1];
		to->calls += f->calls;
		to->resumes += f->resumes;
		spans = spans_of(c->spans, f->span);
		to->roomless |= c->e->timed && !spans;
		if (add_spans(spans, to))
			return -ENOMEM;
	}
	return 0;
}

/* The nodes from the outermost one on, each after its caller; those of freed functions first. */
static void show_nodes(struct inline_count *c, uint32_t *index_of, uint32_t *cnt)
{
	const struct il_node *from = c->nodes_then;

	for (uint32_t i = 0; i < IL_NODE_CNT; i++)
		index_of[i] = INLINE_COUNT_NONE;
	for (*cnt = 0; *cnt < c->gone.cnt; (*cnt)++)
		c->nodes[*cnt] = c->gone.nodes[*cnt];
	for (uint32_t i = 1; i < IL_NODE_CNT; i++) {
		uint32_t path[COUNT_PATH_MAX], depth = 0, caller = INLINE_COUNT_NONE;

		for (uint32_t at = i; at && at < IL_NODE_CNT && depth < COUNT_PATH_MAX;
		     at = (uint32_t)(from[at].key >> 32)) {
			caller = index_of[at];
			if (caller != INLINE_COUNT_NONE || !from[at].key)
				break;
			path[depth++] = at;
		}
		while (depth-- > 0) {
			uint32_t at = path[depth];
			uint32_t func = idmap__find(&c->ids, (uint32_t)from[at].key);

			if (func == IDMAP_NONE || index_of[at] != INLINE_COUNT_NONE)
				continue; /* its name is not here yet, or the target writes there */
			c->nodes[*cnt] = (struct inline_count_node){ .caller = caller,
								     .func = func,
								     .calls = from[at].calls,
								     .resumes = from[at].resumes,
								     .self_ns = from[at].self };
			caller = index_of[at] = (*cnt)++;
		}
	}
}

/* Which places are in use: to read them all takes much longer than to read those. */
static void find_running(struct inline_count *c)
{
	const struct il_active *now = active_table(c);

	c->running_cnt = 0;
	for (uint32_t i = 0; i < IL_ACTIVE_CNT; i++)
		if (__atomic_load_n(&now[i].frame, __ATOMIC_RELAXED))
			c->running[c->running_cnt++] = i;
	memset(c->active_then, 0, IL_ACTIVE_CNT * sizeof(*c->active_then));
}

/* Behind the detach what runs goes on, but nothing of it is recorded any more. */
static uint64_t recorded_until(const struct inline_engine *e)
{
	uint64_t now = inline__now(e),
		 end = e->clock ? e->remote.put_back_ns : e->remote.put_back_tsc;

	return end && end < now ? end : now;
}

static void copy_running(struct inline_count *c)
{
	const struct il_active *now = active_table(c);
	const struct il_node *nodes = node_table(c);

	c->then = recorded_until(c->e);
	for (uint32_t i = 0; i < c->running_cnt; i++)
		c->active_then[c->running[i]] = now[c->running[i]];
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < c->running_cnt; i++)
		c->nodes_of[i] = nodes[c->active_then[c->running[i]].node & (IL_NODE_CNT - 1)];
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/*
 * Has a call that takes long ended since the copies were begun? Then it is in both, or in neither: its node was copied before it
 * added its time, and its place was free after that. Its end in its caller's sum is the same.
 */
static bool is_torn(const struct inline_count *c)
{
	const struct il_active *now = active_table(c);
	uint64_t is_long = c->e->hz / 1000000 * LONG_US;

	for (uint32_t k = 0; k < c->running_cnt; k++) {
		uint32_t i = c->running[k];
		const struct il_active *was = &c->active_then[i];

		if (!was->frame || (int64_t)(c->then - was->start) < (int64_t)is_long)
			continue;
		if (__atomic_load_n(&now[i].frame, __ATOMIC_ACQUIRE) != was->frame ||
		    now[i].start != was->start || now[i].inner - was->inner >= is_long)
			return true;
	}
	return false;
}

/* What runs, with its nodes, within some us; then all that has ended. */
static int copy_times(struct inline_count *c)
{
	const size_t nodes = IL_NODE_CNT * sizeof(*c->nodes_then);

	c->nodes_then = c->nodes_then ?: malloc(nodes);
	c->nodes_of = c->nodes_of ?: malloc(IL_ACTIVE_CNT * sizeof(*c->nodes_of));
	c->active_then = c->active_then ?: malloc(IL_ACTIVE_CNT * sizeof(*c->active_then));
	c->running = c->running ?: malloc(IL_ACTIVE_CNT * sizeof(*c->running));
	if (!c->nodes_then || !c->nodes_of || !c->active_then || !c->running)
		return -ENOMEM;
	for (int i = 0; i < TORN_TRIES; i++) {
		find_running(c);
		copy_running(c);
		if (!is_torn(c))
			break;
	}
	memcpy(c->nodes_then, node_table(c), nodes);
	for (uint32_t i = c->running_cnt;
	     i-- >
	     0;) /* of several the first that was read: it has the fewest ends of the others */
		c->nodes_then[c->active_then[c->running[i]].node & (IL_NODE_CNT - 1)] =
			c->nodes_of[i];
	return 0;
}

/* What runs has not added its time yet. */
static void add_running(struct inline_count *c, const uint32_t *index_of)
{
	const struct il_active *from = c->active_then;

	memset(c->inner, 0, IL_ACTIVE_CNT * sizeof(*c->inner));
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < IL_ACTIVE_CNT; i++) {
			struct il_active a = from[i];
			uint64_t ticks = c->then - a.start, inner;

			if (!a.frame || (int64_t)ticks < 0 || a.node >= IL_NODE_CNT ||
			    a.caller_at >= IL_ACTIVE_CNT)
				continue;
			if (!pass) {
				if (a.caller && from[a.caller_at].frame == a.caller)
					c->inner[a.caller_at] += ticks;
				continue;
			}
			inner = a.inner + c->inner[i];
			if (index_of[a.node] != INLINE_COUNT_NONE && inner < ticks)
				c->nodes[index_of[a.node]].self_ns += ticks - inner;
		}
	}
}

/* For all nodes, and for what runs. */
static int make_room(struct inline_count *c)
{
	uint32_t most = c->gone.cnt + IL_NODE_CNT;
	void *nodes = reallocarray(c->nodes, most, sizeof(*c->nodes));

	if (nodes)
		c->nodes = nodes;
	if (!c->inner)
		c->inner = calloc(IL_ACTIVE_CNT, sizeof(*c->inner));
	return nodes && c->inner ? 0 : -ENOMEM;
}

int inline_count__snapshot(struct inline_count *c, struct inline_count_view *view)
{
	auto_free uint32_t *index_of = malloc(IL_NODE_CNT * sizeof(*index_of));
	uint32_t cnt = 0;
	int err;

	measure_rate(c);
	err = copy_slots(c);
	if (!err)
		err = inline_count__read(
			c); /* what comes meanwhile is for the next one: a target can go on without end */
	if (err >= 0)
		err = show_funcs(c);
	if (!err && c->e->timed)
		err = make_room(c);
	if (!err && c->e->timed)
		err = copy_times(c);
	if (err || !index_of)
		return err ? err : -ENOMEM;
	if (c->e->timed) {
		show_nodes(c, index_of, &cnt);
		add_running(c, index_of);
	}
	for (uint32_t i = 0; i < cnt; i++) {
		c->nodes[i].self_ns = ns_of(c, c->nodes[i].self_ns);
		c->shown[c->nodes[i].func].calls += c->nodes[i].calls;
		c->shown[c->nodes[i].func].resumes += c->nodes[i].resumes;
	}
	*view = (struct inline_count_view){ .strings = &c->strings,
					    .funcs = c->shown,
					    .nodes = c->nodes,
					    .func_cnt = c->func_cnt,
					    .node_cnt = cnt,
					    .lost = c->e->shared->lost_other + c->gone.lost,
					    .ticks_per_second = c->e->hz };
	return 0;
}
