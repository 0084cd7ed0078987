// SPDX-License-Identifier: Apache-2.0
/*
 * What cProfile dumps: a marshalled dictionary, (file, line, name): (primitive calls, calls, self, total,
 * callers), callers a dictionary of the same keys. Marshal is read up to the types that such a file
 * has; objects that come again are references to the first.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/importers.h"
#include "import/pstats_tree.h"

#define REFS_MAX (16u << 20)

enum {
	FLAG_REF = 0x80,
	TEXT_MAX = 1 << 20,
	KEY_ITEMS = 3,
	FUNC_ITEMS = 5,
	CALLER_ITEMS = 4
};

enum value_type {
	VALUE_NONE, /* not complete, or nothing that is needed */
	VALUE_END, /* of a dictionary */
	VALUE_NUMBER,
	VALUE_TEXT,
	VALUE_TUPLE, /* of count items that follow; no value of a reference */
	VALUE_DICT,
	VALUE_KEY
};

struct value {
	enum value_type type;
	double number;
	uint32_t id; /* text of the sink, function; items of a tuple */
	uint32_t ref; /* where to keep it; UINT32_MAX: nowhere */
};

struct pstats {
	struct source *s;
	struct sink *k;
	struct value *refs;
	uint32_t ref_cnt, ref_cap;
	struct pstats_graph graph;
};

static int malformed(struct pstats *p, const char *what)
{
	return err_set(p->k->e, -PYE_EFORMAT, "the pstats data are damaged before byte %llu: %s",
		       (unsigned long long)source__offset(p->s), what);
}

static int reserve_ref(struct pstats *p, uint32_t *ref)
{
	if (p->ref_cnt == p->ref_cap) {
		uint32_t cap = p->ref_cap ? p->ref_cap * 2 : 1024;
		struct value *grown = reallocarray(p->refs, cap, sizeof(*grown));

		if (p->ref_cnt >= REFS_MAX)
			return malformed(p, "too many references");
		if (!grown)
			return -ENOMEM;
		p->refs = grown;
		p->ref_cap = cap;
	}
	*ref = p->ref_cnt;
	p->refs[p->ref_cnt++] = (struct value){ .type = VALUE_NONE };
	return 0;
}

static int take_le(struct pstats *p, unsigned int bytes, uint64_t *out)
{
	uint8_t raw[8];
	int err = source__take(p->s, raw, bytes);

	*out = 0;
	for (unsigned int i = bytes; !err && i-- > 0;)
		*out = *out << 8 | raw[i];
	return err;
}

static int take_text(struct pstats *p, uint64_t len, struct value *v)
{
	char *text;
	int err;

	if (len > TEXT_MAX)
		return malformed(p, "a name is longer than 1 MB");
	text = malloc(len + 1);
	if (!text)
		return -ENOMEM;
	err = source__take(p->s, text, len);
	err = err ? err : sink__text(p->k, text, len, &v->id);
	free(text);
	v->type = VALUE_TEXT;
	return err;
}

/* Digits of 15 bits, the lowest first. */
static int take_long(struct pstats *p, struct value *v)
{
	uint64_t raw, digit;
	int err = take_le(p, 4, &raw);
	int32_t cnt = (int32_t)raw;

	v->type = VALUE_NUMBER;
	if (!err && (cnt > 8 || cnt < -8))
		return malformed(p, "a number is too large");
	for (int32_t i = 0; !err && i < abs(cnt); i++) {
		err = take_le(p, 2, &digit);
		v->number += ldexp((double)digit, 15 * i);
	}
	v->number = cnt < 0 ? -v->number : v->number;
	return err;
}

static int take_float_text(struct pstats *p, struct value *v)
{
	char text[256];
	uint64_t len;
	int err = take_le(p, 1, &len);

	err = err ? err : source__take(p->s, text, len);
	if (err)
		return err;
	text[len] = '\0';
	v->type = VALUE_NUMBER;
	v->number = strtod(text, NULL);
	return 0;
}

static int take_ref(struct pstats *p, struct value *v)
{
	uint64_t at;
	int err = take_le(p, 4, &at);

	if (err)
		return err;
	if (at >= p->ref_cnt || p->refs[at].type == VALUE_NONE)
		return malformed(p, "a reference to nothing");
	*v = p->refs[at];
	v->ref = UINT32_MAX;
	return 0;
}

static int take_scalar(struct pstats *p, int type, struct value *v)
{
	uint64_t raw;
	int err;

	v->type = VALUE_NUMBER;
	switch (type) {
	case 'i':
		err = take_le(p, 4, &raw);
		v->number = (int32_t)raw;
		return err;
	case 'I':
		err = take_le(p, 8, &raw);
		v->number = (double)(int64_t)raw;
		return err;
	case 'g':
		err = take_le(p, 8, &raw);
		memcpy(&v->number, &raw, sizeof(v->number));
		return err;
	case 'l':
		return take_long(p, v);
	case 'f':
		return take_float_text(p, v);
	case 'z':
	case 'Z':
		err = take_le(p, 1, &raw);
		return err ? err : take_text(p, raw, v);
	case 'u':
	case 't':
	case 'a':
	case 'A':
	case 's':
		err = take_le(p, 4, &raw);
		return err ? err : take_text(p, raw, v);
	case 'T':
	case 'F':
		v->number = type == 'T';
		return 0;
	default:
		return malformed(p, "an object that cProfile does not write");
	}
}

/* One object; of a tuple and a dictionary only its beginning. */
static int take(struct pstats *p, struct value *v)
{
	uint8_t byte;
	uint64_t items;
	int err = source__take(p->s, &byte, 1), type;

	*v = (struct value){ .ref = UINT32_MAX };
	if (err)
		return err;
	type = byte & ~FLAG_REF;
	if (type == 'r')
		return take_ref(p, v);
	if (byte & FLAG_REF) {
		err = reserve_ref(p, &v->ref);
		if (err)
			return err;
	}
	switch (type) {
	case '0':
		v->type = VALUE_END;
		return 0;
	case '{':
		v->type = VALUE_DICT;
		return 0;
	case '(':
	case ')':
		err = take_le(p, type == '(' ? 4 : 1, &items);
		v->type = VALUE_TUPLE;
		v->id = (uint32_t)items;
		return err;
	default:
		err = take_scalar(p, type, v);
		if (!err && v->ref != UINT32_MAX)
			p->refs[v->ref] = *v;
		return err;
	}
}

static int take_number(struct pstats *p, double *number)
{
	struct value v;
	int err = take(p, &v);

	if (err)
		return err;
	if (v.type != VALUE_NUMBER || !isfinite(v.number))
		return malformed(p, "no number where there has to be one");
	*number = v.number > 0 ? v.number : 0;
	return 0;
}

/* The items of a key whose tuple has begun, or a key that came before. */
static int finish_key(struct pstats *p, const struct value *begun, uint32_t *func)
{
	struct value file, name, key;
	double line = 0;
	int err;

	*func = begun->id;
	if (begun->type == VALUE_KEY)
		return 0;
	if (begun->type != VALUE_TUPLE || begun->id != KEY_ITEMS)
		return malformed(p, "no function where there has to be one");
	err = take(p, &file);
	err = err ? err : take_number(p, &line);
	err = err ? err : take(p, &name);
	if (err)
		return err;
	if (file.type != VALUE_TEXT || name.type != VALUE_TEXT)
		return malformed(p, "a function without a name");
	err = pstats_graph__func(&p->graph, file.id, name.id, line < INT32_MAX ? (uint32_t)line : 0,
				 func);
	key = (struct value){ .type = VALUE_KEY, .id = *func, .ref = UINT32_MAX };
	if (!err && begun->ref != UINT32_MAX)
		p->refs[begun->ref] = key;
	return err;
}

static int take_sums(struct pstats *p, bool is_caller, struct pstats_sums *sums)
{
	double first = 0, second = 0;
	int err = take_number(p, &first);

	err = err ? err : take_number(p, &second);
	err = err ? err : take_number(p, &sums->self_s);
	err = err ? err : take_number(p, &sums->total_s);
	/* the two counts are the other way around in a caller's row */
	sums->calls = is_caller ? first : second;
	return err;
}

static int take_callers(struct pstats *p, uint32_t func)
{
	struct pstats_sums sums;
	struct value v;
	uint32_t caller;
	int err;

	for (;;) {
		err = take(p, &v);
		if (err || v.type == VALUE_END)
			return err;
		err = finish_key(p, &v, &caller);
		err = err ? err : take(p, &v);
		if (err)
			return err;
		sums = (struct pstats_sums){ .calls = v.number > 0 ? v.number : 0 };
		if (v.type == VALUE_TUPLE && v.id == CALLER_ITEMS)
			err = take_sums(p, true, &sums);
		else if (v.type != VALUE_NUMBER) /* of the module profile: calls alone */
			err = malformed(p, "a caller without figures");
		err = err ? err : pstats_graph__edge(&p->graph, func, caller, &sums);
		if (err)
			return err;
	}
}

static int take_funcs(struct pstats *p)
{
	struct pstats_sums sums = { 0 };
	struct value v;
	uint32_t func;
	int err = take(p, &v);

	if (!err && v.type != VALUE_DICT)
		return malformed(p, "it does not begin with a dictionary");
	while (!err) {
		err = take(p, &v);
		if (err || v.type == VALUE_END)
			return err;
		err = finish_key(p, &v, &func);
		err = err ? err : take(p, &v);
		if (!err && (v.type != VALUE_TUPLE || v.id != FUNC_ITEMS))
			return malformed(p, "a function without figures");
		err = err ? err : take_sums(p, false, &sums);
		err = err ? err : take(p, &v);
		if (!err && v.type != VALUE_DICT)
			return malformed(p, "a function without callers");
		err = err ? err : pstats_graph__sums(&p->graph, func, &sums);
		err = err ? err : take_callers(p, func);
	}
	return err;
}

static int run(struct source *s, struct sink *k)
{
	struct pstats p = { .s = s, .k = k };
	const struct trace_info info = { .engine = "pstats" };
	int err = pstats_graph__init(&p.graph);

	err = err ? err : take_funcs(&p);
	err = err ? err : sink__begin(k, &info);
	err = err ? err : pstats_graph__push(&p.graph, k);
	pstats_graph__done(&p.graph);
	free(p.refs);
	return err ? err : sink__end(k, 0);
}

/* A dictionary that is empty or whose first key is a tuple. */
static bool is_pstats(const uint8_t *head, size_t len)
{
	int next = len > 1 ? head[1] & ~FLAG_REF : 0;

	return (head[0] & ~FLAG_REF) == '{' && (next == '(' || next == ')' || next == '0');
}

const struct importer import_pstats = { .name = "pstats", .is = is_pstats, .run = run };
