// SPDX-License-Identifier: Apache-2.0
#include "cmd/sinks.h"

#include <stdio.h>

int sinks_option(void *field, const char *arg, struct err *e)
{
	struct sink_spec spec;
	int err = sink_spec__parse(&spec, arg, e);

	return err ? err : sink_list__add(field, &spec, e);
}

static int read_sink(struct sink_list *list, const struct yaml_node *node, struct err *e)
{
	struct sink_spec spec;
	struct err why = { 0 };
	int err = 0;

	if (node->kind != YAML_MAP)
		return yaml_refuse(node, e, "a sink is a map with type and url");
	sink_spec_init(&spec);
	for (const struct yaml_node *n = node->first; n; n = n->next) {
		const char *text = yaml_text(n, e);

		if (!text)
			return -PYE_EUSAGE;
		err = sink_spec__set(&spec, n->key, text, &why);
		if (err)
			return yaml_refuse(n, e, "%s", why.what);
	}
	err = sink_spec__check(&spec, &why);
	err = err ? err : sink_list__add(list, &spec, &why);
	return err ? yaml_refuse(node, e, "%s", why.what) : 0;
}

int sinks_read(struct sink_list *list, const struct yaml_node *node, struct err *e)
{
	int err = 0;

	if (node->kind != YAML_LIST)
		return yaml_refuse(node, e, "sinks is a list");
	for (const struct yaml_node *n = node->first; n && !err; n = n->next)
		err = read_sink(list, n, e);
	return err;
}
