// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_defs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "export/firefox.h"

static const char *keep(char **place, const char *s)
{
	*place = strdup(s ? s : "");
	return *place;
}

int ff_begin(void *self, const struct trace_info *info)
{
	struct firefox *ff = self;

	ff->info = *info;
	ff->info.engine = keep(&ff->engine, info->engine);
	ff->info.version = keep(&ff->version, info->version);
	ff->info.kernel = keep(&ff->kernel, info->kernel);
	ff->info.cpu = keep(&ff->cpu, info->cpu);
	ff->info.arguments = keep(&ff->arguments, info->arguments);
	ff->info.hostname = "";
	ff->last_ns = ff->part_start_ns = info->start_ns;
	ff->part = 1;
	if (!ff->engine || !ff->version || !ff->kernel || !ff->cpu || !ff->arguments)
		return -ENOMEM;
	return 0;
}

/* The viewer groups tracks by this text, so a pid that comes again gets a number. */
static uint32_t unique_pid(struct firefox *ff, uint32_t pid)
{
	uint32_t index, cnt = ff->pids.cnt, cap = ff->pid_cap;
	char text[32];

	if (ff_grow((void **)&ff->pid_uses, &cap, cnt, sizeof(*ff->pid_uses)))
		return FF_NONE;
	ff->pid_cap = cap;
	index = ff_map__add(&ff->pids, pid);
	if (index == FF_NONE)
		return FF_NONE;
	if (index == cnt)
		ff->pid_uses[index] = 0;
	if (++ff->pid_uses[index] == 1)
		snprintf(text, sizeof(text), "%u", pid);
	else
		snprintf(text, sizeof(text), "%u (%u)", pid, ff->pid_uses[index]);
	return ff_string(&ff->tables.strings, text);
}

static uint64_t end_after(uint64_t end_ns, uint64_t start_ns)
{
	return end_ns && end_ns < start_ns ? start_ns : end_ns;
}

static int set_roots(struct firefox *ff, struct ff_process *p, const char *const *roots)
{
	size_t cnt = 0;

	while (roots && roots[cnt])
		cnt++;
	free(p->roots);
	p->roots = calloc(cnt + 1, sizeof(*p->roots));
	if (!p->roots)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		uint32_t string = ff_string(&ff->tables.strings, roots[i]);

		if (string == FF_NONE)
			return -ENOMEM;
		p->roots[i] = ff->tables.strings.strs[string].s;
	}
	return 0;
}

int ff_process(void *self, const struct trace_process *process)
{
	struct firefox *ff = self;
	struct strpool *strings = &ff->tables.strings;
	uint32_t cnt = ff->process_ids.cnt, index;
	struct ff_process *p;

	if (ff_grow((void **)&ff->processes, &ff->process_cap, cnt, sizeof(*p)))
		return -ENOMEM;
	index = ff_map__add(&ff->process_ids, process->id);
	if (index == FF_NONE)
		return -ENOMEM;
	p = &ff->processes[index];
	if (index == cnt)
		*p = (struct ff_process){ .pid = process->pid,
					  .pid_text = unique_pid(ff, process->pid) };
	p->comm = ff_string(strings, process->comm);
	p->exe = ff_string(strings, process->exe);
	p->python = ff_string(strings, process->python);
	p->prefix = ff_string(strings, process->prefix);
	p->start_ns = process->start_ns;
	p->end_ns = end_after(process->end_ns, process->start_ns);
	if (p->pid_text == FF_NONE || p->comm == FF_NONE || p->exe == FF_NONE ||
	    p->python == FF_NONE || p->prefix == FF_NONE)
		return -ENOMEM;
	return set_roots(ff, p, process->import_roots);
}

int ff_thread(void *self, const struct trace_thread *thread)
{
	struct firefox *ff = self;
	uint32_t process = ff_map__find(&ff->process_ids, thread->process);
	uint32_t cnt = ff->thread_ids.cnt, index;
	struct ff_thread *t;

	if (process == FF_NONE)
		return -PYE_EFORMAT;
	if (ff_grow((void **)&ff->threads, &ff->thread_cap, cnt, sizeof(*t)))
		return -ENOMEM;
	index = ff_map__add(&ff->thread_ids, thread->id);
	if (index == FF_NONE)
		return -ENOMEM;
	t = &ff->threads[index];
	if (index == cnt)
		*t = (struct ff_thread){ .process = process };
	t->tid = thread->tid;
	t->is_main = thread->is_main;
	t->start_ns = thread->start_ns;
	t->end_ns = end_after(thread->end_ns, thread->start_ns);
	t->name = ff_string(&ff->tables.strings, thread->name);
	return t->name == FF_NONE ? -ENOMEM : 0;
}

int ff_func(void *self, const struct trace_func *func)
{
	struct firefox *ff = self;
	uint32_t process = ff_map__find(&ff->process_ids, func->process);
	uint32_t index, frame;
	const struct ff_process *p;
	struct ff_place place;

	if (process == FF_NONE)
		return -PYE_EFORMAT;
	p = &ff->processes[process];
	place = func->kind == FUNC_PYTHON
			? ff_place_of(func->file, ff->tables.strings.strs[p->prefix].s, p->roots)
			: ff_place_native(func);
	frame = ff_tables__frame(&ff->tables, func, &place);
	if (frame == FF_NONE ||
	    ff_grow((void **)&ff->func_frames, &ff->func_cap, ff->func_ids.cnt, sizeof(uint32_t)))
		return -ENOMEM;
	index = ff_map__add(&ff->func_ids, func->id);
	if (index == FF_NONE)
		return -ENOMEM;
	ff->func_frames[index] = frame;
	return 0;
}

void ff_defs_done(struct firefox *ff)
{
	for (uint32_t i = 0; i < ff->process_ids.cnt; i++) {
		free(ff->processes[i].roots);
		free(ff->processes[i].memory.points);
	}
	for (uint32_t i = 0; i < ff->thread_ids.cnt; i++) {
		ff_samples__clear(&ff->threads[i].samples);
		free(ff->threads[i].open);
		free(ff->threads[i].gaps);
		free(ff->threads[i].waits);
	}
	free(ff->processes);
	free(ff->threads);
	free(ff->func_frames);
	free(ff->pid_uses);
	ff_map__done(&ff->process_ids);
	ff_map__done(&ff->thread_ids);
	ff_map__done(&ff->func_ids);
	ff_map__done(&ff->pids);
	free(ff->engine);
	free(ff->version);
	free(ff->kernel);
	free(ff->cpu);
	free(ff->arguments);
}
