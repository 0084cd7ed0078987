/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that are JSON. */
#ifndef PYEBPF_IMPORT_JSON_H
#define PYEBPF_IMPORT_JSON_H

#include "base/json_read.h"
#include "import/importers.h"

/* json_read - read all of @s. Return: 0, JSON_DONE, -PYE_EFORMAT with a sentence, or an error. */
int json_read(struct source *s, struct json_reader *r);

/* json_choose - the importer of an input in JSON, by its first members. */
int json_choose(struct source *s, const struct importer **out);

#endif
