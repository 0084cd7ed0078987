// SPDX-License-Identifier: Apache-2.0
/* Processes of a trace: defined by who attached, by a fork record, or first met in a record. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "assemble/assemble_priv.h"
#include "assemble/native.h"
#include "base/cleanup.h"
#include "proc/info.h"
#include "proc/program.h"

static void strings_free(struct trace_process *t)
{
	free((char *)t->comm);
	free((char *)t->exe);
	free((char *)t->python);
	free((char *)t->prefix);
	t->comm = t->exe = t->python = t->prefix = NULL;
}

static char *copy(const char *s)
{
	return strdup(s ? s : "");
}

static int strings_copy(struct trace_process *to, const struct trace_process *from)
{
	struct trace_process t = *from;

	t.comm = copy(from->comm);
	t.exe = copy(from->exe);
	t.python = copy(from->python);
	t.prefix = copy(from->prefix);
	t.import_roots = NULL;
	if (!t.comm || !t.exe || !t.python || !t.prefix) {
		strings_free(&t);
		return -ENOMEM;
	}
	strings_free(to);
	*to = t;
	return 0;
}

/* While there is memory: it is needed when there is none. */
static void define_unreadable(struct assembler *a, uint32_t pix)
{
	const struct trace_func func = { .id = ASM_UNREADABLE,
					 .process = pix,
					 .name = "[unreadable]",
					 .qualname = "[unreadable]",
					 .file = "[unreadable]" };

	capw__func(a->w, &func);
}

struct asm_process *asm_process_get(struct assembler *a, uint32_t pix, uint32_t pid)
{
	struct asm_process *p;

	HASH_FIND(hh, a->processes, &pix, sizeof(pix), p);
	if (p) {
		if (!p->pid && pid) {
			p->pid = p->trace.pid = pid;
			capw__process(a->w, &p->trace);
		}
		return p;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pix = pix;
	p->pid = pid;
	p->trace = (struct trace_process){ .id = pix, .pid = pid };
	if (strings_copy(&p->trace, &p->trace) || capw__process(a->w, &p->trace)) {
		strings_free(&p->trace);
		free(p);
		return NULL;
	}
	if (!a->processes)
		define_unreadable(a, pix);
	HASH_ADD(hh, a->processes, pix, sizeof(p->pix), p);
	return p;
}

/* What it runs as __main__: looked up at once, as it can end soon. */
static void read_program(struct asm_process *p, const struct assembler_process *from)
{
	auto_free char *cmdline = NULL;
	struct program program = { 0 };
	size_t len = 0;

	if (proc_cmdline(from->proc_pid, &cmdline, &len) >= 0)
		program = program_of(cmdline, len, from->trace.exe);
	free(p->program);
	p->program = NULL;
	p->runs_module = program.kind == PROGRAM_MODULE;
	if (program.kind == PROGRAM_SCRIPT || p->runs_module)
		p->program = strndup(program.name, program.len);
	else if (program.kind == PROGRAM_CODE)
		p->program = strdup("<string>");
}

int assembler__process(struct assembler *a, const struct assembler_process *from)
{
	struct asm_process *p = asm_process_get(a, from->trace.id, from->trace.pid);
	int err;

	if (!p)
		return -ENOMEM;
	err = strings_copy(&p->trace, &from->trace);
	if (err)
		return err;
	if (a->wants_main)
		read_program(p, from);
	p->pid = from->trace.pid;
	p->proc_pid = from->proc_pid;
	p->layout = *from->layout;
	p->frames_refused = !from->entries_stay && from->layout->flags & PYE_LAYOUT_FRAME_OBJECT;
	p->late = from->late;
	p->deaths_told = from->deaths_told;
	p->loop = from->loop;
	p->known = true;
	if (p->state != ASM_RUNS)
		a->ended_cnt--;
	p->state = ASM_RUNS;
	if (p->mem_open)
		proc_mem__close(&p->mem);
	p->mem_open = proc_mem__open(from->proc_pid, &p->mem) == 0;
	return capw__process(a->w, &p->trace);
}

int assembler__fork(struct assembler *a, const struct assembler_child *child)
{
	struct assembler_process new;
	struct asm_process *p, *made;
	int err;

	HASH_FIND(hh, a->processes, &child->from, sizeof(child->from), p);
	if (!p)
		return -ENOENT;
	new = (struct assembler_process){ .trace = p->trace,
					  .layout = &p->layout,
					  .proc_pid = child->pid,
					  .late = child->late,
					  .deaths_told = p->deaths_told,
					  .loop = p->loop };
	new.trace.id = child->pix;
	new.trace.pid = (uint32_t)child->pid;
	new.trace.start_ns = child->ts_ns;
	new.trace.end_ns = 0;
	err = assembler__process(a, &new);
	HASH_FIND(hh, a->processes, &child->pix, sizeof(child->pix), made);
	if (made && made->pid != p->pid) { /* else it is what that one has executed */
		made->forked_from = child->from;
		made->forked_ns = child->ts_ns;
		made->forked_suspected = a->suspected;
	}
	return err;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Take those that are gone out of the list. */
static void compact(struct asm_process *p)
{
	uint32_t kept = 0, g = 0;

	qsort(p->codes, p->code_cnt, sizeof(p->codes[0]), by_number);
	qsort(p->gone, p->gone_cnt, sizeof(p->gone[0]), by_number);
	for (uint32_t i = 0; i < p->code_cnt; i++) {
		while (g < p->gone_cnt && p->gone[g] < p->codes[i])
			g++;
		if (g == p->gone_cnt || p->gone[g] != p->codes[i])
			p->codes[kept++] = p->codes[i];
	}
	p->code_cnt = kept;
	p->gone_cnt = 0;
}

static int grow(struct asm_process *p)
{
	uint32_t size = p->code_size ? p->code_size * 2 : 256;
	uint32_t *codes = reallocarray(p->codes, size, sizeof(*codes)), *gone;

	if (!codes)
		return -ENOMEM;
	p->codes = codes;
	gone = reallocarray(p->gone, size, sizeof(*gone));
	if (!gone)
		return -ENOMEM;
	p->gone = gone;
	p->code_size = size;
	return 0;
}

int asm_process_code(struct asm_process *p, uint32_t code)
{
	if (p->code_cnt == p->code_size && p->gone_cnt > p->code_cnt / 4)
		compact(p);
	if (p->code_cnt == p->code_size && grow(p))
		return -ENOMEM;
	p->codes[p->code_cnt++] = code;
	return 0;
}

void asm_process_gone(struct assembler *a, uint32_t pix, uint32_t code)
{
	struct asm_process *p;

	HASH_FIND(hh, a->processes, &pix, sizeof(pix), p);
	if (!p)
		return;
	if (p->gone_cnt < p->code_size)
		p->gone[p->gone_cnt++] = code;
}

struct asm_process *asm_process_find(const struct assembler *a, uint32_t pix)
{
	struct asm_process *p;

	HASH_FIND(hh, a->processes, &pix, sizeof(pix), p);
	return p;
}

void assembler__off(struct assembler *a, uint32_t pix, uint64_t ts_ns)
{
	struct asm_process *p = asm_process_find(a, pix);

	if (p)
		p->off_ns = ts_ns;
}

int assembler__on(struct assembler *a, uint32_t pix, uint64_t ts_ns)
{
	struct asm_process *p = asm_process_find(a, pix);
	struct asm_thread *t, *next;
	int err = 0;

	if (!p || !p->off_ns)
		return 0;
	HASH_ITER(hh, a->threads, t, next)
	if (t->process == p && !t->idle)
		err = asm_first(err, asm_off_end(a, t, ts_ns));
	p->off_ns = 0;
	return err;
}

static void process_free(struct assembler *a, struct asm_process *p)
{
	HASH_DEL(a->processes, p);
	if (p->mem_open)
		proc_mem__close(&p->mem);
	strings_free(&p->trace);
	asm_codes_free(a, &p->codes_sampled);
	asm_natives_free(p);
	free(p->codes);
	free(p->gone);
	free(p->program);
	free(p);
}

void assembler__process_end(struct assembler *a, uint32_t pix, uint64_t ts_ns)
{
	struct asm_process *p = asm_process_find(a, pix);

	if (!p)
		return;
	p->trace.end_ns = ts_ns;
	if (p->mem_open)
		proc_mem__close(&p->mem);
	p->mem_open = false;
	if (p->state == ASM_RUNS)
		a->ended_cnt++;
	p->state = ASM_ENDED;
	p->end_told = false;
	a->ended_new = true;
}

/* The writer forgets a process that has ended, so it hears of that when nothing of it can come any more. */
static int tell_end(struct assembler *a, struct asm_process *p)
{
	if (p->state == ASM_RUNS || p->end_told)
		return 0;
	p->end_told = true;
	return capw__process(a->w, &p->trace);
}

int asm_processes_end(struct assembler *a)
{
	struct asm_process *p, *next;
	int err = 0;

	HASH_ITER(hh, a->processes, p, next)
	err = asm_first(err, tell_end(a, p));
	return err;
}

int asm_processes_forget(struct assembler *a)
{
	struct asm_process *p, *next;
	int err = 0;

	a->ended_new = false;
	if (!a->ended_cnt)
		return 0;
	HASH_ITER(hh, a->processes, p, next)
	{
		if (p->state == ASM_ENDED) {
			/* what it wrote is in this batch at the earliest */
			p->state = ASM_ENDING;
			p->ended_round = a->round;
		}
		if (p->state != ASM_ENDING || !asm_settled(a, p->ended_round))
			continue;
		for (uint32_t i = 0; i < p->code_cnt; i++)
			asm_func_gone(a, p->codes[i]);
		asm_codes_free(a, &p->codes_sampled);
		memset(&p->codes_sampled, 0, sizeof(p->codes_sampled));
		asm_natives_free(p);
		p->code_cnt = p->gone_cnt = 0;
		asm_idle_end(a, p);
		err = asm_first(err, tell_end(a, p));
		/* a thread whose last record was lost has its final number at the end of the trace */
		if (p->thread_cnt)
			continue;
		process_free(a, p);
		a->ended_cnt--;
	}
	return err;
}

void asm_processes_free(struct assembler *a)
{
	struct asm_process *p, *next;

	HASH_ITER(hh, a->processes, p, next)
	process_free(a, p);
}
