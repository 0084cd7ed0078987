// SPDX-License-Identifier: Apache-2.0
#include "capture/inline_count_dead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"

#define NODES_MAX  (1u << 20) /* different paths; what comes then is counted as lost */
#define ENOUGH_MIN 64u
#define ENOUGH_MAX 8192u

enum fate {
	UNKNOWN,
	STAYS,
	FREED, /* its function was, or a caller's */
	IN_USE /* so is this one, but something is counted below it that did not end in sight */
};

struct look {
	struct count_dead *d;
	struct il_node *nodes;
	const struct idmap *ids;
	uint8_t *fate; /* by node */
	uint32_t *number; /* in d->nodes, + 1 */
	uint32_t used, taken;
};

int count_dead__init(struct count_dead *d)
{
	d->enough = ENOUGH_MIN;
	return strpool__init(&d->keys);
}

void count_dead__done(struct count_dead *d)
{
	strpool__done(&d->keys);
	idmap__done(&d->freed);
	free(d->nodes);
}

int count_dead__add(struct count_dead *d, uint32_t id)
{
	return idmap__set(&d->freed, id, 1);
}

static uint64_t key_of(const struct look *l, uint32_t at)
{
	return __atomic_load_n(&l->nodes[at].key, __ATOMIC_RELAXED);
}

/* From a node up to one that is known, or to the outermost one: how many, which. @at: where it ended */
static uint32_t path_up(const struct look *l, uint32_t *at, uint32_t *path)
{
	uint32_t depth = 0;

	while (*at && *at < IL_NODE_CNT && l->fate[*at] == UNKNOWN && depth < COUNT_PATH_MAX) {
		uint64_t key = key_of(l, *at);

		if (!key)
			break;
		path[depth++] = *at;
		*at = (uint32_t)(key >> 32);
	}
	return depth;
}

static void judge(struct look *l)
{
	for (uint32_t i = 1; i < IL_NODE_CNT; i++) {
		uint32_t path[COUNT_PATH_MAX], at = i, depth = path_up(l, &at, path);
		uint8_t fate = at && at < IL_NODE_CNT && l->fate[at] == FREED ? FREED : STAYS;

		l->used += key_of(l, i) != 0;
		while (depth-- > 0) {
			uint32_t func = (uint32_t)key_of(l, path[depth]);

			if (idmap__find(&l->d->freed, func) != IDMAP_NONE)
				fate = FREED;
			l->fate[path[depth]] = fate;
		}
	}
}

static void keep_what_runs(struct look *l, const struct il_active *running)
{
	for (uint32_t i = 0; i < IL_ACTIVE_CNT; i++) {
		uint32_t at = __atomic_load_n(&running[i].node, __ATOMIC_RELAXED);

		if (!__atomic_load_n(&running[i].frame, __ATOMIC_ACQUIRE))
			continue;
		while (at < IL_NODE_CNT && l->fate[at] == FREED) {
			l->fate[at] = IN_USE;
			at = (uint32_t)(key_of(l, at) >> 32);
		}
	}
}

/* The number + 1 of a path that is one longer than @caller's, 0: there are too many. */
static int add_path(struct count_dead *d, uint32_t caller, uint32_t func, uint32_t *number)
{
	const uint32_t key[2] = { caller ? caller - 1 : INLINE_COUNT_NONE, func };
	int err;

	if (strpool__find(&d->keys, (const char *)key, sizeof(key), number))
		return 0;
	*number = 0;
	if (d->cnt >= NODES_MAX)
		return 0;
	err = GROW(d->nodes, d->cap, d->cnt);
	err = err ? err : strpool__add(&d->keys, (const char *)key, sizeof(key), number);
	if (!err)
		d->nodes[d->cnt++] = (struct inline_count_node){ .caller = key[0], .func = func };
	return err;
}

/* Callers first, those that stay too. Of no function that has a name here: as if there were too many. */
static int number_of(struct look *l, uint32_t node, uint32_t *number)
{
	uint32_t path[COUNT_PATH_MAX], depth = 0, at = node;
	int err = 0;

	while (at && at < IL_NODE_CNT && !l->number[at] && depth < COUNT_PATH_MAX) {
		path[depth++] = at;
		at = (uint32_t)(key_of(l, at) >> 32);
	}
	*number = at && at < IL_NODE_CNT ? l->number[at] : 0;
	for (bool outermost = !*number; !err && depth-- > 0; outermost = false) {
		uint32_t func = idmap__find(l->ids, (uint32_t)key_of(l, path[depth]));

		if (func == IDMAP_NONE || (!*number && !outermost)) {
			*number = 0;
			break;
		}
		err = add_path(l->d, *number, func, number);
		l->number[path[depth]] = *number;
	}
	return err;
}

/* The target neither finds it any more, nor writes there until it takes the place for another one. */
static int take(struct look *l, uint32_t at)
{
	struct il_node *from = &l->nodes[at];
	uint32_t number;
	int err = number_of(l, at, &number);

	if (err)
		return err;
	if (number) {
		struct inline_count_node *to = &l->d->nodes[number - 1];

		to->calls += from->calls;
		to->resumes += from->resumes;
		to->self_ns += from->self;
	} else {
		l->d->lost += from->calls + from->resumes;
	}
	from->calls = from->resumes = from->self = 0;
	l->taken++;
	return 0;
}

static void set_keys(struct look *l, uint64_t key)
{
	for (uint32_t i = 1; i < IL_NODE_CNT; i++)
		if (l->fate[i] == FREED)
			__atomic_store_n(&l->nodes[i].key, key, __ATOMIC_RELEASE);
}

/* Their callers' keys are read until all are summed up. None is free before all are nobody's: the next one in a caller's place would
 * find what that had called. */
static int take_all(struct look *l)
{
	int err = 0;

	for (uint32_t i = 1; !err && i < IL_NODE_CNT; i++)
		if (l->fate[i] == FREED)
			err = take(l, i);
	if (err)
		return err;
	set_keys(l, UINT64_MAX);
	set_keys(l, 0);
	return 0;
}

/* Numbers of functions are never given again: those whose nodes are gone need no memory. */
static int keep_used(struct look *l)
{
	struct idmap kept = { 0 };
	int err = 0;

	for (uint32_t i = 1; !err && i < IL_NODE_CNT; i++) {
		uint32_t func = (uint32_t)key_of(l, i);

		if (l->fate[i] == IN_USE && idmap__find(&l->d->freed, func) != IDMAP_NONE)
			err = idmap__set(&kept, func, 1);
	}
	if (err) {
		idmap__done(&kept);
		return err;
	}
	idmap__done(&l->d->freed);
	l->d->freed = kept;
	return 0;
}

/* Before what is free now can be full. */
static uint32_t enough_after(const struct look *l, uint32_t freed)
{
	uint32_t each = 1 + l->taken / (freed ? freed : 1);
	uint32_t room = (IL_NODE_CNT - (l->used - l->taken)) / 4 / each;

	return room < ENOUGH_MIN ? ENOUGH_MIN : room > ENOUGH_MAX ? ENOUGH_MAX : room;
}

int count_dead__take(struct count_dead *d, struct il_node *nodes, const struct il_active *running,
		     const struct idmap *ids)
{
	auto_free uint8_t *fate = NULL;
	auto_free uint32_t *number = NULL;
	struct look l = { .d = d, .nodes = nodes, .ids = ids };
	uint32_t freed = d->freed.cnt;
	int err;

	if (freed < d->enough)
		return 0;
	l.fate = fate = calloc(IL_NODE_CNT, sizeof(*fate));
	l.number = number = calloc(IL_NODE_CNT, sizeof(*number));
	if (!fate || !number)
		return -ENOMEM;
	judge(&l);
	keep_what_runs(&l, running);
	err = take_all(&l);
	err = err ? err : keep_used(&l);
	d->enough = enough_after(&l, freed) + d->freed.cnt;
	return err;
}
