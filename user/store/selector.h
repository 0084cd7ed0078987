/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which windows are meant: labels, and conditions on them as Prometheus writes them,
 * {service_name="web", zone!="a", version=~"1\\..*", node!~"test-.*"}. A label that is missing is "".
 */
#ifndef PYEBPF_STORE_SELECTOR_H
#define PYEBPF_STORE_SELECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct store_label {
	const char *name, *value;
};

struct selector;

/**
 * selector__parse - conditions from text
 * @text: with its braces; "" or "{}" take everything
 *
 * Names are [a-zA-Z_][a-zA-Z0-9_]*, values in double quotes with \", \\ and \n in them; regular expressions are
 * POSIX extended and match the whole value.
 *
 * Return: 0; -PYE_EUSAGE with a sentence that says where; -ENOMEM.
 */
int selector__parse(struct selector **out, const char *text, struct err *e);

/* selector__takes - @s NULL takes everything. */
bool selector__takes(const struct selector *s, const struct store_label *labels,
		     uint32_t label_cnt);

enum selector_op {
	SELECTOR_EQUAL,
	SELECTOR_NOT_EQUAL,
	SELECTOR_MATCH,
	SELECTOR_NOT_MATCH
};

struct selector_condition {
	const char *name, *value;
	enum selector_op op;
};

/* selector__condition - number @i, for who asks others; false: there are no more. Borrowed. */
bool selector__condition(const struct selector *s, uint32_t i, struct selector_condition *out);

/* selector__free - NULL is fine. */
void selector__free(struct selector *s);

static inline void selector__freep(struct selector **s)
{
	selector__free(*s);
}

/* label_value - "" when there is none of that name. */
const char *label_value(const struct store_label *labels, uint32_t label_cnt, const char *name);

/* label_is_name - may a label have this name? */
bool label_is_name(const char *name);

#endif
