// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that wait when we attach and go on waiting have no event, but they have a stack, and where a
 * program waits is often what one wants to know. It is read from outside at the attach and once more a
 * second later, and shown only if nothing has changed: then it has been so since the attach.
 */
#define LOG_DOMAIN "idle"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/session_priv.h"
#include "cpython/code_read.h"
#include "cpython/thread_names.h"
#include "cpython/walk_outside.h"
#include "proc/mem.h"
#include "proc/threads.h"

/* The memory stays open: by then this process may have no right to open it any more. */
struct idle_before {
	struct outside_stacks stacks;
	uint64_t at_ns; /* they were read before that */
	struct proc_mem mem;
};

struct idle_code {
	uint64_t address;
	uint32_t id;
	UT_hash_handle hh;
};

struct idle {
	struct session *s;
	struct target *t;
	struct proc_mem mem; /* borrowed from the target */
	struct outside_stacks now;
	struct thread_names names; /* --thread */
	struct proc_thread first;
	struct idle_code *codes;
};

void idle_begin(struct target *t)
{
	auto_free struct idle_before *before = calloc(1, sizeof(*before));

	if (!before || proc_mem__open(t->pid.pid, &before->mem))
		return;
	if (walk_outside(&before->mem, &t->in, &before->stacks))
		proc_mem__close(&before->mem);
	else {
		before->at_ns = now_ns();
		t->before = take_ptr(before);
	}
}

void idle_free(struct target *t)
{
	if (!t->before)
		return;
	outside_stacks__done(&t->before->stacks);
	proc_mem__close(&t->before->mem);
	free(t->before);
	t->before = NULL;
}

static bool unchanged(const struct idle *idle, const struct outside_thread *thread)
{
	const struct outside_stacks *before = &idle->t->before->stacks;

	for (size_t i = 0; i < before->cnt; i++)
		if (outside_thread__same(&before->threads[i], thread))
			return true;
	return false;
}

/* The id of a code object, defined on first use; 0 if it cannot be read. */
static uint32_t code_id(struct idle *idle, uint64_t address)
{
	struct idle_code *c;
	auto_free struct code_names *names = NULL;
	struct trace_func func;

	HASH_FIND(hh, idle->codes, &address, sizeof(address), c);
	if (c)
		return c->id;
	names = malloc(sizeof(*names));
	c = calloc(1, sizeof(*c));
	if (!names || !c || code_read(&idle->mem, &idle->t->in.layout, address, names)) {
		free(c);
		return 0;
	}
	c->address = address;
	c->id = cap_bpf__new_code(idle->s->cap);
	func = (struct trace_func){ .id = c->id,
				    .process = idle->t->pix,
				    .line = (uint32_t)names->firstlineno,
				    .name = names->name,
				    .qualname = names->qualname,
				    .file = names->filename };
	if (assembler__func(idle->s->as, &func)) {
		free(c);
		return 0;
	}
	HASH_ADD(hh, idle->codes, address, sizeof(c->address), c);
	return c->id;
}

/* The first thread has one, too, where nothing has imported threading. */
static const char *name_of(const struct idle *idle, const struct outside_thread *thread,
			   const struct pye_task_rec *task)
{
	const char *name = thread_names__find(&idle->names, thread->thread_id);

	return !name && task->tid == task->pid ? "MainThread" : name;
}

/* A part of a run that was split has nothing from before it. */
static uint64_t since_ns(const struct idle *idle)
{
	uint64_t at_ns = idle->t->before->at_ns, part_ns = idle->s->kept.part_ns;

	return at_ns > part_ns ? at_ns : part_ns;
}

static int show(struct idle *idle, const struct outside_thread *thread,
		const struct pye_task_rec *task)
{
	auto_free struct assembler_frame *frames = calloc(thread->frame_cnt, sizeof(*frames));
	struct assembler_idle stack = { .pix = task->pix,
					.tid = task->tid,
					.comm = task->comm,
					.given = name_of(idle, thread, task),
					.comm_is_own = task->tid == task->pid ||
						       strcmp(task->comm, idle->first.comm) != 0,
					.ts_ns = since_ns(idle),
					.frames = frames,
					.frame_cnt = thread->frame_cnt };

	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < thread->frame_cnt; i++) {
		const struct outside_frame *from = &thread->frames[thread->frame_cnt - 1 - i];

		frames[i].frame = from->frame;
		frames[i].code = code_id(idle, from->code);
		if (!frames[i].code)
			return 0;
	}
	stack.id = cap_bpf__new_thread(idle->s->cap);
	return assembler__idle(idle->s->as, &stack);
}

static int on_task(void *ctx, const struct pye_task_rec *task)
{
	struct idle *idle = ctx;

	if (task->pix != idle->t->pix)
		return 0;
	for (size_t i = 0; i < idle->now.cnt; i++) {
		const struct outside_thread *thread = &idle->now.threads[i];

		if (thread->thread_id == task->fsbase && thread->frame_cnt &&
		    unchanged(idle, thread))
			return show(idle, thread, task);
	}
	return 0;
}

static void show_all(struct idle *idle)
{
	struct idle_code *c, *next;

	if (!walk_outside(&idle->mem, &idle->t->in, &idle->now)) {
		if (idle->s->opts.filter.thread) { /* else nobody asks */
			(void)thread_names__read(&idle->mem, &idle->t->in, 0, &idle->names);
			(void)threads__one(idle->t->pid.pid, idle->t->pid.pid, &idle->first);
		}
		cap_bpf__tasks(idle->s->cap, on_task, idle);
		thread_names__done(&idle->names);
		outside_stacks__done(&idle->now);
	}
	HASH_ITER(hh, idle->codes, c, next)
	{
		HASH_DEL(idle->codes, c);
		free(c);
	}
}

void idle_show(struct session *s)
{
	for (size_t i = 0; i < s->target_cnt; i++) {
		struct idle idle = { .s = s, .t = s->targets[i] };

		if (!idle.t->before)
			continue;
		idle.mem = idle.t->before->mem;
		if (!idle.t->ended)
			show_all(&idle);
		idle_free(idle.t);
	}
}
