// SPDX-License-Identifier: Apache-2.0
#include "base/regex.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

/* What is open: the whole, or a group. */
struct level {
	uint32_t size; /* repetitions written out; numbers stop at one that is too much in any case */
	bool filled; /* this alternative cannot be empty */
	bool can_be_empty; /* one before it can */
};

struct measure {
	struct level levels[DEPTH_MAX + 1];
	unsigned int depth;
	/* what a repetition would be of */
	uint32_t last;
	bool last_can_be_empty, filled_before;
	const char *why; /* it is refused */
};

struct repetition {
	uint32_t times; /* that it is written out */
	bool can_be_none, endless;
};

static uint32_t limited(uint64_t size)
{
	return size > REGEX_MAX ? REGEX_MAX + 1 : (uint32_t)size;
}

static void add(struct measure *m, uint32_t size, bool can_be_empty)
{
	struct level *l = &m->levels[m->depth];

	l->size = limited((uint64_t)l->size + size);
	m->filled_before = l->filled;
	l->filled |= !can_be_empty;
	m->last = size;
	m->last_can_be_empty = can_be_empty;
}

static void repeat(struct measure *m, const struct repetition *r)
{
	struct level *l = &m->levels[m->depth];
	uint32_t more = limited((uint64_t)m->last * (r->times - 1));

	/* some of these in a row take the C library years */
	if (r->endless && m->last_can_be_empty)
		m->why = "what can be empty is repeated without end";
	l->size = limited((uint64_t)l->size + more);
	m->last = limited((uint64_t)m->last + more);
	if (r->can_be_none) {
		l->filled = m->filled_before;
		m->last_can_be_empty = true;
	}
}

/* Behind a bracket expression: in it "]" can be first, and in [:class:], [.x.] and [=x=]. */
static const char *after_bracket(const char *at)
{
	at += 1 + (at[1] == '^');
	at += *at == ']';
	while (*at && *at != ']') {
		char kind = *at == '[' && at[1] && strchr(".:=", at[1]) ? at[1] : '\0';

		for (at += kind ? 2 : 1; kind && *at && !(*at == kind && at[1] == ']');)
			at++;
		at += kind && *at ? 2 : 0;
	}
	return *at ? at + 1 : at;
}

/* "{n}", "{n,}", which is written out once more, "{n,m}"; what is no such thing the C library refuses. */
static const char *after_interval(const char *at, struct repetition *r)
{
	char *end;
	unsigned long low = strtoul(at + 1, &end, 10), high = low;

	if (*end == ',') {
		const char *from = end + 1;

		high = strtoul(from, &end, 10);
		r->endless = end == from;
		high = r->endless ? low + 1 : high;
	}
	high = high > low ? high : low;
	r->can_be_none = !low;
	r->times = limited(high ? high : 1);
	return *end == '}' ? end + 1 : end;
}

static const char *after_repetition(struct measure *m, const char *at)
{
	struct repetition r = { 1, *at != '+', *at != '?' };

	if (*at == '{') {
		r.endless = false;
		at = after_interval(at, &r);
	} else {
		r.times += *at++ == '+'; /* once, and as often as one likes */
	}
	repeat(m, &r);
	return at;
}

static void open_group(struct measure *m)
{
	if (m->depth == DEPTH_MAX)
		m->why = "groups are nested too deep";
	else
		m->levels[++m->depth] = (struct level){ 0 };
	m->last = 0;
	m->last_can_be_empty = false;
}

static void close_group(struct measure *m)
{
	const struct level *l = &m->levels[m->depth];

	if (!m->depth) {
		m->why = "a ) without its (";
		return;
	}
	m->depth--;
	add(m, limited((uint64_t)l->size + 1), l->can_be_empty || !l->filled);
}

static void begin_alternative(struct measure *m)
{
	struct level *l = &m->levels[m->depth];

	l->can_be_empty |= !l->filled;
	add(m, 1, true);
	l->filled = false;
	m->last_can_be_empty = false;
}

static const char *after_escape(struct measure *m, const char *at)
{
	if (*++at >= '1' && *at <= '9')
		m->why = "there are no back-references";
	add(m, 1, *at && strchr("<>bB`'", *at));
	return at + (*at != '\0');
}

/* Return: behind the next part. */
static const char *measure_part(struct measure *m, const char *at)
{
	switch (*at) {
	case '(':
		open_group(m);
		return at + 1;
	case ')':
		close_group(m);
		return at + 1;
	case '|':
		begin_alternative(m);
		return at + 1;
	case '{':
	case '+':
	case '*':
	case '?':
		return after_repetition(m, at);
	case '[':
		add(m, 1, false);
		return after_bracket(at);
	case '\\':
		return after_escape(m, at);
	default:
		add(m, 1, *at == '^' || *at == '$');
		return at + 1;
	}
}

/* Return: what is wrong, or NULL. */
static const char *measure(const char *text)
{
	static const char too_long[] = "it is longer than 1024 characters, repetitions written out";
	struct measure m = { .depth = 0 };

	if (strlen(text) > REGEX_MAX)
		return too_long;
	for (const char *at = text; *at && !m.why;)
		at = measure_part(&m, at);
	if (m.why)
		return m.why;
	/* the C library would write out what is in it before it says so */
	if (m.depth)
		return "a ( without its )";
	return m.levels[0].size > REGEX_MAX ? too_long : NULL;
}

int regex_compile(regex_t *out, const char *text, int flags, char *why, size_t size)
{
	const char *wrong = measure(text);
	char whole[REGEX_MAX + sizeof("^()$")];
	int err;

	if (wrong) {
		snprintf(why, size, "%s", wrong);
		return -EINVAL;
	}
	snprintf(whole, sizeof(whole), "^(%s)$", text);
	err = regcomp(out, whole, REG_EXTENDED | flags);
	if (!err)
		return 0;
	if (err == REG_ESPACE)
		return -ENOMEM;
	regerror(err, out, why, size);
	return -EINVAL;
}
