// SPDX-License-Identifier: Apache-2.0
#include "cmd/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

#define VARIABLE_PREFIX "PYEBPF_"
#define NAME_BYTES	64
#define PAIR_BYTES	2304

struct setting {
	const struct opt_group *group;
	const struct opt_row *row;
};

static void key_of(const struct opt_row *row, char out[NAME_BYTES])
{
	size_t i = 0;

	for (; row->name[i] && i + 1 < NAME_BYTES; i++)
		out[i] = row->name[i] == '-' ? '_' : row->name[i];
	out[i] = '\0';
}

/* An option about the settings themselves is none of them. */
static bool is_setting(const struct opt_row *row)
{
	return !row->hidden && strcmp(row->name, "config") != 0 &&
	       strcmp(row->name, "check-config") != 0;
}

static int find_setting(const struct opt_command *cmd, const char *key, struct setting *out)
{
	char name[NAME_BYTES];

	for (const struct opt_group *g = cmd->groups; g->rows; g++)
		for (const struct opt_row *row = g->rows; row->name; row++) {
			key_of(row, name);
			if (is_setting(row) && !strcmp(name, key)) {
				*out = (struct setting){ g, row };
				return 1;
			}
		}
	return 0;
}

/* --- the file --- */

static int set_one(const struct setting *s, void *opts, const struct yaml_node *node,
		   const char *arg, struct err *e)
{
	struct err why = { 0 };
	int err = options_set(s->group, s->row, opts, arg, &why);

	if (err == -PYE_EUSAGE)
		return yaml_refuse(node, e, "%.60s: %.300s", node->key ? node->key : s->row->name,
				   why.what);
	return err;
}

static int set_entry(const struct setting *s, void *opts, const struct yaml_node *entry,
		     struct err *e)
{
	const char *text = yaml_text(entry, e);
	char pair[PAIR_BYTES];

	if (!text)
		return -PYE_EUSAGE;
	if (!entry->key)
		return set_one(s, opts, entry, text, e);
	if ((size_t)snprintf(pair, sizeof(pair), "%s=%s", entry->key, text) >= sizeof(pair))
		return yaml_refuse(entry, e, "%.60s: too long", entry->key);
	return set_one(s, opts, entry, pair, e);
}

static int set_from(const struct setting *s, void *opts, const struct yaml_node *node,
		    struct err *e)
{
	const char *text;

	if (node->kind != YAML_TEXT && s->row->type == OPT_CUSTOM) {
		int err = 0;

		for (const struct yaml_node *n = node->first; n && !err; n = n->next)
			err = set_entry(s, opts, n, e);
		return err;
	}
	text = yaml_text(node, e);
	return text ? set_one(s, opts, node, text, e) : -PYE_EUSAGE;
}

static const struct config_section *find_section(const struct config_section *s, const char *key)
{
	for (; s->name; s++)
		if (!strcmp(s->name, key))
			return s;
	return NULL;
}

static int take_key(const struct config *c, void *opts, const struct yaml_node *node, struct err *e)
{
	const struct config_section *section = find_section(c->sections, node->key);
	struct setting s;

	if (section)
		return section->read(opts, node, e);
	if (find_setting(c->command, node->key, &s))
		return set_from(&s, opts, node, e);
	return yaml_refuse(node, e, "%.60s is no setting", node->key);
}

static int refuse_file(const struct config *c, const char *path, const struct err *why,
		       struct err *e)
{
	char shown[256];

	err_set(e, -PYE_EUSAGE, "%s: %.440s", text_escape(shown, sizeof(shown), path, strlen(path)),
		why->what);
	err_hint(e, "pyebpf %s --help and its manual page name the settings", c->command->name);
	return -PYE_EUSAGE;
}

static int take_file(const struct config *c, const char *path, void *opts, struct yaml **file,
		     struct err *e)
{
	struct err why = { 0 };
	int err = yaml__read(file, path, &why);
	const struct yaml_node *n;

	for (n = err ? NULL : yaml__root(*file)->first; n && !err; n = n->next)
		err = take_key(c, opts, n, &why);
	return err == -PYE_EUSAGE ? refuse_file(c, path, &why, e) : err;
}

/* --- the environment --- */

static int take_words(const struct setting *s, void *opts, const char *value, struct err *e)
{
	auto_free char *words = strdup(value);
	char *rest = words, *word;
	int err = words ? 0 : -ENOMEM;

	while (!err && (word = strsep(&rest, ",")))
		if (*word)
			err = options_set(s->group, s->row, opts, word, e);
	return err;
}

static int take_variable(const struct setting *s, void *opts, struct err *e)
{
	char name[sizeof(VARIABLE_PREFIX) + NAME_BYTES] = VARIABLE_PREFIX;
	char *at = name + strlen(VARIABLE_PREFIX), shown[400];
	struct err why = { 0 };
	const char *value;
	int err;

	key_of(s->row, at);
	for (; *at; at++)
		*at = (char)toupper((unsigned char)*at);
	value = secure_getenv(name);
	if (!value)
		return 0;
	err = s->row->type == OPT_CUSTOM ? take_words(s, opts, value, &why)
					 : options_set(s->group, s->row, opts, value, &why);
	return err != -PYE_EUSAGE
		       ? err
		       : err_set(e, err, "the variable %s: %s", name,
				 text_escape(shown, sizeof(shown), why.what, strlen(why.what)));
}

static int take_environment(const struct config *c, void *opts, struct err *e)
{
	int err = 0;

	for (const struct opt_group *g = c->command->groups; g->rows; g++)
		for (const struct opt_row *row = g->rows; row->name && !err; row++)
			if (is_setting(row))
				err = take_variable(&(struct setting){ g, row }, opts, e);
	return err;
}

/* --- all of them --- */

/* What goes before the file. */
static int take_rest(const struct config *c, void *opts, struct err *e)
{
	struct opt_rest rest;
	int err = take_environment(c, opts, e);

	return err ? err : options_over(c->command, c->argc, c->argv, opts, &rest);
}

/* Whether it is the file that has a value that cannot be: all is well without it. */
static bool is_good_without(const struct config *c)
{
	auto_free void *opts = calloc(1, c->size);
	struct err e = { 0 };
	const char *name;
	int err = opts ? options_defaults(c->command, opts) : -ENOMEM;

	err = err ? err : take_rest(c, opts, &e);
	return !err && !c->check(opts, &name, &e);
}

static const struct yaml_node *find_key(const struct yaml *file, const char *key)
{
	const struct yaml_node *n = yaml__root(file)->first;

	while (n && strcmp(n->key, key) != 0)
		n = n->next;
	return n;
}

static int check_all(const struct config *c, const char *path, const struct yaml *file,
		     const void *opts, struct err *e)
{
	struct err why = { 0 }, line = { 0 };
	const struct yaml_node *node = NULL;
	const char *name = "";
	char key[NAME_BYTES];
	int err = c->check(opts, &name, &why);

	if (!err)
		return 0;
	key_of(&(struct opt_row){ .name = name }, key);
	if (path && is_good_without(c))
		node = find_key(file, key);
	if (!node)
		return err_set(e, err, "--%s: %.300s", name, why.what);
	yaml_refuse(node, &line, "%.60s: %.300s", key, why.what);
	return refuse_file(c, path, &line, e);
}

int config_load(const struct config *c, const char *path, void *opts, struct yaml **file,
		struct err *e)
{
	auto_fn(yaml__freep) struct yaml *read = NULL;
	int err = options_defaults(c->command, opts);

	if (!err && path)
		err = take_file(c, path, opts, &read, e);
	err = err ? err : take_rest(c, opts, e);
	err = err ? err : check_all(c, path, read, opts, e);
	if (!err)
		*file = take_ptr(read);
	return err;
}
