// SPDX-License-Identifier: Apache-2.0
/*
 * How long calls of chosen functions take. A call lasts from its frame's first entry to its return, over
 * all yields between, so it is found by its frame. On the way of other events there are two tests: is this
 * code object one of those (on entry), is this depth that of the innermost such frame (on exit).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "assemble/assemble_priv.h"
#include "assemble/chosen.h"
#include "profile/module.h"

#define SPECS_MAX 16
#define CODES_MAX 1024u /* those that came last */
#define CALLS_MAX 65536u

/* While it runs it is its thread's alone: another one can enter a frame at the same place before we come
 * to the record with which this one leaves it. A suspended one can go on in any. */
struct call_key {
	uint64_t frame;
	uint32_t pix, thread; /* thread 0: suspended */
};

struct watched_call {
	struct call_key key;
	uint64_t start_ns;
	uint32_t spec;
	bool begun; /* its first entry was seen */
	bool ran; /* the last one, too */
	uint64_t run_ns; /* when it was */
	uint32_t below; /* depth of the next such frame under it on its stack, 0: none */
	UT_hash_handle hh;
};

struct watched_code {
	uint32_t code, spec;
};

struct asm_watch {
	struct func_spec specs[SPECS_MAX];
	uint64_t over_ns[SPECS_MAX];
	struct assembler_slow slow[SPECS_MAX];
	uint32_t spec_cnt;
	struct watched_code codes[CODES_MAX];
	uint32_t code_cnt; /* ever; the newest CODES_MAX are there */
	uint64_t bloom;
	struct assembler_latency *latency; /* of the spec below; or NULL */
	uint32_t latency_spec;
	struct watched_call *calls;
};

int assembler__watch(struct assembler *a, const char *function, uint64_t over_ns)
{
	struct asm_watch *w = a->watch;

	if (!w) {
		w = a->watch = calloc(1, sizeof(*w));
		if (!w)
			return -ENOMEM;
	}
	if (w->spec_cnt == SPECS_MAX)
		return -E2BIG;
	asm_wants(a, function);
	func_spec_parse(&w->specs[w->spec_cnt], function);
	w->over_ns[w->spec_cnt] = over_ns;
	return (int)w->spec_cnt++;
}

const struct assembler_slow *assembler__slow(const struct assembler *a, int watch)
{
	return &a->watch->slow[watch];
}

int assembler__latency(struct assembler *a, const char *function)
{
	struct assembler_latency *l = calloc(1, sizeof(*l));
	int spec = l ? assembler__watch(a, function, 0) : -ENOMEM;

	if (spec < 0) {
		free(l);
		return spec;
	}
	a->watch->latency = l;
	a->watch->latency_spec = (uint32_t)spec;
	return 0;
}

const struct assembler_latency *assembler__latency_so_far(const struct assembler *a)
{
	struct asm_watch *w = a->watch;

	w->latency->functions = w->slow[w->latency_spec].functions;
	w->latency->open = HASH_COUNT(w->calls);
	return w->latency;
}

/* A run has ended, and the call with it unless it yields. */
static void measure(struct assembler_latency *l, const struct watched_call *c, uint64_t ts,
		    enum trace_kind kind)
{
	if (c->ran && ts >= c->run_ns)
		histogram__add(&l->runs, ts - c->run_ns);
	if (kind == TRACE_YIELD) {
		l->yields++;
		return;
	}
	l->unwound += kind == TRACE_UNWIND;
	if (c->begun && ts >= c->start_ns)
		histogram__add(&l->calls, ts - c->start_ns);
	else
		l->unknown++;
}

void asm_watch_func(struct assembler *a, const struct trace_func *func)
{
	struct asm_watch *w = a->watch;

	for (uint32_t i = 0; i < w->spec_cnt; i++) {
		if (!asm_func_meant(a, &w->specs[i], func))
			continue;
		w->codes[w->code_cnt++ % CODES_MAX] =
			(struct watched_code){ .code = func->id, .spec = i };
		w->bloom |= 1ull << (func->id & 63);
		w->slow[i].functions++;
		return;
	}
}

static int spec_of(const struct asm_watch *w, uint32_t code)
{
	uint32_t cnt = w->code_cnt < CODES_MAX ? w->code_cnt : CODES_MAX;

	if (!(w->bloom >> (code & 63) & 1))
		return -1;
	for (uint32_t i = 0; i < cnt; i++)
		if (w->codes[i].code == code)
			return (int)w->codes[i].spec;
	return -1;
}

static struct watched_call *find_call(const struct assembler *a, const struct asm_thread *t,
				      uint64_t frame, uint32_t thread)
{
	struct call_key key = { .frame = frame, .pix = t->process->pix, .thread = thread };
	struct watched_call *c;

	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): uthash reads the key by bytes */
	HASH_FIND(hh, a->watch->calls, &key, sizeof(key), c);
	return c;
}

static void forget_call(struct asm_watch *w, struct watched_call *c)
{
	HASH_DEL(w->calls, c);
	free(c);
}

static void move_call(struct asm_watch *w, struct watched_call *c, uint32_t thread)
{
	HASH_DEL(w->calls, c);
	c->key.thread = thread;
	HASH_ADD(hh, w->calls, key, sizeof(c->key), c);
}

/* The call that goes on where a thread enters a frame; NULL: it is a new one. */
static struct watched_call *going_on(struct assembler *a, const struct asm_thread *t,
				     uint64_t frame, enum trace_kind kind)
{
	struct watched_call *c = find_call(a, t, frame, t->id), *waits = find_call(a, t, frame, 0);

	if (!waits)
		return c;
	if (c || kind == TRACE_CALL) { /* its frame is gone without a word */
		forget_call(a->watch, waits);
		return c;
	}
	move_call(a->watch, waits, t->id);
	return waits;
}

void asm_watch_enter(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind,
		     uint32_t code)
{
	uint64_t frame = t->stack[t->depth - 1];
	struct asm_watch *w = a->watch;
	int spec = spec_of(w, code);
	struct watched_call *c;

	if (spec < 0)
		return;
	c = going_on(a, t, frame, kind);
	if (!c) {
		if (HASH_COUNT(w->calls) >= CALLS_MAX)
			forget_call(w, w->calls); /* the oldest */
		c = calloc(1, sizeof(*c));
		if (!c)
			return;
		c->key = (struct call_key){ .frame = frame,
					    .pix = t->process->pix,
					    .thread = t->id };
		c->start_ns =
			ts; /* or before, when it was found open: then it took longer than this */
		HASH_ADD(hh, w->calls, key, sizeof(c->key), c);
	} else if (kind == TRACE_CALL || c->spec != (uint32_t)spec) {
		c->start_ns = ts; /* another frame at the same place */
	}
	c->spec = (uint32_t)spec;
	c->begun |= kind == TRACE_CALL;
	c->ran = kind != TRACE_OPEN;
	c->run_ns = ts;
	c->below = t->watch_top;
	if (w->latency && kind == TRACE_CALL && c->below && c->spec == w->latency_spec)
		w->latency->recursive++;
	t->watch_top = t->depth;
}

void asm_watch_leave(struct assembler *a, struct asm_thread *t, uint64_t ts, enum trace_kind kind)
{
	struct watched_call *c = find_call(a, t, t->stack[t->depth - 1], t->id), *old;
	struct asm_watch *w = a->watch;
	struct assembler_slow *s;
	uint64_t took;

	t->watch_top = 0;
	if (!c)
		return;
	t->watch_top = c->below < t->depth ? c->below : 0;
	if (w->latency && c->spec == w->latency_spec)
		measure(w->latency, c, ts, kind);
	if (kind == TRACE_YIELD) {
		old = find_call(a, t, c->key.frame, 0);
		if (old)
			forget_call(w, old);
		move_call(w, c, 0);
		return;
	}
	took = ts > c->start_ns ? ts - c->start_ns : 0;
	s = &w->slow[c->spec];
	s->calls++;
	if (took > w->over_ns[c->spec]) {
		s->slow++;
		s->last_ns = took;
		if (took > s->longest_ns)
			s->longest_ns = took;
	}
	forget_call(w, c);
}

void asm_watch_gap(struct assembler *a, struct asm_thread *t, enum trace_gap_reason reason)
{
	uint32_t at = t->watch_top;

	t->watch_top = 0;
	if (reason == GAP_SWITCH)
		return; /* they go on when the thread comes back to that stack */
	while (at && at <= t->depth) {
		struct watched_call *c = find_call(a, t, t->stack[at - 1], t->id);

		if (!c)
			return;
		at = c->below < at ? c->below : 0;
		forget_call(a->watch, c);
	}
}

void asm_watch_free(struct asm_watch *w)
{
	struct watched_call *c, *next;

	if (!w)
		return;
	HASH_ITER(hh, w->calls, c, next)
	forget_call(w, c);
	free(w->latency);
	free(w);
}
