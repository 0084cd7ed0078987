// SPDX-License-Identifier: Apache-2.0
#include "agent/relabel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pods.h"
#include "base/cleanup.h"
#include "base/regex.h"
#include "store/store.h"

enum {
	RULES_MAX = 64,
	SOURCES_MAX = 8,
	GROUPS_MAX = 10,
	JOINED_BYTES = 2048
};

enum action {
	REPLACE,
	KEEP,
	DROP,
	LABELDROP,
	LABELKEEP,
	ACTION_CNT
};

static const char *const action_names[ACTION_CNT] = { "replace", "keep", "drop", "labeldrop",
						      "labelkeep" };

/* Texts are the file's, which may be gone before the rules: they are copies. */
struct rule {
	char *sources[SOURCES_MAX];
	uint32_t source_cnt;
	char *separator, *target, *replacement;
	enum action action;
	regex_t regex;
	bool has_regex;
};

struct relabel {
	struct rule rules[RULES_MAX];
	uint32_t cnt;
};

void relabel__free(struct relabel *r)
{
	for (uint32_t i = 0; r && i < r->cnt; i++) {
		struct rule *rule = &r->rules[i];

		for (uint32_t n = 0; n < rule->source_cnt; n++)
			free(rule->sources[n]);
		free(rule->separator);
		free(rule->target);
		free(rule->replacement);
		if (rule->has_regex)
			regfree(&rule->regex);
	}
	free(r);
}

static void relabel__freep(struct relabel **r)
{
	relabel__free(*r);
}

/* --- reading --- */

static int set_text(char **out, const char *text)
{
	*out = strdup(text);
	return *out ? 0 : -ENOMEM;
}

static int read_sources(struct rule *rule, const struct yaml_node *list, struct err *e)
{
	if (list->kind != YAML_LIST)
		return yaml_refuse(list, e, "source_labels wants a list: [a, b]");
	for (const struct yaml_node *n = list->first; n; n = n->next) {
		const char *name = yaml_text(n, e);

		if (!name)
			return -PYE_EUSAGE;
		if (!label_is_name(name))
			return yaml_refuse(n, e, "no label can be called %.60s", name);
		if (rule->source_cnt == SOURCES_MAX)
			return yaml_refuse(n, e, "more than %d source_labels", SOURCES_MAX);
		if (set_text(&rule->sources[rule->source_cnt], name))
			return -ENOMEM;
		rule->source_cnt++;
	}
	return 0;
}

static int read_regex(struct rule *rule, const struct yaml_node *n, const char *text, struct err *e)
{
	char why[128];
	int err = regex_compile(&rule->regex, text, 0, why, sizeof(why));

	rule->has_regex = !err;
	return err == -EINVAL ? yaml_refuse(n, e, "the expression: %s", why) : err;
}

static int read_action(struct rule *rule, const struct yaml_node *n, const char *text,
		       struct err *e)
{
	for (int i = 0; i < ACTION_CNT; i++)
		if (!strcmp(text, action_names[i])) {
			rule->action = (enum action)i;
			return 0;
		}
	return yaml_refuse(n, e, "want replace, keep, drop, labeldrop or labelkeep, not %.60s",
			   text);
}

static int read_member(struct rule *rule, const struct yaml_node *n, struct err *e)
{
	const char *text;

	if (!strcmp(n->key, "source_labels"))
		return read_sources(rule, n, e);
	text = yaml_text(n, e);
	if (!text)
		return -PYE_EUSAGE;
	if (!strcmp(n->key, "separator"))
		return set_text(&rule->separator, text);
	if (!strcmp(n->key, "replacement"))
		return set_text(&rule->replacement, text);
	if (!strcmp(n->key, "regex"))
		return read_regex(rule, n, text, e);
	if (!strcmp(n->key, "action"))
		return read_action(rule, n, text, e);
	if (strcmp(n->key, "target_label") != 0)
		return yaml_refuse(n, e, "%.60s is no part of a rule", n->key);
	if (!label_is_name(text))
		return yaml_refuse(n, e, "no label can be called %.60s", text);
	return set_text(&rule->target, text);
}

/* What is not said is as Prometheus has it. */
static int complete(struct rule *rule, const struct yaml_node *n, struct err *e)
{
	int err = 0;

	if (rule->action == REPLACE && !rule->target)
		return yaml_refuse(n, e, "replace wants a target_label");
	if ((rule->action == KEEP || rule->action == DROP) && !rule->source_cnt)
		return yaml_refuse(n, e, "%s wants source_labels", action_names[rule->action]);
	if (!rule->has_regex && rule->action != REPLACE)
		return yaml_refuse(n, e, "%s wants a regex", action_names[rule->action]);
	if (!rule->separator)
		err = set_text(&rule->separator, ";");
	if (!err && !rule->replacement)
		err = set_text(&rule->replacement, "$1");
	return err || rule->has_regex ? err : read_regex(rule, n, "(.*)", e);
}

int relabel__read(struct relabel **out, const struct yaml_node *list, struct err *e)
{
	auto_fn(relabel__freep) struct relabel *r = calloc(1, sizeof(*r));
	int err = 0;

	if (!r)
		return -ENOMEM;
	if (list->kind != YAML_LIST)
		return yaml_refuse(list, e, "%.60s wants a list of rules", list->key);
	for (const struct yaml_node *n = list->first; n && !err; n = n->next) {
		if (n->kind != YAML_MAP)
			return yaml_refuse(n, e, "a rule is written {regex: ..., action: ...}");
		if (r->cnt == RULES_MAX)
			return yaml_refuse(n, e, "more than %d rules", RULES_MAX);
		r->cnt++;
		for (const struct yaml_node *m = n->first; m && !err; m = m->next)
			err = read_member(&r->rules[r->cnt - 1], m, e);
		err = err ? err : complete(&r->rules[r->cnt - 1], n, e);
	}
	if (!err)
		*out = take_ptr(r);
	return err;
}

/* --- use --- */

struct text {
	char at[JOINED_BYTES];
	size_t len;
};

static void put(struct text *t, const char *s, size_t len)
{
	size_t room = sizeof(t->at) - 1 - t->len;

	len = len < room ? len : room;
	memcpy(t->at + t->len, s, len);
	t->len += len;
	t->at[t->len] = '\0';
}

static void join(const struct rule *rule, const struct service *s, struct text *out)
{
	out->len = 0;
	out->at[0] = '\0';
	for (uint32_t i = 0; i < rule->source_cnt; i++) {
		const char *value = label_value(s->labels, s->label_cnt, rule->sources[i]);

		if (i)
			put(out, rule->separator, strlen(rule->separator));
		put(out, value, strlen(value));
	}
}

/* The number of a group at "$": bytes that it takes, 0: none is meant. */
static size_t read_group_number(const char *at, int *number)
{
	bool brace = at[1] == '{';
	const char *digit = at + 1 + brace;

	if (*digit < '0' || *digit > '9' || (brace && digit[1] != '}'))
		return 0;
	*number = *digit - '0';
	return (size_t)(digit + 1 + brace - at);
}

static void expand(const char *replacement, const char *value, const regmatch_t *groups,
		   struct text *out)
{
	out->len = 0;
	out->at[0] = '\0';
	while (*replacement) {
		size_t plain = strcspn(replacement, "$"), took;
		int number = 0;

		put(out, replacement, plain);
		replacement += plain;
		if (!*replacement)
			break;
		took = read_group_number(replacement, &number);
		if (!took) {
			put(out, "$", 1);
			replacement += replacement[1] == '$' ? 2 : 1;
			continue;
		}
		/* group 1 is the whole, by regex_compile() */
		number = number ? number + 1 : 0;
		if (number <= GROUPS_MAX && groups[number].rm_so >= 0)
			put(out, value + groups[number].rm_so,
			    (size_t)(groups[number].rm_eo - groups[number].rm_so));
		replacement += took;
	}
}

/* Takes labels away whose names match (or, @keep, do not). The name of the service stays. */
static void by_name(const struct rule *rule, struct service *s, bool keep)
{
	for (uint32_t i = s->label_cnt; i-- > 0;) {
		const char *name = s->labels[i].name;

		if (strcmp(name, STORE_SERVICE) != 0 &&
		    !regexec(&rule->regex, name, 0, NULL, 0) != keep)
			service_remove(s, i);
	}
}

static bool apply(const struct rule *rule, struct service *s)
{
	regmatch_t groups[GROUPS_MAX + 1];
	struct text value, made;
	bool matches;

	if (rule->action == LABELDROP || rule->action == LABELKEEP) {
		by_name(rule, s, rule->action == LABELKEEP);
		return true;
	}
	join(rule, s, &value);
	matches = !regexec(&rule->regex, value.at, GROUPS_MAX + 1, groups, 0);
	if (rule->action == KEEP)
		return matches;
	if (rule->action == DROP || !matches)
		return !matches || rule->action != DROP;
	expand(rule->replacement, value.at, groups, &made);
	service_set(s, rule->target, made.at, made.len);
	return true;
}

bool service_apply(const struct service_rules *rules, const struct service *from,
		   struct service *out)
{
	const char *name;

	service_copy(out, from);
	if (rules && rules->pods && !pods_label(rules->pods, out))
		return false;
	for (uint32_t i = 0; rules && rules->relabel && i < rules->relabel->cnt; i++)
		if (!apply(&rules->relabel->rules[i], out))
			return false;
	for (uint32_t i = out->label_cnt; i-- > 0;)
		if (!strncmp(out->labels[i].name, SERVICE_META, strlen(SERVICE_META)))
			service_remove(out, i);
	name = label_value(out->labels, out->label_cnt, STORE_SERVICE);
	if (!*name) {
		name = "unknown";
		service_set(out, STORE_SERVICE, name, strlen(name));
	}
	if (!rules)
		return true;
	return (!rules->include_cnt || glob_any(rules->include, rules->include_cnt, name)) &&
	       !glob_any(rules->exclude, rules->exclude_cnt, name);
}
