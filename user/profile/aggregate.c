// SPDX-License-Identifier: Apache-2.0
#include "profile/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/idmap.h"
#include "profile/aggregate_priv.h"
#include "profile/place.h"

enum {
	DEFAULT_MAX_STACKS = 4 << 20
};

#define CHILD_FRAME (1u << 31) /* in the key of a child: a frame, not a function */

/* Room for one more in an array of @size bytes each. */
int agg_reserve(void *array, uint32_t *cap, uint32_t cnt, size_t size)
{
	uint32_t more = *cap ? *cap * 2 : 16;
	void *grown;

	if (cnt < *cap)
		return 0;
	if (more < *cap || more > AGG_NONE / 2)
		return -EOVERFLOW;
	grown = realloc(*(void **)array, more * size);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*cap = more;
	return 0;
}

int agg_intern(struct aggregate *a, const char *s, uint32_t *id)
{
	return strpool__add(&a->r.strings, s ? s : "", s ? strlen(s) : 0, id);
}

int aggregate__new(struct aggregate **out, const struct aggregate_opts *opts)
{
	struct aggregate *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->r.raw = opts && opts->raw;
	a->r.full_files = opts && opts->full_files;
	a->merge_threads = opts && opts->merge_threads;
	a->by_line = opts && opts->lines;
	a->part = opts && opts->part;
	a->max_stacks = opts && opts->max_stacks ? opts->max_stacks : DEFAULT_MAX_STACKS;
	a->cached_thread = AGG_NONE;
	if (strpool__init(&a->r.strings) || strpool__init(&a->func_keys)) {
		aggregate__free(a);
		return -ENOMEM;
	}
	*out = a;
	return 0;
}

static void free_live(struct aggregate *a)
{
	for (uint32_t i = 0; a->live && i < a->r.thread_cnt; i++)
		free(a->live[i].frames);
	free(a->live);
	a->live = NULL;
	free(a->live_processes);
	a->live_processes = NULL;
	idmap__done(&a->process_ids);
	idmap__done(&a->thread_ids);
	idmap__done(&a->merged);
	idmap__done(&a->func_ids);
	idmap__done(&a->frames);
	idmap__done(&a->children);
	strpool__done(&a->func_keys);
	strpool__done(&a->process_keys);
	strpool__done(&a->thread_keys);
}

void aggregate__free(struct aggregate *a)
{
	if (!a)
		return;
	free_live(a);
	strpool__done(&a->r.strings);
	free(a->processes);
	free(a->threads);
	free(a->funcs);
	free(a->stacks);
	free(a->lines);
	free(a);
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct aggregate *a = self;
	int err;

	a->r.start_ns = info->start_ns;
	a->r.start_unix_ns = info->start_unix_ns;
	a->r.cost = info->cost;
	trace_cost_by_kind(&info->cost, a->before_ns, a->after_ns);
	a->r.before = info->before;
	a->r.sample_ns = info->sample_ns;
	err = agg_intern(a, info->engine, &a->r.engine);
	err = err ? err : agg_intern(a, info->version, &a->r.version);
	err = err ? err : agg_intern(a, info->hostname, &a->r.hostname);
	err = err ? err : agg_intern(a, info->kernel, &a->r.kernel);
	return err ? err : agg_intern(a, info->arguments, &a->r.arguments);
}

static int keep_roots(struct aggregate *a, struct live_process *live,
		      const struct trace_process *process)
{
	const char *const *root = process->import_roots;
	int err = 0;

	live->root_cnt = 0;
	for (; root && *root && !err && live->root_cnt < MAX_ROOTS; root++) {
		if (**root)
			err = agg_intern(a, *root, &live->roots[live->root_cnt++]);
	}
	return err;
}

static int on_process(void *self, const struct trace_process *process)
{
	struct aggregate *a = self;
	uint32_t i = idmap__find(&a->process_ids, process->id);
	struct agg_process p = { .pid = process->pid };
	int err;

	err = agg_intern(a, process->comm, &p.comm);
	err = err ? err : agg_intern(a, process->exe, &p.exe);
	err = err ? err : agg_intern(a, process->python, &p.python);
	if (err)
		return err;
	if (i == IDMAP_NONE) {
		i = a->r.process_cnt;
		err = agg_reserve(&a->processes, &a->process_cap, i, sizeof(p));
		err = err ? err
			  : agg_reserve(&a->live_processes, &a->live_process_cap, i,
					sizeof(*a->live_processes));
		err = err ? err : idmap__set(&a->process_ids, process->id, i);
		if (err)
			return err;
		a->r.process_cnt++;
	}
	a->processes[i] = p;
	return keep_roots(a, &a->live_processes[i], process);
}

static int child_key(struct aggregate *a, uint32_t parent, uint32_t func, uint32_t line,
		     uint64_t *key)
{
	uint64_t at = (uint64_t)func << 32 | line;
	uint32_t frame;
	int err = 0;

	*key = (uint64_t)parent << 32 | func;
	if (!line)
		return 0;
	frame = idmap__find(&a->frames, at);
	if (frame == IDMAP_NONE) {
		frame = a->frame_cnt;
		err = frame < CHILD_FRAME - 1 ? idmap__set(&a->frames, at, frame) : -EOVERFLOW;
		a->frame_cnt += !err;
	}
	*key = (uint64_t)parent << 32 | CHILD_FRAME | frame;
	return err;
}

/* @key: of the child; its parent is in the upper half. */
static int add_stack(struct aggregate *a, uint64_t key, uint32_t func, uint32_t line,
		     uint32_t thread, uint32_t *index)
{
	uint32_t i = a->r.stack_cnt, parent = (uint32_t)(key >> 32);
	int err = agg_reserve(&a->stacks, &a->stack_cap, i, sizeof(*a->stacks));

	if (!err && a->by_line)
		err = agg_reserve(&a->lines, &a->line_cap, i, sizeof(*a->lines));
	if (!err && parent != AGG_NONE)
		err = idmap__set(&a->children, key, i);
	if (err)
		return err;
	if (a->by_line)
		a->lines[i] = line;
	a->stacks[i] = (struct agg_stack){
		.parent = parent, .func = func, .thread = thread, .last_child = AGG_NONE
	};
	a->r.stack_cnt++;
	*index = i;
	return 0;
}

static int push(struct live_thread *t, uint32_t stack)
{
	int err = agg_reserve(&t->frames, &t->cap, t->depth, sizeof(*t->frames));

	if (!err)
		t->frames[t->depth++] = stack;
	return err;
}

int agg_add_thread(struct aggregate *a, uint32_t id, uint32_t *index)
{
	uint32_t i = a->r.thread_cnt;
	struct live_thread live = { .cut = AGG_NONE };
	int err;

	err = agg_reserve(&a->threads, &a->thread_cap, i, sizeof(*a->threads));
	err = err ? err : agg_reserve(&a->live, &a->live_cap, i, sizeof(*a->live));
	err = err ? err : add_stack(a, UINT64_MAX, AGG_NONE, 0, i, &live.root);
	err = err ? err : push(&live, live.root);
	if (err)
		return err;
	a->live[i] = live;
	a->threads[i] = (struct agg_thread){ 0 };
	a->r.thread_cnt++;
	*index = i;
	return idmap__set(&a->thread_ids, id, i);
}

/* Samples of threads of one process: they have no frames that are open, so one can stand for all. */
static int merge_thread(struct aggregate *a, uint32_t id, uint32_t process)
{
	uint32_t i = idmap__find(&a->merged, process);
	int err;

	a->r.threads_merged = true;
	if (i != IDMAP_NONE)
		return idmap__set(&a->thread_ids, id, i);
	err = agg_add_thread(a, id, &i);
	err = err ? err : agg_intern(a, "all threads", &a->threads[i].name);
	if (err)
		return err;
	a->threads[i].process = process;
	return idmap__set(&a->merged, process, i);
}

static int on_thread(void *self, const struct trace_thread *thread)
{
	struct aggregate *a = self;
	uint32_t i = idmap__find(&a->thread_ids, thread->id);
	struct agg_thread t = { .tid = thread->tid, .is_main = thread->is_main };
	int err;

	t.process = idmap__find(&a->process_ids, thread->process);
	if (t.process == IDMAP_NONE)
		return -EINVAL;
	if (a->merge_threads && a->r.sample_ns)
		return i == IDMAP_NONE ? merge_thread(a, thread->id, t.process) : 0;
	err = agg_intern(a, thread->name, &t.name);
	if (!err && i == IDMAP_NONE)
		err = agg_add_thread(a, thread->id, &i);
	if (err)
		return err;
	t.gap_ns = a->threads[i].gap_ns;
	t.lost = a->threads[i].lost;
	a->threads[i] = t;
	a->live[i].end_ns = thread->end_ns;
	return 0;
}

int agg_add_func(struct aggregate *a, const struct agg_func *func, uint32_t *index)
{
	const uint32_t key[4] = { func->process, func->file, func->qualname, func->line };
	uint32_t id;
	int err;

	err = agg_reserve(&a->funcs, &a->func_cap, a->r.func_cnt, sizeof(*func));
	err = err ? err : strpool__add(&a->func_keys, (const char *)key, sizeof(key), &id);
	if (err)
		return err;
	*index = id - 1;
	if (*index == a->r.func_cnt)
		a->funcs[a->r.func_cnt++] = *func;
	return 0;
}

/* The path from the longest import root on that it lies in; without one, by its shape. */
static const char *short_file(const struct aggregate *a, uint32_t process,
			      const struct trace_func *func)
{
	const struct live_process *p = &a->live_processes[process];
	const char *file = func->file;

	if (func->kind != FUNC_PYTHON)
		return trace_native_file(func->file);
	for (uint32_t i = 0; file && i < p->root_cnt; i++) {
		const struct strpool_str *root = &a->r.strings.strs[p->roots[i]];
		size_t len = root->len;

		while (len && root->s[len - 1] == '/')
			len--;
		if (!strncmp(file, root->s, len) && file[len] == '/' && file[len + 1])
			return file + len + 1;
	}
	return file ? place_short_file(file) : NULL;
}

static int on_func(void *self, const struct trace_func *func)
{
	struct aggregate *a = self;
	struct agg_func f = { .line = func->line, .kind = func->kind };
	uint32_t i;
	int err;

	f.process = idmap__find(&a->process_ids, func->process);
	if (f.process == IDMAP_NONE)
		return -EINVAL;
	err = agg_intern(a, func->qualname, &f.qualname);
	err = err ? err : agg_intern(a, func->name, &f.name);
	err = err ? err : agg_intern(a, func->file, &f.file);
	err = err ? err : agg_intern(a, short_file(a, f.process, func), &f.short_file);
	err = err ? err : agg_add_func(a, &f, &i);
	return err ? err : idmap__set(&a->func_ids, func->id, i);
}

/* Past the limit a function hangs below its thread's "[truncated]", whoever called it. */
static int cut_child(struct aggregate *a, uint32_t thread, uint32_t func, uint32_t *child)
{
	struct agg_func f = { .process = a->threads[thread].process };
	struct live_thread *t = &a->live[thread];
	uint32_t i;
	int err;

	a->r.cut_cnt++;
	if (t->cut == AGG_NONE) {
		err = agg_intern(a, "[truncated]", &f.qualname);
		f.name = f.qualname;
		err = err ? err : agg_add_func(a, &f, &i);
		err = err ? err : add_stack(a, (uint64_t)t->root << 32 | i, i, 0, thread, &t->cut);
		if (err)
			return err;
	}
	*child = idmap__find(&a->children, (uint64_t)t->cut << 32 | func);
	return *child != IDMAP_NONE
		       ? 0
		       : add_stack(a, (uint64_t)t->cut << 32 | func, func, 0, thread, child);
}

int agg_find_child(struct aggregate *a, uint32_t parent, uint32_t func, uint32_t line,
		   uint32_t *child)
{
	uint32_t thread = a->stacks[parent].thread;
	uint64_t key;
	int err = child_key(a, parent, func, a->by_line ? line : 0, &key);

	if (err)
		return err;
	*child = idmap__find(&a->children, key);
	if (*child != IDMAP_NONE)
		return 0;
	return a->r.stack_cnt < a->max_stacks ? add_stack(a, key, func, line, thread, child)
					      : cut_child(a, thread, func, child);
}

int agg_child_of(struct aggregate *a, uint32_t parent, uint32_t func, uint32_t line,
		 uint32_t *child)
{
	uint32_t i = a->stacks[parent].last_child;
	int err;

	if (i != AGG_NONE && a->stacks[i].func == func && (!a->by_line || a->lines[i] == line)) {
		a->r.cut_cnt += a->stacks[i].parent != parent;
		*child = i;
		return 0;
	}
	err = agg_find_child(a, parent, func, line, child);
	if (!err)
		a->stacks[parent].last_child = *child;
	return err;
}

/* The time since the last event of the thread is that of the frame on top. */
static void charge(struct aggregate *a, struct live_thread *t, uint64_t ts_ns, uint32_t before_ns)
{
	struct agg_stack *top = &a->stacks[t->frames[t->depth - 1]];

	if (t->depth > 1 && ts_ns > t->last_ns) {
		top->self_ns += ts_ns - t->last_ns;
		top->total_ns += (uint64_t)t->after_ns + before_ns;
	}
	t->last_ns = ts_ns;
}

static int on_event(void *self, const struct trace_event *event)
{
	struct aggregate *a = self;
	struct live_thread *t;
	uint32_t func, child;
	int err;

	if (event->thread != a->cached_id || a->cached_thread == AGG_NONE) {
		a->cached_thread = idmap__find(&a->thread_ids, event->thread);
		a->cached_id = event->thread;
	}
	if (a->cached_thread == AGG_NONE || event->kind >= TRACE_KIND_CNT)
		return -EINVAL;
	t = &a->live[a->cached_thread];
	charge(a, t, event->ts_ns, a->before_ns[event->kind]);
	t->after_ns = a->after_ns[event->kind];
	if (trace_is_leave(event->kind)) {
		t->depth -= t->depth > 1;
		return 0;
	}
	func = idmap__find(&a->func_ids, event->func);
	if (func == IDMAP_NONE)
		return -EINVAL;
	err = agg_child_of(a, t->frames[t->depth - 1], func, 0, &child);
	if (err)
		return err;
	a->stacks[child].calls += event->kind == TRACE_CALL;
	return push(t, child);
}

static int on_sample(void *self, const struct trace_sample *sample)
{
	struct aggregate *a = self;
	uint32_t thread = idmap__find(&a->thread_ids, sample->thread), at;
	int err;

	if (thread == IDMAP_NONE)
		return -EINVAL;
	at = a->live[thread].root;
	for (uint32_t i = 0; i < sample->frame_cnt; i++) {
		uint32_t func = idmap__find(&a->func_ids, sample->frames[i].func);

		if (func == IDMAP_NONE)
			return -EINVAL;
		err = agg_child_of(a, at, func, sample->frames[i].line, &at);
		if (err)
			return err;
	}
	if (a->stacks[at].func == AGG_NONE)
		return 0;
	a->stacks[at].calls += sample->count;
	a->stacks[at].self_ns += sample->weight_ns;
	a->stacks[at].off_ns += sample->off_cpu ? sample->weight_ns : 0;
	a->r.off_ns += sample->off_cpu ? sample->weight_ns : 0;
	return 0;
}

static int on_gap(void *self, const struct trace_gap *gap)
{
	struct aggregate *a = self;
	uint32_t i = idmap__find(&a->thread_ids, gap->thread);
	struct live_thread *t;

	if (i == IDMAP_NONE)
		return -EINVAL;
	t = &a->live[i];
	charge(a, t, gap->ts_ns, 0);
	t->depth = 1;
	t->after_ns = 0;
	a->r.gap_cnt++;
	a->threads[i].gap_ns += gap->until_ns > gap->ts_ns ? gap->until_ns - gap->ts_ns : 0;
	a->threads[i].lost += gap->lost;
	return 0;
}

/* Frames that are still open get their time up to the end of the thread or of the trace. */
static void close_threads(struct aggregate *a, uint64_t end_ns)
{
	for (uint32_t i = 0; i < a->r.thread_cnt; i++) {
		struct live_thread *t = &a->live[i];
		bool ended = t->end_ns && t->end_ns < end_ns;

		charge(a, t, ended ? t->end_ns : end_ns, 0);
	}
}

int aggregate__close(struct aggregate *a)
{
	int err;

	free_live(a);
	err = agg_settle(&a->r, a->funcs, a->stacks, !a->part);
	a->r.processes = a->processes;
	a->r.threads = a->threads;
	a->r.funcs = a->funcs;
	a->r.stacks = a->stacks;
	a->r.stack_lines = a->lines;
	return err;
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct aggregate *a = self;

	a->r.totals = *totals;
	close_threads(a, totals->end_ns);
	return aggregate__close(a);
}

const struct trace_consumer aggregate_consumer = {
	.begin = on_begin,
	.process = on_process,
	.thread = on_thread,
	.func = on_func,
	.event = on_event,
	.sample = on_sample,
	.gap = on_gap,
	.end = on_end,
};

uint32_t aggregate__func_index(const struct aggregate *a, uint32_t id)
{
	return idmap__find(&a->func_ids, id);
}

const struct agg_func *aggregate__func(const struct aggregate *a, uint32_t index)
{
	return &a->funcs[index];
}

const struct agg_result *aggregate__result(const struct aggregate *a)
{
	return &a->r;
}
