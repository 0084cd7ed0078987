// SPDX-License-Identifier: Apache-2.0
#include "import/pprof_names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SHORT_BYTES = 24
};

int pprof_names__init(struct pprof_names *n, struct err *e)
{
	*n = (struct pprof_names){ .e = e };
	n->text_cap = 65536;
	n->text_len = sizeof(SINK_OTHER);
	n->text = malloc(n->text_cap);
	if (!n->text)
		return -ENOMEM;
	memcpy(n->text, SINK_OTHER, sizeof(SINK_OTHER));
	return 0;
}

void pprof_names__done(struct pprof_names *n)
{
	free(n->text);
	free(n->string_at);
	free(n->functions);
	free(n->lines);
	free(n->line_ids);
	free(n->locations);
	idmap__done(&n->function_of.map);
	idmap__done(&n->location_of.map);
}

static int set_id(struct pprof_ids *ids, uint64_t id, uint32_t index)
{
	int err = 0;

	if (!ids->scattered && ids->cnt == index && id == (uint64_t)index + 1) {
		ids->cnt++;
		return 0;
	}
	for (uint32_t i = 0; !ids->scattered && i < ids->cnt && !err; i++)
		err = idmap__set(&ids->map, (uint64_t)i + 1, i);
	ids->scattered = true;
	return err ? err : idmap__set(&ids->map, id, index);
}

static uint32_t find_id(const struct pprof_ids *ids, uint64_t id)
{
	if (ids->scattered)
		return idmap__find(&ids->map, id);
	return id && id <= ids->cnt ? (uint32_t)id - 1 : IDMAP_NONE;
}

static int too_many(struct pprof_names *n, const char *what)
{
	return err_set(n->e, -PYE_EFORMAT, "the profile has more %s than pyebpf reads", what);
}

static int grow(struct pprof_names *n, void *array, uint32_t *cap, uint32_t cnt, size_t size,
		const char *what)
{
	uint32_t more = *cap ? *cap * 2 : 256;
	void *grown;

	if (cnt < *cap)
		return 0;
	if (cnt >= PPROF_PARTS_MAX)
		return too_many(n, what);
	grown = reallocarray(*(void **)array, more, size);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*cap = more;
	return 0;
}

int pprof_names__string(struct pprof_names *n, const void *s, uint64_t len)
{
	size_t cap = n->text_cap;
	char *grown;
	int err = grow(n, &n->string_at, &n->string_cap, n->string_cnt, sizeof(*n->string_at),
		       "strings");

	if (err)
		return err;
	if (len > SINK_TEXT_MAX)
		len = SINK_TEXT_MAX;
	if (n->text_len + len >= PPROF_TEXT_MAX &&
	    (len > SHORT_BYTES || n->text_len + len >= PPROF_SHORT_MAX)) {
		n->string_at[n->string_cnt++] = 0;
		return 0;
	}
	while (cap <= n->text_len + len)
		cap *= 2;
	if (cap != n->text_cap) {
		grown = realloc(n->text, cap);
		if (!grown)
			return -ENOMEM;
		n->text = grown;
		n->text_cap = cap;
	}
	n->string_at[n->string_cnt++] = (uint32_t)n->text_len;
	for (size_t i = 0; i < len; i++) {
		char c = ((const char *)s)[i];

		n->text[n->text_len++] = c ? c : '?';
	}
	n->text[n->text_len++] = '\0';
	return 0;
}

const char *pprof_names__text(const struct pprof_names *n, uint64_t string)
{
	return string < n->string_cnt ? n->text + n->string_at[string] : "";
}

static int add_function(struct pprof_names *n, const struct pprof_function *f)
{
	int err = grow(n, &n->functions, &n->function_cap, n->function_cnt, sizeof(*n->functions),
		       "functions");

	if (err)
		return err;
	n->functions[n->function_cnt++] = *f;
	return 0;
}

int pprof_names__function(struct pprof_names *n, uint64_t id, const struct pprof_function *f)
{
	int err = add_function(n, f);

	return err ? err : set_id(&n->function_of, id, n->function_cnt - 1);
}

int pprof_names__line(struct pprof_names *n, uint64_t function_id, uint64_t line)
{
	int err = grow(n, &n->lines, &n->line_cap, n->line_cnt, sizeof(*n->lines), "lines");

	err = err ? err
		  : grow(n, &n->line_ids, &n->line_id_cap, n->line_cnt, sizeof(*n->line_ids),
			 "lines");
	if (err)
		return err;
	n->line_ids[n->line_cnt] = function_id;
	n->lines[n->line_cnt++].line = line <= INT32_MAX ? (uint32_t)line : 0;
	return 0;
}

int pprof_names__location(struct pprof_names *n, uint64_t id, uint32_t first, uint64_t address)
{
	int err = grow(n, &n->locations, &n->location_cap, n->location_cnt, sizeof(*n->locations),
		       "locations");

	if (err)
		return err;
	/* one without symbols is a function of its own */
	if (n->line_cnt == first) {
		err = add_function(n,
				   &(struct pprof_function){ .address = address ? address : id });
		err = err ? err : pprof_names__line(n, UINT64_MAX, 0);
		if (err)
			return err;
		n->lines[first].function = n->function_cnt - 1;
	}
	n->locations[n->location_cnt] =
		(struct pprof_location){ .first_line = first, .line_cnt = n->line_cnt - first };
	n->location_cnt++;
	return set_id(&n->location_of, id, n->location_cnt - 1);
}

int pprof_names__close(struct pprof_names *n)
{
	for (uint32_t i = 0; i < n->line_cnt; i++) {
		if (n->line_ids[i] == UINT64_MAX)
			continue;
		n->lines[i].function = find_id(&n->function_of, n->line_ids[i]);
		if (n->lines[i].function == IDMAP_NONE)
			return err_set(n->e, -PYE_EFORMAT,
				       "the pprof data are damaged: a location is in function "
				       "%" PRIu64 ", which there is not",
				       n->line_ids[i]);
	}
	free(n->line_ids);
	n->line_ids = NULL;
	n->line_id_cap = 0;
	return 0;
}

int pprof_names__find(struct pprof_names *n, uint64_t id, struct pprof_location **out)
{
	uint32_t at = find_id(&n->location_of, id);

	if (at == IDMAP_NONE)
		return err_set(n->e, -PYE_EFORMAT,
			       "the pprof data are damaged: a sample is at location %" PRIu64
			       ", which there is not",
			       id);
	*out = &n->locations[at];
	return 0;
}

int pprof_names__describe(const struct pprof_names *n, struct sink *k, uint32_t function,
			  uint32_t *name, uint32_t *file)
{
	const struct pprof_function *f = &n->functions[function];
	const char *text = pprof_names__text(n, f->name), *path = pprof_names__text(n, f->file);
	char address[32];
	int err;

	if (f->address) {
		snprintf(address, sizeof(address), "0x%" PRIx64, f->address);
		text = address;
	}
	err = sink__text(k, text, strlen(text), name);
	return err ? err : sink__text(k, path, strlen(path), file);
}
