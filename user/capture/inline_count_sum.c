// SPDX-License-Identifier: Apache-2.0
#include "capture/inline_count_sum.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"

struct inline_count_sum {
	struct strpool strings, func_keys, node_keys;
	struct inline_count_func *funcs; /* beside func_keys, from its number 1 on */
	struct inline_count_node *nodes; /* the same of node_keys */
	uint32_t func_cnt, func_cap, node_cnt, node_cap;
	uint64_t lost, ticks_per_second;
};

int inline_count_sum__new(struct inline_count_sum **out)
{
	struct inline_count_sum *s = calloc(1, sizeof(*s));
	int err = s ? strpool__init(&s->strings) : -ENOMEM;

	err = err ? err : strpool__init(&s->func_keys);
	err = err ? err : strpool__init(&s->node_keys);
	if (err) {
		inline_count_sum__free(s);
		return err;
	}
	*out = s;
	return 0;
}

void inline_count_sum__free(struct inline_count_sum *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->func_cnt; i++)
		free(s->funcs[i].spans);
	free(s->funcs);
	free(s->nodes);
	strpool__done(&s->strings);
	strpool__done(&s->func_keys);
	strpool__done(&s->node_keys);
	free(s);
}

static int copy_text(struct inline_count_sum *s, const struct strpool *from, uint32_t id,
		     uint32_t *out)
{
	const char *text = strpool__get(from, id);

	return strpool__add(&s->strings, text, strlen(text), out);
}

static bool find_text(const struct inline_count_sum *s, const struct strpool *from, uint32_t id,
		      uint32_t *out)
{
	const char *text = strpool__get(from, id);

	return strpool__find(&s->strings, text, strlen(text), out);
}

static bool is_known(const struct inline_count_sum *s, const struct strpool *strings,
		     const struct inline_count_func *f)
{
	uint32_t key[4] = { 0, 0, 0, f->line }, id;

	return find_text(s, strings, f->file, &key[0]) && find_text(s, strings, f->name, &key[1]) &&
	       find_text(s, strings, f->qualname, &key[2]) &&
	       strpool__find(&s->func_keys, (const char *)key, sizeof(key), &id);
}

/* Its texts are ours. */
static int add_key(struct inline_count_sum *s, const struct inline_count_func *mine,
		   uint32_t *index)
{
	const uint32_t key[4] = { mine->file, mine->name, mine->qualname, mine->line };
	uint32_t id = 0;
	int err = GROW(s->funcs, s->func_cap, s->func_cnt);

	err = err ? err : strpool__add(&s->func_keys, (const char *)key, sizeof(key), &id);
	if (err)
		return err;
	*index = id - 1;
	if (*index == s->func_cnt)
		s->funcs[s->func_cnt++] = *mine;
	return 0;
}

static int more_funcs(struct inline_count_sum *s, uint32_t *index)
{
	struct inline_count_func mine = { 0 };
	int err =
		strpool__add(&s->strings, INLINE_COUNT_MORE, strlen(INLINE_COUNT_MORE), &mine.name);

	mine.qualname = mine.name;
	return err ? err : add_key(s, &mine, index);
}

static int find_func(struct inline_count_sum *s, const struct strpool *strings,
		     const struct inline_count_func *f, uint32_t *index)
{
	struct inline_count_func mine = { .line = f->line };
	int err;

	if (s->func_cnt >= INLINE_COUNT_SUM_FUNCS && !is_known(s, strings, f))
		return more_funcs(s, index);
	err = copy_text(s, strings, f->file, &mine.file);
	err = err ? err : copy_text(s, strings, f->name, &mine.name);
	err = err ? err : copy_text(s, strings, f->qualname, &mine.qualname);
	return err ? err : add_key(s, &mine, index);
}

static int add_func(struct inline_count_sum *s, const struct strpool *strings,
		    const struct inline_count_func *f, uint32_t *index)
{
	struct inline_count_func *to;
	int err = find_func(s, strings, f, index);

	if (err)
		return err;
	to = &s->funcs[*index];
	to->calls += f->calls;
	to->resumes += f->resumes;
	to->roomless |= f->roomless;
	if (!f->spans)
		return 0;
	to->spans = to->spans ? to->spans : calloc(IL_SPAN_BUCKETS, sizeof(*to->spans));
	for (uint32_t i = 0; to->spans && i < IL_SPAN_BUCKETS; i++)
		to->spans[i] += f->spans[i];
	return to->spans ? 0 : -ENOMEM;
}

static int add_node(struct inline_count_sum *s, const struct inline_count_node *n, uint32_t caller,
		    uint32_t func, uint32_t *index)
{
	uint32_t key[2] = { caller, func }, id = 0;
	struct inline_count_node *to;
	int err = GROW(s->nodes, s->node_cap, s->node_cnt);

	if (!err && s->node_cnt >= INLINE_COUNT_SUM_NODES &&
	    !strpool__find(&s->node_keys, (const char *)key, sizeof(key), &id)) {
		err = more_funcs(s, &func);
		caller = INLINE_COUNT_NONE;
		memcpy(key, (uint32_t[2]){ caller, func }, sizeof(key));
	}
	err = err ? err : strpool__add(&s->node_keys, (const char *)key, sizeof(key), &id);
	if (err)
		return err;
	*index = id - 1;
	if (*index == s->node_cnt)
		s->nodes[s->node_cnt++] =
			(struct inline_count_node){ .caller = caller, .func = func };
	to = &s->nodes[*index];
	to->calls += n->calls;
	to->resumes += n->resumes;
	to->self_ns += n->self_ns;
	return 0;
}

int inline_count_sum__add(struct inline_count_sum *s, const struct inline_count_view *view)
{
	auto_free uint32_t *funcs = calloc(view->func_cnt + 1ul, sizeof(*funcs));
	auto_free uint32_t *nodes = calloc(view->node_cnt + 1ul, sizeof(*nodes));
	int err = funcs && nodes ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < view->func_cnt; i++)
		err = add_func(s, view->strings, &view->funcs[i], &funcs[i]);
	for (uint32_t i = 0; !err && i < view->node_cnt; i++) {
		const struct inline_count_node *n = &view->nodes[i];

		err = add_node(
			s, n, n->caller == INLINE_COUNT_NONE ? INLINE_COUNT_NONE : nodes[n->caller],
			funcs[n->func], &nodes[i]);
	}
	s->lost += view->lost;
	s->ticks_per_second = view->ticks_per_second;
	return err;
}

void inline_count_sum__view(const struct inline_count_sum *s, struct inline_count_view *view)
{
	*view = (struct inline_count_view){ .strings = &s->strings,
					    .funcs = s->funcs,
					    .nodes = s->nodes,
					    .func_cnt = s->func_cnt,
					    .node_cnt = s->node_cnt,
					    .lost = s->lost,
					    .ticks_per_second = s->ticks_per_second };
}
