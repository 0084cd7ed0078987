// SPDX-License-Identifier: Apache-2.0
#include "capture/inline_opcodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "base/idmap.h"
#include "capture/inline_priv.h"
#include "cpython/linetable.h"
#include "cpython/pystr.h"

#define SECOND_NS    1e9
#define COUNTERS_MAX (1u << 21) /* of all that are there; what comes then is lost */
#define ROWS_MAX     (1u << 20) /* then one more for each opcode */

/* An instruction of a code object, in one of its forms. */
struct counter {
	uint64_t cnt, timed, ticks;
	uint64_t offset;
	uint32_t line;
	uint8_t opcode;
};

struct code {
	uint32_t id;
	uint32_t file, qualname;
	struct linetable table;
	/* of the last line that was looked for: new instructions mostly follow each other */
	struct linetable_place place;
	struct idmap index; /* offset << 8 | opcode -> counter */
	struct counter *counters;
	uint32_t cnt, cap;
	uint32_t running; /* instructions of it whose end is waited for */
	bool dead;
	UT_hash_handle hh;
};

struct running {
	struct code *code; /* NULL: none */
	struct cap_inline_opcode begun;
	uint64_t seq;
	uint32_t counter;
};

struct inline_opcodes {
	struct pye_pylayout layout;
	uint64_t hz; /* ticks per second; 0: not known yet */
	double cost; /* ticks */
	bool keeps_cost;
	const struct opcode_name *names;
	inline_opcode_fn each;
	void *ctx;
	struct cap_inline_taker taker;
	struct strpool strings, keys;
	struct code *codes, *last;
	uint32_t counter_cnt; /* theirs */
	struct running *threads; /* by tix */
	uint32_t thread_cnt;
	struct inline_opcode_row
		*rows; /* beside keys, from its number 1 on; of the code objects that are gone */
	uint32_t row_cnt, row_cap;
	uint32_t others; /* whose row it is behind ROWS_MAX */
	struct inline_opcode_row *shown;
	uint64_t seq, untimed, lost;
	int failed;
};

static double ns_of(const struct inline_opcodes *o, uint64_t ticks, uint64_t cnt)
{
	double own = (double)ticks - (o->keeps_cost ? 0 : (double)cnt * o->cost);

	return own > 0 ? own * SECOND_NS / (double)o->hz : 0;
}

static double ns_of_cost(const struct inline_opcodes *o)
{
	return o->hz ? o->cost * SECOND_NS / (double)o->hz : 0;
}

/* --- code objects --- */

static int text_of(struct inline_opcodes *o, const struct il_str *str, const uint8_t *data,
		   uint32_t *id)
{
	char text[PYSTR_SIZE];
	size_t len = pystr_decode(&o->layout, str->state, str->length, data, str->bytes, text,
				  sizeof(text));

	return strpool__add(&o->strings, text, len, id);
}

static struct code *find_code(struct inline_opcodes *o, uint32_t id)
{
	struct code *code = o->last;

	if (code && code->id == id)
		return code;
	HASH_FIND(hh, o->codes, &id, sizeof(id), code);
	o->last = code ? code : o->last;
	return code;
}

static int on_code(void *ctx, uint32_t id, const struct il_def *d)
{
	struct inline_opcodes *o = ctx;
	struct code *code = find_code(o, id);
	const uint8_t *data = d->data;
	uint32_t texts[PYE_STR_CNT] = { 0 };
	int err = 0;

	if (code)
		return 0; /* its slot in the cache was another one's for a while */
	for (uint32_t i = 0; !err && i < PYE_STR_CNT; i++) {
		if (!d->str[i].addr)
			continue;
		err = text_of(o, &d->str[i], data, &texts[i]);
		data += d->str[i].bytes;
	}
	code = err ? NULL : calloc(1, sizeof(*code));
	if (!code)
		return err ? err : -ENOMEM;
	code->id = id;
	code->file = texts[PYE_STR_FILE];
	code->qualname = texts[PYE_STR_QUALNAME] ? texts[PYE_STR_QUALNAME] : texts[PYE_STR_NAME];
	code->table.first = d->line;
	HASH_ADD(hh, o->codes, id, sizeof(code->id), code);
	return 0;
}

static int on_lines(void *ctx, uint32_t id, const uint8_t *table, uint32_t len)
{
	struct inline_opcodes *o = ctx;
	struct code *code = find_code(o, id);

	if (!code || code->table.data || !len)
		return 0;
	code->table.data = malloc(len);
	if (!code->table.data)
		return -ENOMEM;
	memcpy(code->table.data, table, len);
	code->table.len = len;
	return 0;
}

/* The row of a line's opcode. */
static int row_of(struct inline_opcodes *o, const struct code *code, const struct counter *c,
		  uint32_t *index)
{
	uint32_t key[4] = { code->file, code->qualname, c->line, c->opcode };
	uint32_t id = 0;
	int err = GROW(o->rows, o->row_cap, o->row_cnt); /* first: each key has a row */

	if (o->row_cnt >= ROWS_MAX &&
	    !strpool__find(&o->keys, (const char *)key, sizeof(key), &id)) {
		key[0] = key[2] = 0;
		key[1] = o->others;
	}
	err = err ? err : strpool__add(&o->keys, (const char *)key, sizeof(key), &id);
	if (err)
		return err;
	*index = id - 1;
	if (*index < o->row_cnt)
		return 0;
	o->rows[o->row_cnt++] = (struct inline_opcode_row){
		.file = key[0], .qualname = key[1], .line = key[2], .opcode = c->opcode
	};
	return 0;
}

static void add_row(const struct inline_opcodes *o, struct inline_opcode_row *row,
		    const struct counter *c)
{
	row->cnt += c->cnt;
	row->timed += c->timed;
	row->ns += ns_of(o, c->ticks, c->timed);
}

static void free_code(struct inline_opcodes *o, struct code *code)
{
	if (o->last == code)
		o->last = NULL;
	o->counter_cnt -= code->cnt;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in there, which is not empty */
	HASH_DEL(o->codes, code);
	linetable__done(&code->table);
	idmap__done(&code->index);
	free(code->counters);
	free(code);
}

/* A code object that is gone, and of which nothing runs any more. */
static int bury(struct inline_opcodes *o, struct code *code)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < code->cnt; i++) {
		uint32_t row = 0;

		err = row_of(o, code, &code->counters[i], &row);
		if (!err)
			add_row(o, &o->rows[row], &code->counters[i]);
	}
	free_code(o, code);
	return err;
}

static int on_retired(void *ctx, uint32_t id)
{
	struct inline_opcodes *o = ctx;
	struct code *code = find_code(o, id);

	if (!code)
		return 0;
	code->dead = true;
	return code->running ? 0 : bury(o, code);
}

/* --- instructions --- */

/* 0; -ENOSPC: it has none, and there can be no more; -ENOMEM */
static int counter_of(struct inline_opcodes *o, struct code *code,
		      const struct cap_inline_opcode *b, uint32_t *index)
{
	uint64_t first = o->layout.co_code_adaptive, offset = b->at - first;
	struct counter *c;

	*index = idmap__find(&code->index, offset << 8 | b->opcode);
	if (*index != IDMAP_NONE)
		return 0;
	if (o->counter_cnt == COUNTERS_MAX)
		return -ENOSPC;
	if (code->cnt == code->cap) {
		uint32_t cap = code->cap ? 2 * code->cap : 16;
		void *more = reallocarray(code->counters, cap, sizeof(*code->counters));

		if (!more)
			return -ENOMEM;
		code->counters = more;
		code->cap = cap;
	}
	*index = code->cnt;
	c = &code->counters[code->cnt];
	*c = (struct counter){ .offset = offset, .opcode = b->opcode };
	if (code->table.data)
		c->line = linetable_311_from(&code->table, &code->place, (int64_t)(offset / 2));
	code->cnt++;
	o->counter_cnt++;
	return idmap__set(&code->index, offset << 8 | b->opcode, *index);
}

/* @tsc: where it ended; 0: not known */
static int end(struct inline_opcodes *o, struct running *r, uint64_t tsc)
{
	struct code *code = r->code;
	struct counter *c;
	int err = 0;

	if (!code)
		return 0;
	c = &code->counters[r->counter];
	if (tsc) {
		c->timed++;
		c->ticks += tsc - r->begun.tsc;
	} else {
		o->untimed++;
	}
	if (o->each) {
		const struct inline_opcode_event event = {
			.seq = r->seq,
			.ts_ns = r->begun.ts_ns,
			.tid = r->begun.tid,
			.pid = r->begun.pid,
			.depth = r->begun.depth,
			.line = c->line,
			.offset = c->offset,
			.file = strpool__get(&o->strings, code->file),
			.qualname = strpool__get(&o->strings, code->qualname),
			.opcode = c->opcode,
			.timed = tsc != 0,
			.ns = tsc ? ns_of(o, tsc - r->begun.tsc, 1) : 0,
		};

		err = o->each(o->ctx, &event);
	}
	r->code = NULL;
	code->running--;
	if (code->dead && !code->running)
		err = bury(o, code) ?: err;
	return err;
}

static struct running *thread_at(struct inline_opcodes *o, uint32_t tix)
{
	if (tix >= o->thread_cnt) {
		uint32_t cnt = tix < 32 ? 64 : 2 * tix;
		struct running *more = reallocarray(o->threads, cnt, sizeof(*more));

		if (!more)
			return NULL;
		memset(more + o->thread_cnt, 0, (cnt - o->thread_cnt) * sizeof(*more));
		o->threads = more;
		o->thread_cnt = cnt;
	}
	return &o->threads[tix];
}

static int on_end(void *ctx, uint32_t tix, uint64_t tsc)
{
	struct inline_opcodes *o = ctx;

	return tix < o->thread_cnt ? end(o, &o->threads[tix], tsc) : 0;
}

/*
 * Dispatched once more without having done its work: it has just tried to specialise itself, or RESUME has found
 * that its code was to be instrumented. Nothing but a jump can really come twice in a row.
 */
static bool is_again(const struct inline_opcodes *o, const struct running *r,
		     const struct cap_inline_opcode *b)
{
	const struct cap_inline_opcode *a = &r->begun;
	const char *base = o->names[o->names[b->opcode].base].name;

	return r->code && a->code == b->code && a->at == b->at && a->frame == b->frame &&
	       o->names[a->opcode].base == o->names[b->opcode].base &&
	       (a->opcode != b->opcode || (base && strncmp(base, "JUMP", 4) != 0));
}

static int take_over(struct inline_opcodes *o, struct running *r, const struct cap_inline_opcode *b)
{
	uint32_t counter;
	int err = counter_of(o, r->code, b, &counter);

	if (err) /* without room for it it stays what it was */
		return err == -ENOSPC ? 0 : err;
	r->code->counters[r->counter].cnt--;
	r->code->counters[counter].cnt++;
	r->counter = counter;
	r->begun.opcode = b->opcode;
	return 0;
}

static int on_begin(void *ctx, const struct cap_inline_opcode *b)
{
	struct inline_opcodes *o = ctx;
	struct running *r = thread_at(o, b->tix);
	struct code *code;
	int err = r ? 0 : -ENOMEM;

	if (!err && is_again(o, r, b))
		return take_over(o, r, b);
	err = err ? err : end(o, r, b->tsc);
	if (err)
		return err;
	code = find_code(o, b->code);
	if (!code || b->at < o->layout.co_code_adaptive)
		return -EILSEQ;
	err = counter_of(o, code, b, &r->counter);
	o->lost += err == -ENOSPC;
	if (err)
		return err == -ENOSPC ? 0 : err;
	code->counters[r->counter].cnt++;
	r->begun = *b;
	r->seq = o->seq++;
	r->code = code;
	code->running++;
	return 0;
}

static int end_all(struct inline_opcodes *o)
{
	int err = 0;

	for (uint32_t i = 0; i < o->thread_cnt; i++)
		err = end(o, &o->threads[i], 0) ?: err;
	return err;
}

static void on_lost(void *ctx, uint64_t events)
{
	struct inline_opcodes *o = ctx;

	o->lost += events;
	o->failed = end_all(o) ?: o->failed;
}

/* --- as a whole --- */

int inline_opcodes__new(struct inline_opcodes **out, const struct pye_pylayout *layout,
			const struct opcode_name *names, inline_opcode_fn each, void *ctx)
{
	struct inline_opcodes *o = calloc(1, sizeof(*o));
	int err = o ? strpool__init(&o->strings) : -ENOMEM;

	if (!err)
		err = strpool__init(&o->keys);
	if (!err)
		err = strpool__add(&o->strings, "[others]", strlen("[others]"), &o->others);
	if (err) {
		inline_opcodes__free(o);
		return err;
	}
	o->layout = *layout;
	o->names = names;
	o->each = each;
	o->ctx = ctx;
	o->taker = (struct cap_inline_taker){ .ctx = o,
					      .code = on_code,
					      .lines = on_lines,
					      .retired = on_retired,
					      .begin = on_begin,
					      .end = on_end,
					      .lost = on_lost };
	*out = o;
	return 0;
}

void inline_opcodes__free(struct inline_opcodes *o)
{
	struct code *code, *next;

	if (!o)
		return;
	HASH_ITER(hh, o->codes, code, next)
	free_code(o, code);
	strpool__done(&o->strings);
	strpool__done(&o->keys);
	free(o->threads);
	free(o->rows);
	free(o->shown);
	free(o);
}

void inline_opcodes__keep_cost(struct inline_opcodes *o)
{
	o->keeps_cost = true;
}

void inline_opcodes__measured(struct inline_opcodes *o, const struct inline_engine *e)
{
	if (o->hz)
		return;
	o->hz = e->hz;
	o->cost = e->opcode_cost;
}

const struct cap_inline_taker *inline_opcodes__taker(struct inline_opcodes *o)
{
	return &o->taker;
}

int inline_opcodes__finish(struct inline_opcodes *o)
{
	return end_all(o) ?: o->failed;
}

int inline_opcodes__sums(struct inline_opcodes *o, struct inline_opcodes_view *view)
{
	struct code *code, *next;
	uint32_t row = 0;
	int err = 0;

	/* first all rows that there will be */
	HASH_ITER(hh, o->codes, code, next)
	for (uint32_t i = 0; !err && i < code->cnt; i++)
		err = row_of(o, code, &code->counters[i], &row);
	free(o->shown);
	o->shown = err ? NULL : calloc(o->row_cnt + 1ul, sizeof(*o->shown));
	if (!o->shown)
		return err ? err : -ENOMEM;
	if (o->row_cnt)
		memcpy(o->shown, o->rows, o->row_cnt * sizeof(*o->shown));
	HASH_ITER(hh, o->codes, code, next)
	for (uint32_t i = 0; !err && i < code->cnt; i++) {
		err = row_of(o, code, &code->counters[i], &row);
		if (!err)
			add_row(o, &o->shown[row], &code->counters[i]);
	}
	*view = (struct inline_opcodes_view){ .strings = &o->strings,
					      .rows = o->shown,
					      .row_cnt = o->row_cnt,
					      .cnt = o->seq,
					      .untimed = o->untimed,
					      .lost = o->lost,
					      .cost_ns = ns_of_cost(o) };
	return err;
}
