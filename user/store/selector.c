// SPDX-License-Identifier: Apache-2.0
#include "store/selector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/regex.h"
#include "base/text.h"

#define CONDITIONS_MAX 32
#define VALUE_MAX      1024

struct condition {
	char *name, *value;
	enum selector_op op;
	regex_t regex; /* with SELECTOR_MATCH and SELECTOR_NOT_MATCH */
	bool compiled;
};

struct selector {
	struct condition conditions[CONDITIONS_MAX];
	uint32_t cnt;
};

struct cursor {
	const char *text, *at;
	struct err *e;
};

static bool starts_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool in_name(char c)
{
	return starts_name(c) || (c >= '0' && c <= '9');
}

bool label_is_name(const char *name)
{
	if (!starts_name(*name))
		return false;
	while (in_name(*name))
		name++;
	return !*name;
}

static int wrong(const struct cursor *c, const char *want)
{
	char shown[200];

	text_escape(shown, sizeof(shown), c->at, strnlen(c->at, 40));
	return err_set(c->e, -PYE_EUSAGE, "selector: want %s at \"%s\" (character %zu)", want,
		       shown, (size_t)(c->at - c->text) + 1);
}

static void skip_space(struct cursor *c)
{
	while (*c->at == ' ' || *c->at == '\t')
		c->at++;
}

static int parse_name(struct cursor *c, char **out)
{
	const char *start = c->at;

	if (!starts_name(*c->at))
		return wrong(c, "the name of a label");
	while (in_name(*c->at))
		c->at++;
	*out = strndup(start, (size_t)(c->at - start));
	return *out ? 0 : -ENOMEM;
}

static int parse_op(struct cursor *c, enum selector_op *out)
{
	static const struct {
		char text[3];
		enum selector_op op;
	} ops[] = { { "=~", SELECTOR_MATCH },
		    { "!~", SELECTOR_NOT_MATCH },
		    { "!=", SELECTOR_NOT_EQUAL },
		    { "=", SELECTOR_EQUAL } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		size_t len = strlen(ops[i].text);

		if (strncmp(c->at, ops[i].text, len) != 0)
			continue;
		c->at += len;
		*out = ops[i].op;
		return 0;
	}
	return wrong(c, "=, !=, =~ or !~");
}

static int parse_value(struct cursor *c, char **out)
{
	char value[VALUE_MAX];
	size_t len = 0;

	if (*c->at != '"')
		return wrong(c, "a value in double quotes");
	for (c->at++; *c->at != '"'; c->at++) {
		char byte = *c->at;

		if (!byte || len == sizeof(value))
			return wrong(c, byte ? "a shorter value" : "the closing quote");
		if (byte == '\\') {
			byte = *++c->at;
			if (byte != '"' && byte != '\\' && byte != 'n')
				return wrong(c, "\", \\ or n after the backslash");
			byte = byte == 'n' ? '\n' : byte;
		}
		value[len++] = byte;
	}
	c->at++;
	*out = strndup(value, len);
	return *out ? 0 : -ENOMEM;
}

/* The whole value has to match, as Prometheus has it. @at: of the expression in the text. */
static int compile(struct condition *m, size_t at, struct err *e)
{
	char why[128];
	int err = regex_compile(&m->regex, m->value, REG_NOSUB, why, sizeof(why));

	m->compiled = !err;
	if (err != -EINVAL)
		return err;
	return err_set(e, -PYE_EUSAGE, "selector: the expression of %.100s (character %zu): %s",
		       m->name, at, why);
}

static int parse_condition(struct cursor *c, struct selector *s)
{
	struct condition *m = &s->conditions[s->cnt];
	size_t at;
	int err;

	if (s->cnt == CONDITIONS_MAX)
		return wrong(c, "no more than 32 conditions");
	s->cnt++;
	err = parse_name(c, &m->name);
	skip_space(c);
	err = err ? err : parse_op(c, &m->op);
	skip_space(c);
	at = (size_t)(c->at - c->text) + 2; /* behind the quote, counted from 1 */
	err = err ? err : parse_value(c, &m->value);
	if (!err && m->value && m->op >= SELECTOR_MATCH)
		err = compile(m, at, c->e);
	skip_space(c);
	return err;
}

static int parse(struct cursor *c, struct selector *s)
{
	int err = 0;

	skip_space(c);
	if (!*c->at)
		return 0;
	if (*c->at != '{')
		return wrong(c, "{");
	c->at++;
	skip_space(c);
	while (!err && *c->at != '}') {
		err = parse_condition(c, s);
		if (err || *c->at == '}')
			break;
		if (*c->at != ',')
			return wrong(c, ", or }");
		c->at++;
		skip_space(c);
	}
	if (err)
		return err;
	c->at++;
	skip_space(c);
	return *c->at ? wrong(c, "nothing more") : 0;
}

int selector__parse(struct selector **out, const char *text, struct err *e)
{
	auto_fn(selector__freep) struct selector *s = calloc(1, sizeof(*s));
	struct cursor c = { .text = text, .at = text, .e = e };
	int err = s ? parse(&c, s) : -ENOMEM;

	if (!err)
		*out = take_ptr(s);
	return err;
}

void selector__free(struct selector *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->cnt; i++) {
		free(s->conditions[i].name);
		free(s->conditions[i].value);
		if (s->conditions[i].compiled)
			regfree(&s->conditions[i].regex);
	}
	free(s);
}

const char *label_value(const struct store_label *labels, uint32_t label_cnt, const char *name)
{
	for (uint32_t i = 0; i < label_cnt; i++)
		if (!strcmp(labels[i].name, name))
			return labels[i].value;
	return "";
}

static bool holds(const struct condition *m, const char *value)
{
	switch (m->op) {
	case SELECTOR_EQUAL:
		return !strcmp(value, m->value);
	case SELECTOR_NOT_EQUAL:
		return strcmp(value, m->value) != 0;
	case SELECTOR_MATCH:
		return !regexec(&m->regex, value, 0, NULL, 0);
	default:
		return regexec(&m->regex, value, 0, NULL, 0) != 0;
	}
}

bool selector__takes(const struct selector *s, const struct store_label *labels, uint32_t label_cnt)
{
	for (uint32_t i = 0; s && i < s->cnt; i++)
		if (!holds(&s->conditions[i],
			   label_value(labels, label_cnt, s->conditions[i].name)))
			return false;
	return true;
}

bool selector__condition(const struct selector *s, uint32_t i, struct selector_condition *out)
{
	if (!s || i >= s->cnt)
		return false;
	*out = (struct selector_condition){ s->conditions[i].name, s->conditions[i].value,
					    s->conditions[i].op };
	return true;
}
