// SPDX-License-Identifier: Apache-2.0
/*
 * Every file with executable mappings of some size is looked into. Those that hold an interpreter loop
 * (an executable and a libpython can both do) are placed: the offset of a probe site in the file and
 * the mapping that holds it give the load bias. The one in use is the one whose _PyRuntime has an
 * interpreter state; before start-up none has, and an executable with a loop of its own runs that one,
 * since its symbols come first.
 */
#define LOG_DOMAIN "cpython"
#include "cpython/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cpython/interp_file.h"
#include "cpython/interp_names.h"
#include "cpython/layouts.h"
#include "cpython/version.h"
#include "proc/info.h"
#include "proc/mapped_file.h"
#include "proc/maps.h"
#include "proc/mem.h"

/* The smallest interpreter has well over 1 MB of code; most libraries have less than this. */
#define CODE_BYTES_MIN (256u << 10)

/* A process that maps more than this is out to keep us busy. */
#define FILES_MAX   1024
#define PYTHONS_MAX 16

#define JUMP_BYTES  5 /* of x86-64, to anywhere within 2 GB */
#define BEFORE	    (JUMP_BYTES - 1)

/* For all the files of a process: 20 interpreters take 1 s. */
#define LOOK_MS 10000u

/* Of a process that executes something just now nothing is mapped, or only the loader. */
#define TRIES  4
#define TRY_US 5000

/* One placed interpreter. */
struct candidate {
	const struct interp_file *file; /* borrowed from the cache */
	const struct mapping *code; /* of its probe sites; borrowed from the maps */
	struct mapped_file open;
	uint64_t bias;
	bool started;
};

struct search {
	pid_t pid;
	const char *engine;
	bool sampled; /* no probes: a JIT's traces do not matter */
	struct interp_cache *cache;
	struct maps maps;
	struct proc_mem mem;
	struct candidate best;
	const char *
		other_path; /* of an interpreter that runs beside the best one; borrowed from the maps */
	int file_err; /* of a file that holds an interpreter but cannot be used; 0 = none */
	struct err file_e;
	const char *file_path; /* borrowed from the maps */
	unsigned int interpreter_cnt; /* files with an interpreter, usable or not */
	uint64_t end_ms; /* no more files are looked into then */
	unsigned int unopened; /* files that could not be opened */
	int open_err;
};

static void search_done(struct search *s)
{
	mapped_file__close(&s->best.open);
	proc_mem__close(&s->mem);
	maps__done(&s->maps);
}

static bool is_code(const struct mapping *m)
{
	return m->ino && m->flags & MAPPING_EXEC;
}

/* The loader maps a file's code first and its data a moment later: until then other pages of the file
 * lie, read-only, where the data will be. A process that is held at its start is looked at then. */
static bool data_is_there(const struct maps *maps, uint64_t addr)
{
	const struct mapping *m = maps__find(maps, addr);

	return m && m->flags & MAPPING_WRITE;
}

static bool has_started(const struct search *s, const struct interp_file *file, uint64_t bias)
{
	uint64_t head = 0;

	return file->head && data_is_there(&s->maps, file->head + bias) &&
	       !proc_mem__word(&s->mem, file->head + bias, &head) && head;
}

/* One file can be mapped twice (dlmopen), so all places are tried; the started one is the best. */
static bool place(struct search *s, const struct mapping *of, struct candidate *c)
{
	const struct probe_site *site = &c->file->plan.sites[0];
	bool found = false;

	for (size_t i = 0; i < s->maps.cnt; i++) {
		const struct mapping *m = &s->maps.items[i];
		bool started;
		uint64_t bias;

		if (!is_code(m) || !mapping_same_file(m, of) || site->offset < m->offset ||
		    site->offset - m->offset >= m->end - m->start)
			continue;
		bias = m->start + (site->offset - m->offset) - site->vaddr;
		started = has_started(s, c->file, bias);
		if (started && c->started)
			s->other_path = m->path;
		if (found && (c->started || !started))
			continue;
		c->code = m;
		c->bias = bias;
		c->started = started;
		found = true;
	}
	return found;
}

static bool better(const struct candidate *a, const struct candidate *b)
{
	if (!b->file || a->started != b->started)
		return !b->file || a->started;
	return a->file->is_executable && !b->file->is_executable;
}

/* Takes @c as the best one, or lets go of it. */
static void rank(struct search *s, struct candidate *c)
{
	bool wins = better(c, &s->best);
	struct candidate *loser = wins ? &s->best : c;

	if (loser->started)
		s->other_path = loser->code->path;
	mapped_file__close(&loser->open);
	if (wins)
		s->best = *c;
}

static void keep_refusal(struct search *s, const struct interp_file *file, const struct mapping *m)
{
	if (s->file_err)
		return;
	s->file_err = file->err;
	s->file_e = file->e;
	s->file_path = m->path;
}

static int consider(struct search *s, const struct mapping *m)
{
	struct candidate c = { 0 };
	int err;

	err = mapped_file__open(s->pid, m, &c.open);
	if (err) {
		s->unopened++;
		s->open_err = err;
		return err == -ESRCH ? err : 0;
	}
	c.file = interp_file__get(s->cache, c.open.path, s->engine);
	s->interpreter_cnt += c.file && c.file->err != -PYE_ENOTPYTHON;
	if (c.file && !c.file->err && c.file->plan.site_cnt && place(s, m, &c)) {
		rank(s, &c);
		return 0;
	}
	if (c.file && c.file->err && c.file->err != -PYE_ENOTPYTHON)
		keep_refusal(s, c.file, m);
	mapped_file__close(&c.open);
	return c.file ? 0 : -ENOMEM;
}

static int compare_files(const void *a, const void *b)
{
	const struct mapping *x = *(const struct mapping *const *)a;
	const struct mapping *y = *(const struct mapping *const *)b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

static int refuse_slow(struct search *s, const struct mapping *m)
{
	if (s->file_err)
		return 0;
	s->file_path = m->path;
	s->file_err = err_set(&s->file_e, -PYE_EPLAN,
			      "looking into the files that it maps takes more than %u s",
			      LOOK_MS / 1000);
	return 0;
}

/* Each file once, by its first code mapping. */
static int consider_sorted(struct search *s, const struct mapping *const *code, size_t cnt)
{
	unsigned int files = 0;

	for (size_t i = 0, end; i < cnt && files < FILES_MAX && s->interpreter_cnt < PYTHONS_MAX;
	     i = end) {
		uint64_t bytes = 0;
		int err;

		for (end = i; end < cnt && mapping_same_file(code[i], code[end]); end++)
			bytes += code[end]->end - code[end]->start;
		if (bytes < CODE_BYTES_MIN)
			continue;
		files++;
		if (now_ns() / 1000000 > s->end_ms)
			return refuse_slow(s, code[i]);
		err = consider(s, code[i]);
		if (err)
			return err;
	}
	return 0;
}

static int consider_all(struct search *s)
{
	auto_free const struct mapping **code = NULL;
	size_t cnt = 0;

	if (!s->maps.cnt)
		return 0;
	code = calloc(s->maps.cnt, sizeof(const struct mapping *));
	if (!code)
		return -ENOMEM;
	for (size_t i = 0; i < s->maps.cnt; i++)
		if (is_code(&s->maps.items[i]))
			code[cnt++] = &s->maps.items[i];
	qsort(code, cnt, sizeof(const struct mapping *), compare_files);
	return consider_sorted(s, code, cnt);
}

/* An 0xcc in memory is a breakpoint of somebody, us included. */
static bool same_code(const uint8_t *memory, const uint8_t *file, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (memory[i] != file[i] && memory[i] != 0xcc)
			return false;
	return true;
}

/* A call or a jump of the inline engine's: to code that is mapped from a memfd. */
static bool is_detour(const struct search *s, uint64_t at, const uint8_t *jump)
{
	const struct mapping *m;
	int32_t distance;

	if (jump[0] != 0xe8 && jump[0] != 0xe9)
		return false;
	memcpy(&distance, jump + 1, sizeof(distance));
	m = maps__find(&s->maps, at + JUMP_BYTES + (uint64_t)(int64_t)distance);
	return m && m->flags & MAPPING_EXEC && !strncmp(m->path, "/memfd:", 7);
}

/* Each byte that differs belongs to one of these, which can have begun before @at. */
static bool same_but_detours(const struct search *s, uint64_t at, const uint8_t *file, size_t len)
{
	uint8_t code[BEFORE + INTERP_CODE_SIZE + BEFORE];

	if (proc_mem__read(&s->mem, at - BEFORE, code, BEFORE + len + BEFORE))
		return false;
	for (size_t i = 0; i < len; i++) {
		size_t back = 0;

		if (same_code(code + BEFORE + i, file + i, 1))
			continue;
		while (back <= BEFORE && !is_detour(s, at + i - back, code + BEFORE + i - back))
			back++;
		if (back > BEFORE)
			return false;
	}
	return true;
}

/* Who only samples has no use for what is at these places, but for what they say of the file. */
static int check_site(const struct search *s, uint32_t i, struct err *e)
{
	const struct candidate *c = &s->best;
	const struct probe_site *site = &c->file->plan.sites[i];
	uint64_t at = site->vaddr + c->bias;
	uint8_t code[INTERP_CODE_SIZE], len = c->file->code_len[i];
	int err = proc_mem__read(&s->mem, at, code, len);

	if (err == -ESRCH)
		return err;
	if (!err && same_code(code, c->file->code[i], len))
		return 0;
	if (err || !same_but_detours(s, at, c->file->code[i], len)) {
		err_set(e, 0,
			"the file on disk is not the one that runs: they differ at %s (0x%" PRIx64
			")",
			site->name, at);
		err_hint(e, "restart the program, so that it runs the file that is there now");
		return -PYE_EPLAN;
	}
	if (s->sampled)
		return 0;
	err_set(e, 0, "a `trace --engine inline` is at work on it, or was killed, at %s",
		site->name);
	err_hint(e, "end that one; if it was killed: pyebpf detach %d", s->pid);
	return -PYE_EPLAN;
}

static int check_code(const struct search *s, struct err *e)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < s->best.file->plan.site_cnt; i++)
		err = check_site(s, i, e);
	return err;
}

static int check_version(const struct search *s, struct err *e)
{
	const struct candidate *c = &s->best;
	const struct probe_plan *plan = &c->file->plan;
	const struct layout *l = layout_find(plan->minor, plan->free_threaded);
	struct version_debug head;
	uint8_t data[64];
	int err;

	if (!l || !l->debug || !plan->runtime || !data_is_there(&s->maps, plan->runtime + c->bias))
		return 0;
	err = proc_mem__read(&s->mem, plan->runtime + c->bias, data, sizeof(data));
	if (err == -ESRCH)
		return err;
	if (err || version_parse_debug(data, sizeof(data), &head))
		return err_set(e, -PYE_EPLAN,
			       "its memory has no _Py_DebugOffsets where its file has them");
	if (head.minor != plan->minor || head.free_threaded != plan->free_threaded ||
	    (plan->version_hex && head.hex != plan->version_hex))
		return err_set(e, -PYE_EPLAN,
			       "its file is CPython %s, but its memory says version 0x%08x%s",
			       c->file->version, head.hex,
			       head.free_threaded ? " free-threaded" : "");
	return 0;
}

static uint64_t first_mapping(const struct search *s)
{
	const struct candidate *c = &s->best;
	uint64_t start = c->code->start;

	for (size_t i = 0; i < s->maps.cnt; i++) {
		const struct mapping *m = &s->maps.items[i];

		if (mapping_same_file(m, c->code) && m->start >= c->bias && m->start < start)
			start = m->start;
	}
	return start;
}

static void fill(struct search *s, struct interp *out)
{
	struct candidate *c = &s->best;
	const struct interp_file *file = c->file;

	memset(out, 0, sizeof(*out));
	snprintf(out->path, sizeof(out->path), "%s", c->code->path);
	snprintf(out->open_path, sizeof(out->open_path), "%s", c->open.path);
	out->fd = c->open.fd;
	c->open.fd = -1;
	out->dev = c->code->dev;
	out->ino = c->code->ino;
	out->bias = c->bias;
	out->start = first_mapping(s);
	out->interpreters = file->head ? file->head + c->bias : 0;
	out->in_executable = file->is_executable;
	out->started = c->started;
	out->has_jit = file->has_jit;
	if (s->other_path)
		interp_show_path(s->other_path, out->other, sizeof(out->other));
	snprintf(out->version, sizeof(out->version), "%s", file->version);
	out->plan = file->plan;
	out->layout = file->layout;
}

/* Puts "PID 12 (/usr/bin/python3.12): " before the sentence of an error. */
static int name_path(const struct search *s, const char *path, int err, struct err *e)
{
	char shown[256];
	struct err inner = *e;

	interp_show_path(path, shown, sizeof(shown));
	if (!inner.what[0])
		err_set(&inner, err, "its file cannot be read: %s", err_str(err));
	err_set(e, err, "PID %d (%s): %.480s", s->pid, shown, inner.what);
	err_hint(e, "%s", inner.hint);
	return err;
}

static int check(struct search *s, struct interp *out, struct err *e)
{
	int err;

	fill(s, out);
	err = check_version(s, e);
	if (!err)
		err = check_code(s, e);
	if (!err && !s->sampled)
		err = interp__check_jit(s->pid, out, e);
	if (err)
		interp__done(out);
	return err;
}

static int conclude(struct search *s, struct interp *out, struct err *e)
{
	const struct candidate *c = &s->best;
	int err;

	if (!c->file && !s->file_err) {
		if (s->unopened)
			return interp_refuse_unopened(s->pid, s->open_err, e);
		return interp_refuse_other(s->pid, e);
	}
	/* a file that cannot be used counts unless another one is known to be in use */
	if (!c->file || (s->file_err && !c->started)) {
		snprintf(out->path, sizeof(out->path), "%s", s->file_path);
		*e = s->file_e;
		return name_path(s, s->file_path, s->file_err, e);
	}
	err = check(s, out, e);
	if (err == -ESRCH)
		return interp_refuse_gone(s->pid, e);
	return err ? name_path(s, c->code->path, err, e) : 0;
}

int interp__find_cached(pid_t pid, const char *engine, struct interp_cache *cache,
			struct interp *out, struct err *e)
{
	bool sampled = !strcmp(engine, "sample");
	auto_fn(search_done) struct search s = {
		.pid = pid, .engine = engine, .sampled = sampled, .cache = cache
	};
	struct err unused;
	int err;

	s.mem.fd = s.best.open.fd = -1;
	s.end_ms = now_ns() / 1000000 + LOOK_MS;
	e = e ? e : &unused;
	*e = (struct err){ 0 };
	out->version[0] = out->path[0] = '\0';
	interp_cache__trim(cache);
	err = maps__read(pid, &s.maps);
	if (!err)
		err = proc_mem__open(pid, &s.mem);
	if (!err)
		err = consider_all(&s);
	if (err)
		return interp_refuse_access(pid, err, e);
	return conclude(&s, out, e);
}

int interp__find_soon(pid_t pid, const char *engine, struct interp_cache *cache, struct interp *out,
		      struct err *e)
{
	int err = -PYE_ENOTPYTHON;

	for (unsigned int i = 0; i < TRIES && err == -PYE_ENOTPYTHON; i++) {
		if (i)
			usleep(TRY_US);
		err = interp__find_cached(pid, engine, cache, out, e);
	}
	return err;
}

int interp__find(pid_t pid, const char *engine, struct interp *out, struct err *e)
{
	auto_fn(interp_cache__freep) struct interp_cache *cache = NULL;
	int err = interp_cache__new(&cache);

	if (!err)
		err = interp__find_soon(pid, engine, cache, out, e);
	if (err == -PYE_ENOTPYTHON)
		interp_hint_children(pid, engine, cache, e);
	return err;
}

void interp__copy(struct interp *to, const struct interp *from)
{
	*to = *from;
	to->fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
	snprintf(to->open_path, sizeof(to->open_path), "/proc/self/fd/%d", to->fd);
}

void interp__done(struct interp *in)
{
	if (in->open_path[0] && in->fd >= 0)
		close(in->fd);
	in->fd = -1;
}
