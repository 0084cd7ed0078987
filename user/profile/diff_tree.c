// SPDX-License-Identifier: Apache-2.0
#include "profile/diff_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"

void diff_tree__done(struct diff_tree *t)
{
	for (int side = 0; side < 2; side++) {
		free(t->self_ns[side]);
		free(t->total_ns[side]);
	}
	free(t->is_noise);
	free(t->processes);
	free(t->threads);
	free(t->funcs);
	free(t->stacks);
	strpool__done(&t->process_keys);
	strpool__done(&t->thread_keys);
	strpool__done(&t->func_keys);
	strpool__done(&t->stack_keys);
	strpool__done(&t->all.strings);
	*t = (struct diff_tree){ 0 };
}

static int copy(struct diff_tree *t, const struct agg_result *r, uint32_t from, uint32_t *to)
{
	return strpool__add(&t->all.strings, r->strings.strs[from].s, r->strings.strs[from].len,
			    to);
}

static int add_process(struct diff_tree *t, const struct agg_result *r, uint32_t from, uint32_t *to)
{
	uint32_t comm = 0, id;
	int err = copy(t, r, r->processes[from].comm, &comm);

	err = err ? err : strpool__add(&t->process_keys, (const char *)&comm, sizeof(comm), &id);
	err = err ? err : GROW(t->processes, t->process_cap, t->all.process_cnt);
	if (err)
		return err;
	*to = id - 1;
	if (*to == t->all.process_cnt)
		t->processes[t->all.process_cnt++] = (struct agg_process){ .comm = comm };
	return 0;
}

static int add_thread(struct diff_tree *t, const struct agg_result *r, uint32_t from, uint32_t *to)
{
	uint32_t key[2] = { 0 }, id;
	int err = add_process(t, r, r->threads[from].process, &key[0]);

	err = err ? err : copy(t, r, r->threads[from].name, &key[1]);
	err = err ? err : strpool__add(&t->thread_keys, (const char *)key, sizeof(key), &id);
	err = err ? err : GROW(t->threads, t->thread_cap, t->all.thread_cnt);
	if (err)
		return err;
	*to = id - 1;
	if (*to == t->all.thread_cnt)
		t->threads[t->all.thread_cnt++] =
			(struct agg_thread){ .process = key[0], .name = key[1] };
	return 0;
}

/* Of the second run, where it has the function, are the file and the line. */
static int add_func(struct diff_tree *t, const struct agg_result *r, uint32_t from, uint32_t *to)
{
	struct agg_func *f;
	uint32_t id;
	int err = diff_name(&t->func_keys, r, from, &id);

	err = err ? err : GROW(t->funcs, t->func_cap, t->all.func_cnt);
	if (err)
		return err;
	*to = id - 1;
	if (*to == t->all.func_cnt)
		t->all.func_cnt++;
	f = &t->funcs[*to];
	f->line = r->funcs[from].line;
	err = copy(t, r, r->funcs[from].qualname, &f->qualname);
	err = err ? err : copy(t, r, r->funcs[from].file, &f->file);
	return err ? err : copy(t, r, r->funcs[from].short_file, &f->short_file);
}

static int add_stack(struct diff_tree *t, const struct agg_stack *stack, uint32_t *to)
{
	const uint32_t key[3] = { stack->parent, stack->thread, stack->func };
	uint32_t id, caps[2] = { t->stack_cap, t->stack_cap };
	int err = strpool__add(&t->stack_keys, (const char *)key, sizeof(key), &id);

	for (int side = 0; side < 2 && !err; side++)
		err = GROW(t->self_ns[side], caps[side], t->all.stack_cnt);
	err = err ? err : GROW(t->stacks, t->stack_cap, t->all.stack_cnt);
	if (err)
		return err;
	*to = id - 1;
	if (*to == t->all.stack_cnt)
		t->stacks[t->all.stack_cnt++] = *stack;
	return 0;
}

static int add_side(struct diff_tree *t, const struct agg_result *r, int side)
{
	auto_free uint32_t *threads = malloc((r->thread_cnt + 1ull) * sizeof(*threads));
	auto_free uint32_t *funcs = malloc((r->func_cnt + 1ull) * sizeof(*funcs));
	auto_free uint32_t *stacks = malloc((r->stack_cnt + 1ull) * sizeof(*stacks));
	int err = threads && funcs && stacks ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < r->thread_cnt && !err; i++)
		err = add_thread(t, r, i, &threads[i]);
	for (uint32_t i = 0; i < r->func_cnt && !err; i++)
		err = add_func(t, r, i, &funcs[i]);
	/* a parent has a smaller index than its children */
	for (uint32_t i = 0; i < r->stack_cnt && !err; i++) {
		const struct agg_stack *from = &r->stacks[i];
		const struct agg_stack stack = {
			.parent = from->parent == AGG_NONE ? AGG_NONE : stacks[from->parent],
			.func = from->func == AGG_NONE ? AGG_NONE : funcs[from->func],
			.thread = threads[from->thread],
		};

		err = add_stack(t, &stack, &stacks[i]);
		if (!err)
			t->self_ns[side][stacks[i]] += from->self_ns;
	}
	return err;
}

static int sum_up(struct diff_tree *t)
{
	for (int side = 0; side < 2; side++) {
		t->total_ns[side] = calloc(t->all.stack_cnt + 1ull, sizeof(*t->total_ns[side]));
		if (!t->total_ns[side])
			return -ENOMEM;
	}
	for (uint32_t i = t->all.stack_cnt; i-- > 0;) {
		struct agg_stack *s = &t->stacks[i];
		uint64_t before = t->self_ns[0][i], after = t->self_ns[1][i];

		s->self_ns = before > after ? before : after;
		s->total_ns += s->self_ns;
		t->all.self_ns += s->self_ns;
		for (int side = 0; side < 2; side++)
			t->total_ns[side][i] += t->self_ns[side][i];
		if (s->parent == AGG_NONE)
			continue;
		t->stacks[s->parent].total_ns += s->total_ns;
		for (int side = 0; side < 2; side++)
			t->total_ns[side][s->parent] += t->total_ns[side][i];
	}
	return 0;
}

static int mark_noise(struct diff_tree *t, const struct diff *d)
{
	t->is_noise = calloc(t->all.func_cnt + 1ull, sizeof(*t->is_noise));
	if (!t->is_noise)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->cnt; i++) {
		int side = d->rows[i].side[1].func != AGG_NONE;
		uint32_t id;
		int err = diff_name(&t->func_keys, d->side[side], d->rows[i].side[side].func, &id);

		if (err)
			return err;
		if (id <= t->all.func_cnt)
			t->is_noise[id - 1] = d->rows[i].verdict == DIFF_NOISE;
	}
	return 0;
}

int diff_tree__init(struct diff_tree *t, const struct diff *d)
{
	int err;

	*t = (struct diff_tree){ 0 };
	err = strpool__init(&t->process_keys);
	err = err ? err : strpool__init(&t->thread_keys);
	err = err ? err : strpool__init(&t->func_keys);
	err = err ? err : strpool__init(&t->stack_keys);
	err = err ? err : strpool__init(&t->all.strings);
	for (int side = 0; side < 2 && !err; side++)
		err = add_side(t, d->side[side], side);
	err = err ? err : sum_up(t);
	err = err ? err : mark_noise(t, d);
	t->all.full_files = d->side[0]->full_files;
	t->all.processes = t->processes;
	t->all.threads = t->threads;
	t->all.funcs = t->funcs;
	t->all.stacks = t->stacks;
	return err;
}
