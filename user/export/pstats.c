// SPDX-License-Identifier: Apache-2.0
/*
 * What cProfile dumps and Python's pstats, snakeviz and gprof2dot read: one marshalled dictionary,
 *
 *	(file, first line, name): (primitive calls, calls, self, total, callers)
 *
 * where callers is a dictionary of the same keys, but with (calls, primitive calls, self, total).
 * Times are seconds. The names are those of the code objects' qualified names; what a terminal should
 * not get is escaped, since pstats prints them as they are. Functions that are then called alike, in
 * several processes for example, are one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outbuf.h"
#include "base/text.h"
#include "export/folding.h"
#include "export/fragments.h"
#include "profile/callgraph.h"

enum {
	BUFFER_BYTES = 256 << 10
};

/* Types of marshal, which all versions since 3.0 read. */
enum {
	MARSHAL_DICT = '{',
	MARSHAL_END_OF_DICT = '0',
	MARSHAL_TUPLE = '(',
	MARSHAL_TEXT = 'u',
	MARSHAL_INT = 'i', /* 32 bits, signed */
	MARSHAL_LONG = 'l', /* digits of 15 bits */
	MARSHAL_DOUBLE = 'g',
	KEY_ITEMS = 3,
	FUNC_ITEMS = 5,
	CALLER_ITEMS = 4
};

struct pstats {
	struct folding folding; /* first */
	struct outbuf out;
	struct fragments keys; /* marshalled; id - 1 is the group */
	uint32_t *group_of; /* by function */
	struct callgraph graph;
};

static void pstats__done(void *self)
{
	struct pstats *p = self;

	folding__done(&p->folding);
	outbuf__done(&p->out);
	fragments__done(&p->keys);
	callgraph__done(&p->graph);
	free(p->group_of);
}

static int pstats__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	struct pstats *p = self;
	int err;

	err = folding__init(&p->folding, opts, 0);
	err = err ? err : fragments__init(&p->keys);
	err = err ? err : outbuf__init(&p->out, BUFFER_BYTES, out->write, out->ctx);
	return err;
}

static void put_little_endian(struct outbuf *b, uint64_t value, unsigned int bytes)
{
	for (; bytes; bytes--, value >>= 8)
		outbuf__putc(b, (char)(value & 0xff));
}

static void put_int(struct outbuf *b, uint64_t value)
{
	unsigned int digits = 0;

	if (value <= INT32_MAX) {
		outbuf__putc(b, MARSHAL_INT);
		put_little_endian(b, value, 4);
		return;
	}
	for (uint64_t rest = value; rest; rest >>= 15)
		digits++;
	outbuf__putc(b, MARSHAL_LONG);
	put_little_endian(b, digits, 4);
	for (; digits; digits--, value >>= 15)
		put_little_endian(b, value & 0x7fff, 2);
}

static void put_seconds(struct outbuf *b, uint64_t ns)
{
	double seconds = (double)ns / 1e9;
	uint64_t bits;

	memcpy(&bits, &seconds, sizeof(bits));
	outbuf__putc(b, MARSHAL_DOUBLE);
	put_little_endian(b, bits, 8);
}

static void put_tuple(struct outbuf *b, uint32_t items)
{
	outbuf__putc(b, MARSHAL_TUPLE);
	put_little_endian(b, items, 4);
}

static int put_text(struct outbuf *b, const char *s)
{
	size_t len = strlen(s), size = len * 6 + 1;
	auto_free char *text = malloc(size);

	if (!text || size > INT32_MAX)
		return -ENOMEM;
	text_escape(text, size, s, len);
	len = strlen(text);
	outbuf__putc(b, MARSHAL_TEXT);
	put_little_endian(b, len, 4);
	outbuf__put(b, text, len);
	return 0;
}

static int put_key(struct outbuf *b, const char *file, uint32_t line, const char *name)
{
	int err;

	put_tuple(b, KEY_ITEMS);
	err = put_text(b, file);
	put_int(b, line);
	return err ? err : put_text(b, name);
}

static int add_key(struct pstats *p, const struct agg_result *r, const struct agg_func *f,
		   uint32_t *group)
{
	struct outbuf b;
	uint32_t id = 0;
	int end_err, err = fragment_begin(&p->keys, &b);

	if (err)
		return err;
	/* as cProfile does for what is no Python code: "[truncated]" */
	err = put_key(&b, f->file ? strpool__get(&r->strings, f->file) : "~", f->line,
		      strpool__get(&r->strings, f->qualname));
	end_err = fragment_end(&p->keys, &b, &id);
	err = err ? err : end_err;
	*group = id - 1;
	return err;
}

static int add_up(struct pstats *p, const struct agg_result *r)
{
	int err = 0;

	p->group_of = malloc((r->func_cnt + 1ull) * sizeof(*p->group_of));
	if (!p->group_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->func_cnt && !err; i++)
		err = add_key(p, r, &r->funcs[i], &p->group_of[i]);
	return err ? err : callgraph__init(&p->graph, r, p->group_of, p->keys.pool.cnt - 1);
}

static void put_group(struct pstats *p, uint32_t group)
{
	const struct strpool_str *key = &p->keys.pool.strs[group + 1];

	outbuf__put(&p->out, key->s, key->len);
}

static void put_func(struct pstats *p, uint32_t group)
{
	const struct callgraph_node *node = &p->graph.nodes[group];
	struct outbuf *b = &p->out;

	put_group(p, group);
	put_tuple(b, FUNC_ITEMS);
	put_int(b, node->sums.primitive_calls);
	put_int(b, node->sums.calls);
	put_seconds(b, node->sums.self_ns);
	put_seconds(b, node->sums.total_ns);
	outbuf__putc(b, MARSHAL_DICT);
	for (uint32_t i = node->callers; i != AGG_NONE; i = p->graph.edges[i].next) {
		const struct callgraph_edge *edge = &p->graph.edges[i];

		put_group(p, edge->caller);
		put_tuple(b, CALLER_ITEMS);
		put_int(b, edge->sums.calls);
		put_int(b, edge->sums.primitive_calls);
		put_seconds(b, edge->sums.self_ns);
		put_seconds(b, edge->sums.total_ns);
	}
	outbuf__putc(b, MARSHAL_END_OF_DICT);
}

/* A row that is no function and adds nothing to the sums. */
static int put_remark(struct outbuf *b, const char *text, uint64_t total_ns)
{
	int err = put_key(b, "~", 0, text);

	put_tuple(b, FUNC_ITEMS);
	put_int(b, 0);
	put_int(b, 0);
	put_seconds(b, 0);
	put_seconds(b, total_ns);
	outbuf__putc(b, MARSHAL_DICT);
	outbuf__putc(b, MARSHAL_END_OF_DICT);
	return err;
}

/* The format has no place for what is missing, and pstats does not load a file without rows. */
static int put_remarks(struct outbuf *b, const struct agg_result *r)
{
	char name[64] = "[unknown]";
	uint64_t gap_ns = 0, lost = 0;

	for (uint32_t i = 0; i < r->thread_cnt; i++) {
		gap_ns += r->threads[i].gap_ns;
		lost += r->threads[i].lost;
	}
	if (lost)
		snprintf(name, sizeof(name), "[lost %" PRIu64 "]", lost);
	if (gap_ns || lost)
		return put_remark(b, name, gap_ns);
	return r->stack_cnt > r->thread_cnt
		       ? 0
		       : put_remark(b, "[no Python function was on a stack]", 0);
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct pstats *p = self;
	const struct agg_result *r = aggregate__result(p->folding.agg);
	int err = folding_end(self, totals);

	err = err ? err : add_up(p, r);
	if (err)
		return err;
	outbuf__putc(&p->out, MARSHAL_DICT);
	/* one that is only a caller has to be there too: readers look it up */
	for (uint32_t group = 0; group < p->graph.node_cnt; group++) {
		if (p->graph.nodes[group].stack_cnt)
			put_func(p, group);
	}
	err = put_remarks(&p->out, r);
	outbuf__putc(&p->out, MARSHAL_END_OF_DICT);
	return err ? err : outbuf__flush(&p->out);
}

const struct exporter export_pstats = {
	.name = "pstats",
	.aliases = (const char *const[]){ "cprofile", NULL },
	.extensions = (const char *const[]){ ".pstats", ".prof", NULL },
	.help = "what cProfile writes: for Python's pstats, snakeviz, gprof2dot",
	.hint = "python3 -m pstats @",
	.binary = true,
	.folds = true,
	.size = sizeof(struct pstats),
	.init = pstats__init,
	.consumer = {
		FORWARD_TO_THE_END,
		.end = on_end,
	},
	.done = pstats__done,
};
