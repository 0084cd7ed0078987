// SPDX-License-Identifier: Apache-2.0
#include "base/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yaml.h>

#include "base/cleanup.h"
#include "base/text.h"

enum {
	FILE_BYTES = 1 << 20,
	NODES_MAX = 20000,
	DEPTH_MAX = 16
};

struct item {
	struct yaml_node node; /* first */
	struct item *made_before;
	char *key, *text;
};

struct yaml {
	struct item *last_made;
	unsigned int cnt;
	struct item *root;
};

struct reader {
	yaml_parser_t parser;
	struct yaml *y;
	struct err *e;
};

void yaml__free(struct yaml *y)
{
	struct item *before;

	if (!y)
		return;
	for (struct item *i = y->last_made; i; i = before) {
		before = i->made_before;
		free(i->key);
		free(i->text);
		free(i);
	}
	free(y);
}

const struct yaml_node *yaml__root(const struct yaml *y)
{
	return &y->root->node;
}

static int refuse_at(unsigned long line, struct err *e, const char *fmt, va_list ap)
{
	char text[400], shown[480];

	vsnprintf(text, sizeof(text), fmt, ap);
	return err_set(e, -PYE_EUSAGE, "line %lu: %s", line,
		       text_escape(shown, sizeof(shown), text, strlen(text)));
}

int yaml_refuse(const struct yaml_node *at, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = refuse_at(at->line, e, fmt, ap);
	va_end(ap);
	return err;
}

static int __attribute__((format(printf, 3, 4)))
refuse(struct reader *r, const yaml_mark_t *mark, const char *fmt, ...)
{
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = refuse_at(mark->line + 1, r->e, fmt, ap);
	va_end(ap);
	return err;
}

const char *yaml_text(const struct yaml_node *node, struct err *e)
{
	if (node->kind == YAML_TEXT)
		return node->text;
	yaml_refuse(node, e, "%.60s wants one value", node->key ? node->key : "an entry");
	return NULL;
}

static int next_event(struct reader *r, yaml_event_t *event)
{
	if (yaml_parser_parse(&r->parser, event))
		return 0;
	if (r->parser.error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	return refuse(r, &r->parser.problem_mark, "no YAML: %s",
		      r->parser.problem ? r->parser.problem : "unreadable");
}

static int new_item(struct reader *r, enum yaml_kind kind, const yaml_mark_t *mark,
		    struct item **out)
{
	struct item *i;

	if (r->y->cnt == NODES_MAX)
		return refuse(r, mark, "more than %d values", NODES_MAX);
	i = calloc(1, sizeof(*i));
	if (!i)
		return -ENOMEM;
	i->node.kind = kind;
	i->node.line = (uint32_t)mark->line + 1;
	i->made_before = r->y->last_made;
	r->y->last_made = i;
	r->y->cnt++;
	*out = i;
	return 0;
}

/* Text with a NUL in it would be read as less than it is. */
static int take_text(struct reader *r, const yaml_event_t *event, char **out)
{
	const char *text = (const char *)event->data.scalar.value;

	if (strlen(text) != event->data.scalar.length)
		return refuse(r, &event->start_mark, "a zero byte in a text");
	*out = strdup(text);
	return *out ? 0 : -ENOMEM;
}

static int read_node(struct reader *r, const yaml_event_t *event, unsigned int depth,
		     struct item **out);

static int check_key(struct reader *r, const struct item *map, const yaml_event_t *event)
{
	if (event->type != YAML_SCALAR_EVENT)
		return refuse(r, &event->start_mark, "a key has to be a text");
	for (const struct yaml_node *n = map->node.first; n; n = n->next)
		if (!strcmp(n->key, (const char *)event->data.scalar.value))
			return refuse(r, &event->start_mark, "%.60s a second time, after line %u",
				      n->key, n->line);
	return 0;
}

/* What a map or list holds, up to its end. @event: the first of it; deleted. */
static int read_entry(struct reader *r, struct item *of, yaml_event_t *event, unsigned int depth,
		      struct item **out)
{
	yaml_mark_t mark = event->start_mark;
	char *key = NULL;
	int err = 0;

	if (of->node.kind == YAML_MAP) {
		err = check_key(r, of, event);
		err = err ? err : take_text(r, event, &key);
		yaml_event_delete(event);
		err = err ? err : next_event(r, event);
		if (err) {
			free(key);
			return err;
		}
	}
	err = read_node(r, event, depth + 1, out);
	yaml_event_delete(event);
	if (err) {
		free(key);
		return err;
	}
	(*out)->key = key;
	(*out)->node.key = key;
	(*out)->node.line = (uint32_t)mark.line + 1;
	return 0;
}

static int read_entries(struct reader *r, struct item *of, unsigned int depth)
{
	const yaml_event_type_t end = of->node.kind == YAML_MAP ? YAML_MAPPING_END_EVENT
								: YAML_SEQUENCE_END_EVENT;
	const struct yaml_node **link = &of->node.first;
	int err;

	for (;;) {
		yaml_event_t event;
		struct item *entry = NULL;

		err = next_event(r, &event);
		if (err)
			return err;
		if (event.type == end) {
			yaml_event_delete(&event);
			return 0;
		}
		err = read_entry(r, of, &event, depth, &entry);
		if (err)
			return err;
		*link = &entry->node;
		link = &entry->node.next;
	}
}

static int read_scalar(struct reader *r, const yaml_event_t *event, struct item **out)
{
	int err = new_item(r, YAML_TEXT, &event->start_mark, out);

	err = err ? err : take_text(r, event, &(*out)->text);
	if (!err)
		(*out)->node.text = (*out)->text;
	return err;
}

static int read_node(struct reader *r, const yaml_event_t *event, unsigned int depth,
		     struct item **out)
{
	bool is_map = event->type == YAML_MAPPING_START_EVENT;
	int err;

	if (depth > DEPTH_MAX)
		return refuse(r, &event->start_mark, "nested more than %d deep", DEPTH_MAX);
	if (event->type == YAML_SCALAR_EVENT)
		return read_scalar(r, event, out);
	if (!is_map && event->type != YAML_SEQUENCE_START_EVENT)
		return refuse(r, &event->start_mark, "aliases (*name) are not known here");
	err = new_item(r, is_map ? YAML_MAP : YAML_LIST, &event->start_mark, out);
	return err ? err : read_entries(r, *out, depth);
}

/* An empty document has no node, or an empty text. */
static int read_root(struct reader *r, yaml_event_t *event)
{
	int err;

	if (event->type == YAML_STREAM_END_EVENT || event->type == YAML_DOCUMENT_END_EVENT)
		return new_item(r, YAML_MAP, &event->start_mark, &r->y->root);
	err = read_node(r, event, 0, &r->y->root);
	if (err || r->y->root->node.kind == YAML_MAP)
		return err;
	if (r->y->root->node.kind == YAML_LIST || *r->y->root->node.text)
		return refuse(r, &event->start_mark, "want names and values: \"name: value\"");
	return new_item(r, YAML_MAP, &event->start_mark, &r->y->root);
}

static int read_document(struct reader *r)
{
	bool has_root = false;
	int err = 0;

	for (bool more = true; more && !err;) {
		yaml_event_t event;

		err = next_event(r, &event);
		if (err)
			break;
		more = event.type != YAML_STREAM_END_EVENT;
		if (event.type == YAML_DOCUMENT_START_EVENT && has_root)
			err = refuse(r, &event.start_mark, "a second document");
		else if (!has_root && event.type != YAML_STREAM_START_EVENT &&
			 event.type != YAML_DOCUMENT_START_EVENT) {
			err = read_root(r, &event);
			has_root = true;
		}
		yaml_event_delete(&event);
	}
	return err;
}

int yaml__parse(struct yaml **out, const char *text, size_t len, struct err *e)
{
	auto_fn(yaml__freep) struct yaml *y = calloc(1, sizeof(*y));
	struct reader r = { .y = y, .e = e };
	int err;

	if (!y || !yaml_parser_initialize(&r.parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	err = read_document(&r);
	yaml_parser_delete(&r.parser);
	if (err)
		return err;
	*out = take_ptr(y);
	return 0;
}

int yaml__read(struct yaml **out, const char *path, struct err *e)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_free char *text = malloc(FILE_BYTES + 1);
	size_t len = 0;
	ssize_t n;

	if (!text)
		return -ENOMEM;
	if (fd < 0)
		return err_set(e, -PYE_EUSAGE, "cannot be read: %s", strerror(errno));
	while ((n = read(fd, text + len, FILE_BYTES + 1 - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		return err_set(e, -PYE_EUSAGE, "cannot be read: %s", strerror(errno));
	if (len > FILE_BYTES)
		return err_set(e, -PYE_EUSAGE, "has more than 1 MiB");
	return yaml__parse(out, text, len, e);
}
