// SPDX-License-Identifier: Apache-2.0
/* Aggregates that become one: of many captures, one at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/aggregate_priv.h"

/* Where things of the other aggregate are in this one, by their indexes there. */
struct mapped {
	uint32_t *processes, *threads, *funcs, *stacks;
};

static void mapped_done(struct mapped *m)
{
	free(m->processes);
	free(m->threads);
	free(m->funcs);
	free(m->stacks);
}

static int mapped_init(struct mapped *m, const struct agg_result *from)
{
	m->processes = malloc((from->process_cnt + 1ull) * sizeof(*m->processes));
	m->threads = malloc((from->thread_cnt + 1ull) * sizeof(*m->threads));
	m->funcs = malloc((from->func_cnt + 1ull) * sizeof(*m->funcs));
	m->stacks = malloc((from->stack_cnt + 1ull) * sizeof(*m->stacks));
	return m->processes && m->threads && m->funcs && m->stacks ? 0 : -ENOMEM;
}

static int same_string(struct aggregate *a, const struct agg_result *from, uint32_t id,
		       uint32_t *out)
{
	return strpool__add(&a->r.strings, from->strings.strs[id].s, from->strings.strs[id].len,
			    out);
}

static int merge_process(struct aggregate *a, const struct agg_result *from, uint32_t i,
			 uint32_t *index)
{
	struct agg_process p = { .pid = from->processes[i].pid };
	uint32_t id;
	int err;

	err = same_string(a, from, from->processes[i].comm, &p.comm);
	err = err ? err : same_string(a, from, from->processes[i].exe, &p.exe);
	err = err ? err : same_string(a, from, from->processes[i].python, &p.python);
	if (!err)
		err = strpool__add(&a->process_keys,
				   (const char *)(uint32_t[]){ p.comm, p.exe, p.python },
				   3 * sizeof(uint32_t), &id);
	err = err ? err : agg_reserve(&a->processes, &a->process_cap, a->r.process_cnt, sizeof(p));
	if (err)
		return err;
	*index = id - 1;
	if (*index == a->r.process_cnt)
		a->processes[a->r.process_cnt++] = p;
	else if (a->processes[*index].pid != p.pid)
		a->processes[*index].pid = 0;
	return 0;
}

static int merge_thread(struct aggregate *a, const struct agg_result *from, uint32_t i,
			const struct mapped *m, uint32_t *index)
{
	const struct agg_thread *t = &from->threads[i];
	struct agg_thread *into;
	uint32_t key[2] = { m->processes[t->process] }, id;
	int err = same_string(a, from, t->name, &key[1]);

	err = err ? err : strpool__add(&a->thread_keys, (const char *)key, sizeof(key), &id);
	if (err)
		return err;
	*index = id - 1;
	if (*index == a->r.thread_cnt) {
		err = agg_add_thread(a, *index, index);
		if (err)
			return err;
		a->threads[*index] = (struct agg_thread){
			.process = key[0], .name = key[1], .tid = t->tid, .is_main = t->is_main
		};
	}
	into = &a->threads[*index];
	into->tid = into->tid == t->tid ? t->tid : 0;
	into->is_main = into->is_main && t->is_main;
	into->gap_ns += t->gap_ns;
	into->lost += t->lost;
	return 0;
}

static int merge_func(struct aggregate *a, const struct agg_result *from, uint32_t i,
		      const struct mapped *m, uint32_t *index)
{
	const struct agg_func *f = &from->funcs[i];
	struct agg_func copy = { .process = m->processes[f->process],
				 .line = f->line,
				 .kind = f->kind };
	int err = same_string(a, from, f->qualname, &copy.qualname);

	err = err ? err : same_string(a, from, f->name, &copy.name);
	err = err ? err : same_string(a, from, f->file, &copy.file);
	err = err ? err : same_string(a, from, f->short_file, &copy.short_file);
	err = err ? err : agg_add_func(a, &copy, index);
	if (!err)
		a->funcs[*index].own_ns += f->own_ns;
	return err;
}

static int merge_stack(struct aggregate *a, const struct agg_result *from, uint32_t i,
		       const struct mapped *m, uint32_t *index)
{
	const struct agg_stack *s = &from->stacks[i];
	int err;

	if (s->parent == AGG_NONE) {
		*index = a->live[m->threads[s->thread]].root;
		return 0;
	}
	err = agg_find_child(a, m->stacks[s->parent], m->funcs[s->func],
			     from->stack_lines ? from->stack_lines[i] : 0, index);
	if (err)
		return err;
	a->stacks[*index].calls += s->calls;
	a->stacks[*index].off_ns += s->off_ns;
	a->stacks[*index].self_ns += s->self_ns; /* the own cost is out of it already */
	return 0;
}

/* What the first one has, as long as all have it. */
static int shared_string(struct aggregate *a, const struct agg_result *from, uint32_t id,
			 bool first, uint32_t *mine)
{
	if (first)
		return same_string(a, from, id, mine);
	return strcmp(strpool__get(&from->strings, id), strpool__get(&a->r.strings, *mine)) != 0
		       ? agg_intern(a, "", mine)
		       : 0;
}

static int merge_head(struct aggregate *a, const struct agg_result *from)
{
	struct trace_totals *t = &a->r.totals;
	const struct trace_totals *add = &from->totals;
	bool first = !a->process_keys.cnt;
	int err = 0;

	if (first) {
		err = strpool__init(&a->process_keys);
		err = err ? err : strpool__init(&a->thread_keys);
		err = err ? err : same_string(a, from, from->engine, &a->r.engine);
		err = err ? err : same_string(a, from, from->version, &a->r.version);
		t->complete = true;
	}
	err = err ? err : shared_string(a, from, from->hostname, first, &a->r.hostname);
	err = err ? err : shared_string(a, from, from->kernel, first, &a->r.kernel);
	err = err ? err : shared_string(a, from, from->arguments, first, &a->r.arguments);
	t->complete = t->complete && add->complete;
	t->generated += add->generated;
	t->written += add->written;
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		t->lost[i] += add->lost[i];
	/* clocks of several machines: the sum of the wall times from 0 on */
	t->end_ns += add->end_ns > from->start_ns ? add->end_ns - from->start_ns : 0;
	if (first || from->start_unix_ns < a->r.start_unix_ns)
		a->r.start_unix_ns = from->start_unix_ns;
	if (from->sample_ns)
		a->r.sample_ns = from->sample_ns;
	a->r.own_ns += from->own_ns;
	a->r.off_ns += from->off_ns;
	a->r.gap_cnt += from->gap_cnt;
	a->r.cut_cnt += from->cut_cnt;
	return err;
}

int aggregate__merge(struct aggregate *a, const struct agg_result *from)
{
	auto_fn(mapped_done) struct mapped m = { 0 };
	int err = mapped_init(&m, from);

	err = err ? err : merge_head(a, from);
	for (uint32_t i = 0; i < from->process_cnt && !err; i++)
		err = merge_process(a, from, i, &m.processes[i]);
	for (uint32_t i = 0; i < from->thread_cnt && !err; i++)
		err = merge_thread(a, from, i, &m, &m.threads[i]);
	for (uint32_t i = 0; i < from->func_cnt && !err; i++)
		err = merge_func(a, from, i, &m, &m.funcs[i]);
	for (uint32_t i = 0; i < from->stack_cnt && !err; i++)
		err = merge_stack(a, from, i, &m, &m.stacks[i]);
	return err;
}
