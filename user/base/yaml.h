/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML file as a tree: maps, lists and texts, each with the line that it begins at. What settings need and no
 * more: one document, no anchors, no aliases and no tags, keys are texts and stand once in a map. Bounded in
 * depth, nodes and bytes, as a file can come from anywhere.
 */
#ifndef PYEBPF_BASE_YAML_H
#define PYEBPF_BASE_YAML_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum yaml_kind {
	YAML_TEXT,
	YAML_LIST,
	YAML_MAP
};

struct yaml_node {
	enum yaml_kind kind;
	uint32_t line; /* from 1 on; of its key in a map */
	const char *key; /* in a map; NULL in a list */
	const char *text; /* of YAML_TEXT; "" when it is empty; NULL for the others */
	const struct yaml_node *first,
		*next; /* what it holds; what comes after it where it is held */
};

struct yaml;

/**
 * yaml__parse - read a document
 * @text: borrowed until this returns
 *
 * Return: 0; -PYE_EUSAGE with a sentence that begins "line N: "; -ENOMEM.
 */
int yaml__parse(struct yaml **out, const char *text, size_t len, struct err *e);

/* yaml__read - the same of a file of at most 1 MiB. -PYE_EUSAGE with a sentence without its name, too. */
int yaml__read(struct yaml **out, const char *path, struct err *e);

/* yaml__free - and all nodes with it; NULL is fine. */
void yaml__free(struct yaml *y);

static inline void yaml__freep(struct yaml **y)
{
	yaml__free(*y);
}

/* yaml__root - a map; an empty document is an empty one. Borrowed. */
const struct yaml_node *yaml__root(const struct yaml *y);

/* yaml_refuse - -PYE_EUSAGE with the sentence "line N: ..." in @e. */
int yaml_refuse(const struct yaml_node *at, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* yaml_text - the text of a node that has to be one; NULL with the sentence in @e. */
const char *yaml_text(const struct yaml_node *node, struct err *e);

#endif
