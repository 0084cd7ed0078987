// SPDX-License-Identifier: Apache-2.0
#include "export/pprof_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"

enum {
	/* From so many uses on, a short id saves more than a neighbour that is like it. */
	MANY_USES = 64
};

void pprof_places__done(struct pprof_places *p)
{
	free(p->functions);
	free(p->locations);
	free(p->function_of);
	free(p->location_of);
	strpool__done(&p->keys);
	idmap__done(&p->ids);
	*p = (struct pprof_places){ 0 };
}

/* How many stacks that count are at, or above, each one; parents come before their children. */
static void count_uses(const struct agg_result *r, uint32_t *uses)
{
	for (uint32_t i = r->stack_cnt; i-- > 0;) {
		const struct agg_stack *s = &r->stacks[i];

		uses[i] += s->calls || s->self_ns;
		if (s->parent != AGG_NONE)
			uses[s->parent] += uses[i];
	}
}

static int add_function(struct pprof_places *p, const struct agg_result *r, uint32_t func)
{
	const struct agg_func *f = &r->funcs[func];
	const uint32_t key[4] = { f->qualname, f->file, f->line, f->name };
	uint32_t id;
	int err;

	if (p->function_of[func])
		return 0;
	err = strpool__add(&p->keys, (const char *)key, sizeof(key), &id);
	if (err)
		return err;
	p->function_of[func] = id;
	if (id <= p->function_cnt)
		return 0;
	if (GROW(p->functions, p->function_cap, p->function_cnt))
		return -ENOMEM;
	p->functions[p->function_cnt++] = (struct pprof_function){
		.func = func, .file = f->file, .line = f->line, .name = f->qualname, .made = id
	};
	return 0;
}

uint32_t pprof_places__location(struct pprof_places *p, uint32_t function, uint32_t line)
{
	uint64_t key = (uint64_t)function << 32 | line;
	uint32_t id = idmap__find(&p->ids, key);

	if (id != IDMAP_NONE)
		return id;
	id = p->location_cnt + 1;
	if (GROW(p->locations, p->location_cap, p->location_cnt) || idmap__set(&p->ids, key, id))
		return 0;
	p->locations[p->location_cnt++] =
		(struct pprof_location){ .function = function, .line = line, .made = id };
	return id;
}

static int find_functions(struct pprof_places *p, const struct agg_result *r)
{
	int err = 0;

	for (uint32_t i = 0; i < r->stack_cnt && !err; i++) {
		if (p->location_of[i] && r->stacks[i].func != AGG_NONE)
			err = add_function(p, r, r->stacks[i].func);
	}
	return err;
}

/* Of each stack; in place of the number of its uses. */
static int find_locations(struct pprof_places *p, const struct agg_result *r)
{
	for (uint32_t i = 0; i < r->stack_cnt; i++) {
		uint32_t func = r->stacks[i].func, uses = p->location_of[i], line, id;

		p->location_of[i] = 0;
		if (!uses || func == AGG_NONE)
			continue;
		line = r->stack_lines && r->stack_lines[i] ? r->stack_lines[i]
							   : r->funcs[func].line;
		id = pprof_places__location(p, p->function_of[func], line);
		if (!id)
			return -ENOMEM;
		p->locations[id - 1].uses += uses;
		p->location_of[i] = id;
	}
	return 0;
}

static int order(uint32_t a, uint32_t b)
{
	return (a > b) - (a < b);
}

static int by_file(const void *one, const void *other)
{
	const struct pprof_function *a = one, *b = other;
	int by = order(a->file, b->file);

	by = by ? by : order(a->line, b->line);
	by = by ? by : order(a->name, b->name);
	return by ? by : order(a->made, b->made);
}

static int by_use(const void *one, const void *other)
{
	const struct pprof_location *a = one, *b = other;
	uint32_t many_a = a->uses < MANY_USES ? 0 : a->uses;
	uint32_t many_b = b->uses < MANY_USES ? 0 : b->uses;
	int by = order(many_b, many_a);

	by = by ? by : order(a->function, b->function);
	return by ? by : order(a->line, b->line);
}

static int order_functions(struct pprof_places *p, const struct agg_result *r)
{
	auto_free uint32_t *id_of = calloc(p->function_cnt + 1ull, sizeof(*id_of));

	if (!id_of)
		return -ENOMEM;
	if (p->function_cnt)
		qsort(p->functions, p->function_cnt, sizeof(*p->functions), by_file);
	for (uint32_t i = 0; i < p->function_cnt; i++)
		id_of[p->functions[i].made] = i + 1;
	for (uint32_t i = 0; i < r->func_cnt; i++)
		p->function_of[i] = id_of[p->function_of[i]];
	return 0;
}

static int order_locations(struct pprof_places *p, const struct agg_result *r)
{
	auto_free uint32_t *id_of = calloc(p->location_cnt + 1ull, sizeof(*id_of));
	int err = 0;

	if (!id_of)
		return -ENOMEM;
	if (p->location_cnt)
		qsort(p->locations, p->location_cnt, sizeof(*p->locations), by_use);
	for (uint32_t i = 0; i < p->location_cnt && !err; i++) {
		const struct pprof_location *l = &p->locations[i];

		id_of[l->made] = i + 1;
		err = idmap__set(&p->ids, (uint64_t)l->function << 32 | l->line, i + 1);
	}
	for (uint32_t i = 0; i < r->stack_cnt; i++)
		p->location_of[i] = id_of[p->location_of[i]];
	return err;
}

int pprof_places__gather(struct pprof_places *p, const struct agg_result *r)
{
	int err = strpool__init(&p->keys);

	p->function_of = calloc(r->func_cnt + 1ull, sizeof(*p->function_of));
	p->location_of = calloc(r->stack_cnt + 1ull, sizeof(*p->location_of));
	if (!p->function_of || !p->location_of)
		return -ENOMEM;
	count_uses(r, p->location_of);
	err = err ? err : find_functions(p, r);
	err = err ? err : order_functions(p, r);
	err = err ? err : find_locations(p, r);
	return err ? err : order_locations(p, r);
}
